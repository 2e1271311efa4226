"""The shapes of numbers and signs, and all that may stand at a place of a text."""

import re
from functools import cache

from common.text.engine.choose import Proposal, SpokenForm
from common.text.engine.shapes import Shapes, beside, either, matched, shape
from common.text.english import electronic, lexical, quantities, say, words
from common.text.english.quantities import CURRENCIES, PINNED
from common.text.english.style import LARGE, NUMBER, Style
from common.text.english.words import ALNUM, SIGN_ROWS

# ---------------------------------------------------------------------------------------------------------------------
# Numbers, with what stands against them

_FRACTION = r"\d+(?:\s|-)\d+/\d+|\d+/\d+"
_UNIT = (
    r"°\s?[CF](?!\w)|(?:sq|cu|fl|deg|pct|percentage)\.?[\s-]?[A-Za-z]+|[A-Za-z]+[·⋅/.-](?:[A-Za-z]+)|[A-Za-zµμΩ]+"
    r"|[%‰°℃℉★⭐¢×]|''|[\"″'′]"
)
_POWER = r"(?P<power>[²³]|\^?[23](?!\d))?"
_END_OF_UNIT = (
    r"(?!\.[A-Za-z]|(?<=\d\sw)/|(?<=\dw)/)"
    r"(?:(?![\w²³])|(?<=[\"″'′])(?=[xXWLHDwlhd](?![a-zA-Z]))|(?<=\d[hdwms])(?=\d))"
    r"(?:\.(?=\s+[a-z\d&=]|\s\(|[,;:)/]|-\d|\s-\s\d))?"
)
_MEASURE = (
    rf"(?P<number>{_FRACTION}|{NUMBER})(?:\s(?P<large>{LARGE}))?(?P<gap>[\s-]?)(?P<unit>%s){_POWER}{_END_OF_UNIT}"
)
_SIGNS = [
    sign for sign in CURRENCIES if not sign.isalpha() or sign in ("Rs", "RM", "Rp", "Dh", "Dhs", "Fr", "KSh", "Ksh")
]
_CODES = [sign for sign in CURRENCIES if sign.isascii() and sign.isalpha() and sign.isupper()]
_EUROPEAN = r"(?:\d{1,3}(?:\.\d{3})*|\d{1,3}(?: \d{3}){1,9}),\d\d(?!\d|,\d)"
_CURRENCY = re.escape("".join({sign[0] for sign in CURRENCIES if not sign.isalpha()}))
_AT_AMOUNT_BEHIND = rf"0(?:[a-zA-Z{_CURRENCY}円元]|[.,]0|[ -][0a{_CURRENCY}円元])|\.0"
_AT_MEASURE = r"0(?:[a-zA-Z'°%‰℃℉★⭐¢×\"″′µμΩ]|[.,/]0|[ -][0a'°%‰℃℉★⭐¢×\"″′])|\.0"
_AMOUNT = rf"(?:{_EUROPEAN}|{NUMBER}|\d{{1,3}}(?: \d{{3}}){{1,9}}(?!\d))"
_MAGNITUDE = (
    rf"(?:[\s-]?(?P<%s>(?:{LARGE})\b|(?:mn|mln|mill?|mio"
    r"|bil|bln|lakhs?(?:\scrores?)?|crores?|cr|[kKmMbB]n?|BN|MM|mm|trn?|tn|T)(?![\w'])))?"
)
_RAND = r"(?<!-)R(?=\d|\s\d{1,3}[ ,]\d)"
_SIGN = (
    rf"(?P<sign>(?:USD?|CAD|AUD|NZD|HKD|SGD)\s?\$|{either(_SIGNS)}|{_RAND}|(?:{either(_CODES)})(?=[\s\d]))"
    r"(?:(?<=[a-z])\.)?"
)
_MONEY = (
    rf"{_SIGN}\s?(?P<minus>-)?(?P<number>{_AMOUNT}){_MAGNITUDE % 'magnitude'}"
    rf"(?:\s(?:(?P<code>{either(_CODES)})\b|(?P<us>U\.?S\.?\s)?dollars?\b))?"
)
_MONEY_RANGE = (
    rf"{_SIGN}\s?(?P<number>{_AMOUNT}){_MAGNITUDE % 'magnitude'}\s?-\s?"
    rf"(?P<last>{_AMOUNT}){_MAGNITUDE % 'last_magnitude'}"
)
_NAMED = either([sign for sign in CURRENCIES if sign.isalpha() and len(sign) > 1])
_MONEY_BEHIND = (
    rf"(?P<number>{_AMOUNT}){_MAGNITUDE % 'magnitude'}[\s-]?"
    rf"(?P<sign>[$£€¥₹¢₩₽₿฿₫₪₺₴](?!\d)|円|元|(?:{_NAMED})(?!\w))\.?"
)

