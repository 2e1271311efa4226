"""The functions of the native library for Python, by ctypes, and the checks before them."""
