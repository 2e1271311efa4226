"""Speech Synthesis Markup Language: the part of W3C's SSML 1.1 that FastPitch can follow.

<speak>, <p>, <s>, <break time="300ms"/> or strength, <prosody rate pitch range volume contour>, <emphasis level>,
<sub alias>, <phoneme alphabet="arpabet|ipa|x-sampa" ph>, <say-as interpret-as format>, <mark name/>, <voice name>,
<lang xml:lang>. A text that begins with <speak>, <?xml or <!DOCTYPE is a document, and has to be XML. In any other text
tags may stand too: "3 < 4" has no tag. What cannot be followed is an error, except for what is no matter of how the
words sound, and what vendors have added: that is passed over with a warning.
"""

import difflib
import logging
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from common.text.pronunciation import arpabet
from fastpitch.front import markup
from fastpitch.front.control import Control, ControlError, Curve
from fastpitch.front.languages import SpokenReading

SENTENCE_SECONDS, PARAGRAPH_SECONDS = 0.3, 0.6  # of silence after them, besides that which the model says

_log = logging.getLogger(__name__)


class SsmlError(ValueError):
    """Markup that cannot be followed, in one line that names the tag or the place."""


class Contour(NamedTuple):
    """A melody for all that is said within one tag, which `number` tells from others."""

    number: int
    curve_hz: Curve


class MarkedSpan(NamedTuple):
    """A piece of text said in one way, or without text a pause or a mark.

    A pause is one that is asked for, or that of a tag's end, and then `ends_sentence`. `reading` says how the text is
    read, `language` and `speaker` are "" where no tag names them, and so is the name of a `mark`.
    """

    text: str
    control: Control = Control()
    pause_seconds: float | None = None
    ends_sentence: bool = False
    reading: SpokenReading | None = None
    language: str = ""
    speaker: str = ""
    contour: Contour | None = None
    mark: str = ""


MeanHz = Callable[[str], float]
"""The mean pitch of a speaker by name, "" for the one who speaks; raises ControlError for one that is not known."""

_TAGS = {  # and the attributes that each of them may have
    "speak": ("version", "xml:lang"),
    "p": ("xml:lang",),
    "s": ("xml:lang",),
    "break": ("time", "strength"),
    "prosody": ("rate", "pitch", "range", "volume", "contour"),
    "emphasis": ("level",),
    "sub": ("alias",),
    "phoneme": ("alphabet", "ph"),
    "say-as": ("interpret-as", "format", "detail", "language"),
    "mark": ("name",),
    "voice": ("name", "xml:lang"),
    "lang": ("xml:lang",),
}
_UNHEARD = ("meta", "metadata", "lexicon", "desc")  # passed over with all that is in them
_AS_TEXT = ("audio", "token", "w", "lookup")  # passed over, as are tags with a prefix; what is in them is said
_HINTS = ("onlangfailure", "gender", "age", "variant", "languages", "required", "ordering", "type", "role")
_OF_XML = ("xmlns", "xml", "xsi")  # these, and what they are prefixes of, are no matter of speech
_DOCUMENT = re.compile(r"\ufeff?\s*(?:<!--.*?-->\s*)*<(?:\?xml\s|!DOCTYPE\s|speak[\s/>])", re.DOTALL)
_WITHOUT_TEXT = ("break", "mark")
_WITH_TEXT_ONLY = ("sub", "phoneme", "say-as")

Attributes = Mapping[str, str]
T = TypeVar("T")


def _unknown_mean(speaker: str) -> float:
    raise ControlError("a pitch in Hz needs a voice whose mean is known")


def parse(text: str, mean_hz: MeanHz = _unknown_mean) -> list[MarkedSpan]:
    """The pieces of marked-up text, in order; plain text is one piece. Raises SsmlError and ControlError.

    Where there is no root <speak>, a bare & and a < that begins no tag are taken for themselves.
    """
    text = text if text.isascii() else unicodedata.normalize("NFC", text)
    try:
        events = markup.parse_document(text) if _DOCUMENT.match(text) else markup.parse(text, _TAGS)
    except markup.MarkupError as error:
        raise SsmlError(str(error)) from None
    events = _followed(events)
    if not any(event.kind == "start" for event in events):
        return [MarkedSpan("".join(event.value for event in events))]
    return _merged(_spans(events, mean_hz))


