"""Builds the native library of `ctc`: `python -m ctc.build`, at install or after a change of the sources.

`ctc/native` says what is compiled how. `--cuda all` compiles the kernels for all GPUs ahead of their first use.
"""

from ctc.bindings._library import LIBRARY
from ctc.native import command_line

if __name__ == "__main__":
    command_line(LIBRARY)
