"""One pass from left to right: at each place the grammar proposes what may stand there, and the model chooses."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, partial

from common.text.choose import (
    Before,
    Chooser,
    Chosen,
    Proposal,
    Repeated,
    SpokenForm,
    Surroundings,
    Why,
    read_table,
    read_weights,
)
from common.text.english import electronic, scan
from common.text.english.say import TABLES
from common.text.english.style import GIVEN, Style
from common.text.token import Token

_WRITTEN = re.compile(r"[^\s,.;:!?]+")
_WORD = re.compile(r"[^\W\d_⁰¹²³⁴-⁹₀-₉]+(?:'[^\W\d_⁰¹²³⁴-⁹₀-₉]+)*")
_BELONGS = re.compile(r"'[sS]\b|-[^\W_]")  # the 's of 12's, the -ish of 30-ish


@cache
def model() -> Chooser:
    """The weights of English."""
    return Chooser(read_weights(TABLES / "weights.tsv"), classes())


def classes() -> dict[str, list[str]]:
    """The classes of words."""
    found: dict[str, list[str]] = {}
    for name, words in read_table(TABLES / "classes.tsv"):
        for word in words.split():
            found.setdefault(word, []).append(f"@{name}")
    return found


def tokens(text: str, style: Style) -> list[Token]:
    """All of `text` in tokens, in its order."""
    return list(_tokens(text, style))


def _tokens(text: str, style: Style) -> Iterator[Token]:
    has_address = bool(electronic.AHEAD.search(text))
    given = sorted(style.given)
    context: Surroundings[int] | None = None
    repeated, position, before, follows_word = Repeated(text), 0, Before(), False
    while position < len(text):
        token = style.given.get(position) if given else None
        if token is None and not (style.readings or has_address):
            plain = scan.PLAIN.match(text, position)
            if plain and plain[0].lower() not in scan.SPECIAL:
                first = plain[0][0]
                token = Token(plain[0], "word" if first.isalpha() else "space" if first.isspace() else "mark", None)
        if token is None:
            token = _own(text, position, style, follows_word)
        if token is None:
            context = context or model().context(text)
            place = (position, style, before, follows_word, has_address)
            stop, parts, said = repeated.chosen(position, before, partial(_chosen, text, context, *place))
            following = bisect_right(given, position) if given else 0
            if following < len(given) and stop > given[following]:
                short = text[: given[following]]
                stop, parts, said = _chosen(short, model().context(short), *place)
            token = Token(text[position:stop], parts[0], said)
        position += len(token.written)
        follows_word = token.written[-1:].isalpha()
        before = before.then(token.written, token.kind)
        yield token


def why(text: str, style: Style) -> list[tuple[str, Why]]:
    """Each piece of `text` that could be read in several ways, and why it is read as it is."""
    has_address = bool(electronic.AHEAD.search(text))
    found, position, before, follows_word = [], 0, Before(), False
    for token in tokens(text, style):
        choices = proposed(text, position, style, follows_word, has_address)
        if len(choices) > 1 or len(choices[0].readings) > 1:
            explained = model().why(text, position, choices, before)
            if len(explained.readings) > 1:
                found.append((token.written, explained))
        position += len(token.written)
        follows_word = token.written[-1:].isalpha()
        before = before.then(token.written, token.kind)
    return found


def _own(text: str, position: int, style: Style, follows_word: bool) -> Token | None:
    begins_word = not follows_word or not text[position].isalpha()
    own = _WRITTEN.match(text, position) if style.readings and begins_word else None
    return Token(own[0], "own reading", style.readings[own[0]]) if own and own[0] in style.readings else None


def _chosen(
    text: str,
    context: Surroundings[int],
    position: int,
    style: Style,
    before: Before,
    follows_word: bool,
    has_address: bool,
) -> Chosen:
    found = proposed(text, position, style, follows_word, has_address)
    if len(found) == 1 and len(found[0].readings) == 1:
        return Chosen(found[0].stop, *found[0].readings[0])
    return model().choose(context, position, found, before)


def proposed(text: str, position: int, style: Style, follows_word: bool, has_address: bool) -> list[Proposal]:
    """All that may stand at a place; at least the place itself, as it is written."""
    character = text[position]
    begins_word = not (follows_word and character.isalpha()) and not text[position - 1 : position].isalpha()
    found = scan.proposals(text, position, style, begins_word=begins_word, has_address=has_address)
    if found:
        return found
    word = _WORD.match(text, position) if character.isalpha() else None
    kind = "word" if word else "space" if character.isspace() else "mark"
    return [Proposal(word.end() if word else position + 1, [], [SpokenForm((kind,), None)])]


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


def spoken(found: list[Token]) -> str:
    """The tokens in words, with what stands for itself between them."""
    return "".join(spoken_each(found))


def spoken_each(found: list[Token]) -> list[str]:
    """What every token becomes: its words with the spaces that they need, or itself."""
    said = []
    for i, token in enumerate(found):
        if token.spoken is None or token.kind == GIVEN:
            said.append(token.written if token.spoken is None else token.spoken)
            continue
        behind = "".join(other.written for other in found[i + 1 : i + 3])
        opens = "" if i > 1 and found[i - 1].written == "-" and found[i - 2].written[-1:].isalnum() else " "
        closes = "" if _BELONGS.match(behind) else " "
        said.append(f"{opens}{token.spoken}{closes}")
    return said
