"""`python -m trt.client`: see `trt.client.command`."""

import sys

from common import config
from common.audio.waveform import AudioError
from trt.client import command
from trt.client.asking import ServerError
from trt.facts import ModelError

if __name__ == "__main__":
    with config.reported(ServerError, ModelError, AudioError, OSError):
        sys.exit(
            command.main(
                config.parse_flags(command.ClientConfig, None, sys.argv[1:], description=command.__doc__ or "")
            )
        )
