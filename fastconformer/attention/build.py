"""Builds the native step of attention decoders: `python -m fastconformer.attention.build`, at install or after changes.

`ctc/native` says what is compiled how.
"""

from ctc.native import command_line
from fastconformer.attention._library import LIBRARY

if __name__ == "__main__":
    command_line(LIBRARY)
