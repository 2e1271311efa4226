"""Phrase files: what to say, how, and into which file.

.txt: a phrase a line. .tsv: a line with the names of columns, then a phrase a line, values separated by tabs; an empty
value is as if the column were not there. Blank lines are passed over. A line that cannot be used costs only itself.

| column                          | what                                                                          |
|---------------------------------|-------------------------------------------------------------------------------|
| text                            | what is said; may hold SSML and {HH AH0 L OW1}                                |
| output                          | name of the sound file; audio_0.wav, audio_1.wav, ... where there is none      |
| speaker                         | number of the speaker                                                         |
| pace, energy, pitch_shift, ...  | every field of `Control`; pitch_curve: "0:180 0.5:240 1:150", place:Hz        |
| words, symbols                  | controls of some: "really: pace=0.8 pitch_shift=40; 3: energy=1.5"            |
| mel                             | a mel spectrogram (.npy or .pt) to vocode in place of a text                  |
| pitch                           | passed over: the published lists have recorded pitch there                    |
"""

import codecs
import difflib
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from common.config import ConfigError
from common.files import atomic
from fastpitch.front import control
from fastpitch.front.control import Control, ControlError

_COLUMNS = ("text", "output", "speaker", "words", "symbols", "mel", "pitch")


class PhraseError(ConfigError):
    """A phrase file, or a line of it, cannot be used: "FILE:LINE: what was found, what is expected"."""


class Phrase(NamedTuple):
    """A line of a phrase file. `speaker` None: whatever is chosen for the run."""

    line: int
    text: str
    output: str
    speaker: int | None = None
    control: Control = Control()
    words: str = ""
    symbols: str = ""
    mel: Path | None = None


class PhraseFile(NamedTuple):
    """The phrases of a file in their order, and a message for every line that is none."""

    phrases: list[Phrase]
    problems: list[str]


def read_phrases(path: Path | str) -> PhraseFile:
    """The phrases of a .txt or .tsv file. Raises PhraseError for a file that is missing or has a wrong header."""
    path = Path(path)
    data = read_bytes(path)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = decoded(data, str(path)).encode()
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise PhraseError(f"{path}: empty; expected a phrase a line")
    is_table = path.suffix == ".tsv"
    columns = _columns(path, decoded(lines[0], f"{path}:1")) if is_table else ["text"]
    phrases: list[Phrase] = []
    problems: list[str] = []
    taken: dict[str, int] = {}
    first = 2 if is_table else 1
    for number, encoded in enumerate(lines[first - 1 :], start=first):
        if not encoded.strip():
            continue
        try:
            line = decoded(encoded, f"{path}:{number}")
        except PhraseError as error:
            problems.append(str(error))
            continue
        try:
            values = line.rstrip("\r").split("\t") if is_table else [line.rstrip("\r")]
            phrase = _phrase(columns, values, number, f"audio_{number - first}.wav", path.parent)
            if phrase.output in taken:
                raise ControlError(f"output {phrase.output!r} is that of line {taken[phrase.output]} too")
        except ControlError as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        taken[phrase.output] = number
        phrases.append(phrase)
    return PhraseFile(phrases, problems)


def read_bytes(path: Path) -> bytes:
    """What a file holds. Raises PhraseError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PhraseError(f"{path}: cannot be read ({error.strerror})") from None


def decoded(data: bytes, where: str) -> str:
    """Text from UTF-8, or from UTF-16 with its mark. Raises PhraseError that names the first byte that is neither."""
    try:
        return atomic.decoded(data)
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at {error.start + 1}"
        raise PhraseError(f"{where}: not text in UTF-8 ({found})") from None


def _columns(path: Path, header: str) -> list[str]:
    columns = header.rstrip("\r").split("\t")
    if "text" not in columns and "mel" not in columns:
        raise PhraseError(f"{path}:1: columns {', '.join(columns)}; expected names of columns, text among them")
    for column in columns:
        known = [*_COLUMNS, *control.setting_names()]
        if column not in known:
            near = difflib.get_close_matches(column, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise PhraseError(f"{path}:1: unknown column {column!r}; {hint}")
    return columns


def _phrase(columns: list[str], values: list[str], line: int, default_output: str, folder: Path) -> Phrase:
    if len(values) > len(columns):
        raise ControlError(f"{len(values)} values for {len(columns)} columns ({', '.join(columns)})")
    given = {column: value.strip() for column, value in zip(columns, values, strict=False) if value.strip()}
    text, mel = given.get("text", ""), given.get("mel")
    if not text and mel is None:
        raise ControlError("no text; expected something to say")
    speaker = given.get("speaker")
    if speaker is not None and control.whole_number(speaker) < 0:
        raise ControlError(f"speaker {speaker[:40]!r}: expected the number of a speaker, from 0")
    return Phrase(
        line=line,
        text=text,
        output=_output(given.get("output", default_output)),
        speaker=None if speaker is None else control.whole_number(speaker),
        control=control.parsed({name: value for name, value in given.items() if name not in _COLUMNS}),
        words=given.get("words", ""),
        symbols=given.get("symbols", ""),
        mel=None if mel is None else folder / mel,
    )


def _output(name: str) -> str:
    """A name below the output folder, with .wav where it has no suffix."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ControlError(f"output {name!r}: expected a name below the output folder")
    return name if path.suffix in (".wav", ".flac") else f"{name}.wav"
