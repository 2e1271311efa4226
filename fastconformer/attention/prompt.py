"""Prompts: the tokens in front of a text that say what is to be written. Needs no torch.

Formats: `canary` (Canary-1B), `canary2` (Canary-flash, Canary-1B-v2), and `cohere`: canary2 after a space.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from common.text.pieces import SPACE
from fastconformer.attention.config import Prompts
from fastconformer.attention.pieces import END, NO_SPEECH, PromptedPieces, language_code

START, CONTEXT, EMOTION = "<|startoftranscript|>", "<|startofcontext|>", "<|emo:undefined|>"
TIMESTAMP, DIARIZE = "<|timestamp|>", "<|diarize|>"
_YES = ("yes", "y", "true", "t", "1", "on")
_TASKS = ("asr", "transcribe", "ast", "translate", "s2t_translation")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be written of a recording. Codes of languages lose their region: "en-US" is "en"."""

    source_language: str | None = None
    """Code of the language that is spoken; None where a model knows only one."""
    target_language: str | None = None
    """Code of the language that is written; None for the one that is spoken."""
    punctuation: bool = True
    """Whether there are capitals and punctuation, by models whose pieces have any."""
    timestamps: bool = False
    """Whether the frames of words are written, by models that learned it."""
    itn: bool = False
    """Whether numbers are written in digits, by models that learned it."""
    diarize: bool = False
    """Whether changes of the speaker are written, by models that learned it."""
    context: str = ""
    """Text before this one."""

    def __post_init__(self) -> None:
        for name in ("source_language", "target_language"):
            if (own := getattr(self, name)) is not None:
                object.__setattr__(self, name, language_code(own) or None)

    @property
    def is_translation(self) -> bool:
        """Whether another language is written than the one that is spoken."""
        return self.target_language is not None and self.target_language != self.source_language

    def with_entry(self, entry: Mapping[str, Any]) -> "Wanted":
        """What an entry of a manifest wants, by NeMo's keys; else as here. Raises ValueError for an unknown task."""
        switches = {"punctuation": "pnc", "timestamps": "timestamp", "itn": "itn", "diarize": "diarize"}
        texts = {"source_language": "source_lang", "target_language": "target_lang", "context": "decodercontext"}
        named: dict[str, Any] = {name: entry.get(key) for name, key in texts.items()}
        for name, key in switches.items():
            if entry.get(key) is not None:
                named[name] = str(entry[key]).strip("<|>").lower() in (*_YES, key)
        task = entry.get("taskname", entry.get("task"))
        if task is not None and task not in _TASKS:
            raise ValueError(f"taskname = {task!r}: expected one of {', '.join(_TASKS)}")
        return replace(self, **{name: value for name, value in named.items() if value is not None})


