"""How English is read, and how a number is written."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from common.text.engine.shapes import Memory
from common.text.engine.token import Token

LETTER_A = "ay"
"""The letter, as opposed to the article."""

GIVEN = "given"
"""The class of tokens whose reading does not come from the text; they are said without spaces around them."""

NUMBER = (
    r"(?:\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d{1,2}(?:,\d\d){1,9},\d{3}(?![\d,])(?:\.\d+)?"
    r"|\d{1,3}(?:(?: \d{3}){2,9}| 000)(?![\d.,:/-])|\d+(?:\.\d+)?|\.\d+)"
)
LARGE = "hundred|thousand|million|billion|trillion"


@dataclass(frozen=True, kw_only=True)
class Style:
    """How tokens are read."""

    for_voice: bool = False
    """Capitals spelled and pauses between groups of digits, as a voice needs them; labels of recognisers do not."""
    known: Container[str] = ()
    """Words in lower case that are not spelled although they stand in capitals."""
    readings: Mapping[str, str] = field(default_factory=dict)
    """Readings of words as they are written, which come before all others: {"SQL": "sequel"}."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Names of units by their symbol, in the singular, which come before all others: {"kn": "knot"}."""
    given: Mapping[int, Token] = field(default_factory=dict)
    """Tokens that are known already, by their place in the text."""

    @property
    def memory(self) -> Memory | None:
        """Readings in this style, as far as it is one of the two common ones."""
        return None if self.units else _MEMORIES[self.for_voice]

    def letters(self, word: str) -> str:
        """`word` letter by letter."""
        return " ".join(LETTER_A if self.for_voice and letter in "Aa" else letter for letter in word)

    def half(self, letter: str) -> str:
        """am or pm."""
        return self.letters(letter.lower() + "m") if self.for_voice else f"{letter.lower()}m"


_MEMORIES: dict[bool, Memory] = {False: {}, True: {}}
