"""How a request is to be searched: keywords, what is unusual in a prompt, a beam, a language model."""

import re
import statistics

from trt.serving.admission.limits import RequestError
from trt.serving.models import Favoured

MOST_WORDS, LONGEST_WORD = 64, 100  # words or phrases, and characters of each
LONGEST_PROMPT = 1 << 16  # characters, which take milliseconds of the event loop
WIDEST_BEAM = 100
LISTED_WORDS, PHRASE_WORDS = 2, 3  # between commas: in a list, in the middle of all, and of a phrase in one, at most


def favoured_in(keywords: tuple[str, ...], prompt: str, beam: str = "", language_model: str = "") -> Favoured:
    """What is favoured by these fields of a request. Raises RequestError."""
    if len(keywords) > MOST_WORDS or max(map(len, keywords), default=0) > LONGEST_WORD:
        message = f"keywords: expected at most {MOST_WORDS}, of at most {LONGEST_WORD} characters"
        raise RequestError(400, message, param="keywords", code="invalid_value")
    if len(prompt) > LONGEST_PROMPT:
        message = f"a prompt of {len(prompt)} characters; expected at most {LONGEST_PROMPT}"
        raise RequestError(400, message, param="prompt", code="invalid_value")
    if beam and not (beam.isdecimal() and len(beam) < 4 and 0 < int(beam) <= WIDEST_BEAM):
        message = f"beam {beam[:40]!r}: expected a number of label sequences from 1 to {WIDEST_BEAM}"
        raise RequestError(400, message, param="beam", code="invalid_value")
    return Favoured(keywords, words_of(prompt), int(beam or 0), language_model)


def words_of(prompt: str) -> tuple[str, ...]:
    """The phrases of a prompt that lists some, between commas, and the names in its sentences: words with a capital
    letter or a digit that do not begin one."""
    found: dict[str, None] = {}
    for sentence in re.split(r"\n|(?<=\w{4})[.!?](?:\s|$)", prompt):
        parts = [[word.strip("\"'()[].!?") for word in part.split()] for part in re.split("[,;:]", sentence)]
        counts = [len(words) for words in parts if words]
        if counts and statistics.median(counts) <= LISTED_WORDS:
            found |= {" ".join(words): None for words in parts if len(words) <= PHRASE_WORDS}
        else:
            words = [word for part in parts for word in part][1:]
            found |= {word: None for word in words if re.search(r"[A-Z0-9]", word) and word != "I"}
    return tuple(word for word in found if word and len(word) <= LONGEST_WORD)[:MOST_WORDS]
