from pathlib import Path

import pytest

from tests.fastpitch.tiny import speakers
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.jasper.tiny import tiny_config
from tests.trt.models import save_fastpitch, save_jasper
from trt import export


@pytest.fixture(scope="session")
def jasper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, and m.onnx beside it."""
    path = save_jasper(tmp_path_factory.mktemp("jasper") / "m.pt", tiny_config())
    export.main(export.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))
    return path


@pytest.fixture(scope="session")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a FastPitch of two speakers and a vocoder: tts.pt and v.pt, tts.onnx and v.onnx."""
    folder = tmp_path_factory.mktemp("voice")
    for path in (save_fastpitch(folder / "tts.pt", speakers(2)), save_hifigan(folder / "v.pt", ISTFT)):
        export.main(export.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))
    return folder