def _followed(events: list[markup.MarkupEvent]) -> list[markup.MarkupEvent]:
    """`events` without harmless tags and attributes, which a warning names. Raises SsmlError for unknown tags."""
    kept: list[markup.MarkupEvent] = []
    passed: dict[str, None] = {}
    unheard = 0
    for event in events:
        name = event.value
        if event.kind == "text":
            kept += [] if unheard else [event]
        elif unheard or name in _UNHEARD:
            passed |= {} if unheard else {f"<{name}>": None}
            unheard += 1 if event.kind == "start" else -1
        elif name in _AS_TEXT or ":" in name:
            passed[f"<{name}>"] = None
        elif name not in _TAGS:
            nearest = difflib.get_close_matches(name.lower(), _TAGS, 1)
            hint = f"the nearest is <{nearest[0]}>; " if nearest else ""
            raise SsmlError(f"<{_short(name)}>: no tag that can be followed; {hint}known: {', '.join(_TAGS)}")
        else:
            own = {of: value for of, value in event.attributes.items() if of == "xml:lang" or not _is_harmless(of)}
            if strange := [of for of in own if of not in _TAGS[name]]:
                raise SsmlError(f"<{name} {strange[0]}=...>: expected {' or '.join(_TAGS[name])}")
            others = (of for of in event.attributes if of not in own and of.partition(":")[0] not in _OF_XML)
            passed |= {f"<{name} {of}>": None for of in others}
            kept.append(event._replace(attributes=own))
    if passed:
        _log.warning("SSML: passed over %s", ", ".join(passed))
    return kept


def _is_harmless(attribute: str) -> bool:
    return ":" in attribute or attribute in (*_HINTS, *_OF_XML)


def _spans(events: list[markup.MarkupEvent], mean_hz: MeanHz) -> list[MarkedSpan]:
    found: list[MarkedSpan] = []
    manners, contours = [MarkedSpan("")], 0  # how the text within each open tag is said
    only_text: tuple[str, Attributes] | None = None  # the open tag that holds nothing but text
    held = ""
    for kind, name, attributes in events:
        manner = manners[-1]
        if kind == "text":
            if only_text:
                held += name
            else:
                found.append(manner._replace(text=name))
        elif kind == "start":
            if only_text:
                raise SsmlError(f"<{name}> within <{only_text[0]}>: expected only text there")
            if name in (*_WITHOUT_TEXT, *_WITH_TEXT_ONLY):
                only_text, held = (name, attributes), ""
            contours += "contour" in attributes
            if name in _WHOLE and _goes_on(found):
                pause = SENTENCE_SECONDS if name == "s" else PARAGRAPH_SECONDS
                found.append(manner._replace(pause_seconds=pause, ends_sentence=True))
            manners.append(_manner(name, attributes, manner, contours, mean_hz))
        else:
            manners.pop()
            if only_text:
                found.append(_leaf(name, only_text[1], held, manner))
                only_text = None
            elif name in ("s", "p"):
                pause = PARAGRAPH_SECONDS if name == "p" else SENTENCE_SECONDS
                found.append(manner._replace(pause_seconds=pause, ends_sentence=True))
    return found


_WHOLE = ("speak", "p", "s")  # begin a sentence


def _goes_on(found: list[MarkedSpan]) -> bool:
    """Whether words stand behind the last pause."""
    for span in reversed(found):
        if span.pause_seconds is not None:
            return False
        if span.text.strip():
            return True
    return False


def _leaf(name: str, attributes: Attributes, text: str, manner: MarkedSpan) -> MarkedSpan:
    """What a tag says that holds only text, or nothing."""
    if name in _WITHOUT_TEXT and text.strip():
        raise SsmlError(f"<{name}>{_short(text)}</{name}>: expected no text in it; write <{name}/>")
    if name == "break":
        return manner._replace(pause_seconds=_break_seconds(attributes))
    if name == "mark":
        return manner._replace(mark=_required(name, attributes, "name"))
    if name == "sub":
        return manner._replace(text=_required(name, attributes, "alias"))
    if name == "say-as":
        how = _required(name, attributes, "interpret-as")
        reading = SpokenReading("say-as", how, attributes.get("format") or attributes.get("detail", ""))
        if not text.strip():
            raise SsmlError(f'<say-as interpret-as="{how}">: expected text in it')
        language = attributes.get("language", manner.language)
        return manner._replace(text=text, reading=reading, language=language)
    alphabet, sounds = attributes.get("alphabet", "ipa").lower(), _required(name, attributes, "ph")
    if alphabet == "x-sampa":
        alphabet, sounds = "ipa", arpabet.ipa_of_sampa(sounds)
    reading = SpokenReading("phonemes", alphabet, sounds)
    return manner._replace(text=text if text.strip() else reading.value, reading=reading)


