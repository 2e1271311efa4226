"""Scores of an attention decoder by what it was asked for: transcripts, or translations."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from common.config import ConfigError
from common.data.manifest import Utterance
from common.recognition.metrics import character_errors, word_errors
from common.recognition.scoring import Evaluation
from fastconformer.attention.prompt import Wanted
from fastconformer.attention.search import BAD

MISSING = "scores of translations need the package sacrebleu: pip install sacrebleu"


class Task(NamedTuple):
    """What was spoken and what was to be written, by their languages' codes."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}" if self.target != self.source else self.source or "speech"


class Translated(NamedTuple):
    """Corpus scores of sacrebleu, 0 to 100, of texts as they are."""

    bleu: float
    chrf: float


def task_of(utterance: Utterance, languages: Callable[[Wanted], tuple[str, str]], wanted: Wanted | None = None) -> Task:
    """That of an utterance; `wanted` where it does not say itself, and what `PromptFormat.languages` makes of it."""
    return Task(*languages((wanted or Wanted()).with_entry(dict(utterance.wanted))))


def by_task(result: Evaluation, tasks: Sequence[Task]) -> Iterator[tuple[Task, Evaluation]]:
    """The part of each task, in the order of their names; `tasks` has that of every utterance of the result."""
    for task in sorted(set(tasks)):
        yield task, of_places(result, [one == task for one in tasks])


def of_places(
    result: Evaluation, belongs: Sequence[bool], spelling: Callable[[str, int], str] = lambda text, _: text
) -> Evaluation:
    """The utterances that belong, with their errors, of texts as `spelling` writes them, told the place of each."""
    places = [place for place, is_one in enumerate(belongs) if is_one]
    references = [spelling(result.references[place], place) for place in places]
    hypotheses = [spelling(result.hypotheses[place], place) for place in places]
    return result._replace(
        words=word_errors(references, hypotheses),
        characters=character_errors(references, hypotheses),
        **{
            name: [getattr(result, name)[place] for place in places]
            for name in ("ids", "references", "hypotheses", "rows", "flags")
        },
        losses=(),
        corpora={},
    )


def can_translate() -> bool:
    """Whether there is what translations are scored by."""
    return importlib.util.find_spec("sacrebleu") is not None


def translated(result: Evaluation) -> Translated:
    """BLEU and chrF. Raises ConfigError without sacrebleu."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise ConfigError(MISSING) from None
    texts = list(result.hypotheses), [list(result.references)]
    return Translated(BLEU().corpus_score(*texts).score, CHRF().corpus_score(*texts).score)


def loops(result: Evaluation) -> int:
    """Texts that repeated themselves, or did not end, before they were decoded again."""
    return sum(not BAD.isdisjoint(flags) for flags in result.flags)


def in_wrong_language(result: Evaluation, tasks: Sequence[Task]) -> int | None:
    """Texts most of whose telling words are those of another language; None where all are to be in one.

    A word tells a language that is in references of this language alone.
    """
    known: dict[str, set[str]] = {}
    for task, reference in zip(tasks, result.references, strict=True):
        known.setdefault(task.target, set()).update(reference.lower().split())
    if len(known) < 2:
        return None
    counts: dict[str, int] = {}
    for words in known.values():
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    wrong = 0
    for task, hypothesis in zip(tasks, result.hypotheses, strict=True):
        telling = [word for word in hypothesis.lower().split() if counts.get(word) == 1]
        own = sum(word in known[task.target] for word in telling)
        wrong += own < len(telling) - own
    return wrong
