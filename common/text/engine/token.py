"""A piece of a text and its words, and the pass over a text that divides it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from common.text.engine.choose import Before, Chooser, Chosen, Proposal, Repeated, SpokenForm, Surroundings


class Token(NamedTuple):
    """A piece of a text, its class, and its words; None where the piece stands for itself."""

    written: str
    kind: str
    spoken: str | None


Following = Callable[[int], tuple[int, list[Proposal]]]
"""From a place of a text the next one where something may stand that does not stand for itself, and what."""


def read(
    text: str, following: Following, model: Callable[[], Chooser], plain: Callable[[int], Token | None] | None = None
) -> Iterator[Token]:
    """All of `text` in tokens from left to right: at each place a grammar proposes, and the model chooses.

    `plain` finds at once what may only be read as it stands.
    """
    context: Surroundings[int] | None = None
    repeated, position, before = Repeated(text), 0, Before()
    ahead: tuple[int, list[Proposal]] = (-1, [])

    def choose() -> Chosen:
        nonlocal context, ahead
        start, found = ahead if ahead[0] == position and ahead[1] else following(position)
        if start > position or not found:
            ahead = start, found
            return Chosen(start, ("text",), None)
        if len(found) == 1 and len(found[0].readings) == 1:
            return Chosen(found[0].stop, *found[0].readings[0])
        context = context or model().context(text)
        return model().choose(context, start, found, before)

    while position < len(text):
        if plain and (token := plain(position)):
            yield token
            before, position = before.then(token.written, token.kind), position + len(token.written)
            continue
        stop, parts, said = repeated.chosen(position, before, choose)
        written = text[position:stop]
        yield Token(written, parts[0], said)
        before, position = before.then(written, parts[0]), stop


def proposed(position: int, following: Following) -> list[Proposal]:
    """All that may stand at a place; where nothing else may, what stands for itself."""
    start, found = following(position)
    return found if start == position else [Proposal(start, [], [SpokenForm(("text",), None)])]
