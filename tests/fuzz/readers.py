"""What is fuzzed. One more reader is one more function here, which gives a `Reader`, and its name in READERS."""

import gzip
import io
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch

import ctc
from common.audio import waveform
from common.audio.waveform import AudioError
from common.config import ConfigError, load
from common.data.manifest import ManifestError, read_manifest
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from ctc.language_models.arpa import ArpaError, write_arpa
from ctc.ngram import estimate
from tests.fuzz import foreign, served, structures
from tests.fuzz.reader import Reader

LABELS = "abcdefgh' "
TEXT = [line.split() for line in ("bad cab", "a bad cab", "fed a cab", "he fed a bad cab", "dead beef", "a beef")]


def _written(name: str, write: Callable[[Path], object]) -> tuple[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return "".join(path.suffixes), path.read_bytes()


def _search(model: ctc.BackoffModel | ctc.NgramModel) -> None:
    """What was read must be safe to search with."""
    scores_BSV = torch.randn(1, 12, len(LABELS) + 1, generator=torch.Generator().manual_seed(0)) * 3
    for words in (None, ["bad", "cab"]):
        scorer = ctc.Scorer(LABELS, model=model, words=words, hot_words={"cab": 2.0})
        ctc.beam_search(scores_BSV, [12], blank=len(LABELS), scorer=scorer, options=ctc.BeamOptions(beam=8))


def arpa() -> Reader:
    """ARPA files, and a beam search with what was read."""
    model = estimate(TEXT, order=3)
    plain = _written("lm.arpa", lambda path: write_arpa(path, model))
    seeds = [plain, (".arpa.gz", gzip.compress(plain[1], mtime=0))]
    return Reader(seeds, lambda path: _search(ctc.read_arpa(path)), (ArpaError, ValueError))


def compiled() -> Reader:
    """Compiled language models, and a beam search with what was mapped."""
    model = ctc.compile_model(estimate(TEXT, order=3))
    seeds = [_written("lm.ngram", lambda path: ctc.write_model(path, model))]
    return Reader(seeds, lambda path: _search(ctc.read_model(path)), (ArpaError, ValueError))


def loss() -> Reader:
    """Arguments of the loss, from the bytes of a file."""

    def read(path: Path) -> None:
        values = np.frombuffer(path.read_bytes().ljust(400, b"\1")[:400], np.int8).astype(np.int64)
        frames, batch, classes = (int(abs(v)) % 9 + 1 for v in values[:3])
        generator = torch.Generator().manual_seed(int(abs(values[3])))
        logits = torch.randn(frames, batch, classes, generator=generator)
        logits.view(-1)[:2] = torch.tensor([[0.0, 1e30], [np.nan, -np.inf], [3e38, -3e38]][int(abs(values[4])) % 3])[
            : logits.numel()
        ]
        width = int(abs(values[5])) % 7
        targets = torch.from_numpy(values[10 : 10 + batch * width].reshape(batch, width) % (classes + 2) - 1)
        lengths = [values[100 : 100 + batch], values[150 : 150 + batch]]
        lengths = [length % 12 - int(values[6] < -100) for length in lengths]
        targets = targets.flatten() if values[7] % 2 else targets
        x = logits.requires_grad_(bool(values[8] % 2))
        star = -1 if values[9] % 3 == 0 else None
        found = ctc.ctc_loss(
            x, targets, *(torch.from_numpy(length) for length in lengths), blank=int(values[9]) % 3, star=star
        )
        if x.requires_grad:
            torch.autograd.grad(found, x)

    draw = np.random.default_rng(0)
    seeds = [("", draw.integers(0, 6, 400).astype(np.int8).tobytes()) for _ in range(8)]
    return Reader(seeds, read, (ValueError, TypeError))


def decoding() -> Reader:
    """Scores for greedy decoding, beam search, streams and alignment, from the bytes of a file."""

    def read(path: Path) -> None:
        content = np.frombuffer(path.read_bytes().ljust(600, b"\0")[:600], np.float32)
        shape = (1, 25, 6)
        scores_BSV = torch.from_numpy(content[:150].copy()).reshape(shape)
        frames, blank = [int(abs(content.view(np.int32)[149])) % 26], int(abs(content.view(np.int32)[148])) % 6
        scorer = ctc.Scorer(LABELS[:5] + " ", hot_words={"abc": 3.0, "b d": 1.0})
        options = ctc.BeamOptions(beam=9, n_best=3)
        ctc.beam_search(scores_BSV, frames, blank=blank, scorer=scorer, options=options)
        stream = ctc.BeamStream(6, blank=blank, options=options)
        for chunk_SV in scores_BSV[0].split(7):
            stream.push(chunk_SV)
        stream.hypotheses()
        ctc.greedy(scores_BSV, frames, blank=blank)
        labels = [label for label in (1, 2, 2, 3) if label != blank]
        ctc.align(scores_BSV, [labels], [25], blank=blank)

    draw = np.random.default_rng(0)
    return Reader([("", draw.standard_normal(150).astype(np.float32).tobytes()) for _ in range(4)], read, (ValueError,))


def recordings() -> Reader:
    """Recordings of every format that libsndfile writes, at 16 kHz."""
    samples = 0.3 * np.sin(np.arange(4000) / 7)
    seeds = []
    for suffix, subtype in (
        ("wav", "PCM_16"), ("wav", "FLOAT"), ("flac", "PCM_16"), ("ogg", "VORBIS"), ("mp3", "MPEG_LAYER_III"),
        ("aiff", "PCM_16"), ("au", "PCM_16"),
    ):  # fmt: skip
        held = io.BytesIO()
        soundfile.write(held, samples, 16000, format=suffix.upper(), subtype=subtype)
        seeds.append((f".{suffix}", held.getvalue()))
    return Reader(seeds, lambda path: waveform.read(path, sample_rate=16000), (AudioError,))


def manifests() -> Reader:
    """Manifests of JSON: a record a line or over several, arrays, an object around all."""
    entries = [
        {"audio_filepath": f"{name}.wav", "duration": 1.5, "text": f"say {name}"} for name in ("one", "two", "three")
    ]
    lines = "\n".join(map(json.dumps, entries)).encode()
    windows = "\ufeff".encode() + "\r\n".join(map(json.dumps, [*entries, {**entries[0], "id": "two"}])).encode()
    array = [
        {
            "transcript": "say",
            "files": [{"fname": "a.wav", "speed": 1}],
            "original_duration": 1.0,
            "original_num_samples": 16000,
        }
    ]

    wrapped = json.dumps({"version": [1, {"a": 2}], "data": entries}, indent=1).encode()
    over_lines = "\n".join(json.dumps(entry, indent=1) for entry in entries).encode()

    def read(path: Path) -> None:
        for name in ("one", "two", "three", "a"):
            (path.parent / f"{name}.wav").touch()
        read_manifest(path)

    seeds = [(".jsonl", lines), (".jsonl", windows), (".json", json.dumps(array).encode())]
    return Reader([*seeds, (".json", wrapped), (".jsonl", over_lines)], read, (ManifestError,))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Stands for the configuration of a model."""

    steps: int = 10
    rate: float = 0.1
    name: str = "a"
    is_slow: bool = False


def configurations() -> Reader:
    """TOML files of a configuration."""
    seeds = [b'steps = 20\nrate = 0.5\nname = "b"\nis_slow = true\n', b'extends = "base.toml"\nsteps = 3\n']
    return Reader([(".toml", seed) for seed in seeds], lambda path: load(Settings, path), (ConfigError,))


def checkpoints() -> Reader:
    """Checkpoints of every model with a changed structure: the bytes of a file say which, and how."""
    models = structures.models()

    def read(path: Path) -> None:
        content = path.read_bytes()
        draw = random.Random(content)
        model = models[draw.choice(sorted(models))]
        is_seed = len(content) == 1
        with tempfile.TemporaryDirectory() as folder:
            changed = Path(folder) / "model.pt"
            checkpoint.save(changed, model.state if is_seed else structures.changed(model.state, draw))
            model.load(changed)

    return Reader([("", bytes([i])) for i in range(8)], read, (CheckpointError,))


READERS: dict[str, Callable[[], Reader]] = {
    reader.__name__: reader
    for reader in (
        arpa, compiled, loss, decoding, recordings, manifests, configurations, checkpoints, foreign.markup,
        foreign.tokenizers, foreign.nemo, foreign.folders, foreign.corpora, foreign.wyoming, foreign.forms,
        *served.READERS,
    )
}  # fmt: skip
