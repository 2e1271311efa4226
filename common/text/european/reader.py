"""One pass from left to right: at each place the grammar proposes what may stand there, and the model chooses."""

from collections.abc import Iterator
from functools import cache

from common.text.choose import Before, Chooser, Chosen, Proposal, Repeated, Row, SpokenForm, Surroundings, read_weights
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
    context: Surroundings[int] | None = None
    repeated, position, before = Repeated(text), 0, Before()
    ahead: tuple[int, list[Proposal]] = (-1, [])

    def choose() -> Chosen:
        nonlocal context, ahead
        start, found = (
            ahead if ahead[0] == position and ahead[1] else scan.following(text, position, language, addresses)
        )
        if start > position or not found:
            ahead = start, found
            return Chosen(start, ("text",), None)
        if len(found) == 1 and len(found[0].readings) == 1:
            return Chosen(found[0].stop, *found[0].readings[0])
        context = context or model(language).context(text)
        return model(language).choose(context, start, found, before)

    while position < len(text):
        stop, parts, said = repeated.chosen(position, before, choose)
        written = text[position:stop]
        yield Token(written, parts[0], said)
        before, position = before.then(written, parts[0]), stop


def proposed(text: str, position: int, language: Language, addresses: dict[int, Proposal]) -> list[Proposal]:
    """All that may stand at a place; where nothing else may, what stands for itself."""
    start, found = scan.following(text, position, language, addresses)
    return found if start == position else [Proposal(start, [], [SpokenForm(("text",), None)])]


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
