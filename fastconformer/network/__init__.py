"""FastConformer: encoder, prediction network, joint and CTC head, and the same prepared for inference."""