class PromptFormat:
    """Makes prompts of a format with the special tokens of a model. Raises ValueError for what it cannot ask for."""

    def __init__(
        self, kind: Prompts, pieces: PromptedPieces, default: str = "", directions: Sequence[str] = ()
    ) -> None:
        """`default`: the language that is spoken where nothing is said; `directions`: as `AttentionConfig`'s."""
        self.kind, self.pieces, self.default, self.directions = kind, pieces, default, directions
        self._has_punctuation = pieces.are_cased  # what cannot be written is not asked for: no text followed its token

    def __call__(self, wanted: Wanted) -> list[int]:
        """The tokens of a prompt. Raises ValueError for an unknown language, and for what the format has no place for.

        A model of one language needs no name of it.
        """
        source, target = self.languages(wanted)
        if self.kind == "cohere" and target != source:
            raise ValueError(f"target_language = {target!r}: this model transcribes only; expected {source!r}")
        punctuation = wanted.punctuation and self._has_punctuation
        if self.kind == "canary":
            asked = {"timestamps": wanted.timestamps, "itn": wanted.itn, "diarize": wanted.diarize}
            asked["context"] = bool(wanted.context)
            if extra := [name for name, is_asked in asked.items() if is_asked]:
                raise ValueError(f"{', '.join(extra)}: the prompts of this model have no place for it")
            task = "<|transcribe|>" if source == target else "<|translate|>"
            return self._numbers(START, _of(source), task, _of(target), self._switch(punctuation, "pnc"))
        switches = [
            self._switch(is_on, name)
            for is_on, name in (
                (punctuation, "pnc"),
                (wanted.itn, "itn"),
                (wanted.timestamps, "timestamp"),
                (wanted.diarize, "diarize"),
            )
        ]
        context = self.pieces.encode(wanted.context, target) if wanted.context else []
        before = [*self._before(), *context]
        return [*before, *self._numbers(START, EMOTION, _of(source), _of(target), *switches)]

    def languages(self, wanted: Wanted) -> tuple[str, str]:
        """The codes of the languages that are spoken and written. Raises ValueError for what is not known."""
        source = self.language(wanted.source_language or self.default or None, "source_language")
        target = self.language(wanted.target_language or source, "target_language")
        if self.directions and direction(source, target) not in self.directions:
            asked = f"target_language = {target!r} of {source!r}" if source != target else f"transcripts of {source!r}"
            raise ValueError(f"{asked}: this model has learned {', '.join(self.directions)} alone")
        return source, target

    def spoken(self) -> tuple[str, ...]:
        """Codes of the languages that a model has learned to hear, or of all where nobody knows what it has learned."""
        known = self.pieces.languages
        learned = (one for one in known if any(direction(one, to) in self.directions for to in known))
        return tuple(learned) or known

    def is_translation(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt names two languages."""
        named = {self.pieces.labels[token] for token in prompt if token in self.pieces.control}
        return len(named.intersection(map(_of, self.pieces.languages))) > 1

    def to_identify(self) -> list[int]:
        """The tokens after which a model says which language it hears."""
        if self.kind == "canary":
            return self._numbers(START)
        return [*self._before(), *self._numbers(START, EMOTION)]

    def language(self, code: str | None, name: str = "language") -> str:
        """The code of a language as the model has it, of one with a region too. Raises ValueError that lists them."""
        known = self.pieces.languages
        if code is None and len(known) == 1:
            return known[0]
        base = language_code(code or "")
        if base in known:
            return base
        near = difflib.get_close_matches(base, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near and code else ""
        raise ValueError(f"{name} = {code!r}: expected one of {', '.join(known)}{meant}")

    def _before(self) -> list[int]:
        space = [self.pieces.labels.index(SPACE)] if self.kind == "cohere" else []
        return [*space, self.pieces.special(CONTEXT)]

    def _switch(self, is_on: bool, name: str) -> str:
        return f"<|{name}|>" if is_on else f"<|no{name}|>"

    def _numbers(self, *labels: str) -> list[int]:
        return [self.pieces.special(label) for label in labels]


def direction(source: str, target: str) -> str:
    """What is written of what is spoken, by the codes of their languages."""
    return f"{source}-{target}"


def _of(language: str) -> str:
    return f"<|{language}|>"


def allowed(pieces: PromptedPieces, prompt: Sequence[int], classes: int) -> list[bool]:
    """Which of a network's classes may follow a prompt: pieces, the end, and special tokens that it asks for.

    After a prompt that names no language, as one to identify it, all special tokens may follow.
    """
    asked = {pieces.labels[token] for token in prompt if 0 <= token < len(pieces.labels)}
    is_partial = asked.isdisjoint(map(_of, pieces.languages))
    may = [i not in pieces.control for i in range(len(pieces.labels))]
    for i in pieces.control:
        label = pieces.labels[i]
        may[i] = (
            label in (END, NO_SPEECH)
            or (TIMESTAMP in asked and i in pieces.frames)
            or (DIARIZE in asked and label.startswith("<|spk"))
            or (is_partial and i != pieces.pad and label != SPACE)
        )
    return may + [False] * (classes - len(may))