_AT_AMOUNT = rf"[{_CURRENCY}R][0 .-]|{either({sign[:2] for sign in CURRENCIES if len(sign) > 1})}"
_RAISED = "".join(map(chr, say.POWERS))
SHAPES = Shapes((
    shape("number", rf"\d{{1,3}}(?:'\d{{3}}){{1,9}}(?![\w'])|{NUMBER}", say.number, r"0|\.0"),
    shape("ordinal", r"(\d[\d,]{0,48})(st|nd|rd|th|ST|ND|RD|TH)\b", say.ordinal_number, "0(?:[snrtSNRT]a|,0)"),
    shape("decade", r"'?(\d[\d,]{0,10})'?s(?!\w)", say.decade, "0(?:s|'a|,0)|'0"),
    shape("short year", r"'(\d\d)(?!\w)", say.short_year, "'0"),
    shape("exponent", rf"({NUMBER})[eE]([-+]?)(\d+)\b", say.exponent, r"0(?:[eE][0+-]|[.,]0)|\.0"),
    shape("hexadecimal", r"0x([\dA-Fa-f]+)\b", say.hexadecimal, "0x[0a]"),
    shape("code", r"\d[A-Z]\d[A-Z\d]{2,12}(?![\w-])", words.labelled, "0[A-Z]0"),
    shape("points", r"\d+(?:\.\d+){2,}(?!\w)", say.points, r"0\.0"),
    shape("internet", rf"(?<![\d.]){electronic.INTERNET}", electronic.internet, r"0\.0"),
    shape("telephone", r"\+?(?:\(\d{1,5}\)|\d{1,6})(?:[ .-]?(?:\(\d{1,5}\)|(?<!\d)\d{1,8}|(?<=\))[ ]?\d{1,8})"
          r"|[ ./-]\d{1,8}){1,7}(?:-[A-Z]{3,9})?(?!\w)", say.telephone, r"0(?:[ .-][0(]|/0|\(0)|[+(][0(]"),
    shape("measure", _MEASURE % _UNIT, quantities.measure, _AT_MEASURE),
    shape("measure", _MEASURE % r"[A-Za-z]+|''|[\"″'′]", quantities.measure, _AT_MEASURE),
    shape("coordinate", r"(\d{1,3})°\s?(\d{1,2})['′]", say.says("measure several", "{1} degrees {2} minutes"), "0°"),
    shape("hours", r"(\d{1,2})\s?h(?:rs?)?\s?(\d\d)(?!\w)", quantities.hours, "0(?:h[0a ]| a)"),
    shape("players", r"(\d?[1-9])(ers)(?!\w)|(\d{1,3})(ish)\b", quantities.players, "0[ei]a"),
    shape("pinned", either(list(PINNED)) + r"(?!\w)", quantities.pinned, r"0(?:\W|\Z)|\.N"),
    shape("doi", r"10\.\d{4,9}/[\w.()/-]{0,99}\w", electronic.address, r"0\.0"),
    shape("height", r"(\d{1,2})['′][\s-]?(\d{1,2}(?:\.\d|\s\d/\d)?)(?:\"|″|''|”|(?![\w'.]))", quantities.height,
          "0['′][0 -]"),
    shape("money range", _MONEY_RANGE, quantities.money, _AT_AMOUNT),
    shape("money", _MONEY, quantities.money, _AT_AMOUNT),
    shape("money behind", _MONEY_BEHIND, quantities.money, _AT_AMOUNT_BEHIND),
    shape("notes", r"([$£€])(\d[\d,]*)s(?!\w)(?:\sof\s(thousands|millions|billions|trillions))?",
          quantities.notes, "[$£€]0"),
    shape("loss", rf"([$£€])\(({NUMBER})\)(?:\s({LARGE})\b|\s?([kKmMbB]n?)(?!\w))?", quantities.loss, r"[$£€]\("),
    shape("clock", r"(\d{1,3})\s?:\s?(\d{1,4}(?:,\d{3})*)(?::(\d{1,2}(?:\.\d{1,3})?))?(?!:?\d)", say.clock,
          "0(?::[0 ]| :)"),
    shape("clock", r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)()(?!:?\d)", say.clock, "0[:.]0"),
    shape("stamp", r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)"
           r"(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?(?!\w)", say.stamp, "0-0"),
    shape("date", r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])", say.date, "0[-/.]0"),
    shape("date", r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d?)(?![\d/-])", say.date, "0[-/.]0"),
    shape("slash", r"(?:(\d+)[\s-](?!\d{4}/))?(\d+)\s?/\s?(\d+)(?![\d/])", say.slash, "0[/ -][0 /]"),
    shape("slash", r"()(\d+(?:\.\d+)?)\s?/\s?(\d+(?:\.\d+)?)(?![\d/])", say.slash, r"0(?:/[0 ]|\.0| /)"),
    shape("parts", r"(\d{1,3})/(\d{1,4})((?i:th|ths|rd|rds|nd|nds|st)|s)(?!\w)", say.parts, "0/0"),
    shape("per", rf"/\s?(?P<count>[1-9]\d*(?:\.\d)?\s?)?(?P<unit>(?:(?:sq|cu)\.?\s)?[A-Za-zµμ]+){_POWER}"
           r"(?:\.(?=\s[a-z\d(]|[,;)]))?(?!\w)", quantities.per, "/[0 a-zA-Zµμ]"),
    shape("loose", r"\^(-?\d+|[a-z])(?!\w)", words.power, r"\^"),
    shape("loose", r"([⁻⁺]?[⁰¹²³⁴-⁹₀-₉]+)", words.power, f"[{_RAISED}]"),
    shape("isotope", r"([⁰¹²³⁴-⁹]{1,3})([A-Z][a-z]?)(?!\w)", words.isotope, f"[{_RAISED}]"),
    shape("absolute", r"\|(-?[^\W_]|[^\W_]\s?[-+]\s?[^\W_])\|(?![\w|])", words.absolute, r"\|"),
    shape("dialled", r"([*#])(\d{2,4})(#?)(?!\w)", words.dialled, "[*#]0"),
    shape("masked", r"(?:(?:\*{4}[\s-]?){1,4}|(?:•{2,4}[\s-]?){1,4}|\*{3}-\*{2}-)(\d{2,4})(?!\w)",
          say.says("card", "{1:d}"), r"\*\*|•"),
    shape("handle", r"@([A-Za-z_]\w*)", electronic.handle, "@[A-Za-z_]"),
    shape("hashtag", r"#(\d{0,4}[A-Za-z]\w*)", electronic.hashtag, "#[0A-Za-z]"),
    shape("colour", r"#(?=\d*[A-Fa-f])(?=[A-Fa-f]*\d)([\dA-Fa-f]{6})(?!\w)", electronic.colour, "#[0A-Fa-f]"),
    shape("price", r"[$£€¥₹](?=/[A-Za-z])", quantities.price, "[$£€¥₹]/"),
    shape("ticker", r"\$([A-Z]{2,5})(?!\w)", quantities.ticker, r"\$[A-Z]"),
    shape("emoticon", r"(?:[:;=]|(?<![(\d])8)['-]?[)(\]\[DPpO|*\\](?:[)(])*(?![\w:])|\[\d{1,3}\]", words.silent,
          r"[:;=0][])([DPpO|*\\'-]|\[0"),
))  # fmt: skip
_IN_LETTERS = Shapes(found for found in SHAPES.all if found.name in ("money", "money range"))
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?,(?=\s(?:1\d|20)\d\d(?!\w|,\d))")
_MONTH_AHEAD = re.compile(rf"\b(?i:{'|'.join({*say.MONTHS, *(month[:3] for month in say.MONTHS), 'sept'})})\.?\s\Z")

