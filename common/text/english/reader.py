"""English as it is spoken: the pass over a text with its grammar and its model."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

from common.text.engine.choose import Chooser, Proposal, SpokenForm, Why, read_table, read_weights
from common.text.engine.context import Before
from common.text.engine.token import Following, Token, read
from common.text.english import electronic, lexical, scan
from common.text.english.say import TABLES
from common.text.english.style import GIVEN, Style

_WRITTEN = re.compile(r"[^\s,.;:!?]+")
_BELONGS = re.compile(r"'[sS]\b|-[^\W_]")  # the 's of 12's, the -ish of 30-ish


@cache
def model() -> Chooser:
    """The weights of English."""
    return Chooser(read_weights(TABLES / "weights.tsv"), classes())


@cache
def classes() -> dict[str, list[str]]:
    """The classes of words."""
    found: dict[str, list[str]] = {}
    for name, words in read_table(TABLES / "classes.tsv"):
        for word in words.split():
            found.setdefault(word, []).append(f"@{name}")
    return found


def tokens(text: str, style: Style) -> Iterator[Token]:
    """All of `text` in tokens, in its order."""
    addresses = electronic.addresses(text, style)
    return read(text, following(text, style, addresses), model, _plain(text, style, addresses))


def following(text: str, style: Style, addresses: dict[int, Proposal] | None = None) -> Following:
    """All that may stand at a place; at least the place itself, as it is written."""
    addresses = electronic.addresses(text, style) if addresses is None else addresses
    given = sorted(style.given)

    def at(position: int) -> tuple[int, list[Proposal]]:
        if known := _known(text, position, style):
            return position, [known]
        if position in addresses:
            return position, [addresses[position]]
        found = _proposed(text, position, style)
        following = bisect_right(given, position) if given else 0
        if following < len(given):
            found = [proposal for proposal in found if proposal.stop <= given[following]]
        return position, found or _proposed(text[: given[following]], position, style)

    return at


def _known(text: str, position: int, style: Style) -> Proposal | None:
    """What is given at a place, or has a reading of its own."""
    if token := style.given.get(position):
        return Proposal(position + len(token.written), (), [SpokenForm((token.kind,), token.spoken)])
    if style.readings and not scan.is_within_word(text, position):
        own = _WRITTEN.match(text, position)
        if own and own[0] in style.readings:
            return Proposal(own.end(), (), [SpokenForm(("own reading",), style.readings[own[0]])])
    return None


def _proposed(text: str, position: int, style: Style) -> list[Proposal]:
    if found := scan.proposals(text, position, style):
        return found
    character = text[position]
    word = lexical.CORE.match(text, position) if character.isalpha() else None
    kind = "word" if word else "space" if character.isspace() else "mark"
    return [Proposal(word.end() if word else position + 1, (), [SpokenForm((kind,), None)])]


def _plain(text: str, style: Style, addresses: dict[int, Proposal]) -> Callable[[int], Token | None] | None:
    """What finds a word, spaces or signs that may only be read as they stand."""
    if style.given or style.readings:
        return None

    def at(position: int) -> Token | None:
        found = scan.PLAIN.match(text, position)
        if not found or found[0].lower() in scan.SPECIAL or position in addresses:
            return None
        first = found[0][0]
        return Token(found[0], "word" if first.isalpha() else "space" if first.isspace() else "mark", None)

    return at


def why(text: str, style: Style) -> list[tuple[str, Why]]:
    """Each piece of `text` that could be read in several ways, and why it is read as it is."""
    found, position, before = [], 0, Before("", {})
    addresses = electronic.addresses(text, style)
    may_stand, plain = following(text, style, addresses), _plain(text, style, addresses)
    for token in tokens(text, style):
        _, choices = may_stand(position)
        if plain and plain(position):
            pass
        elif len(choices) > 1 or len(choices[0].readings) > 1:
            explained = model().why(text, position, choices, before)
            if len(explained.readings) > 1:
                found.append((token.written, explained))
        position += len(token.written)
        before = before.then(token.written, token.kind)
    return found


def spoken_as(text: str, style: Style, kinds: Sequence[str], *, is_whole: bool = False) -> str | None:
    """`text` with each token said as the first of some kinds that it may have; None where it has nothing of them.

    `is_whole`: None, too, where `text` is not one such token.
    """
    may_stand, is_found = following(text, style), False

    def of_kinds(position: int) -> tuple[int, list[Proposal]]:
        nonlocal is_found
        start, found = may_stand(position)
        for kind in kinds:
            of_kind = [
                p._replace(readings=[said for said in p.readings if said.parts[0] == kind])
                for p in found
                if not is_whole or p.stop - position == len(text)
            ]
            if of_kind := [proposal for proposal in of_kind if proposal.readings]:
                is_found = True
                return start, of_kind
        return start, found

    said = spoken(read(text, of_kinds, model))
    return " ".join(said.split()) if is_found else None


def answers_no(ahead: str, behind: str) -> bool:
    """Whether "no." behind `ahead` is an answer, and does not say which number `behind` it is."""
    ahead = ahead[-40:]
    found = tokens(f"{ahead}no.{behind[:80]}", Style(for_voice=True)) if behind[:1].isdigit() else []
    position = 0
    for token in found:
        if position == len(ahead):
            return token.written == "no"
        position += len(token.written)
    return False


def spoken(found: Iterable[Token]) -> str:
    """The tokens in words, with what stands for itself between them."""
    return "".join(spoken_each(found))


def spoken_each(found: Iterable[Token]) -> Iterator[str]:
    """What every token becomes: its words with the spaces that they need, or itself."""
    rest, behind, second_before, before = iter(found), list[Token](), "", ""
    while token := behind.pop(0) if behind else next(rest, None):
        if token.spoken is None or token.kind == GIVEN:
            yield token.written if token.spoken is None else token.spoken
        else:
            behind += islice(rest, 2 - len(behind))
            opens = "" if before == "-" and second_before[-1:].isalnum() else " "
            closes = "" if _BELONGS.match("".join(other.written for other in behind)) else " "
            yield f"{opens}{token.spoken}{closes}"
        second_before, before = before, token.written
