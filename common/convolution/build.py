"""Builds the native library of convolutions: `python -m common.convolution.build`, at install or after a change.

`ctc/native` says what is compiled how.
"""

from common.convolution.library import LIBRARY
from ctc.native import command_line

if __name__ == "__main__":
    command_line(LIBRARY)
