"""What a command line names, as recordings: audio files, folders of them, manifests, corpora and lists of paths."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from common.audio.waveform import AudioError, Held
from common.data.lists.entries import text_of
from common.data.lists.tables import header_of
from common.data.manifest import ManifestError, Utterance, is_index, read_manifest
from common.files.atomic import found_file

AUDIO_SUFFIXES = (
    ".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".aifc", ".au", ".snd", ".caf", ".w64", ".rf64",
    ".sph", ".voc",
    # Through PyAV; without it each file gets a line, in place of being passed over in silence.
    ".m4a", ".m4b", ".mp4", ".aac", ".amr", ".3gp", ".wma", ".weba", ".webm", ".mka",
)  # fmt: skip
"""Files of a folder that are recordings."""
STANDARD_INPUT = "-"
MANIFEST_SUFFIXES = (".jsonl", ".json", ".tsv", ".csv", ".psv", ".txt", ".scp")
LIST_SUFFIXES = (".txt", ".lst", ".list")


class InputRecording(NamedTuple):
    """A recording: where it is, the name of files about it, and what was said (None if not known, "" if nothing)."""

    source: Path | Utterance | Held
    name: str
    reference: str | None


class FoundRecordings(NamedTuple):
    """The recordings of all inputs, in order, and a message for everything that cannot be one."""

    items: list[InputRecording]
    problems: list[str]

    @property
    def has_references(self) -> bool:
        """Whether it is known of any what was said."""
        return any(item.reference is not None for item in self.items)


def find_recordings(
    inputs: Sequence[Path], *, root: Path | None = None, max_seconds: float = float("inf")
) -> FoundRecordings:
    """All recordings that the inputs name; nothing but manifests is opened, and standard input, which "-" stands for.

    Manifests need not say what was said. Relative paths in manifests and lists start from `root`, by default from their
    folder, or from the current one where nothing is there; utterances of manifests that are longer than `max_seconds`
    are left out.
    """
    sources: list[tuple[str, Path | Utterance | Held]] = []
    problems: list[str] = []
    for path in inputs:
        try:
            if str(path) == STANDARD_INPUT:
                sources.append(("stdin", _standard_input()))
            elif path.is_dir() and not _is_corpus(path):
                named = sorted(p for p in path.rglob("*") if p.suffix.lower() in AUDIO_SUFFIXES and not p.is_dir())
                files = [file for file in named if file.is_file()]
                lost = [file for file in named if not file.is_file()]
                problems += [f"{file}: is no file, or a link to none; expected an audio file" for file in lost]
                sources += [(str(file.relative_to(path).with_suffix("")), file) for file in files]
                problems += [] if named else [f"{path}: no audio in this folder"]
            elif path.suffix.lower() in LIST_SUFFIXES and path.is_file() and not _is_table(text := text_of(path)):
                listed = [_listed(line.strip(), root, path.parent) for line in text.split("\n") if line.strip()]
                sources += [(file.stem, file) for file in listed]
                problems += [] if listed else [f"{path}: is empty; expected a list of recordings"]
            elif path.is_dir() or _is_list(path):
                manifest = read_manifest(path, root=root, on_error="skip", with_text=False)
                short = [u for u in manifest.utterances if u.seconds <= max_seconds]
                sources += [(u.id, u) for u in short]
                problems += manifest.skipped
                left_out = f"{path}: all its {len(manifest.utterances)} utterances are longer than {max_seconds:g} s"
                problems += [] if short else [left_out]
            else:
                sources.append((path.stem, found_file(path) or path))
        except (ManifestError, AudioError) as error:
            problems.append(str(error))
    return FoundRecordings(list(_named(sources)), problems)


def _is_list(path: Path) -> bool:
    """Whether it is a list of recordings, or a data set of them; a recording in a store is neither."""
    suffix = path.suffix.lower().partition("?")[0]
    return suffix in (*MANIFEST_SUFFIXES, *LIST_SUFFIXES) or (suffix not in AUDIO_SUFFIXES and is_index(path))


def _standard_input() -> Held:
    if sys.stdin is None:
        raise AudioError("standard input: it is closed; expected audio")
    return Held.of(sys.stdin.buffer, "standard input")


def _listed(line: str, root: Path | None, folder: Path) -> Path:
    """The recording that a line of a list names, maybe in quotes."""
    names = [line, line[1:-1]] if len(line) > 2 and line[0] == line[-1] and line[0] in "\"'" else [line]
    places = [(base / name) for name in names for base in ([root] if root is not None else [folder, Path()])]
    return next((found for place in places if (found := found_file(place)) is not None), places[0])


def _is_corpus(folder: Path) -> bool:
    named = any((folder / name).is_file() for name in ("metadata.csv", "wav.scp"))
    return named or is_index(folder) or next(folder.rglob("*.trans.txt"), None) is not None


def _is_table(text: str) -> bool:
    """Whether it is a manifest: `path|text` in every line, tabs in place of pipes, or names of columns in the first."""
    return "|" in text or "\t" in text.strip() or header_of(text.partition("\n")[0]) is not None


def _named(sources: Sequence[tuple[str, Path | Utterance | Held]]) -> Iterator[InputRecording]:
    """Items whose names are different and stay inside the folder that they are joined to."""
    seen: dict[str, int] = {}
    for name, source in sources:
        name = "/".join(re.sub(r"[^\w .@-]", "_", part) for part in name.split("/") if part.strip("."))
        unique = name
        while unique in seen:
            seen[name] += 1
            unique = f"{name}-{seen[name]}"
        seen[unique] = 1
        yield InputRecording(source, unique, source.text if isinstance(source, Utterance) and source.has_text else None)
