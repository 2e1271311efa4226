"""Control of the prosody: what a speaker would say, said faster, higher, louder, or along a curve of one's own.

A `Control` is what people ask for, in Hz, factors and words. `edits` makes of it a value for every symbol, which every
runtime takes alike: `FastPitch.infer`, compiled and exported networks. Nothing here depends on the network; pitch in
Hz becomes deviations by the mean and the deviation of the speaker.

Legend: L symbols of a sentence.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from fastpitch.front.symbols import EncodedText, WordSymbols

Curve = tuple[tuple[float, float], ...]

SLOWEST = 0.05  # a pace below makes minutes of a sentence, and no memory holds those of a millionth


class ControlError(ValueError):
    """A control that cannot be followed; the message says which and what is expected."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """How something is said: an utterance, a word or a symbol."""

    pace: float = 1.0
    """Speed as a factor: 2 is twice as fast."""
    pitch_shift_hz: float = 0.0
    """Hertz that are added to the pitch."""
    pitch_ratio: float = 1.0
    """Factor of the pitch in Hz: 2 is an octave higher."""
    pitch_amplify: float = 1.0
    """Factor of the pitch's distance from the speaker's mean: above 1 livelier, below 1 flatter."""
    pitch_flatten: bool = False
    """Whether every pitch is the speaker's mean, like a robot's."""
    pitch_invert: bool = False
    """Whether the pitch is mirrored at the speaker's mean: high becomes low."""
    pitch_curve_hz: Curve = ()
    """Melody in place of the predicted one: points (place, Hz), place from 0, the beginning, to 1, the end."""
    energy: float = 1.0
    """Loudness, a factor of the sound: 2 is 6 dB louder, 0 is silent."""

    def __post_init__(self) -> None:
        for name in ("pace", "pitch_ratio"):
            if not 0 < getattr(self, name) < math.inf:
                raise ControlError(f"{name} = {getattr(self, name)}: expected a number above 0, 1 for unchanged")
        if not 0 <= self.energy < math.inf:
            raise ControlError(f"energy = {self.energy}: expected 0 for silence, or more; 1 for unchanged")
        if self.pace < SLOWEST:
            raise ControlError(f"pace = {self.pace:g}: expected at least {SLOWEST:g}, 1 for unchanged")
        for name in ("pitch_shift_hz", "pitch_amplify"):
            if not math.isfinite(getattr(self, name)):
                raise ControlError(f"{name} = {getattr(self, name)}: expected a number")
        places, hertz = [place for place, _ in self.pitch_curve_hz], [hz for _, hz in self.pitch_curve_hz]
        if not all(map(math.isfinite, hertz)):
            raise ControlError(f"pitch_curve_hz has {', '.join(f'{hz:g}' for hz in hertz)} Hz; expected numbers")
        if any(not 0 <= place <= 1 for place in places) or places != sorted(places):
            raise ControlError(
                f"pitch_curve_hz has places {', '.join(f'{place:g}' for place in places)}; "
                "expected them rising from 0, the beginning, to 1, the end"
            )

    def within(self, outer: "Control") -> "Control":
        """This control of a part of what `outer` controls: factors multiply, shifts add, the curve here wins."""
        return Control(
            pace=self.pace * outer.pace,
            pitch_shift_hz=self.pitch_shift_hz + outer.pitch_shift_hz,
            pitch_ratio=self.pitch_ratio * outer.pitch_ratio,
            pitch_amplify=self.pitch_amplify * outer.pitch_amplify,
            pitch_flatten=self.pitch_flatten or outer.pitch_flatten,
            pitch_invert=self.pitch_invert != outer.pitch_invert,
            pitch_curve_hz=self.pitch_curve_hz or outer.pitch_curve_hz,
            energy=self.energy * outer.energy,
        )


class Edits(NamedTuple):
    """A value for every symbol of a sentence, float32 [L], as `FastPitch.infer` takes them.

    Durations (frames), pitch (deviations) that are NaN are predicted; then pitch becomes scale · x + shift. The gain is
    a factor of the sound: models that have learned energy follow it by a tenth of the decibels.
    """

    pace_L: np.ndarray
    durations_L: np.ndarray
    pitch_L: np.ndarray
    pitch_scale_L: np.ndarray
    pitch_shift_L: np.ndarray
    gain_L: np.ndarray


