"""Numbers and what they count: fractions, ordinals, scores, magnitudes, codes, plain numbers."""

import re

from common.text.english.abbreviations import COURSES
from common.text.english.measures import mixed
from common.text.english.tables import COUNTED_IN_MILLIONS
from common.text.english.tokens import ARTICLE, NUMBER, PLACE_AHEAD, Rule, Style, anywhere, before, rule
from common.text.english.units import MAGNITUDES, PERIODS
from common.text.numbers import cardinal, digits, fraction, in_pairs, ordinal, plural


def _with_exponent(match: re.Match[str], style: Style) -> str:
    """1e-4 → one e minus four"""
    sign = "minus " if match[2] == "-" else ""
    return f"{cardinal(match[1])} {style.letters('e')} {sign}{cardinal(match[3])}"


def _hexadecimal(match: re.Match[str], style: Style) -> str:
    return " ".join(["zero x", *(cardinal(sign) if sign.isdigit() else style.letters(sign) for sign in match[1])])


# ---------------------------------------------------------------------------------------------------------------------
# Plain numbers

_CODE_AHEAD = re.compile(
    r"\b(?:(?:code|pin|otp|cvv|sku|po|vin|isbn|imei|tracking|confirmation|invoice|ticket"
    r"|password|passcode|zip|postcode|extension|ext\.?|account|combination"
    r"|(?:account|tracking|order|confirmation|reference|serial|card|phone|case|policy|student|employee|my|your|the)"
    r"\s(?:number|no\.|id))(?:\sis|\swas|:|\snumber|\sno\.)?|ends? (?:in|with)|ending (?:in|with)"
    r"|(?:acct\.?|account|card|visa|mastercard|amex)\sending"
    r"|(?:sms|texts?)\sto"
    r"|last (?:four|4)(?: digits)?(?: are| is|:)?|number is|dial|call|phone|ring|text(?:\s[\"']?\w+[\"']?\sto)?"
    r"|(?:dial|call|ring)\s\d+ (?:or|then|and))\s#?\Z",
    re.IGNORECASE,
)
_LETTER_AHEAD = re.compile(r"(?<!\dx)(?<=[^\W\d_])\Z")
_NAME_AHEAD = re.compile(
    r"\b(?:Boeing|Airbus|Flight(?:\s[A-Z]{2})?|Route|Rte\.?|Rt\.?|Highway|Interstate|Hwy|Room|Rm\.?|Area|(?-i:Rule)|R\.\sEvid\.|Porsche|Peugeot|Xbox|Box"
    rf"|Office|Microsoft|RTX|GTX|RX|Radeon|Ryzen\s\d|Core|Apartment|Apt\.?|Flat|Suite|Ste\.?|Ferrari|Port|HTTP|Error|Status|Bus|Train|Locker|Channel"
    rf"|(?-i:ISO|IEC|DIN|RFC|IEEE)|Gate|Building|Bldg\.?|Fahrenheit|Psalm|Ps\.|Bay|Cabin|Lot|Hall|(?-i:Unit|Extension|Form|Building|{COURSES})\.?)\s\Z"
    r"|\b(?:US|I|CA|SR|Route|Form)-\Z|[A-Za-z]\d+-\Z|\b[A-Za-z]{1,6}-(?<!\ba-)(?<!non-)(?<!pre-)(?<!mid-)(?<!post-)(?<!over-)(?<!sub-)(?<!top-)\Z",
    re.IGNORECASE,
)
_STANDARD_AHEAD = re.compile(r"\b(?:ISO|IEC|DIN|RFC|IEEE)\s\Z")
_STATUS = frozenset(["401", "403", "404", "405", "408", "409", "429", "502", "503", "504"])
_STATUS_BEHIND = re.compile(
    r"\s(?:error(?!\s(?:bar|rate|margin))|response(?!\s(?:rate|time|card))|status(?!\s\w+s\b)"
    r"|page(?!\s(?:book|report|document|novel|pdf|view))|not\sfound)\b",
    re.IGNORECASE,
)
_STATUSES_BEHIND = re.compile(r"\s(?:errors|responses|statuses|pages)\b")
_ON_THE_WEB = re.compile(r"\b(?:HTTPS?|API|URLs?|servers?|web\w*|sites?|links?|browsers?|clients?|proxy|requests?)\b")
_CAPITALS_AHEAD = re.compile(r"[A-Z]{2}\Z")
_SERIAL_AHEAD = re.compile(r"[A-Za-z]\d*-\Z")


