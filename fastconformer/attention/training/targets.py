"""What an attention decoder learns of a batch: the texts of its recordings, each after the prompt that asks for it.

A manifest may have several texts of a recording, as a transcript and translations. They share a row of the batch.

Shapes: B recordings, R texts, L tokens, U labels of CTC.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from common.data.manifest import ManifestError, Utterance, Utterances
from fastconformer.attention.pieces import PromptedPieces, is_language, language_code
from fastconformer.attention.prompt import PromptFormat, Wanted, direction

Tokens = tuple[list[int], list[int]]
"""Those of a prompt, and those of the text after it with its end."""

ASKED = 1024  # kinds of entries whose prompts are kept: of a million utterances few differ in what they want


class Texts(NamedTuple):
    """The texts of some recordings, and the labels of those that are transcripts, for CTC."""

    tokens_RL: Tensor
    lengths_R: Tensor
    """Tokens of prompt, text and end."""
    prompt_lengths_R: Tensor
    rows_R: Tensor
    """The recording of each text."""
    labels_BU: Tensor
    label_lengths_B: Tensor
    has_labels_B: Tensor
    """Whether there is a transcript."""

    def counted(self, weights_B: Tensor, *, learns_prompt: bool = False) -> tuple[float, float]:
        """How many tokens and labels count, of recordings whose weight is not 0."""
        spoken_B = weights_B > 0
        own_R = self.lengths_R - (1 if learns_prompt else self.prompt_lengths_R)
        labels_B = self.label_lengths_B * (spoken_B & self.has_labels_B)
        return float((own_R * spoken_B[self.rows_R]).sum()), float(labels_B.sum())

    def to(self, device: torch.device) -> "Texts":
        """These on a device."""
        return Texts(*(part.to(device, non_blocking=True) for part in self))


class Targets:
    """The texts of recordings. Which utterance is of which recording is found once.

    Raises ValueError for what cannot be asked for or written, and names the utterance; with a `skipped`, it is noted
    there by its number, and is no target.
    """

    def __init__(
        self,
        utterances: Sequence[Utterance],
        pieces: PromptedPieces,
        prompt: PromptFormat,
        *,
        positions: int,
        skipped: dict[int, str] | None = None,
    ) -> None:
        self.utterances, self.pieces, self.prompt, self.positions = utterances, pieces, prompt, positions
        self._asked = functools.lru_cache(ASKED)(self._ask)
        recordings: dict[Any, list[int]] = {}
        tokens = np.zeros(len(utterances), np.int32)
        learned = set()
        for number, utterance in enumerate(utterances):
            try:
                wanted, before = self._asked(utterance.wanted)
                tokens[number] = len(before) + len(self._spelled(wanted, before, utterance.text))
                learned.add(direction(wanted.source_language or "", wanted.target_language or ""))
            except ValueError as error:
                if skipped is None:
                    raise ValueError(f"utterance {utterance.id}: {error}") from None
                skipped[number] = f"utterance {utterance.id}: {error}"
                continue
            own = recordings.setdefault((str(utterance.audio), utterance.offset_seconds), [])
            own.insert(len(own) if wanted.is_translation else 0, number)  # the transcript comes first
        self.directions = learned
        """What is written of what is spoken (`AttentionConfig.directions`)."""
        self._others = {own[0]: own for own in recordings.values()}
        self.first = np.array(sorted(self._others), np.int64)
        """Numbers of the utterances that stand for the recordings."""
        self.tokens = np.array([sum(tokens[i] for i in self._others[first]) for first in self.first.tolist()])
        """How many tokens the texts of each recording have together."""

    def __call__(self, heard: Sequence[Sequence[int]], numbers: Sequence[int]) -> Texts:
        """The texts of a batch: of each row the numbers of the utterances that are heard in it, and that of the row.

        Where nothing is heard the text is empty.
        """
        found: list[tuple[int, Tokens]] = []
        labels: list[list[int] | None] = []
        for row, (parts, number) in enumerate(zip(heard, numbers, strict=True)):
            tasks = [self._tasks(part) for part in parts or (number,)]
            labels.append(None)
            for wanted in tasks[0]:
                if all(wanted in others for others in tasks):
                    text = " ".join(filter(None, (others[wanted] for others in tasks))) if parts else ""
                    prompt = self.prompt(wanted)
                    spelled = self._spelled(wanted, prompt, text)
                    found.append((row, (prompt, spelled)))
                    if not wanted.is_translation and labels[row] is None:
                        labels[row] = spelled[:-1]
        lengths = [len(prompt) + len(text) for _, (prompt, text) in found]
        tokens_RL = torch.full((len(found), max(lengths, default=0)), self.pieces.pad)
        for tokens_L, (_, tokens) in zip(tokens_RL, found, strict=True):
            tokens_L[: len(tokens[0]) + len(tokens[1])] = torch.tensor(tokens[0] + tokens[1])
        labels_BU = torch.zeros(len(labels), max(len(own or ()) for own in labels), dtype=torch.int64)
        for labels_U, own in zip(labels_BU, labels, strict=True):
            labels_U[: len(own or ())] = torch.tensor(own or [], dtype=torch.int64)
        return Texts(
            tokens_RL,
            torch.tensor(lengths, dtype=torch.int64),  # of none, too
            torch.tensor([len(prompt) for _, (prompt, _) in found], dtype=torch.int64),
            torch.tensor([row for row, _ in found], dtype=torch.int64),
            labels_BU,
            torch.tensor([len(own or ()) for own in labels]),
            torch.tensor([own is not None for own in labels]),
        )

    def _tasks(self, number: int) -> dict[Wanted, str]:
        """What is wanted of a recording, with the texts."""
        own = (self.utterances[i] for i in self._others[number])
        return {self._asked(utterance.wanted)[0]: utterance.text for utterance in own}

    def _ask(self, entry: tuple[tuple[str, str], ...]) -> tuple[Wanted, list[int]]:
        """What an entry of a manifest wants, both languages named, and the prompt for it."""
        wanted = Wanted().with_entry(dict(entry))
        source, target = self.prompt.languages(wanted)
        wanted = replace(wanted, source_language=source, target_language=target)
        return wanted, self.prompt(wanted)

    def _spelled(self, wanted: Wanted, prompt: list[int], text: str) -> list[int]:
        """The tokens of a text, with its end."""
        tokens = [*self.pieces.encode(text, wanted.target_language or ""), self.pieces.end]
        if len(prompt) + len(tokens) > self.positions:
            told = f"{len(prompt) + len(tokens)} tokens of prompt and text"
            raise ValueError(f"{told}: expected {self.positions} at most, as model.attention.positions says")
        return tokens


def askable(
    utterances: Utterances, ask: Callable[[Wanted], object], wanted: Wanted | None = None
) -> tuple[Utterances, list[str]]:
    """The utterances that can be asked for, and why others cannot.

    `ask` makes prompts; `wanted` is what an utterance does not say itself.
    """
    kept, messages = np.ones(len(utterances), bool), []
    for number, utterance in enumerate(utterances):
        try:
            ask((wanted or Wanted()).with_entry(dict(utterance.wanted)))
        except ValueError as error:
            kept[number] = False
            messages.append(f"utterance {utterance.id}: {error}")
    return (utterances[kept] if messages else utterances), messages


def languages_of(utterances: Sequence[Utterance], default: str = "", *, skips: bool = False) -> dict[str, list[str]]:
    """The texts in each language that is written, and languages that are only heard, without texts; sorted by code.

    `default`: the language of utterances that name none. Raises ManifestError for those whose language is no code, or
    is not known, and names the utterance; with `skips` they are left out.
    """
    found: dict[str, list[str]] = {}
    for utterance in utterances:
        try:
            wanted = Wanted().with_entry(dict(utterance.wanted))
            source = wanted.source_language or language_code(default)
            target = wanted.target_language or source
            if not source:
                raise ValueError("no source_lang; add it to each, or set model.attention.language")
            for key, code in (("source_lang", source), ("target_lang", target)):
                if not is_language(code):
                    raise ValueError(f"{key} = {code!r}: expected the code of a language, such as en or de")
        except ValueError as error:
            if skips:
                continue
            raise ManifestError(f"utterance {utterance.id}: {error}") from None
        found.setdefault(source, [])
        found.setdefault(target, []).append(utterance.text)
    return {language: found[language] for language in sorted(found)}