class SpeakerStatistics(NamedTuple):
    """What pitch a speaker can be given, in Hz: mean and deviation of the recordings, and the range that they cover.

    Beyond that range a model says something, but not higher nor lower. All other controls act the same on every model.
    """

    pitch_mean: float
    pitch_std: float
    lowest_hz: float = -math.inf
    highest_hz: float = math.inf


def edits(
    n_symbols: int, control: Control, speaker: SpeakerStatistics, parts: Iterable[tuple[range, Control]] = ()
) -> Edits:
    """`control` of all symbols and, within it, that of parts given by the indices of their symbols, in their order."""
    of_symbols = [control] * n_symbols
    pitch_L = _curve(n_symbols, control.pitch_curve_hz, speaker)
    for symbols, of_part in parts:
        if not 0 <= symbols.start <= symbols.stop <= n_symbols:
            raise ControlError(f"symbols {symbols.start} to {symbols.stop - 1}: expected 0 to {n_symbols - 1}")
        for i in symbols:
            of_symbols[i] = of_part.within(of_symbols[i])
        if of_part.pitch_curve_hz:
            pitch_L[symbols.start : symbols.stop] = _curve(len(symbols), of_part.pitch_curve_hz, speaker)
    values = {control: _values(control, speaker) for control in set(of_symbols)}
    columns = np.array([values[control] for control in of_symbols], np.float32).reshape(-1, 4).T
    return Edits(
        pace_L=columns[0],
        durations_L=np.full(n_symbols, math.nan, np.float32),
        pitch_L=pitch_L,
        pitch_scale_L=columns[1],
        pitch_shift_L=columns[2],
        gain_L=columns[3],
    )


def limited(asked: Edits, hertz_L: np.ndarray, speaker: SpeakerStatistics) -> Edits | None:
    """`asked`, of which `hertz_L` came, without what leads beyond the speaker's range; None if nothing does.

    What is predicted and left as it is is never changed.
    """
    is_asked_L = ~np.isnan(asked.pitch_L) | (asked.pitch_scale_L != 1) | (asked.pitch_shift_L != 0)
    within_L = np.clip(hertz_L, speaker.lowest_hz, speaker.highest_hz)
    is_beyond_L = is_asked_L & (np.abs(hertz_L - within_L) > 0.01)
    if not is_beyond_L.any():
        return None
    return asked._replace(
        pitch_L=np.where(is_beyond_L, from_hz(within_L, speaker), asked.pitch_L).astype(np.float32),
        pitch_scale_L=np.where(is_beyond_L, 1, asked.pitch_scale_L).astype(np.float32),
        pitch_shift_L=np.where(is_beyond_L, 0, asked.pitch_shift_L).astype(np.float32),
    )


def to_hz(pitch: Any, speaker: SpeakerStatistics) -> Any:
    """Pitch in deviations, a number, array or tensor, in Hz."""
    return pitch * speaker.pitch_std + speaker.pitch_mean


def from_hz(hz: Any, speaker: SpeakerStatistics) -> Any:
    """Pitch in Hz in deviations from the speaker's mean."""
    return (hz - speaker.pitch_mean) / speaker.pitch_std


def _values(control: Control, speaker: SpeakerStatistics) -> tuple[float, float, float, float]:
    """Pace, scale and shift of the pitch, gain.

    The pitch is flattened, inverted, amplified and shifted in this order, as published; then the ratio is applied.
    """
    sign = -1.0 if control.pitch_invert else 1.0
    scale = 0.0 if control.pitch_flatten else sign * control.pitch_amplify
    shift = control.pitch_shift_hz / speaker.pitch_std
    raised = (control.pitch_ratio - 1) * speaker.pitch_mean / speaker.pitch_std
    return control.pace, control.pitch_ratio * scale, control.pitch_ratio * shift + raised, control.energy