def _manner(name: str, attributes: Attributes, outer: MarkedSpan, number: int, mean_hz: MeanHz) -> MarkedSpan:
    """How the text within a tag is said."""
    if name == "lang":
        return outer._replace(language=_required(name, attributes, "xml:lang"))
    outer = outer._replace(language=attributes.get("xml:lang", outer.language))
    if name == "voice":
        return outer._replace(speaker=_required(name, attributes, "name"))
    if name == "emphasis":
        emphasis = _named("emphasis", attributes, "level", _EMPHASES, "moderate")
        return outer._replace(control=emphasis.within(outer.control))
    return _prosody(attributes, outer, number, mean_hz) if name == "prosody" else outer


def _merged(spans: list[MarkedSpan]) -> list[MarkedSpan]:
    """Neighbours said in one way in one piece; white space as one space."""
    merged: list[MarkedSpan] = []
    for span in spans:
        text = re.sub(r"\s+", " ", span.text)
        if span.pause_seconds is not None or span.mark:
            merged.append(span._replace(text=""))
        elif text and merged and not span.reading and merged[-1] == span._replace(text=merged[-1].text):
            merged[-1] = merged[-1]._replace(text=merged[-1].text + text)
        elif text:
            merged.append(span._replace(text=text))
    return merged


# ---------------------------------------------------------------------------------------------------------------------
# Attributes

_STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.3, "x-fast": 1.7}
_PITCHES = {"x-low": 0.75, "low": 0.87, "medium": 1.0, "default": 1.0, "high": 1.15, "x-high": 1.33}
_RANGES = {"x-low": 0.25, "low": 0.6, "medium": 1.0, "default": 1.0, "high": 1.5, "x-high": 2.0}
_VOLUMES = {"silent": 0.0, "x-soft": 0.35, "soft": 0.6, "medium": 1.0, "default": 1.0, "loud": 1.6, "x-loud": 2.5}
_EMPHASES = {
    "strong": Control(pace=0.8, pitch_amplify=1.4, energy=1.4),
    "moderate": Control(pace=0.9, pitch_amplify=1.2, energy=1.2),
    "none": Control(),
    "reduced": Control(pace=1.1, pitch_amplify=0.8, energy=0.8),
}
_LONGEST_BREAK_SECONDS = 60.0
_MOST_SEMITONES, _HIGHEST_HZ, _MOST_DECIBELS = 48.0, 2000.0, 60.0
_NUMBER = r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))"


def _break_seconds(attributes: Attributes) -> float:
    time = attributes.get("time")
    if time is None:
        return _named("break", attributes, "strength", _STRENGTHS, "medium")
    match = re.fullmatch(rf"\s*{_NUMBER}\s*(ms|s)\s*", time)
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else -1
    if not 0 <= seconds <= _LONGEST_BREAK_SECONDS:
        expected = f"expected 0 to {_LONGEST_BREAK_SECONDS:g} s, such as 300ms or 0.5s"
        raise SsmlError(f'<break time="{_short(time)}"/>: {expected}')
    return seconds


def _named(tag: str, attributes: Attributes, attribute: str, values: Mapping[str, T], default: str) -> T:
    name = attributes.get(attribute, default)
    if name not in values:
        raise SsmlError(f'<{tag} {attribute}="{_short(name)}">: expected one of {", ".join(values)}')
    return values[name]


def _required(tag: str, attributes: Attributes, name: str) -> str:
    value = attributes.get(name, "").strip()
    if not value:
        raise SsmlError(f'<{tag}>: expected {name}="..."')
    return value


def _short(text: str) -> str:
    return " ".join(text.split()) if len(text) <= 40 else f"{text[:37]}..."


def _prosody(attributes: Attributes, outer: MarkedSpan, number: int, mean_hz: MeanHz) -> MarkedSpan:
    pitch = _pitch("pitch", attributes.get("pitch", "default"))
    ratio, within = pitch.ratio, outer.control
    if pitch.hz:  # in place of all that is outside
        ratio, within = pitch.hz / mean_hz(outer.speaker), replace(within, pitch_ratio=1.0, pitch_shift_hz=0.0)
    try:
        control = Control(
            pace=_factor(attributes, "rate", _RATES),
            pitch_ratio=ratio,
            pitch_shift_hz=pitch.shift_hz,
            pitch_amplify=_factor(attributes, "range", _RANGES),
            energy=_volume(attributes.get("volume", "default")),
        ).within(within)
    except ControlError as error:
        raise SsmlError(f"<prosody>: {error}") from None
    contour = outer.contour
    if "contour" in attributes:
        contour = Contour(number, _contour(attributes["contour"], mean_hz(outer.speaker)))
    return outer._replace(control=control, contour=contour)


