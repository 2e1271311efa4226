"""Checkpoints whose structure is changed: types, missing partners, sizes, keys that are no strings."""

import copy
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from common import config
from common.runs import checkpoint
from fastconformer.checkpoints import own, reading
from fastpitch.acoustic.checkpoints.own import FORMAT as FASTPITCH
from fastpitch.acoustic.config import Config as FastPitchConfig
from fastpitch.speaking import synthesizer
from fastpitch.vocoders import vocoder
from jasper.checkpoints import reading as jasper_reading
from tests.fastpitch import tiny as fastpitch_tiny
from tests.fastpitch.vocoders.small import save_hifigan, save_waveglow
from tests.jasper.tiny import save_tiny
from tests.wav2vec2.small import ctc_model
from wav2vec2.checkpoints import fairseq
from wav2vec2.checkpoints.loading import load_model

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 3, 10**9, 10**18, 1.5, float("nan"), float("inf"), "", "x", "\0", [], [1], {}, {"a": 1}, (),
    [[]] * 3, {1: 2}, b"x",
)  # fmt: skip


class Model(NamedTuple):
    """A checkpoint that loads, and what loads it."""

    state: dict[str, Any]
    load: Callable[[Path], object]


def models() -> dict[str, Model]:
    """Small ones of every kind."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loads: dict[str, Callable[[Path], object]] = {
            "jasper": jasper_reading.read_model, "fastpitch": _speak, "hifigan": _load_vocoder,
            "waveglow": _load_vocoder, "wav2vec2": load_model, "fastconformer": reading.read_model,
        }  # fmt: skip
        save_tiny(folder / "jasper.pt")
        save_hifigan(folder / "hifigan.pt")
        save_waveglow(folder / "waveglow.pt")
        speaks = FastPitchConfig(model=fastpitch_tiny.SMALL, text=fastpitch_tiny.LETTERS)
        weights = fastpitch_tiny.tiny_model().state_dict()
        described = {"format": FASTPITCH, "config": config.to_dict(speaks), "weights": weights, "ema": None}
        checkpoint.save(folder / "fastpitch.pt", described)
        hears = ctc_model()
        fairseq.export(folder / "wav2vec2.pt", hears.state_dict(), hears.wav2vec2.config)
        checkpoint.save(folder / "fastconformer.pt", transducer_state())
        for kind, load in loads.items():
            found[kind] = Model(checkpoint.load(folder / f"{kind}.pt"), load)
    return found


def transducer_state() -> dict[str, Any]:
    from fastconformer.checkpoints import nemo
    from fastconformer.config import Config
    from tests.fastconformer.checkpoints import archives

    with tempfile.TemporaryDirectory() as name:
        imported = nemo.read(archives.write(Path(name) / "model.nemo", archives.files()))
    described = config.to_dict(Config(model=imported.model, features=imported.features))
    pieces = own.encoded_pieces(imported.pieces)
    return {"format": own.FORMAT, "config": described, "weights": imported.weights, "ema": None, "pieces": pieces}


def _speak(path: Path) -> None:
    synthesizer.load(path, device="cpu")


def _load_vocoder(path: Path) -> None:
    vocoder.load_generator(path)


def changed(state: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A copy with one to three changes."""
    state = copy.deepcopy(state)
    for _ in range(draw.choice((1, 1, 2, 3))):
        _change(state, draw)
    return state


def _change(state: dict[Any, Any], draw: random.Random) -> None:
    holder: Any = state
    while True:  # down to a place, half of the time from level to level
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = draw.choice(keys)
        inside = holder[key]
        if not isinstance(inside, dict | list) or not inside or draw.random() < 0.2:
            break
        holder = inside
    draw.choice((_replace, _replace, _remove, _resize, _rename))(holder, key, draw)


def _replace(holder: Any, key: Any, draw: random.Random) -> None:
    holder[key] = copy.deepcopy(draw.choice(ODD))


def _remove(holder: Any, key: Any, draw: random.Random) -> None:
    del holder[key]


def _resize(holder: Any, key: Any, draw: random.Random) -> None:
    """Another shape or type of a tensor; a number by a little."""
    value = holder[key]
    if isinstance(value, torch.Tensor):
        flat = value.flatten()
        others = [torch.zeros(0), torch.zeros(1), torch.zeros(()), flat[:0], flat, value.unsqueeze(0)]
        others += [
            value.long(),
            value.to(torch.complex64),
            torch.full_like(value, float("nan")) if value.is_floating_point() else value,
            torch.zeros(3, 3).to_sparse(),
        ]
        holder[key] = draw.choice(others) if value.ndim else torch.zeros(2)
    elif type(value) is int:
        holder[key] = value + draw.choice((-1, 1, 7))
    else:
        holder[key] = [value]


def _rename(holder: Any, key: Any, draw: random.Random) -> None:
    if isinstance(holder, dict):
        holder[draw.choice((7, None, (1, 2), f"{key}x", "", f"module.{key}"))] = holder.pop(key)
    else:
        holder.append(holder[key])