def _curve(n_symbols: int, curve_hz: Curve, speaker: SpeakerStatistics) -> np.ndarray:
    """Between the points the pitch moves in a straight line; a symbol has that of its middle."""
    if not curve_hz:
        return np.full(n_symbols, math.nan, np.float32)
    places, hz = zip(*curve_hz, strict=True)
    middle_L = (np.arange(n_symbols) + 0.5) / max(1, n_symbols)
    return from_hz(np.interp(middle_L, places, hz), speaker).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# Controls as text

_NAMES = {field.name: field for field in fields(Control)}
_SHORT = {"pitch_shift": "pitch_shift_hz", "pitch_curve": "pitch_curve_hz"}


def parsed(settings: Mapping[str, str]) -> Control:
    """A control from names and values as they stand in a file: {"pace": "0.9", "pitch_curve": "0:180 1:150"}.

    Raises ControlError for a name that is none and a value that is no number.
    """
    return replace(Control(), **dict(_setting(name.strip(), value.strip()) for name, value in settings.items()))


def setting_names() -> list[str]:
    """The names that `parsed` knows."""
    return [*_NAMES, *_SHORT]


def _setting(name: str, value: str) -> tuple[str, Any]:
    full = _SHORT.get(name, name)
    if full not in _NAMES:
        raise ControlError(f"{name!r}: no control; known: {', '.join(setting_names())}")
    if full == "pitch_curve_hz":
        return full, _points(value)
    if _NAMES[full].type is bool:
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise ControlError(f"{name} = {value!r}: expected true or false")
        return full, value.lower() in ("true", "1", "yes")
    return full, _number(name, value)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ControlError(f"{name} = {value!r}: expected a number") from None


def _points(value: str) -> Curve:
    """`0:180 0.5:240 1:150`, or only pitches at equal distances: `180 240 150`."""
    points = value.replace(",", " ").split()
    if all(":" in point for point in points):
        pairs = [point.split(":", 1) for point in points]
        return tuple((_number("pitch_curve", place), _number("pitch_curve", hz)) for place, hz in pairs)
    pitches = [_number("pitch_curve", point) for point in points]
    return tuple((i / max(1, len(pitches) - 1), hz) for i, hz in enumerate(pitches))


def parts_from_text(text: str, encoded: EncodedText, *, of: Literal["words", "symbols"]) -> list[tuple[range, Control]]:
    """Controls of words or symbols: `really: pace=0.8 pitch_shift=40; 3: energy=1.5`.

    A word is named by itself (all that are equal) or by its place, a symbol by its place, counted from 1. Raises
    ControlError.
    """
    parts = []
    for entry in filter(None, map(str.strip, text.split(";"))):
        name, separator, settings = entry.partition(":")
        pairs = [setting.partition("=") for setting in re.split(r"[\s,]+(?=[a-z_]+=)", settings.strip())]
        if not separator or not all(value for _, _, value in pairs):
            raise ControlError(f"{entry!r}: expected a word or its number, a colon, and settings such as pace=0.8")
        control = parsed({key: value for key, _, value in pairs})
        parts += [(symbols, control) for symbols in _named(name.strip(), encoded, of)]
    return parts


def whole_number(text: str) -> int:
    """The number of a speaker, a word or a symbol; -1 for what is none, and for more digits than those have."""
    return int(text) if text.isdecimal() and len(text) < 10 else -1


def _named(name: str, encoded: EncodedText, of: Literal["words", "symbols"]) -> list[range]:
    if of == "symbols":
        if not 1 <= whole_number(name) <= len(encoded.tokens):
            raise ControlError(f"symbol {name!r}: expected a number from 1 to {len(encoded.tokens)}")
        return [range(whole_number(name) - 1, whole_number(name))]
    if 1 <= whole_number(name) <= len(encoded.words):
        return [_symbols(encoded.words[whole_number(name) - 1])]
    found = [_symbols(word) for word in encoded.words if word.text.lower() == name.lower()]
    if not found:
        said = " ".join(word.text for word in encoded.words)
        raise ControlError(f"word {name!r}: not one of the {len(encoded.words)} words that are said: {said}")
    return found


def _symbols(word: WordSymbols) -> range:
    return range(word.first, word.last + 1)
