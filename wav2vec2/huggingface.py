"""The former place of wav2vec2.checkpoints.huggingface; goes with the next release."""

from wav2vec2.checkpoints.huggingface import export as export
