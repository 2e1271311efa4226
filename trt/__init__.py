"""Models out of the training box: one ONNX file, run without torch. See trt/README.md."""