_SIGNS_AT = {sign[0]: sorted((s for s in SIGN_ROWS if s[0] == sign[0]), key=len, reverse=True) for sign in SIGN_ROWS}
_KEPT = SpokenForm(("sign",), None)


def proposals(text: str, position: int, style: Style) -> list[Proposal]:
    """All that text[position:] may begin with."""
    character = text[position]
    if character.isalpha():
        if is_within_word(text, position):
            return []
        found = lexical.of_words(text, position, style)
        shapes = _IN_LETTERS.at(text, position)
        return found + matched(shapes, text, position, style, style.memory) if character.isupper() else found
    if character.isdecimal():
        if (day := _DAY.match(text, position)) and _MONTH_AHEAD.search(text[max(0, position - 11) : position]):
            return [Proposal(day.end(), [], list(say.ordinal_day(day, style)))]
        found = matched(SHAPES.at(text, position), text, position, style, style.memory)
        if (m := ALNUM.match(text, position)) and (readings := words.abbreviations(m[0], style, dot=False)):
            found.append(Proposal(m.end(), [f"w={m[0]}"], readings))
        return found
    if character == "." and _STOP.match(text, position):
        return []
    found = matched(SHAPES.at(text, position), text, position, style, style.memory)
    for sign in _SIGNS_AT.get(character, ()):
        if text.startswith(sign, position):
            if _is_sign(text, position, position + len(sign)):
                found += _of_sign(text, position, sign)
            break
    return found


