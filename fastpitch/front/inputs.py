"""What a command is asked to say: texts themselves, phrase files, documents and standard input, as phrases in order."""

import re
import sys
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from common.files.atomic import is_file
from fastpitch.front import markdown, phrases
from fastpitch.front.phrases import Phrase, PhraseError

PHRASE_SUFFIXES = (".txt", ".tsv")
MARKDOWN_SUFFIXES = (".md", ".markdown")
STDIN = "-"

# What is no text in one word but the name of a file, although there is none.
_LIKE_A_FILE = re.compile(
    r"[^\s<>]+\.(?:txt|tsv|ssml|xml|md|markdown|rst|text|html?|csv|json|srt|vtt|log|pdf|docx?|odt|rtf|epub|npy|pt|wav|flac)",
    re.IGNORECASE,
)
_NOT_TEXT = re.compile(r"\.(?:pdf|docx?|odt|rtf|epub|npy|pt|wav|flac|mp3|ogg|zip|png|jpe?g)", re.IGNORECASE)


class InputPhrase(NamedTuple):
    """A phrase, and how messages name it."""

    phrase: Phrase
    where: str


class FoundPhrases(NamedTuple):
    """The phrases of all inputs, and a message for every line that is none."""

    items: list[InputPhrase]
    problems: list[str]


def find_phrases(inputs: Sequence[str]) -> FoundPhrases:
    """The phrases of phrase files, and texts, documents and standard input as phrases of their own, in order.

    Phrases of several files that would have one name get that of their file too. Raises PhraseError for a file that is
    missing or not text, and for a phrase file with a wrong header.
    """
    items: list[InputPhrase] = []
    problems: list[str] = []
    lists = sum(is_phrase_file(text) for text in inputs)
    taken: set[str] = set()
    for text in inputs:
        if is_phrase_file(text):
            found = phrases.read_phrases(text)
            problems += found.problems
            own = [InputPhrase(phrase, f"{text}:{phrase.line}") for phrase in found.phrases]
            if lists > 1:
                own = [_named_after(item, Path(text).stem) for item in own]
        else:
            own = [_document(text, len(items))]
        for item in own:
            path = Path(item.phrase.output)
            numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
            name = next(name for name in map(str, chain([path], numbered)) if name not in taken)
            taken.add(name)
            items.append(item._replace(phrase=item.phrase._replace(output=name)))
    return FoundPhrases(items, problems)


def written_anew(folder: Path, items: Sequence[InputPhrase]) -> str:
    """What to tell of the sound files of an earlier run that these phrases take the place of; empty where none do."""
    there = [place for item in items if is_file(place := folder / item.phrase.output)]
    others = f" and {len(there) - 1} more" if len(there) > 1 else ""
    return f"{there[0]}{others}: written anew, in place of what an earlier run said" if there else ""


def is_phrase_file(text: str) -> bool:
    """Whether an argument names a file of a phrase a line; "Readme.txt is here" does not."""
    return Path(text).suffix in PHRASE_SUFFIXES and (bool(_LIKE_A_FILE.fullmatch(text)) or is_file(Path(text)))


def _document(text: str, place: int) -> InputPhrase:
    """A text, or what a document or standard input holds, said as one phrase."""
    where, name = f"text {place + 1}", f"audio_{place}.wav"
    if text == STDIN:
        where, text = "standard input", phrases.decoded(sys.stdin.buffer.read(), "standard input")
    elif _LIKE_A_FILE.fullmatch(text) or (Path(text).suffix and is_file(Path(text))):
        where, name = text, f"{Path(text).stem}.wav"
        if _NOT_TEXT.fullmatch(Path(text).suffix):
            raise PhraseError(f"{text}: not a file of text; expected .txt, .tsv, .ssml or another file of text")
        is_markdown = Path(text).suffix.lower() in MARKDOWN_SUFFIXES
        text = phrases.decoded(phrases.read_bytes(Path(text)), text)
        text = markdown.plain(text) if is_markdown else text
    return InputPhrase(Phrase(place + 1, text, name), where)


def _named_after(item: InputPhrase, stem: str) -> InputPhrase:
    """audio_3.wav of a list becomes that of the list; names that were chosen stay."""
    output = re.sub(r"\Aaudio_(?=\d+\.wav\Z)", f"{stem}_", item.phrase.output)
    return item._replace(phrase=item.phrase._replace(output=output))
