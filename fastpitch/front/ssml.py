"""Speech Synthesis Markup Language: the part of W3C's SSML 1.1 that FastPitch can follow.

<speak>, <p>, <s>, <break time="300ms"/> or strength, <prosody rate pitch range volume>, <emphasis level>,
<sub alias>, <phoneme alphabet="arpabet|ipa" ph>. Text without any of these tags is plain text: "3 < 4" has no tag.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from common.text import arpabet
from fastpitch.front.control import Control, ControlError

SENTENCE_SECONDS, PARAGRAPH_SECONDS = 0.3, 0.6  # of silence after them, besides that which the model says


class SsmlError(ValueError):
    """Markup that cannot be followed, in one line that names the tag or the place."""


class Span(NamedTuple):
    """A piece of text said in one way, or without text a pause: one that is asked for, or that of a tag's end."""

    text: str
    control: Control
    pause_seconds: float | None = None
    ends_sentence: bool = False


_TAGS = ("speak", "p", "s", "break", "prosody", "emphasis", "sub", "phoneme")
_TAG = re.compile(rf"</?(?:{'|'.join(_TAGS)})(?=[\s/>])[^<>]*>|<\?xml[^<>]*>|<!--.*?-->", re.DOTALL)
_LIKE_A_TAG = re.compile(r"</?([A-Za-z][\w:-]*)(?:\s+[\w:-]+\s*=\s*[\"'][^<>]*)?/?>")
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9A-Fa-f]+);)")


def is_ssml(text: str) -> bool:
    """Whether there is a tag of SSML in it, or what looks like one."""
    return bool(_TAG.search(text) or _LIKE_A_TAG.search(text))


def parse(text: str) -> list[Span]:
    """The pieces of marked-up text, in order; plain text is one piece. Raises SsmlError.

    The root <speak> may be left out. A bare & and a < that begins no tag are taken for themselves.
    """
    if not is_ssml(text):
        return [Span(text, Control())]
    if unknown := next((tag for tag in _LIKE_A_TAG.finditer(text) if not _TAG.fullmatch(tag[0])), None):
        raise SsmlError(f"{unknown[0]}: no tag that can be followed; known: {', '.join(_TAGS)}")
    body = _escaped(text)
    body = body if re.match(r"\s*(?:<\?xml[^<>]*>\s*)?<speak[\s>]", body) else f"<speak>{body}</speak>"
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise SsmlError(f"broken markup: {_said(error, body)}") from None
    return _merged(_spans(root, Control()))


def _escaped(text: str) -> str:
    parts, position = [], 0
    for tag in _TAG.finditer(text):
        parts += [_plain(text[position : tag.start()]), tag[0]]
        position = tag.end()
    return "".join([*parts, _plain(text[position:])])


def _plain(text: str) -> str:
    return _BARE_AMPERSAND.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def _said(error: ElementTree.ParseError, body: str) -> str:
    """What is wrong, with the text where it was found."""
    reason = str(error).partition(":")[0]
    line, column = error.position
    near = body.splitlines()[line - 1][max(0, column - 20) : column + 20].removeprefix("<speak>")
    return f"{reason} near {near!r}; every <tag> needs its </tag>, and <break/> its slash"


def _spans(element: ElementTree.Element, outer: Control) -> Iterator[Span]:
    if element.tag == "break":
        yield Span("", outer, _break_seconds(element))
        return
    if element.tag in ("phoneme", "sub"):
        yield Span(_replaced(element), outer)
        return
    control = _control(element).within(outer)
    yield Span(element.text or "", control)
    for child in element:
        yield from _spans(child, control)
        yield Span(child.tail or "", control)
    if element.tag in ("s", "p"):
        yield Span("", control, PARAGRAPH_SECONDS if element.tag == "p" else SENTENCE_SECONDS, ends_sentence=True)


def _merged(spans: Iterator[Span]) -> list[Span]:
    """Neighbours said in one way in one piece; white space as one space."""
    merged: list[Span] = []
    for span in spans:
        text = re.sub(r"\s+", " ", span.text)
        if span.pause_seconds is not None:
            merged.append(span)
        elif text and merged and merged[-1].pause_seconds is None and merged[-1].control == span.control:
            merged[-1] = Span(merged[-1].text + text, span.control)
        elif text:
            merged.append(Span(text, span.control))
    return merged


# ---------------------------------------------------------------------------------------------------------------------
# Attributes

_STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.3, "x-fast": 1.7}
_PITCHES = {"x-low": 0.75, "low": 0.87, "medium": 1.0, "default": 1.0, "high": 1.15, "x-high": 1.33}
_RANGES = {"x-low": 0.25, "low": 0.6, "medium": 1.0, "default": 1.0, "high": 1.5, "x-high": 2.0}
_VOLUMES = {"x-soft": 0.35, "soft": 0.6, "medium": 1.0, "default": 1.0, "loud": 1.6, "x-loud": 2.5}
_EMPHASES = {
    "strong": Control(pace=0.8, pitch_amplify=1.4, energy=1.4),
    "moderate": Control(pace=0.9, pitch_amplify=1.2, energy=1.2),
    "none": Control(),
    "reduced": Control(pace=1.1, pitch_amplify=0.8, energy=0.8),
}
_LONGEST_BREAK_SECONDS = 60.0
_NUMBER = r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))"


