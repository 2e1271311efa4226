"""The former name of `python -m fastpitch.vocoders.benchmark`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("fastpitch.vocoders.benchmark", run_name="__main__", alter_sys=True)
