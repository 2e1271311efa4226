"""`python -m trt.export`: see `trt.export.command`."""

from common import config
from common.audio.waveform import AudioError
from common.runs.checkpoint import CheckpointError
from trt.conversion import ExportError
from trt.export import command

if __name__ == "__main__":
    config.run(command.main, command.ExportConfig, command.__doc__, CheckpointError, ExportError, AudioError, OSError)
