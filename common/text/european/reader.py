"""One pass from left to right: at each place the grammar proposes what may stand there, and the model chooses."""

from collections.abc import Iterator
from functools import cache

from common.text.choose import Before, Chooser, Proposal, Row, SpokenForm, Surroundings, read_weights
from common.text.european import scan
from common.text.european.language import TABLES, Language, language_of
from common.text.token import Token


@cache
def model(language: Language) -> Chooser:
    """The weights of all languages, with the classes of one."""
    return Chooser(_weights(), language.classes)


@cache
def _weights() -> dict[str, Row]:
    return read_weights(TABLES / "weights.tsv")


def european_tokens(text: str, name: str) -> list[Token]:
    """All of `text` in tokens, in its order, in the language that has a table by that name."""
    language = language_of(name)
    return list(_spaced(text, _tokens(text, language))) if language else [Token(text, "text", None)]


def _tokens(text: str, language: Language) -> Iterator[Token]:
    addresses = scan.electronic(text, language)
    context: Surroundings[Row] | None = None
    position, before = 0, Before()
    while position < len(text):
        start, found = scan.following(text, position, language, addresses)
        if start > position:
            yield Token(text[position:start], "text", None)
            before, position = before.then(text[position:start], "text"), start
        if not found:
            continue
        if len(found) == 1 and len(found[0].readings) == 1:
            stop, (parts, said) = found[0].stop, found[0].readings[0]
        else:
            context = context or model(language).context(text)
            stop, parts, said = model(language).choose(context, start, found, before)
        yield Token(text[start:stop], parts[0], said)
        before, position = before.then(text[start:stop], parts[0]), stop


def proposed(text: str, position: int, language: Language, addresses: dict[int, Proposal]) -> list[Proposal]:
    """All that may stand at a place; where nothing else may, what stands for itself."""
    start, found = scan.following(text, position, language, addresses)
    return found if found and start == position else [Proposal(start, [], [SpokenForm(("text",), None)])]


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
