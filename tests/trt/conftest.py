from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from common.audio import waveform
from tests.fastconformer import golden
from tests.fastconformer.attention import references as attention
from tests.fastpitch.speaking.test_synthesizer import save as save_letters
from tests.fastpitch.tiny import speakers
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.jasper.tiny import tiny_config
from tests.trt.models import save_fastpitch, save_jasper
from tests.trt.serving.running import Served, noise, served
from trt.export import command
from trt.serve import ServeConfig

TAKE_SECONDS = {"voice", "pieces", "hybrid", "canary"}
"""Fixtures that export several models: tests that use them are slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if TAKE_SECONDS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


Head = Literal["auto", "transducer", "ctc"]
Decode = Literal["log_probs", "greedy"]


@pytest.fixture(scope="session")
def jasper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, and m.onnx beside it."""
    path = save_jasper(tmp_path_factory.mktemp("jasper") / "m.pt", tiny_config())
    command.main(command.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))
    return path


@pytest.fixture(scope="session")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """ONNX files of the transducers with reference outputs, by name, head and decoding, each exported once."""
    made: dict[tuple[str, ...], Path] = {}

    def exported(name: str, head: Head = "auto", decode: Decode = "log_probs") -> Path:
        if (name, head, decode) not in made:
            path = made[name, head, decode] = tmp_path_factory.mktemp(name) / "m.onnx"
            checkpoint = golden.folder() / f"{name}.nemo"
            command.main(command.ExportConfig(checkpoint=checkpoint, out=path, head=head, decode=decode))
        return made[name, head, decode]

    return exported


@pytest.fixture(scope="session")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """ONNX files of the attention decoders with reference outputs, by name, each exported once."""
    made: dict[str, Path] = {}

    def exported(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "canary.onnx"
            command.main(command.ExportConfig(checkpoint=attention.path(name), out=made[name]))
        return made[name]

    return exported


@pytest.fixture(scope="session")
def hybrid(pieces: Callable[..., Path]) -> Path:
    """A hybrid TDT and CTC model as a file, with its transducer."""
    return pieces("tdt_ctc")


@pytest.fixture(scope="session")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a FastPitch of two speakers and a vocoder: tts.pt and v.pt, tts.onnx and v.onnx."""
    folder = tmp_path_factory.mktemp("voice")
    for path in (save_fastpitch(folder / "tts.pt", speakers(2)), save_hifigan(folder / "v.pt", ISTFT)):
        command.main(command.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))
    return folder


@pytest.fixture(scope="session")
def talker(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Checkpoints of an acoustic model and a vocoder with random weights."""
    folder = tmp_path_factory.mktemp("talker")
    return save_letters(folder / "fastpitch.pt"), save_hifigan(folder / "vocoder.pt", ISTFT)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Recordings of noise, 0.5 s to 3 s."""
    folder = tmp_path_factory.mktemp("clips")
    paths = []
    for i, seconds in enumerate((0.5, 1.3, 3.0, 2.1, 0.8, 1.7)):
        paths.append(folder / f"{i}.{'flac' if i % 2 else 'wav'}")
        waveform.write(paths[-1], noise(seconds, seed=i), 16_000)
    return paths


@pytest.fixture(scope="session")
def server(jasper: Path, talker: tuple[Path, Path]) -> Iterator[Served]:
    with served(ServeConfig(asr=jasper.with_suffix(".onnx"), tts=talker[0], vocoder=talker[1], port=0)) as running:
        yield running
