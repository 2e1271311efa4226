"""Models out of the training box: one ONNX file, run without torch. See trt/README.md."""

import common  # noqa: F401  ends commands that are interrupted while they are imported
