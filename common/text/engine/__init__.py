"""What every reader of texts is made of: shapes that propose readings, a model that chooses, the pass over a text."""