def _factor(attributes: Attributes, attribute: str, names: dict[str, float]) -> float:
    """80% or 0.8 are factors, +10% and -10% changes."""
    value = attributes.get(attribute, "default").strip()
    if value in names:
        return names[value]
    match = re.fullmatch(rf"{_NUMBER}(%)?", value)
    if not match:
        expected = f"a factor such as 80%, 0.8 or +10%, or one of {', '.join(names)}"
        raise SsmlError(f'<prosody {attribute}="{_short(value)}">: expected {expected}')
    number = float(match[1]) / (100 if match[2] else 1)
    return 1 + number if value[0] in "+-" else number


class _Pitch(NamedTuple):
    """A change of the pitch, a factor and a shift, or a pitch in `hz`."""

    ratio: float = 1.0
    shift_hz: float = 0.0
    hz: float = 0.0


def _pitch(attribute: str, value: str) -> _Pitch:
    """A pitch such as high, 180Hz, +20Hz, -5% or +2st."""
    value = value.strip()
    if value in _PITCHES:
        return _Pitch(_PITCHES[value])
    expected = f"180Hz, a change such as +20Hz, -5% or +2st, or one of {', '.join(_PITCHES)}"
    match = re.fullmatch(rf"{_NUMBER}\s*(Hz|hz|%|st)", value)
    if not match or (value[0] not in "+-" and match[2] not in ("Hz", "hz")):
        raise SsmlError(f'<prosody {attribute}="{_short(value)}">: expected {expected}')
    number, unit = float(match[1]), match[2].lower()
    if unit == "st":
        found, is_possible = _Pitch(2 ** (min(abs(number), _MOST_SEMITONES) / 12)), abs(number) <= _MOST_SEMITONES
        found = _Pitch(1 / found.ratio) if number < 0 else found
    elif unit == "%":
        found = _Pitch(1 + number / 100)
        is_possible = 0 < found.ratio <= 2 ** (_MOST_SEMITONES / 12)
    elif value[0] in "+-":
        found, is_possible = _Pitch(shift_hz=number), abs(number) <= _HIGHEST_HZ
    else:
        found, is_possible = _Pitch(hz=number), 0 < number <= _HIGHEST_HZ
    if not is_possible:
        limits = f"a pitch above 0 Hz, and at most {_MOST_SEMITONES:g} semitones or {_HIGHEST_HZ:g} Hz"
        raise SsmlError(f'<prosody {attribute}="{_short(value)}">: expected {limits}')
    return found


def _contour(value: str, mean_hz: float) -> Curve:
    """`(0%,+20Hz) (50%,180Hz) (100%,-2st)`: places and pitches, changes of which are from the speaker's mean."""
    points = [(place.strip(), pitch) for place, pitch in re.findall(r"\(([^(),]*+),([^(),]*+)\)", value)]
    if not points or re.sub(r"\([^()]*\)", "", value).strip():
        raise SsmlError(f'<prosody contour="{_short(value)}">: expected points such as (0%,+20Hz) (100%,180Hz)')
    curve = []
    for place, pitch in points:
        percent = re.fullmatch(rf"{_NUMBER}%", place)
        if not percent or not 0 <= float(percent[1]) <= 100:
            raise SsmlError(f'<prosody contour="{_short(value)}">: place {_short(place)!r}: expected 0% to 100%')
        target = _pitch("contour", pitch)
        curve.append((float(percent[1]) / 100, target.hz or mean_hz * target.ratio + target.shift_hz))
    return tuple(sorted(curve))


def _volume(value: str) -> float:
    """loud, or decibels: +6dB; or, as in SSML 1.0, a part of 100, or a change by such parts."""
    value = value.strip()
    if value in _VOLUMES:
        return _VOLUMES[value]
    match = re.fullmatch(rf"{_NUMBER}\s*(dB|%)?", value, re.IGNORECASE)
    number, unit = (float(match[1]), match[2] or "%") if match else (-1.0, "%")
    if unit != "%" and abs(number) <= _MOST_DECIBELS:
        return 10 ** (number / 20)
    if unit == "%" and value[:1] in ("+", "-") and -100 <= number <= 1000:
        return 1 + number / 100
    if unit == "%" and 0 <= number <= 100:
        return number / 100
    expected = f"+6dB (at most {_MOST_DECIBELS:g}), 0 to 100, or one of {', '.join(_VOLUMES)}"
    raise SsmlError(f'<prosody volume="{_short(value)}">: expected {expected}')
