"""`python -m trt.export`: see `trt.export.command`."""

import sys

from common import config
from common.audio.waveform import AudioError
from common.runs.checkpoint import CheckpointError
from trt.conversion import ExportError
from trt.export import command

if __name__ == "__main__":
    with config.reported(CheckpointError, ExportError, AudioError, OSError):
        command.main(config.parse_flags(command.ExportConfig, None, sys.argv[1:], description=command.__doc__ or ""))
