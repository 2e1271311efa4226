"""`python -m trt.client`: see `trt.client.command`."""

from common import config
from common.audio.waveform import AudioError
from trt.client import command
from trt.client.asking import ServerError
from trt.facts import ModelError

if __name__ == "__main__":
    config.run(command.main, command.ClientConfig, command.__doc__, ServerError, ModelError, AudioError, OSError)
