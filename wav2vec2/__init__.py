"""wav2vec 2.0 and the Hourglass Transformer: pre-training, fine-tuning, recognition. See wav2vec2/README.md."""
