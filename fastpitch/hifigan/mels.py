"""The former name of `python -m fastpitch.mels`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("fastpitch.mels", run_name="__main__", alter_sys=True)