def is_within_word(text: str, position: int) -> bool:
    """Whether a letter is not the first of its word."""
    return position > 0 and text[position - 1].isalpha() and text[position].isalpha()


def _of_sign(text: str, position: int, sign: str) -> list[Proposal]:
    """What a sign says, and its first character where that is one, too."""
    around = beside(text, position, position + len(sign))
    own = (f"s={sign}", f"s={sign}{around}")
    return [Proposal(position + length, own, readings) for length, readings in _readings(sign, around == "99")]


@cache
def _readings(sign: str, is_amid_digits: bool) -> list[tuple[int, list[SpokenForm]]]:
    """The lengths and the readings of a sign and of its first character; one of its silent readings is enough."""
    silent = "sign" if is_amid_digits else "nothing"
    readings = [*SIGN_ROWS[sign], _KEPT]
    silences = sum(not r.said for r in readings)
    found = [(len(sign), [r for r in readings if r.said or silences < 2 or r.parts[0] != silent])]
    if len(sign) > 1 and sign[0] in SIGN_ROWS and sign not in ("#s", "--"):
        found.append((1, [*SIGN_ROWS[sign[0]], _KEPT]))
    return found


def _is_sign(text: str, start: int, stop: int) -> bool:
    """Whether a sign may be said: not amid other signs, a colon against numbers, a stop against what is no space."""
    first, last = max(0, start - _NEAR), stop + _NEAR
    if not _ALNUM.search(text, first, last) and text[first:last].strip() != text[start:stop]:
        return False
    if text[start] in ".:":
        around = beside(text, start, stop)
        return "9" in around or (text[start] == "." and around[1] == "a" and around[0] in "a)]")
    ahead, behind = text[start - 1 : start], text[stop : stop + 1]
    is_within = (ahead.islower() and behind.islower()) or "-" in (ahead, behind)
    return text[start:stop] != "-" or not is_within or bool(_LISTED.match(text, start))


_NEAR, _ALNUM = 4, re.compile(r"[^\W_]")  # characters
_LISTED = re.compile(r"(?<=\d[a-z])-[a-z](?!\w)")  # questions 3a-c
_STOP = re.compile(r"(?<=[\w)\"'])\.(?=\s|\Z)")  # of a sentence
PLAIN = re.compile(
    r"\s+|(?!(?:[BCDFGHJKLMNPQRSTVWXZbcdfghjklmnpqrstvwxz][bcdfghjklmnpqrstvwxz]|[bcdfghjklmnpqrstvwxyz]{3,5})(?![\w'])|[ivxl]{1,6}(?![\w'])|[A-Z][a-z]?\s(?:\d?[+-]\sion|[+→]\s))(?:(?<!\s-)[a-z]+|[A-Z][a-z]{2,}|(?<!\d)(?<![+→]\s)[A-Z][a-rt-z])(?:'[a-z]+)*(?=[\s,;:!?)\"]|\.(?:\s|\Z)|\Z)|(?<=[\w.])'[sS](?!\w)|[,;!?()\"“”](?![\d\w])"
    rf"|{_STOP.pattern}|(?<![^\W_])(?<![^\W_].)(?<![^\W_]..)(?<![^\W_]...)(?:[^\w\s*•#](?!.{{0,3}}[^\W_])){{2,}}"
)
"""Spaces, signs far from words, and words that may be read otherwise only if a table has them."""
SPECIAL = frozenset([*words.ENTRIES, *map(str.lower, (*words.ALONE, *CURRENCIES)), *SIGN_ROWS, "a", "am", "i"]) - {"."}
