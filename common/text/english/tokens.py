"""What the classes share: a token, the style of reading, what a rule is, and how a number is written."""

import functools
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LETTER_A = "ay"
"""The letter, as opposed to the article."""

GIVEN = "given"
"""The class of tokens whose reading does not come from the text; they are said without spaces around them."""

NUMBER = (
    r"(?:\d{1,3}(?:,\d{3})+(?![\d])(?:\.\d+)?|\d{1,2}(?:,\d\d)+,\d{3}(?![\d,])(?:\.\d+)?"
    r"|\d{1,3}(?:(?: \d{3}){2,}| 000)(?![\d.,:/-])|\d+(?:\.\d+)?|\.\d+)"
)
LARGE = "hundred|thousand|million|billion|trillion"


class Token(NamedTuple):
    """A piece of a text, its class, and its words; None where the piece stands for itself."""

    written: str
    kind: str
    spoken: str | None


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

    def letters(self, word: str) -> str:
        """`word` letter by letter."""
        return " ".join(LETTER_A if self.for_voice and letter in "Aa" else letter for letter in word)

    def half(self, letter: str) -> str:
        """am or pm."""
        return self.letters(letter.lower() + "m") if self.for_voice else f"{letter.lower()}m"


Reading = Callable[[re.Match[str], Style], str | None]


class Rule(NamedTuple):
    """A class of tokens: what they look like, and their reading, which may be None: then they are of another class."""

    kind: str
    pattern: re.Pattern[str]
    reading: Reading


def rule(kind: str, pattern: str, reading: Reading, *, any_case: bool = False) -> Rule:
    """A rule whose pattern is not compiled yet."""
    return Rule(kind, re.compile(pattern, re.IGNORECASE if any_case else 0), reading)


_DETERMINER = re.compile(
    r"\b(?:an?|the|this|that|one|each|every|another|any|no|my|your|his|her|its|our|their"
    r"|(?!(?:it|he|she|that|there|what|here|let|who|where|how)')\w+'s)\s(?:\d+\s?[x×]\s?|[\d.,]+(?:-|\sto\s))?\Z",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r"\s(?!(?:of|to|from|in|on|at|and|or|but|before|after|away|ago|later|per|is|was|were|are|will|that|which|for|as|by"
    r"|with|more|less|than|off|apart|between|above|below|over|under|into|until|when|who|up|down|it|we|he|she|they|you|vs"
    r"|today|yesterday|tomorrow|back|instead|right|already|still|yet|once|twice|because|since|if|while|did|does|has|had|can"
    r"|owed|paid|spent|lost|left|due|made|given|worth|\w{3,}[^\We]ed|could|would|should|may|might|must|came|went|got|goes|not|now|here|there|outside|inside|each|total|again|too|so|the|an?|this|these|those|my|your|his|her|our|their)\b)(?:[a-z]{2,}|[A-Z]{2,}\b|[A-Z]\d|\dK\b)"
)
_THING = re.compile(
    r"\)?\s(?:(?-i:[A-Z\d]+)\s)?(?:pan|tin|tray|dish|skillet|pizza|nail|screw|plank|ruler|board|poster|rug|monitor|ssd|hdd|ram|memory|storage|card|stick|model|phone|camera|screen|display|laptop|television|tv|tablet|bulb|battery|bag|bottle|can|jar|box|package|drive|charger|cable"
    r"|winds?|gust|speed|zone|run|race|walk|hike|ride|swim|radius|limit|fence|wall|pipe|lens|motor|engine|socket|outlet"
    r"|(?:power\s)?supply|adapter|adaptor|inverter|heater|oven|microwave|fuse|breaker|circuit|amp|amplifier|speaker|tank|bucket"
    r"|pot|container|jug|cup|mug|glass|pack|rope|cord|hose|ladder|table|desk|mattress|wire|tube|bolt|dash|sprint|hurdles|relay"
    r"|freestyle|backstroke|breaststroke|butterfly|medley|steak|burger|ribeye|fillet|filet|patty|carton|gap|lift|climb|fish"
    r"|telescope|drill|blade|flashlight|laser|panel|generator|solar|router|lot|parking|dose|man|woman|guy|person|dog|dumbbell|kettlebell|barbell|suitcase|V\d+|HEMI|turbo|diesel|inline)s?\b",
    re.IGNORECASE,
)
# More of the same thing: a 27" 144Hz monitor, 12V 5A power supply.
_ALSO = re.compile(
    r"(?:,?\s(?:\d[\d.,/]*[\s-]?(?:in-\d|[\"″]|in(?:ch)?\.?|[kMG]?Hz|[KMGT]B|m?A|k?W|V|m?Ah|cc|hp|MP|px|ft|lb|oz|mm|cm|m[lL]|L|kg|g|K|p"
    r"|-[a-z]{3,}|-?inch|-?core|-?speed|-?pin|-?port|-?door)(?![\w²³/])|x\s\d+(?:mm|cm|m|ft|\"))){1,3}"
)


def before_noun(match: re.Match[str]) -> bool:
    """Whether a measure says what a thing is like, as in "a 60 W bulb", and so stands in the singular."""
    text, behind = match.string, match.end()
    if _THING.match(text, behind):
        return True
    if also := _ALSO.match(text, behind):
        behind = also.end()
        if _THING.match(text, behind):
            return True
    return before(match, _DETERMINER) and bool(_NOUN.match(text, behind))


def of_a_thing(match: re.Match[str]) -> bool:
    """Whether a noun seems to follow, as in "24hr gym"."""
    return bool(_NOUN.match(match.string, match.end())) and not _NO_THING.match(match.string, match.end())


ARTICLE = re.compile(r"\b[Aa]n?\s\Z")
_NO_THING = re.compile(
    r"\s(?:wide|deep|tall|high|thick|straight|max|min|tops|long|old|apiece|minimum|maximum|early|late|flat|\w+ly)\b"
)


@functools.lru_cache(maxsize=32)
def anywhere(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether `pattern` is in `text`, which is asked for each of its tokens and looked for once."""
    return bool(pattern.search(text))


# Before a number with a letter that is a name: seat 12B, flat 3F.
PLACE_AHEAD = re.compile(
    r"\b(?:seats?|rows?|flat|apartment|apt\.?|unit|rooms?|rm\.?|gates?|bay|size|section|block|locker|platform|suite|ste\.?"
    r"|exhibits?|appendix|figures?|figs?\.?|tables?|forms?|pages?|house|hangar|pier|stall|cabin|box|lot|desk|number|no\.?"
    r"|questions?|exercise|problem|parts?|chapters?|schedule|rule|item|step|option|class|zone|bus|route|exit)\s\Z",
    re.IGNORECASE,
)


BEGINNING = re.compile(r"(?:\A|[.!?:;]\s+|[\"'(]|\n)\Z")
"""What a sentence begins behind."""


def before(match: re.Match[str], pattern: re.Pattern[str]) -> bool:
    """Whether the 40 characters before a token end in `pattern`."""
    return bool(pattern.search(match.string[max(0, match.start() - 40) : match.start()]))


def text_before(match: re.Match[str]) -> str:
    """The 40 characters before a match."""
    return match.string[max(0, match.start() - 40) : match.start()]


def text_after(match: re.Match[str]) -> str:
    """The 40 characters after a match."""
    return match.string[match.end() : match.end() + 40]
