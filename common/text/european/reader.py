"""European languages as they are spoken: the pass over a text with the grammar and the model of one of them."""

from collections.abc import Iterator
from functools import cache, partial

from common.text.engine.choose import Chooser, Row, read_weights
from common.text.engine.token import Following, Token, read
from common.text.european import scan
from common.text.european.language import TABLES, Language, language_of


@cache
def model(language: Language) -> Chooser:
    """The weights of all languages, with the classes of one."""
    return Chooser(_weights(), language.classes)


@cache
def _weights() -> dict[str, Row]:
    return read_weights(TABLES / "weights.tsv")


def european_tokens(text: str, name: str) -> list[Token]:
    """All of `text` in tokens, in its order, in the language that has a table by that name."""
    if not (language := language_of(name)):
        return [Token(text, "text", None)]
    return list(_spaced(text, read(text, following(text, language), partial(model, language))))


def following(text: str, language: Language) -> Following:
    """What may stand in `text`, from a place on."""
    return partial(scan.following, text, language, scan.electronic(text, language))


def _spaced(text: str, tokens: Iterator[Token]) -> Iterator[Token]:
    """The tokens with spaces between words and figures, and with the dot of a sentence that an abbreviation ends."""
    position, last = 0, ""
    for written, kind, said in tokens:
        position += len(written)
        if said:
            opens = " " if kind != "suffix" and (last.isalnum() or last in _AGAINST) and last else ""
            behind = text[position : position + 1]
            closes = " " if (behind.isalnum() or behind in "€$£§") and behind and said[-1] != "'" else ""
            ends = written[-1] == "." and said[-1] != "." and not text[position : position + 9].strip(" \t\n\"'”“»)")
            said = f"{opens}{said}{closes}{'.' if ends else ''}"
        yield Token(written, kind, said)
        last = (written if said is None else said)[-1:] or last


_AGAINST = "%€$£²³°)."