_RACE_AHEAD = re.compile(
    r"\b(?:the|a|an|this|my|our|her|his|first|ran|runs?|running|walk(?:s|ed|ing)?|jog(?:s|ged)?)\s\Z", re.IGNORECASE
)


def _ordinal(match: re.Match[str], style: Style) -> str | None:
    """Where the ending is that of the number; `11st` is a serial number."""
    number, ending = match[1], match[2].lower()
    last_two = int(number.replace(",", "")[-2:])
    right = "th" if 10 < last_two < 20 else {1: "st", 2: "nd", 3: "rd"}.get(last_two % 10, "th")
    return ordinal(number) if ending == right else None


_SCORED_AHEAD = re.compile(
    r"\b(?:g[ia]ve(?:s|n)?(?:\s\w+)?\s(?:an?|it|us|them)|rat(?:e|ed|ing|ings)(?:\s(?:of|it|is|was|at))?|scor(?:e|ed|es|ing)"
    r"(?:\s(?:of|is|was))?|got|solid|an?|easily|definitely|about|pain (?:is|was))(?:\s(?:a|an|of))?\s\Z",
    re.IGNORECASE,
)


def _score(match: re.Match[str], style: Style) -> str | None:
    """I'd give it a 7/10, which is no fraction of something."""
    is_part = re.match(r"\s(?:of|inch|in\b|mile|cup)|-inch", match.string[match.end() :])
    return f"{cardinal(match[1])} out of {cardinal(match[2])}" if before(match, _SCORED_AHEAD) and not is_part else None


_GOT = re.compile(
    r"\b(?:got|scored?|scoring|earned|received|marks?|grade|result|quiz|test|exam)(?:\s(?:of|was|is|a|an|me))*:?\s\Z",
    re.IGNORECASE,
)


def _marks(match: re.Match[str], style: Style) -> str | None:
    """I got 18/20, and not eighteen twentieths."""
    is_mark = (
        before(match, _GOT)
        and int(match[1]) <= int(match[2]) > 4
        and not re.match(r"\s(?:of|cup)", match.string[match.end() :])
    )
    return f"{cardinal(match[1])} out of {cardinal(match[2])}" if is_mark else None


_A_QUALITY = re.compile(r"\s(?!a\b|an\b|per\b|as\b|more\b|less\b|daily|weekly|monthly|yearly|each|every)[a-z]{3,}")


_WORD_OR_RANGE = re.compile(r"(?:\d-|[a-z]\s)\Z")
_EQUATION = re.compile(r"=|\b(?:[Ss]olve|equations?|derivative|slope|variable)\b")


def _times(match: re.Match[str], style: Style) -> str | None:
    """3x daily, 2 x coffee; but not 3x + 5, nor a 4x zoom."""
    text, behind = match.string, match.end()
    if anywhere(text, _EQUATION) or (text[behind : behind + 1] == "," and not before(match, _WORD_OR_RANGE)):
        return None  # y = 3x, so; 2x, 4x, whatever
    is_quality = before(match, _RACE_AHEAD) and _A_QUALITY.match(match.string, match.end())
    if is_quality or re.match(r"\s[a-z](?!\w)(?<!a)", match.string[match.end() :]):
        return None
    return f"{cardinal(match[1])} times"


_DONE_AHEAD = re.compile(r"\b(?:worn|seen|read|won|been|done|gone|\w{3,}ed)\s\Z")


def _so_often(match: re.Match[str], style: Style) -> str | None:
    """worn 2x"""
    return f"{cardinal(match[1])} times" if before(match, _DONE_AHEAD) else None


_MUSIC = re.compile(r"\b(?:minor|major|waltz|rhythm|groove|drum(?:s|mer)?|tempo|time signature|song is in)\b")
_BEAT_BEHIND = re.compile(r"[-\s](?:time|meter|metre|beat|signature|measure|bar|waltz)s?\b")


