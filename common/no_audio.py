"""What a file is that cannot be read as audio, by its first bytes, and what to do about it."""

import shlex
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
# What lies where a recording should: what it is, and what is to be done.
_OTHERS = (
    ("a pointer of Git LFS", 0, b"version https://git-lfs", "fetch the recording: git lfs pull"),
    ("a web page", 0, b"<!doctype html", "download the recording again"),
    ("a web page", 0, b"<html", "download the recording again"),
    ("a ZIP archive", 0, b"pk\x03\x04", "unpack it"),
    ("packed by gzip", 0, b"\x1f\x8b", "unpack it"),
    ("Parquet", 0, b"par1", "write its recordings to files, and a manifest"),
)
_TEXT = "(Format not recognised); it is text, as lists (.txt) and manifests (.jsonl, .csv) are"


def advice(first: bytes, path: Path | None) -> str | None:
    """What the file of these bytes is, and what to do about it, for a message; None for what is not known.

    `path`: where the file is, for the command that converts it.
    """
    kind = next((kind for kind, at, mark in _SOUNDS if first[at : at + len(mark)] == mark), None)
    if kind is not None:
        example = "" if path is None else ", as with: " + shlex.join(["ffmpeg", "-i", str(path), _converted(path)])
        return f"({kind}); convert it to FLAC{example}"
    begins = first.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for what, at, mark, to_do in _OTHERS:
        if begins[at : at + len(mark)] == mark:
            return f"({what}); {to_do}"
    return f"{_TEXT}; {EXPECTED}" if _is_text(first) else None


def _converted(path: Path) -> str:
    return str(path.with_suffix(".flac"))


def _is_text(first: bytes) -> bool:
    """Whether it is UTF-8 of letters, marks and spaces, maybe cut within a letter."""
    try:
        text = first.decode()
    except UnicodeDecodeError as error:
        if error.start < len(first) - 3:
            return False
        text = first[: error.start].decode()
    return bool(text.strip()) and all(letter.isprintable() or letter in "\t\r\n\ufeff" for letter in text)
