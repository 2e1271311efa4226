"""From checkpoints to ONNX files."""
