"""Builds the native library of transducers: `python -m fastconformer.transducer.build`, at install or after a change.

`ctc/native` says what is compiled how.
"""

from ctc.native import command_line
from fastconformer.transducer._library import LIBRARY

if __name__ == "__main__":
    command_line(LIBRARY)
