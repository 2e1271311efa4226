import fcntl
import hashlib
import io
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from common.audio import waveform
from tests.fastconformer import golden
from tests.fastconformer.attention import references as attention
from tests.fastpitch.speaking.test_synthesizer import save as save_letters
from tests.fastpitch.tiny import speakers
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.jasper.tiny import tiny_config
from tests.trt.models import save_fastpitch, save_jasper
from tests.trt.serving.running import Served, noise, served
from trt import conversion
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


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Iterator[None]:
    """Triton may take as long as a test may: on a busy machine its start is slow, which is no verdict."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trt.serving.triton.program.START_SECONDS", 600.0)
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A folder by its name, which a function fills once for all processes of a run: an export takes ten seconds."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder = root / f"once-{name}"
        with (root / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                unfinished = Path(tempfile.mkdtemp(dir=root))
                make(unfinished)
                unfinished.rename(folder)
        return folder

    return made


class _Described(pickle.Pickler):
    """Writes tensors as their checksums: of equal networks mostly the same, and of others never."""

    def persistent_id(self, value: object) -> object:
        if not isinstance(value, Tensor):
            return None
        content = hashlib.sha256(value.detach().reshape(-1).view(torch.uint8).numpy()).hexdigest()
        return isinstance(value, nn.Parameter), str(value.dtype), tuple(value.shape), content


@pytest.fixture(scope="session", autouse=True)
def conversions(once: Once) -> Iterator[None]:
    """What `command` converts, it converts once in all tests: a file in float16 is made of the graph in float32."""

    def converted(graph: conversion.ExportGraph, *, stem: str) -> conversion.Program:
        described = io.BytesIO()
        _Described(described).dump((graph._replace(reference=None, from_audio=None, checks=()), conversion.MOST_BYTES))
        folder = once(
            f"graph-{hashlib.sha256(described.getvalue()).hexdigest()[:16]}-{stem}",
            lambda folder: (folder / "it").write_bytes(
                pickle.dumps(conversion.converted(graph, stem=stem)._replace(source=None))
            ),
        )
        return pickle.loads((folder / "it").read_bytes())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "converted", converted)
        yield


@pytest.fixture(scope="session")
def jasper(once: Once) -> Path:
    """A checkpoint, and m.onnx beside it."""

    def make(folder: Path) -> None:
        path = save_jasper(folder / "m.pt", tiny_config())
        command.main(command.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))

    return once("jasper", make) / "m.pt"


@pytest.fixture(scope="session")
def model(jasper: Path) -> Path:
    """The ONNX file of that checkpoint."""
    return jasper.with_suffix(".onnx")


@pytest.fixture(scope="session")
def pieces(once: Once) -> Callable[..., Path]:
    """ONNX files of the transducers with reference outputs, by name, head and decoding, each exported once."""

    def exported(name: str, head: Head = "auto", decode: Decode = "log_probs") -> Path:
        def make(folder: Path) -> None:
            checkpoint = golden.folder() / f"{name}.nemo"
            command.main(command.ExportConfig(checkpoint=checkpoint, out=folder / "m.onnx", head=head, decode=decode))

        return once(f"{name}-{head}-{decode}", make) / "m.onnx"

    return exported


@pytest.fixture(scope="session")
def canary(once: Once) -> Callable[[str], Path]:
    """ONNX files of the attention decoders with reference outputs, by name, each exported once."""

    def exported(name: str) -> Path:
        def make(folder: Path) -> None:
            command.main(command.ExportConfig(checkpoint=attention.path(name), out=folder / "canary.onnx"))

        return once(name, make) / "canary.onnx"

    return exported


@pytest.fixture(scope="session")
def hybrid(pieces: Callable[..., Path]) -> Path:
    """A hybrid TDT and CTC model as a file, with its transducer."""
    return pieces("tdt_ctc")


@pytest.fixture(scope="session")
def voice(once: Once) -> Path:
    """A folder with a FastPitch of two speakers and a vocoder: tts.pt and v.pt, tts.onnx and v.onnx."""

    def make(folder: Path) -> None:
        for path in (save_fastpitch(folder / "tts.pt", speakers(2)), save_hifigan(folder / "v.pt", ISTFT)):
            command.main(command.ExportConfig(checkpoint=path, out=path.with_suffix(".onnx")))

    return once("voice", make)


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
