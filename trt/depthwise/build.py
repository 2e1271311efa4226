"""Builds the native library of depthwise convolutions: `python -m trt.depthwise.build`, at install or after a change.

`ctc/native` says what is compiled how.
"""

from ctc.native import command_line
from trt.depthwise.library import LIBRARY

if __name__ == "__main__":
    command_line(LIBRARY)
