from collections.abc import Iterator
from pathlib import Path

import pytest

from common import audio
from tests.fastpitch.speaking.test_synthesizer import save as save_fastpitch
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.trt.serving.running import Served, noise, served
from trt.serve import ServeConfig


@pytest.fixture(scope="session")
def voice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Checkpoints of an acoustic model and a vocoder with random weights."""
    folder = tmp_path_factory.mktemp("voice")
    return save_fastpitch(folder / "fastpitch.pt"), save_hifigan(folder / "vocoder.pt", ISTFT)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Recordings of noise, 0.5 s to 3 s."""
    folder = tmp_path_factory.mktemp("clips")
    paths = []
    for i, seconds in enumerate((0.5, 1.3, 3.0, 2.1, 0.8, 1.7)):
        paths.append(folder / f"{i}.{'flac' if i % 2 else 'wav'}")
        audio.write(paths[-1], noise(seconds, seed=i), 16_000)
    return paths


@pytest.fixture(scope="session")
def server(jasper: Path, voice: tuple[Path, Path]) -> Iterator[Served]:
    with served(ServeConfig(asr=jasper.with_suffix(".onnx"), tts=voice[0], vocoder=voice[1], port=0)) as running:
        yield running
