"""Language models: their files, their tables for the kernels, and the scores that they give."""
