"""The former name of `python -m fastpitch.vocoders.train`, for WaveGlow's configurations, old ones too."""

from common import config
from common.training.loop import EXPECTED
from fastpitch.vocoders.config import WaveglowRun
from fastpitch.vocoders.train import main

if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(config.command_line(WaveglowRun, description=__doc__ or ""))