def _part(match: re.Match[str], style: Style) -> str | None:
    is_beat = match[2] in ("4", "8", "16") and anywhere(match.string, _MUSIC)
    if is_beat or _BEAT_BEHIND.match(match.string, match.end()):  # of music
        return f"{cardinal(match[1])} {cardinal(match[2])}"
    said = fraction(match[1], match[2])
    return said.removeprefix("one ") if match[1] == "1" and before(match, ARTICLE) else said  # a 1/2 price sale


_RACES = frozenset(["5", "10", "15"])
_RAN = re.compile(r"\s?(?:[.,;:!?)]|\Z)|\s(?:in|on|at|and|last|this|yesterday|today|tomorrow|with|run|race|walk)\b")


_LAMP = re.compile(r"\s(?:\w+\s)?(?:lights?|bulbs?|lamps?|LEDs?|leds?|stars?|whites?)\b")
_EARNED = re.compile(
    r"\b(?:salar(?:y|ies)|earn\w*|paid|pays?|makes|made|loans?|funding|budget|raised|revenue|costs?|spent|worth|invest\w*)\b"
)
_CARATS = frozenset(["9", "10", "14", "18", "22", "24"])
_GOLD = re.compile(r"[\s-](?:(?:white|yellow|rose|solid)\s)?(?:gold(?!\smedal)|ring|jewel\w*|plated|necklace|chain)\b")
_PLAYED = re.compile(r"\b(?:games?|quests?|loot\w*|raids?|guilds?|boss|bosses|gamers?|players?|level \d+|XP|farming)\b")
_DISTANCES = frozenset(["1", "2", "3", "5", "6", "8", "10", "12", "15", "20", "25", "30", "40", "50", "100"])
_RUN = re.compile(
    r"\s(?:(?:fun|charity|color|trail|road|park)\s)?(?:runs?|races?|walk|runners?|course|route|finisher)\b"
)
_PAID_BEHIND = re.compile(
    r"\s(?:loan|salary|raise|bonus|budget|mortgage|debt|grant|donation|investment|deposit|car|house|job|prize|fine|deal"
    r"|contract|settlement|down\spayment|limit|fund|income|profit|loss|check|cheque)\b"
)
_COUNTED = re.compile(r"\s(?:[a-z]+s|people|(?:an?|per|each)\s[a-z]+)\b")


def _is_of_light(match: re.Match[str]) -> bool:
    """a 2700K bulb, at 2700K; but 1200K people, and 1200K in funding"""
    text, behind = match.string, match.end()
    if _LAMP.match(text, behind):
        return True
    is_count = _COUNTED.match(text, behind)
    return not is_count and not before(match, _RACE_AHEAD) and not anywhere(text, _EARNED)


# 4K video, 3M tape, 34B bras: letters of a resolution, a company or a size
_NAMED_SO = re.compile(
    r"[2458]\s?[kK]\s(?:video|tv|TV|monitor|display|screen|resolution|res|film|movie|camera|footage|stream\w*|gaming|60|Blu)"
    r"|3M(?:'s|\s(?:[A-Z][a-z]|tape|stock|mask|adhesive|hooks?|company|strips?|respirator))"
    r"|[\d.,]{1,9}\s?(?:B\s(?:bra|cup)s?\b|[KM]\s(?:TV|video|monitor|display|screen|resolution|run|race))"
)
_OF_SHARES = re.compile(r"\b(?:10-?Qs?|8-K|annual\sreports?|filings?|filed|SEC)\b")


def _thousands(match: re.Match[str], style: Style) -> str | None:
    letter = match[2]
    if letter in "kK" and match[1] in _RACES and before(match, _RACE_AHEAD) and _RAN.match(match.string, match.end()):
        return None
    if before(match, _SERIAL_AHEAD) or (letter in "KMB" and before(match, PLACE_AHEAD)):
        return None
    follows = match.string[match.end() :]
    if _NAMED_SO.match(match.string, match.start()) or (match[0] == "10K" and anywhere(match.string, _OF_SHARES)):
        return None
    if letter == "k" and match[1] in _DISTANCES and _RUN.match(follows):
        return None
    if letter == "K" and match[1].isdigit() and len(match[1]) == 4 and _is_of_light(match):
        return f"{cardinal(match[1])} kelvin"
    is_gold = match[1] in _CARATS and _GOLD.match(match.string, match.end())
    is_run = match[1] in _DISTANCES and not is_gold and not _PAID_BEHIND.match(follows) and before(match, _RACE_AHEAD)
    if letter == "K" and (match[1] in ("4", "8") or is_run) and not re.match(r"\s(?:[a-z]+s|people)\b", follows):
        return None
    if letter in "mB" and not re.match(r"\s[a-z]", follows) and "." not in match[1]:
        return None
    if letter in "kK" and is_gold and not anywhere(match.string, _PLAYED):
        return f"{cardinal(match[1])} carat"
    if letter == "m" and not re.match(rf"\s(?:{COUNTED_IN_MILLIONS})\b", follows):
        return None
    return f"{cardinal(match[1])} {MAGNITUDES[letter]}"


