"""Fairseq's lists of a corpus, NAME.tsv and NAME.ltr, and dict.ltr.txt: `python -m wav2vec2.filelists CORPUS`.

Every folder directly below the corpus is a subset, and gets a .tsv of its recordings and, where all of them are in
LibriSpeech's *.trans.txt, a .ltr. Of LibriSpeech's training folders together comes train-full-960, and of Libri-light's
librispeech_finetuning come train-1h and train-10h. The dictionary has the letters of all .ltr of training. What cannot
be listed is left out and told, and makes the exit status other than 0.

    python -m wav2vec2.filelists --dictionary train.ltr other.ltr     # only a dictionary, of these

A dictionary with other symbols is never replaced unless --overwrite says so. `python -m common.text.alphabet` makes one
of any data.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import Positional, arg

from common import config
from common.audio.waveform import AudioError
from common.data.lists.entries import text_of
from common.data.manifest import ManifestError
from common.text.alphabet import letters_of, texts_of
from common.text.dictionary import WORD_END, write_symbols
from common.text.language import Spelling
from wav2vec2.corpus.sources import recordings_in

COMBINED: dict[str, tuple[str, ...]] = {"train-full-960": ("train-clean-100", "train-clean-360", "train-other-500")}
LIBRI_LIGHT: dict[str, tuple[str, ...]] = {"train-1h": ("1h",), "train-10h": ("1h", "9h")}  # folders of LIGHT
LIGHT = "librispeech_finetuning"
DICTIONARY = "dict.ltr.txt"
UNLISTABLE = re.compile(r"[\t\r\n\ud800-\udfff]")  # in a name: what ends an entry, and bytes that are no UTF-8


@dataclass(frozen=True, kw_only=True)
class FilelistsConfig:
    """Corpora and the lists made of them."""

    corpus: Annotated[Path | None, Positional, arg(metavar="CORPUS")] = None
    """Folder of the corpus."""
    output: Path | None = None
    """Folder for the lists; by default the corpus itself."""
    extension: tuple[str, ...] = ("flac", "wav")
    """File name extensions of recordings."""
    subsets: tuple[str, ...] = ()
    """Folders of the corpus that are listed; by default all that hold recordings."""
    dictionary: tuple[Path, ...] = ()
    """.ltr files, or manifests, from which only a dictionary is made."""
    overwrite: bool = False
    """Whether a dictionary with other symbols is replaced."""

    def __post_init__(self) -> None:
        if (self.corpus is None) == (not self.dictionary):
            raise ValueError("name either the folder of a corpus, or .ltr files with --dictionary")


class ListedRecording(NamedTuple):
    """An audio file, its length, and what is said in it, if that is known."""

    path: Path
    seconds: float
    sample_rate: int
    text: str | None


def main(cfg: FilelistsConfig) -> None:
    """Writes the lists and says what they hold. Raises ManifestError, and at the end if recordings were left out."""
    if cfg.corpus is None:
        write_dictionary(cfg.output or cfg.dictionary[0].parent, cfg.dictionary, overwrite=cfg.overwrite)
        return
    corpus, output = cfg.corpus.absolute(), (cfg.output or cfg.corpus).absolute()
    suffixes = tuple(f".{name.lower().lstrip('.')}" for name in cfg.extension)
    unusable: dict[Path, str] = {}
    found = find(corpus, suffixes, cfg.subsets, unusable)
    for message in unusable.values():
        print(f"left out: {message}")
    if any(found.values()):
        write_lists(found, corpus, output, overwrite=cfg.overwrite)
    elif not unusable:
        raise ManifestError(f"{corpus}: no {' or '.join(suffixes)} files in a folder of it")
    if unusable:
        raise ManifestError(f"{len(unusable)} recordings left out, the first: {next(iter(unusable.values()))}")


def find(
    corpus: Path, suffixes: tuple[str, ...], subsets: tuple[str, ...], unusable: dict[Path, str]
) -> dict[str, list[ListedRecording]]:
    """The recordings of `subsets`, by default of all, by the names of their lists. Raises ManifestError."""
    if not corpus.is_dir():
        raise ManifestError(f"{corpus}: no such folder")
    names = subsets or sorted(path.name for path in corpus.glob("*/") if not path.name.startswith("."))
    found = {name: read_folder(corpus / name, suffixes, unusable) for name in names if name != LIGHT}
    if empty := [name for name in subsets if not found[name]]:
        raise ManifestError(f"{corpus / empty[0]}: no {' or '.join(suffixes)} files in it that can be listed")
    for name, parts in COMBINED.items():
        if all(found.get(part) for part in parts):
            found[name] = [recording for part in parts for recording in found[part]]
    light = corpus / LIGHT
    for name, parts in LIBRI_LIGHT.items():
        if light.is_dir() and not subsets:
            found[name] = [recording for part in parts for recording in read_folder(light / part, suffixes, unusable)]
    return found


def read_folder(folder: Path, suffixes: tuple[str, ...], unusable: dict[Path, str]) -> list[ListedRecording]:
    """All recordings below `folder`, with the texts of the *.trans.txt beside them. Raises ManifestError.

    What cannot be listed goes into `unusable`, with the reason.
    """
    if not folder.is_dir():
        raise ManifestError(f"{folder}: no such folder")
    texts: dict[Path, str] = {}
    for path in sorted(folder.rglob("*.trans.txt")):
        parts = (line.strip().partition(" ") for line in text_of(path).split("\n"))
        texts |= {path.parent / id_: text.strip() for id_, _, text in parts if id_}
    recordings = []
    for path, header in recordings_in(folder, suffixes):
        if isinstance(header, AudioError):
            unusable[path] = str(header)
        elif UNLISTABLE.search(str(path)):
            unusable[path] = f"{str(path)!r}: no list can hold this name; rename it"
        else:
            recordings.append(
                ListedRecording(path, header.seconds, header.sample_rate, texts.get(path.with_suffix("")))
            )
    return recordings


def write_lists(
    found: Mapping[str, list[ListedRecording]], root: Path, output: Path, *, overwrite: bool = False
) -> None:
    """Writes all lists, and a dictionary of those of training; of others only where there is none yet."""
    output.mkdir(parents=True, exist_ok=True)
    written = [write_list(output / f"{name}.tsv", root, listed) for name, listed in found.items() if listed]
    letters = [path for path in written if path is not None]
    training = [path for path in letters if path.stem.startswith("train")]
    whole = [path for path in training if path.stem in COMBINED]  # which has the letters of its parts
    if training:
        write_dictionary(output, whole or training, overwrite=overwrite)
    elif letters and not (output / DICTIONARY).exists():
        write_dictionary(output, letters)


def write_list(path: Path, root: Path, recordings: list[ListedRecording]) -> Path | None:
    """Writes a .tsv and, if all texts are known, the .ltr beside it, whose path is returned.

    A list has one sample rate, that of its first recording: the samples of others are counted as if they had it.
    """
    rate = recordings[0].sample_rate
    rows = [f"{recording.path.relative_to(root)}\t{round(recording.seconds * rate)}" for recording in recordings]
    _write(path, [str(root), *rows])
    texts = [recording.text for recording in recordings if recording.text is not None]
    letters = path.with_suffix(".ltr")
    if len(texts) < len(recordings):
        letters.unlink(missing_ok=True)  # that of an earlier list would not fit
        first = next(recording.path for recording in recordings if recording.text is None)
        print(f"{path}: {len(rows)} recordings; texts of {len(texts)}, none of {first}, so no .ltr")
        return None
    _write(letters, [spelled(text) for text in texts])
    print(f"{path}: {len(rows)} recordings with texts")
    return letters


def spelled(text: str) -> str:
    """Letters with spaces in between and | after every word."""
    return " ".join(" ".join(word) + f" {WORD_END}" for word in text.split())


def write_dictionary(folder: Path, letters: Iterable[Path], *, overwrite: bool = False) -> None:
    """Writes the symbols of .ltr files, or the letters of manifests, the most frequent first.

    Raises ManifestError; ConfigError where a dictionary with others is not to be replaced.
    """
    counts: Counter[str] = Counter()
    for path in letters:
        if path.suffix == ".ltr":
            counts.update(text_of(path).split())
        else:
            counts += letters_of(map(Spelling(None, language="none"), texts_of([path])[0]))
    if not counts:
        raise ManifestError(f"{', '.join(map(str, letters))}: not one letter in it")
    write_symbols(folder / DICTIONARY, counts, overwrite=overwrite)
    print(f"{folder / DICTIONARY}: {len(counts)} symbols")


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    config.run(main, FilelistsConfig, __doc__, ManifestError, OSError)
