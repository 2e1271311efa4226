"""Files that are not what they should be: what they are, by their first bytes, and what to do about it."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

EXPECTED = "expected WAV, FLAC, OGG or MP3"
FIRST_BYTES = 512
"""How many of them are looked at."""

# What phones, browsers and films have: the format's name, and which bytes stand where.
_SOUNDS = (
    ("MP4 or M4A", 4, b"ftyp"),
    ("WebM or Matroska", 0, b"\x1aE\xdf\xa3"),
    ("AMR", 0, b"#!AMR"),
    ("WMA", 0, b"0&\xb2u\x8ef\xcf\x11"),
    ("AAC", 0, b"\xff\xf1"),
    ("AAC", 0, b"\xff\xf9"),
    ("AVI", 8, b"AVI "),
    ("WavPack", 0, b"wvpk"),
    ("Monkey's Audio", 0, b"MAC "),
)
# What is read here, likewise.
_RECORDINGS = (
    ("WAV", 8, b"WAVE"),
    ("FLAC", 0, b"fLaC"),
    ("OGG", 0, b"OggS"),
    ("MP3", 0, b"ID3"),
    ("MP3", 0, b"\xff\xfb"),
    ("MP3", 0, b"\xff\xf3"),
    ("AIFF", 8, b"AIFF"),
)
# What lies where any file should that was downloaded: what it is, and what is to be done.
_INSTEAD = (
    ("a pointer of Git LFS", b"version https://git-lfs", "fetch the file: git lfs pull"),
    ("a web page", b"<!doctype html", "download the file again"),
    ("a web page", b"<html", "download the file again"),
)
# Likewise where a recording should.
_OTHERS = (
    ("a ZIP archive", b"pk\x03\x04", "unpack it"),
    ("packed by gzip", b"\x1f\x8b", "unpack it"),
    ("Parquet", b"par1", "write its recordings to files, and a manifest"),
)
_LISTED = re.compile(rb"\.(wav|flac|mp3|ogg|opus|aiff?)\b|^\s*\{", re.IGNORECASE)
_TEXT = "text, as lists (.txt) and manifests (.jsonl, .csv) are"


def other_sound(first: bytes) -> str | None:
    """The format of a file of these bytes, where it is one of sound that only PyAV reads."""
    return _sound(first, _SOUNDS)


def no_audio(first: bytes, path: Path | None) -> str | None:
    """What the file of these bytes is, and what to do about it, for a message; None for what is not known.

    `path`: where the file is, for the command that converts it.
    """
    kind = other_sound(first)
    if kind is not None:
        example = "" if path is None else ", as with: " + shlex.join(["ffmpeg", "-i", str(path), _converted(path)])
        return f"({kind}); to read it: pip install av; or convert it to FLAC{example}"
    begins = _begins(first)
    for what, mark, to_do in (*_INSTEAD, *_OTHERS):
        if begins.startswith(mark):
            return f"({what}); {to_do}"
    return f"(Format not recognised); it is {_TEXT}; {EXPECTED}" if _is_list(first) else None


def instead_of(path: Path, wanted: str) -> str | None:
    """What stands at `path` in place of a file of any kind that was `wanted`, for a message; None for what may be one.

    `wanted` is "a checkpoint".
    """
    try:
        with path.open("rb") as file:
            first = file.read(FIRST_BYTES)
    except OSError:
        return None
    if not first:
        return f"damaged or not {wanted}: it is empty (0 bytes)"
    begins = _begins(first)
    for what, mark, to_do in _INSTEAD:
        if begins.startswith(mark):
            return f"is {what}, and not {wanted}; {to_do}"
    kind = _sound(first, (*_RECORDINGS, *_SOUNDS))
    if kind is None and not _is_list(first):
        return None
    return f"is {_TEXT if kind is None else f'a recording ({kind})'}, and not {wanted}; check the order of arguments"


def _sound(first: bytes, known: Iterable[tuple[str, int, bytes]]) -> str | None:
    """The format of sound that `first` begins, of those that are `known`."""
    return next((kind for kind, at, mark in known if first[at : at + len(mark)] == mark), None)


def _begins(first: bytes) -> bytes:
    return first.removeprefix(b"\xef\xbb\xbf").lstrip().lower()


def _converted(path: Path) -> str:
    return str(path.with_suffix(".flac"))


def _is_list(first: bytes) -> bool:
    """Whether it is text whose first line names a recording, or is an object of JSON."""
    line = first.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    return _is_text(first) and _LISTED.search(line) is not None


def _is_text(first: bytes) -> bool:
    """Whether it is UTF-8 of letters, marks and spaces, maybe cut within a letter."""
    try:
        text = first.decode()
    except UnicodeDecodeError as error:
        if error.start < len(first) - 3:
            return False
        text = first[: error.start].decode()
    return bool(text.strip()) and all(letter.isprintable() or letter in "\t\r\n\ufeff" for letter in text)