def _code(match: re.Match[str], style: Style) -> str | None:
    return digits(match[0]) if before(match, _CODE_AHEAD) else None


_CALLED = re.compile(r"\b(?:[Ee]mergenc\w+|police|ambulance|fire\sbrigade|[Dd]ial|[Cc]all|[Rr]ing)\b")


def _emergency(match: re.Match[str], style: Style) -> str | None:
    """In an emergency: 999 or 112."""
    return digits(match[0]) if anywhere(match.string, _CALLED) else None


def _is_status(match: re.Match[str]) -> bool:
    """a 404 page, 404 errors of the server; but 404 pages of a book"""
    if _STATUS_BEHIND.match(match.string, match.end()):
        return not before(match, PLACE_AHEAD)
    return bool(_STATUSES_BEHIND.match(match.string, match.end())) and anywhere(match.string, _ON_THE_WEB)


def _number(match: re.Match[str], style: Style) -> str:
    number = match[0]
    if number.isdigit():
        length = len(number)
        if length >= 3 and before(match, _LETTER_AHEAD):
            # A380, RTX4090; but ab9453, C2766
            is_name = before(match, _CAPITALS_AHEAD) if length == 4 else length == 3
            return in_pairs(number) if is_name else digits(number)
        if length > 4 and match.string[match.start() - 2 : match.start()].rstrip()[-1:] in ("/", "#"):
            return digits(number)
        if length in (3, 4) and before(match, _NAME_AHEAD):
            return cardinal(number) if number[1:3] == "00" and before(match, _STANDARD_AHEAD) else in_pairs(number)
        if number in _STATUS and _is_status(match):
            return in_pairs(number)
    return cardinal(number)


def _parts(match: re.Match[str], style: Style) -> str | None:
    """1/100th, 2/3rds, 5/6ths"""
    said = fraction(match[1], match[2])
    return plural(ordinal(match[2])) if match[1] == "1" and match[0].endswith("s") else said


_FACTORIAL_BEHIND = re.compile(r"!\s(?:is|equals|has|ways)\b|!\s?[=+*/)]")


def _factorial(match: re.Match[str], style: Style) -> str | None:
    is_one = _FACTORIAL_BEHIND.match(match.string, match.end() - 1)
    return f"{cardinal(match[1])} factorial" if is_one else None


_ONES_AHEAD = re.compile(
    r"(?:\b(?:two|three|four|five|six|several|all|some|these|those|my|your|(?:pairs?|sets?|lots|rolls?)\sof|rolled|rolling)|\ds(?:,|,?\sand|,?\sor|\sto))\s\Z",
    re.IGNORECASE,
)
_ONES_BEHIND = re.compile(r",?\s(?:and|or|to)\s\d{1,2}s\b")


def _ones(match: re.Match[str], style: Style) -> str | None:
    """5s and 10s, a pair of 8s; but an iPhone 5s, and in 5s"""
    if before(match, _LASTED_AHEAD) or not (
        before(match, _ONES_AHEAD) or _ONES_BEHIND.match(match.string, match.end())
    ):
        return None
    return plural(cardinal(match[1]))


_LASTED_AHEAD = re.compile(r"\b(?:with)?in\s(?:the\s)?\Z|\b(?:last|next|first|iPhone|Nexus|only|about)\s\Z")
_ROUGHLY = {
    "10s": "tens", "100s": "hundreds", "1,000s": "thousands", "10,000s": "tens of thousands",
    "100,000s": "hundreds of thousands", "1,000,000s": "millions",
}  # fmt: skip

