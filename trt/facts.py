"""What an exported model says of itself in the metadata of its file: read and checked before anything relies on it."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from common.audio.silence import Keep, keeper
from common.audio.waveform import RATES
from common.files import file_types
from common.files.json_text import parsed

LARGEST = 1 << 31
INTERFACE = 2
"""Version of the names, types and meanings of what a file takes and gives, which are those of trt/README.md; a change
to them is a new version. In 1, of files without one, frames_B stood for output_frames_B among what a network gives."""

# Files that are taken for ONNX ones: what they are, by how they begin (zips are torch's), and what to do with them.
_CHECKPOINTS = (b"PK\x03\x04", b"\x1f\x8b", b"\x80\x02")
_CHECKPOINT_SUFFIXES = (".pt", ".pth", ".ckpt", ".nemo", ".safetensors")


class ModelError(ValueError):
    """A file that is no model of `trt.export`, or not one that takes samples."""


def why_not_onnx(path: Path) -> str:
    """What `path` is in place of an ONNX file, and what to do; "" for a file that may be one."""
    if path.is_dir():
        return "is a folder; expected a file that trt.export wrote"
    if not path.is_file():
        return "no such file; expected a model that trt.export wrote"
    start = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        start = file.read(4)
    if path.suffix in _CHECKPOINT_SUFFIXES or start.startswith(_CHECKPOINTS):
        return f"is a checkpoint, not an ONNX file; export it: python -m trt.export {path} --out {path.stem}.onnx"
    return file_types.instead_of(path, "an ONNX file") or ""


def _is_count(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < LARGEST


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 < value < LARGEST


def _is_not_negative(value: Any) -> bool:
    return value == 0 or _is_positive(value)


def _is_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "sample_rate": (
        f"a rate of {RATES[0]} to {RATES[1]}",
        lambda value: type(value) is int and RATES[0] <= value <= RATES[1],
    ),
    "interface": (
        f"1 to {INTERFACE}; a later version of this package wrote the file",
        lambda v: v in range(1, INTERFACE + 1),
    ),
    "labels": ("a list of texts", _is_texts),
    "symbols": ("a list of texts", _is_texts),
    "blank": ("a number of a label", _is_count(0)),
    "separator": ("a text", _is_of(str)),
    "features_tensor": ("a text", _is_of(str)),
    "samples_per_frame": ("1 or more", _is_count(1)),
    "seconds_per_frame": ("a number above 0", _is_positive),
    "chunk_seconds": ("a number above 0", _is_positive),
    "chunk_multiple": ("1 or more", _is_count(1)),
    "context_frames": ("0 or more", _is_count(0)),
    "shortest_samples": ("0 or more", _is_count(0)),
    "attention_step": ("1 or more", _is_count(1)),
    "hop_samples": ("1 or more", _is_count(1)),
    "longest_pause": ("0 or more", _is_not_negative),
    "pause_db": ("a number above 0", _is_positive),
    "trim_silence": ("true or false", _is_of(bool)),
    "features": ("an object", _is_of(dict)),
    "text": ("an object", _is_of(dict)),
    "configuration": ("an object", _is_of(dict)),
    "voices": ("a list", _is_of(list)),
}
"""What is expected of facts that a runtime computes with."""
PLAIN = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError)


def facts_in(told: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a file as values, checked. Raises ValueError that names what is wrong."""
    facts = {}
    for key, value in told.items():
        try:
            facts[key] = parsed(value)
        except ValueError:
            raise ValueError(f"{key} is no JSON: {value[:40]!r}") from None
    return checked(facts)


def checked(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` whose values are what they are used as. Raises ValueError that names the first that is not."""
    for name, (expected, is_right) in KINDS.items():
        if name in facts and not is_right(facts[name]):
            raise ValueError(f"{name} is {str(facts[name])[:40]}; expected {expected}")
    if "blank" in facts and "labels" in facts and facts["blank"] >= len(facts["labels"]):
        raise ValueError(f"blank is {facts['blank']}; expected one of {len(facts['labels'])} labels")
    return dict(facts)


@contextlib.contextmanager
def usable(kind: type[ValueError], where: object) -> Iterator[None]:
    """Makes an error of `kind` of what goes wrong where facts of the model `where` are missing, or of another kind."""
    try:
        yield
    except kind:
        raise
    except PLAIN as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise kind(f"{where}: its metadata are not those of a model that trt.export wrote: {what[:200]}") from None


@contextlib.contextmanager
def told(path: Path, what: str) -> Iterator[None]:
    """Makes a ModelError, in one line, of whatever a runtime raises, whose own errors have no common class."""
    try:
        yield
    except Exception as error:
        raise ModelError(f"{path}: {what}: {' '.join(str(error).split())[:300]}") from None


def keeper_of(facts: Mapping[str, Any]) -> Keep | None:
    """What cuts silence out of recordings, as the model was trained to hear them."""
    return keeper(
        facts["sample_rate"],
        longest_pause=facts.get("longest_pause", 0.0),
        pause_db=facts.get("pause_db", 0.0),
        trim=facts.get("trim_silence", False),
    )
