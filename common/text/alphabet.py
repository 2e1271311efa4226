"""The letters of any data as a dictionary of labels: `python -m common.text.alphabet MANIFEST… --output dict.ltr.txt`.

Takes manifests and corpora of every format that a training reads, and Fairseq's .ltr. `python -m wav2vec2.finetune` and
`python -m jasper.train` read the dictionary with --data.dictionary. Letters that occur in a few texts alone are often
mistakes: look at the list that is printed, and leave them out with --minimum.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.data.lists.entries import text_of
from common.data.manifest import ManifestError, read_manifest
from common.text.dictionary import WORD_END, write_symbols
from common.text.language import Language, Spelling


@dataclass(frozen=True, kw_only=True)
class AlphabetConfig:
    """Texts whose letters are listed, and the dictionary that is made of them."""

    sources: Annotated[tuple[Path, ...], Positional, arg(metavar="MANIFEST")]
    """Manifests, corpus folders or Fairseq's .ltr files."""
    output: Path = Path("dict.ltr.txt")
    """Dictionary to write. An existing one with other symbols is replaced only with --overwrite."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    language: Language = "none"
    """Language of the texts. none: every letter and digit; english, mandarin: numbers in words."""
    case: Literal["lower", "upper"] = "lower"
    """Case of the letters."""
    minimum: int = 1
    """Least number of times that a letter occurs; rarer ones are left out."""
    overwrite: bool = False
    """Whether a dictionary with other symbols is replaced."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("no texts: name manifests, corpus folders or .ltr files")


def main(cfg: AlphabetConfig) -> None:
    """Writes the dictionary and prints its symbols. Raises ConfigError and ManifestError."""
    spelling = Spelling(None, language=cfg.language, unknown_letters="drop")
    texts, problems = texts_of(cfg.sources, root=cfg.root)
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    counts = letters_of((spelling(text) for text in texts), case=cfg.case)
    kept = {letter: count for letter, count in counts.items() if count >= cfg.minimum}
    if not kept:
        raise ConfigError(f"{', '.join(map(str, cfg.sources))}: not one letter in {len(texts)} texts")
    write_symbols(cfg.output, kept, overwrite=cfg.overwrite)
    shown = ", ".join(f"{letter} {count:,}" for letter, count in Counter(kept).most_common())
    print(f"{cfg.output}: {len(kept)} symbols of {len(texts):,} texts: {shown}")
    for what, left_out in (
        ("rarer letters", {letter: count for letter, count in counts.items() if letter not in kept}),
        (f"letters that are not {spelling.language}", spelling.unknown),
    ):
        if left_out:
            told = ", ".join(f"{letter} {count:,}" for letter, count in Counter(left_out).most_common())
            print(f"left out: {what}: {told}", file=sys.stderr)


def letters_of(texts: Iterable[str], *, case: Literal["lower", "upper"] = "lower") -> Counter[str]:
    """How often each letter occurs, and WORD_END for every word."""
    counts: Counter[str] = Counter()
    for text in texts:
        for word in text.split():
            counts.update(letter.upper() if case == "upper" and len(letter.upper()) == 1 else letter for letter in word)
            counts[WORD_END] += 1
    return counts


def texts_of(sources: Iterable[Path], *, root: Path | None = None) -> tuple[list[str], list[str]]:
    """The texts of all sources, and a message for every entry that cannot be read. Raises ManifestError."""
    texts, problems = list[str](), list[str]()
    for source in sources:
        if source.suffix == ".ltr":
            texts += [" ".join("".join(line.split()).split(WORD_END)) for line in _lines(source)]
        else:
            manifest = read_manifest(source, root=root, on_error="skip")
            texts += [utterance.text for utterance in manifest.utterances]
            problems += manifest.skipped
    return texts, problems


def _lines(path: Path) -> list[str]:
    return text_of(path).split("\n")


if __name__ == "__main__":
    with config.reported(ManifestError, OSError):
        main(config.parse_flags(AlphabetConfig, None, sys.argv[1:], description=__doc__ or ""))
