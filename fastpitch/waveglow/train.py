"""The former name of `python -m fastpitch.vocoders.train_waveglow`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("fastpitch.vocoders.train_waveglow", run_name="__main__", alter_sys=True)