RULES: tuple[Rule, ...] = (
    rule("number", r"\d{1,3}(?:'\d{3}){1,9}(?![\w'])", lambda match, style: cardinal(match[0].replace("'", ","))),
    rule("code", r"0x([\dA-Fa-f]+)\b", _hexadecimal),
    rule("code", r"(?:999|112|911|000)(?!\w|[.,:/-]\d)(?!\s(?!or\b|and\b|if\b|in\b|for\b|now\b)[a-z])", _emergency),
    rule("code", r"(?<=localhost:)\d{4,5}(?!\w)", lambda m, s: in_pairs(m[0])),
    rule("number", rf"({NUMBER})[eE]([-+]?)(\d+)\b", _with_exponent),
    rule("code", r"\d{3,}(?![\w%]|[.,/:-]\d)", _code),
    rule("number", r"1[\d,]{0,10}0s\b", lambda match, style: _ROUGHLY.get(match[0])),
    rule("fraction", r"(\d{1,3})/(\d{1,3})(?:(?:ths?|nds?|rds?)\b|(?<!1/\d)s(?=\sof\b))", _parts),
    rule("score", r"(\d{1,3})\s?/\s?(5|10|100)(?![\w/]|\s/)", _score),
    rule("score", r"(\d{1,3})\s?/\s?(\d{1,3})(?![\w/]|\s/)", _marks),
    rule(
        "score",
        r"(\d+\.\d+)/(\d+)(?![\w/]|\.\d|\s?(?:[KMGT]B|k?m|k?g|L|ml|mi|lbs?)\b)",
        lambda m, s: f"{cardinal(m[1])} out of {cardinal(m[2])}",
    ),
    rule(
        "score",
        r"(\d{1,2}(?:\.\d{1,2})?)/(4\.0|5\.0|10\.0)(?![\w/]|\.\d)",
        lambda m, s: f"{cardinal(m[1])} out of {cardinal(m[2])}",
    ),
    rule("math", r"(\d+)x/([a-z]+)", lambda m, s: f"{cardinal(m[1])} times per {PERIODS.get(m[2], m[2])}"),
    rule(
        "math",
        r"(\d+)X(?=\s(?:more|faster|better|larger|bigger|the|as|higher|cheaper|slower|return|daily|a|per))",
        _times,
    ),
    rule("math", r"(\d{1,2})x(?=\s*[.,;)]|\s*\Z)", _so_often),
    rule("math", r"(\d+)\s?x(?=\s(?:[a-z]{3,}|(?:a|in|on|by|at|or)\s)|,\s[a-z]{2})", _times),
    rule(
        "math",
        rf"(?<!/\d\s[-+×÷*]\s)(?<!/\d[+-])({NUMBER})\s?[/÷]\s?({NUMBER})(?=\s?=)",
        lambda m, s: f"{cardinal(m[1])} divided by {cardinal(m[2])}",
    ),
    rule("math", r"(\d+)!(?=\s?[=+*/)]|\s[a-z])", _factorial),
)

PART_RULES: tuple[Rule, ...] = (
    rule(
        "fraction",
        r"(?<!/)(\d+)(?:\s+|-(?=\d/\d\b))(\d+)/(\d+)(?![\d/])",
        lambda match, style: mixed(match[1], match[2], match[3]),
    ),
    rule("fraction", r"(?<![/])(?<![A-Za-z]-)(\d+)/(\d+)(?:th|rd|nd|st)?(?![\w/])", _part, any_case=True),
    rule("number", r"([1-9])s(?!\w)", _ones),
    rule("magnitude", rf"({NUMBER})\s?((?:k|K|M|mn|bn|tn|B|m)(?<!\s[KMBm]))\b", _thousands),
    rule("ordinal", r"(\d[\d,]{0,48})(st|nd|rd|th)\b", _ordinal, any_case=True),
)

LAST_RULES: tuple[Rule, ...] = (
    rule(
        "number", r"[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.]|-\w)", lambda match, style: cardinal(match[0].replace(".", ","))
    ),
    rule("version", r"\d+(?:\.\d+){2,}", lambda match, style: " point ".join(map(cardinal, match[0].split(".")))),
    rule("number", NUMBER, _number),
)
