"""Models out of the training box: one ONNX file, run without torch. See trt/README.md."""

import common

if not hasattr(common, "starting"):  # somebody else's, found before that of these packages
    raise SystemExit(f"error: {common.__file__} is in the way of the package `common`: rename it, or start elsewhere")