def _break_seconds(element: ElementTree.Element) -> float:
    _only(element, "time", "strength")
    time = element.get("time")
    if time is None:
        return _named(element, "strength", _STRENGTHS, "medium")
    match = re.fullmatch(rf"\s*{_NUMBER}\s*(ms|s)\s*", time)
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else -1
    if not 0 <= seconds <= _LONGEST_BREAK_SECONDS:
        raise SsmlError(f'<break time="{time}"/>: expected 0 to {_LONGEST_BREAK_SECONDS:g} s, such as 300ms or 0.5s')
    return seconds


def _named(element: ElementTree.Element, attribute: str, values: dict[str, float], default: str) -> float:
    name = element.get(attribute, default)
    if name not in values:
        raise SsmlError(f'<{element.tag} {attribute}="{name}">: expected one of {", ".join(values)}')
    return values[name]


def _only(element: ElementTree.Element, *known: str) -> None:
    for attribute in element.keys():  # noqa: SIM118 (an element is not a mapping)
        if attribute not in known:
            raise SsmlError(f"<{element.tag} {attribute}=...>: expected {' or '.join(known) or 'no attribute'}")


def _replaced(element: ElementTree.Element) -> str:
    """What is said in place of the text of <phoneme> or <sub>."""
    if element.tag == "sub":
        _only(element, "alias")
        return element.get("alias") or element.text or ""
    _only(element, "alphabet", "ph")
    alphabet, sounds = element.get("alphabet", "ipa"), element.get("ph", "")
    if alphabet not in ("arpabet", "x-arpabet", "ipa"):
        raise SsmlError(f'<phoneme alphabet="{alphabet}">: expected arpabet or ipa')
    try:
        phonemes = arpabet.from_ipa(sounds) if alphabet == "ipa" else arpabet.parse(sounds)
    except arpabet.ArpabetError as error:
        raise SsmlError(f'<phoneme alphabet="{alphabet}">: {error}') from None
    return "{" + " ".join(phonemes) + "}"


def _control(element: ElementTree.Element) -> Control:
    if element.tag == "emphasis":
        _only(element, "level")
        level = element.get("level", "moderate")
        if level not in _EMPHASES:
            raise SsmlError(f'<emphasis level="{level}">: expected one of {", ".join(_EMPHASES)}')
        return _EMPHASES[level]
    if element.tag != "prosody":
        return Control()
    _only(element, "rate", "pitch", "range", "volume")
    ratio, shift_hz = _pitch(element.get("pitch", "default"))
    try:
        return Control(
            pace=_factor(element, "rate", _RATES),
            pitch_ratio=ratio,
            pitch_shift_hz=shift_hz,
            pitch_amplify=_factor(element, "range", _RANGES),
            energy=_volume(element.get("volume", "default")),
        )
    except ControlError as error:
        raise SsmlError(f"<prosody>: {error}") from None


def _factor(element: ElementTree.Element, attribute: str, names: dict[str, float]) -> float:
    """80% or 0.8 are factors, +10% and -10% changes."""
    value = element.get(attribute, "default").strip()
    if value in names:
        return names[value]
    match = re.fullmatch(rf"{_NUMBER}(%)?", value)
    if not match:
        expected = f"a factor such as 80%, 0.8 or +10%, or one of {', '.join(names)}"
        raise SsmlError(f'<prosody {attribute}="{value}">: expected {expected}')
    number = float(match[1]) / (100 if match[2] else 1)
    return 1 + number if value[0] in "+-" else number


def _pitch(value: str) -> tuple[float, float]:
    """(factor, shift in Hz) of a pitch such as high, +20Hz, -5% or +2st."""
    value = value.strip()
    if value in _PITCHES:
        return _PITCHES[value], 0.0
    match = re.fullmatch(rf"{_NUMBER}\s*(Hz|hz|%|st)", value)
    if not match or value[0] not in "+-":
        raise SsmlError(
            f'<prosody pitch="{value}">: expected a change such as +20Hz, -5% or +2st, or one of {", ".join(_PITCHES)}'
        )
    number, unit = float(match[1]), match[2].lower()
    if unit == "hz":
        return 1.0, number
    return (1 + number / 100 if unit == "%" else 2 ** (number / 12)), 0.0


def _volume(value: str) -> float:
    """loud, or decibels: +6dB."""
    value = value.strip()
    if value in _VOLUMES:
        return _VOLUMES[value]
    match = re.fullmatch(rf"{_NUMBER}\s*d[Bb]", value)
    if not match:
        raise SsmlError(f'<prosody volume="{value}">: expected +6dB, or one of {", ".join(_VOLUMES)}')
    return 10 ** (float(match[1]) / 20)
