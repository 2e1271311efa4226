"""Estimates n-gram models of a model's pieces from text: `python -m fastconformer.ngram MODEL text… -o pieces.arpa`.

The texts have a sentence per line, and are cut into pieces as the training texts of the model were.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

import ctc
from common import config
from common.config import ConfigError
from common.recognition.output import writing
from common.runs.checkpoint import CheckpointError
from common.text.pieces import Pieces
from common.text.vocabulary import VocabularyError
from ctc.language_models.packings import lines_of
from ctc.ngram import estimate, on_disk, output_of
from fastconformer.checkpoints.reading import read_model


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """Whose pieces are counted in which texts."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """A .nemo archive, a folder of transformers, or a checkpoint of this repository."""
    texts: Annotated[tuple[Path, ...], Positional, arg(metavar="TEXT")]
    """Text files, one sentence per line, in capitals and with punctuation as the model writes them; - for standard
    input."""
    output: Annotated[Path, arg(aliases=("-o",))]
    """ARPA file to write; .gz, .bz2 and .xz compress it; - for standard output."""
    order: int = 4
    """Pieces of the longest n-grams."""
    prune: tuple[int, ...] = ()
    """Per order, n-grams that were seen so often at most are left out."""


def main(cfg: NgramConfig) -> int:
    """Writes the model; returns the exit status. Raises CheckpointError, ConfigError and OSError."""
    output = output_of(cfg.output)
    writing.check_file(output, [cfg.model, *cfg.texts])
    _, imported = read_model(cfg.model, ema=None)
    try:
        with on_disk(cfg.texts) as texts:
            model = estimate(sentences(texts, imported.pieces, names=cfg.texts), order=cfg.order, prune=cfg.prune)
        ctc.write_arpa(output, model)
    except ValueError as error:
        raise ConfigError(f"ngram: {error}") from None
    sizes = ", ".join(f"{len(level.words)} {order}-grams" for order, level in enumerate(model.levels, 1))
    writing.tell(f"{output}: {sizes}")
    return 0


def sentences(texts: Sequence[Path], pieces: Pieces, *, names: Sequence[Path]) -> Iterator[list[str]]:
    """The pieces of every line that is not empty. Raises VocabularyError, which says in which text and line."""
    for path, name in zip(texts, names, strict=True):
        for number, line in enumerate(lines_of(path), 1):
            if words := " ".join(line.split()):
                try:
                    yield [pieces.labels[index] for index in pieces.encode(words)]
                except VocabularyError as error:
                    raise VocabularyError(f"{name}:{number}: {error}") from None


if __name__ == "__main__":
    config.run(main, NgramConfig, __doc__, CheckpointError, OSError)
