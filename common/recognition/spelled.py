"""What a recogniser learns from: lists of utterances, with their texts as it writes them, and their sound."""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import text
from common.data.lists.index import Builder
from common.data.lists.keeping import kept
from common.data.loading import SpeechDataset
from common.data.manifest import Utterance, Utterances, read_sources
from common.features import LogMelConfig
from common.text.language import Spelling
from common.training.settings import RecognitionSettings


def spelled(utterances: Utterances, spelling: Callable[[str], str]) -> Utterances:
    """The utterances, texts as `spelling` writes them: a new list, kept beside a long one for the next time."""
    if not len(utterances):
        return utterances
    files = [part.source for part in utterances.parts if isinstance(part.source, Path)]
    unknown: Counter[str] = Counter()
    known = spelling if isinstance(spelling, Spelling) else None

    def fill(builder: Builder) -> dict[str, Any]:
        before, texts = (known.unknown.copy(), known.texts) if known else (Counter(), 0)
        sizes = utterances.column(lambda part: part.marks[:, 3])
        for utterance, mark in zip(utterances, sizes, strict=True):
            builder.add(replace(utterance, text=spelling(utterance.text)), mark=int(mark))
        if known is None:
            return {}
        found, count = known.unknown - before, known.texts - texts
        known.unknown, known.texts = before, texts
        return {"unknown": found, "texts": count}

    options = (
        repr(
            (known.labels, known.language, known.unknown_letters, known.normalizes) if known else spelling.__qualname__
        ),
        hashlib.blake2b(utterances.rows.tobytes() if files else b"").hexdigest(),
        _rules() if files else "",
    )
    place = files[0] if len(files) == len(utterances.parts) else Path()
    index = kept(place, files if place.name else [], options, fill)
    if known:
        unknown.update(index.about["unknown"])
        known.unknown.update(unknown)
        known.texts += index.about["texts"]
    found = Utterances([index])
    found.corpora = utterances.corpora
    return found


def read_utterances(
    sources: Iterable[str], data: RecognitionSettings, spelling: Callable[[str], str], *, training: bool
) -> tuple[Utterances, list[str]]:
    """The utterances of all `sources`, texts as `spelling` writes them, and one message for everything left out.

    Durations and speakers are selected in training only: an evaluation counts every utterance. Raises ManifestError.
    """
    utterances, messages = read_sources(
        sources, root=data.root, on_error=data.on_error, training=training,
        speakers=data.speakers, min_seconds=data.min_seconds, max_seconds=data.max_seconds,
    )  # fmt: skip
    return spelled(utterances, spelling), messages


def dataset_of(
    utterances: Sequence[Utterance],
    data: RecognitionSettings,
    features: LogMelConfig,
    encode: Callable[[str], list[int]] | None,
    *,
    seed: int,
    training: bool,
    trim: bool = False,
) -> SpeechDataset:
    """Audio of `utterances`, and targets where they are to `encode`; perturbed and joined in training only."""
    varied: dict[str, Any] = {name: getattr(data, name) for name in ("speed", "perturbation", "silence", "join")}
    return SpeechDataset(
        utterances, encode=encode, sample_rate=features.sample_rate, trim=trim, keep=features.keeper(),
        seed=seed, on_error=data.on_error, **(varied if training else {}),
    )  # fmt: skip


@functools.cache
def _rules() -> str:
    """A digest of the code that writes texts: after a change of it they may be others."""
    sources = sorted(path for folder in text.__path__ for path in Path(folder).rglob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sources)).hexdigest()
