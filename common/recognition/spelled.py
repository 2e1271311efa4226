"""Lists of utterances with their texts as a recogniser writes them."""

import functools
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import text
from common.data.index import Builder
from common.data.keeping import kept
from common.data.manifest import Utterances
from common.text.language import Spelling


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


@functools.cache
def _rules() -> str:
    """A digest of the code that writes texts: after a change of it they may be others."""
    sources = sorted(path for folder in text.__path__ for path in Path(folder).rglob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sources)).hexdigest()
