"""The shapes of written English: what may be one token at a place, and all the readings that it may have."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from common.text.choose import Proposal, Reading, edge, read_table
from common.text.english import electronic, say, words
from common.text.english.say import TABLES, Readings, reading
from common.text.english.style import LARGE, NUMBER, Style


class Shape(NamedTuple):
    """What a token looks like, and the readings of a match; one of the characters of `needs` is near its beginning."""

    name: str
    pattern: re.Pattern[str]
    readings: Callable[[re.Match[str], Style], Readings]
    needs: str


def _shape(name: str, pattern: str, readings: Callable[[re.Match[str], Style], Readings], needs: str = "") -> Shape:
    return Shape(name, re.compile(pattern), readings, needs)


def _either(names: Iterator[str] | list[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


# ---------------------------------------------------------------------------------------------------------------------
# Numbers, with what stands against them

_FRACTION = r"\d+(?:\s|-)\d+/\d+|\d+/\d+"
_UNIT = r"°\s?[CF](?!\w)|(?:sq|cu|fl|deg)\.?[\s-]?[A-Za-z]+|[A-Za-z]+[·⋅/.-](?:[A-Za-z]+)|[A-Za-zµμΩ]+|[%‰°℃℉★⭐¢×]|''|[\"″'′]"
_POWER = r"(?P<power>[²³]|\^?[23](?!\d))?"
_END_OF_UNIT = r"(?!\.[A-Za-z])(?:(?![\w²³])|(?<=[\"″'′])(?=[xXWLHDwlhd](?![a-zA-Z]))|(?<=\d[hdwms])(?=\d))(?:\.(?=\s+[a-z\d&=]|\s\(|[,;:)/]|-\d|\s-\s\d))?"
_MEASURE = (
    rf"(?P<number>{_FRACTION}|{NUMBER})(?:\s(?P<large>{LARGE}))?(?P<gap>[\s-]?)(?P<unit>%s){_POWER}{_END_OF_UNIT}"
)
_SIGNS = [
    sign
    for sign in say.CURRENCIES
    if not sign.isalpha() or sign in ("Rs", "RM", "Rp", "Dh", "Dhs", "Fr", "KSh", "Ksh", "R")
]
_CODES = [sign for sign in say.CURRENCIES if sign.isascii() and sign.isalpha() and sign.isupper()]
_EUROPEAN = r"(?:\d{1,3}(?:\.\d{3})*|\d{1,3}(?: \d{3}){1,9}),\d\d(?!\d|,\d)"
_AMOUNT = rf"(?:{_EUROPEAN}|{NUMBER}|\d{{1,3}}(?: \d{{3}}){{1,9}}(?!\d))"
_MAGNITUDE = rf"(?:[\s-]?(?P<%s>(?:{LARGE})\b|(?:mn|mln|mill?|mio|bil|bln|lakhs?|crores?|cr|[kKmMbB]n?|BN|MM|mm|trn?|tn|T)(?![\w'])))?"
_SIGN = (
    rf"(?P<sign>(?:USD?|CAD|AUD|NZD|HKD|SGD)\s?\$|{_either(_SIGNS)}|(?:{_either(_CODES)})(?=[\s\d]))(?:(?<=[a-z])\.)?"
)
_MONEY = rf"{_SIGN}\s?(?P<minus>-)?(?P<number>{_AMOUNT}){_MAGNITUDE % 'magnitude'}(?:\s(?:(?P<code>{_either(_CODES)})\b|(?P<us>U\.?S\.?\s)?dollars?\b))?"
_MONEY_RANGE = rf"{_SIGN}\s?(?P<number>{_AMOUNT}){_MAGNITUDE % 'magnitude'}\s?-\s?(?P<last>{_AMOUNT}){_MAGNITUDE % 'last_magnitude'}"
_MONEY_BEHIND = rf"(?P<number>{_AMOUNT}){_MAGNITUDE % 'magnitude'}[\s-]?(?P<sign>[$£€¥₹¢₩₽₿฿₫₪₺₴](?!\d)|円|元|(?:{_either([c for c in say.CURRENCIES if c.isalpha() and len(c) > 1])})(?!\w))\.?"

NUMBERS = (
    _shape("number", rf"\d{{1,3}}(?:'\d{{3}}){{1,9}}(?![\w'])|{NUMBER}", say.number),
    _shape("ordinal", r"(\d[\d,]{0,48})(st|nd|rd|th|ST|ND|RD|TH)\b", say.ordinal_number, "tnrTNR"),
    _shape("decade", r"'?(\d[\d,]{0,10})'?s(?!\w)", say.decade, "s"),
    _shape("short year", r"'(\d\d)(?!\w)", say.short_year, "'"),
    _shape("exponent", rf"({NUMBER})[eE]([-+]?)(\d+)\b", say.exponent, "eE"),
    _shape("hexadecimal", r"0x([\dA-Fa-f]+)\b", say.hexadecimal, "x"),
    _shape("points", r"\d+(?:\.\d+){2,}(?!\w)", say.points, "."),
    _shape("internet", rf"(?<![\d.]){electronic.INTERNET}", electronic.internet, "."),
    _shape(
        "telephone",
        r"\+?(?:\(\d{1,5}\)|\d{1,6})(?:[ .-]?(?:\(\d{1,5}\)|(?<!\d)\d{1,8}|(?<=\))[ ]?\d{1,8})|[ ./-]\d{1,8}){1,7}(?:-[A-Z]{3,9})?(?!\w)",
        say.telephone,
        " -.()/",
    ),
    _shape("measure", _MEASURE % _UNIT, say.measure),
    _shape("measure", _MEASURE % r"[A-Za-z]+|''|[\"″'′]", say.measure),
    _shape("hours", r"(\d{1,2})\s?h(?:rs?)?\s?(\d\d)(?!\w)", say.hours, "h"),
    _shape("players", r"(\d?[1-9])(ers)(?!\w)|(\d{1,3})(ish)\b", say.players, "ei"),
    _shape("pinned", _either(list(say.PINNED)) + r"(?!\w)", say.pinned),
    _shape("doi", r"10\.\d{4,9}/[\w.()/-]{0,99}\w", electronic.address, "/"),
    _shape("height", r"(\d{1,2})['′][\s-]?(\d{1,2}(?:\.\d|\s\d/\d)?)(?:\"|″|''|”|(?![\w'.]))", say.height, "'′"),
    _shape("money range", _MONEY_RANGE, say.money, "-"),
    _shape("money", _MONEY, say.money),
    _shape("money behind", _MONEY_BEHIND, say.money),
    _shape("notes", r"([$£€])(\d[\d,]*)s(?!\w)(?:\sof\s(thousands|millions|billions|trillions))?", say.notes, "s"),
    _shape("loss", rf"([$£€])\(({NUMBER})\)(?:\s({LARGE})\b|\s?([kKmMbB]n?)(?!\w))?", say.loss, "("),
    _shape("clock", r"(\d{1,3})\s?:\s?(\d{1,4}(?:,\d{3})*)(?::(\d{1,2}(?:\.\d{1,3})?))?(?!:?\d)", say.clock, ":"),
    _shape("clock", r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)()(?!:?\d)", say.clock, ":"),
    _shape("stamp", r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?(?!\w)", say.stamp, "-"),
    _shape("date", r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])", say.date, "-/."),
    _shape("date", r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d?)(?![\d/-])", say.date, "-/."),
    _shape("slash", r"(?:(\d+)[\s-](?!\d{4}/))?(\d+)\s?/\s?(\d+)(?![\d/])", say.slash, "/"),
    _shape("slash", r"()(\d+(?:\.\d+)?)\s?/\s?(\d+(?:\.\d+)?)(?![\d/])", say.slash, "/"),
    _shape("parts", r"(\d{1,3})/(\d{1,4})((?i:th|ths|rd|rds|nd|nds|st)|s)(?!\w)", say.parts, "/"),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# Words

_NEAR = 24
_CORE = re.compile(r"[^\W\d_⁰¹²³⁴-⁹₀-₉]+(?:'[^\W\d_⁰¹²³⁴-⁹₀-₉]+)*")
_SLASHED = (
    re.compile(r"(?:MM|DD)/(?:MM|DD)/(?:YY){1,2}"),
    re.compile(
        r"[A-Za-z]{1,4}/[A-Za-z]{0,4}(?![A-Za-z])|[A-Za-z]{2,5}\.\s(?:cit|L|R|P|al)(?=\.)|(?:MM|DD)/(?:MM|DD)/(?:YY){1,2}|himself/herself|[A-Z]/[A-Z]/[A-Z]|[A-Za-z]{1,3}/[A-Za-z]/[a-z]"
    ),
    re.compile(r"[A-Za-z]{1,3}(?:\.[A-Za-z]{1,4}){1,3}(?!\w)"),
    re.compile(r"w/"),
)
_ALNUM = re.compile(r"[A-Za-z]{0,6}\d[A-Za-z]{0,6}(?!\w)")
_SMALL_BEHIND = re.compile(r"\s+[\w$£€.\"'(-]\S")
_WORD_AHEAD = re.compile(r"[a-z\d]\s\Z")
_REFERRED = re.compile(
    r"\.?\s*[#(\[§]*[A-Z]{0,3}-?\d|\.?\s+[IVXLivxl]+\b|\.?\s*[:#]|\.?\s[A-Z](?![\w'])|\.\s\([A-Z]{2}\)\s\d|\.\s(?:of|is|was|for)\b|(?<=os)\b"
)
_GOES_ON = re.compile(r"\.(?:,|\s+[a-z])")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?,(?=\s(?:1\d|20)\d\d(?!\w|,\d))")
_MONTH_AHEAD = re.compile(
    rf"\b(?i:{'|'.join({*say.MONTHS, *(month[:3] for month in say.MONTHS), 'sept'})})\.?\s\Z"
)
_MEASURED = re.compile(r"\d[\"″'′]\s?\Z")
_AT_HOURS = re.compile(r"\d/\d{1,2}\Z")
_VERSE = re.compile(r"\.?\s\d+:\d")
_CHAPTER = re.compile(r"\.?\s\d")
_LABELLED = re.compile(r"\.?:|\s?\d")
_APPLIED = re.compile(r"\(|[²³^]|\s?[θαβγφψωπ]|\s[a-z](?![\w'])")
_GREEK = re.compile(r"[α-ωΑ-Ω](?![A-Za-z]{2}|[^\W\d_A-Za-z⁰¹²³⁴-⁹₀-₉])")
_INITIALS = re.compile(r"(?:[A-Za-z]\.\s?){1,9}[A-Za-z](?:\.|(?!\w))|(?:[A-Za-z]\.){2,9}")
_CAPITALS = re.compile(r"([A-Z]{2,})('?s|'d|'ed|'ing|ed|ing)?(?![A-Za-z])")
_NUMERAL = re.compile(r"([IVXLCDM]+|[ivxlcdm]+)('s)?(?![\w'])")
_ELISION = re.compile(r"[A-Za-z]+'[a-z]")

CAPITALS = (
    _shape("season", r"S(\d{1,2})[\s.:]?E(\d{1,3})(?!\w)", words.season),
    _shape("formula", r"((?:[A-Z][a-z]?[\d₀-₉]{0,3}|\((?:[A-Z][a-z]?[\d₀-₉]{0,3}){1,9}\)[\d₀-₉]{1,3}){1,20})(\^?\d?[+-]|[²³⁴]?[⁺⁻])?(?![A-Za-z\d+])", words.formula),
    _shape("chess", r"([KQRBN])?([a-h]?[1-8]?)(x)?([a-h])([1-8])(=[QRBN])?([+#])?(?![\w-])|O-O(?:-O)?(?![\w-])", words.chess),
    _shape("chord", r"([A-G])([#♯♭]|b(?=\s(?:major|minor|flat)|m|[0-9]))?(maj|min|m|sus|dim|aug|add)?(\d{1,2})?(?!\w|\.\d)", words.chord),
    _shape("numeral", r"([XVI]{1,6})(?:th|st|nd|rd)(?!\w)", words.numeral_and_ending),
    _shape("zone", r"(UTC|GMT)\s?([+-])\s?(\d{1,2})(?::(\d\d))?(?!\w)", words.zone),
    _shape("ampersand", r"([A-Z]{1,3})&([A-Z]{1,3})(s?)(?!\w)", words.name_and_capital),
    _shape("degree", r"(?:[BMD]\.(?:Sc|Eng|Ed|Phil|Tech|Com|Arch|Mus)|LL\.[BMD]|Ed\.D)\b\.?", words.degree),
    _shape("grade", r"(AB|[A-DFO])([+-])(?![\w+-])", words.grade),
    _shape("money range", _MONEY_RANGE, say.money, "-"),
    _shape("money", _MONEY, say.money),
)  # fmt: skip
LETTERS = (
    _shape("mixed", r"([a-z]{1,5}|[A-Z][a-z]+)([A-Z]{2,})(s?)(?![A-Za-z])", words.mixed_case),
    _shape("mixed", r"([a-zA-Z])([A-Z])(?![A-Za-z])()", words.mixed_case),
    _shape("chords", r"[ivIV]{1,3}(?:-[ivIV]{1,3}){2,5}(?![\w-])", words.chords),
    _shape("function", r"([fghFGPEO])('{0,2})(?=\([^()\n]{1,20}\))", words.function),
    _shape("derivative", r"d([a-z])/d([a-z])(?![\w/])", words.derivative),
    _shape("logarithm", r"log([₀-₉]{1,3})\(?", words.logarithm),
    _shape("dosage", r"q\.?(\d{1,2})(?:-(\d{1,2}))?\s?h(?:rs?|ours)?(?!\w)\.?", words.dosage),
    _shape("masked", r"(?:[xX]{3,4}[\s-]?)(?:[xX]{2,4}[\s-]?){0,3}(\d{4})(?!\w)", words.masked),
    _shape("code", r"(?=[A-Za-z\d-]{0,24}\d)[A-Z\d]{1,12}(?:-[A-Z\d]{1,12}){0,6}(?![\w-])", words.labelled),
)  # fmt: skip

_SIGN_ROWS: dict[str, list[Reading]] = {}
for _sign, _said, _kind in (([*row, "", ""])[:3] for row in read_table(TABLES / "signs.tsv")):
    _SIGN_ROWS.setdefault(_sign, []).append(reading(f"{_kind} s:{_sign}", _said))
_LONG_SIGNS = re.compile(_either([sign for sign in _SIGN_ROWS]))
_KEPT = Reading(("sign",), None)

SIGNS = (
    _shape("pinned", _either(list(say.PINNED)) + r"(?!\w)", say.pinned),
    _shape("per", rf"/\s?(?P<count>[1-9]\d*(?:\.\d)?\s?)?(?P<unit>(?:(?:sq|cu)\.?\s)?[A-Za-zµμ]+){_POWER}(?:\.(?=\s[a-z\d(]|[,;)]))?(?!\w)", say.per),
    _shape("loose", r"\^(-?\d+|[a-z])(?!\w)", words.power),
    _shape("loose", r"([⁻⁺]?[⁰¹²³⁴-⁹₀-₉]+)", words.power),
    _shape("isotope", r"([⁰¹²³⁴-⁹]{1,3})([A-Z][a-z]?)(?!\w)", words.isotope),
    _shape("absolute", r"\|(-?[^\W_]|[^\W_]\s?[-+]\s?[^\W_])\|(?![\w|])", words.absolute),
    _shape("dialled", r"([*#])(\d{2,4})(#?)(?!\w)", words.dialled),
    _shape("masked", r"(?:(?:\*{4}[\s-]?){1,4}|(?:•{2,4}[\s-]?){1,4}|\*{3}-\*{2}-)(\d{2,4})(?!\w)", words.masked),
    _shape("handle", r"@([A-Za-z_]\w*)", electronic.handle),
    _shape("hashtag", r"#(\d{0,4}[A-Za-z]\w*)", electronic.hashtag),
    _shape("colour", r"#(?=\d*[A-Fa-f])(?=[A-Fa-f]*\d)([\dA-Fa-f]{6})(?!\w)", electronic.colour),
    _shape("price", r"[$£€¥₹](?=/[A-Za-z])", say.price),
    _shape("ticker", r"\$([A-Z]{2,5})(?!\w)", say.ticker),
    _shape("emoticon", r"[:;=8]['-]?[)(\]\[DPpO|*\\](?:[)(])*(?![\w:])|\[\d{1,3}\]", words.silent),
)  # fmt: skip

_ADDRESS = Shape("address", electronic.ADDRESS, electronic.address, "")
_VARIABLE = _shape("variable", electronic.VARIABLE, electronic.variable)


def proposals(text: str, position: int, style: Style, *, begins_word: bool, has_address: bool) -> list[Proposal]:
    """All that text[position:] may begin with."""
    character = text[position]
    found: list[Proposal] = []
    if has_address and not text[position - 1 : position].isalnum():
        if named := _matched((_ADDRESS, _VARIABLE), text, position, style):
            return named[:1]
    if character.isalpha():
        return _of_words(text, position, style) if begins_word else []
    if (day := _DAY.match(text, position)) and _MONTH_AHEAD.search(text[max(0, position - 11) : position]):
        return [Proposal(day.end(), [], list(say.ordinal_day(day, style)))]
    if character.isdecimal() or any(map(str.isdecimal, text[position + 1 : position + 6])):
        found = _matched(NUMBERS, text, position, style)
        if (m := _ALNUM.match(text, position)) and (readings := words.abbreviations(m[0], style, dot=False)):
            found.append(Proposal(m.end(), [f"w={m[0]}"], readings))
    if not character.isdecimal():
        found += _matched(SIGNS, text, position, style)
        if (sign := _LONG_SIGNS.match(text, position)) and _is_sign(text, position, sign.end()):
            own = [f"s={sign[0]}", f"s={sign[0]}{_beside(text, position, sign.end())}"]
            silent = "sign" if _beside(text, position, sign.end()) == "99" else "nothing"
            readings = [*_SIGN_ROWS[sign[0]], _KEPT]
            silences = sum(not r.said for r in readings)
            kept = [r for r in readings if r.said or silences < 2 or r.parts[0] != silent]
            found.append(Proposal(sign.end(), own, kept))
            if len(sign[0]) > 1 and character in _SIGN_ROWS and sign[0] not in ("#s", "--"):
                found.append(Proposal(position + 1, own, [*_SIGN_ROWS[character], _KEPT]))
    return found


def _is_sign(text: str, start: int, stop: int) -> bool:
    """Whether a sign may be said: a stop and a colon only against numbers."""
    if text[start] in ".:":
        return "9" in _beside(text, start, stop)
    ahead, behind = text[start - 1 : start], text[stop : stop + 1]
    return text[start:stop] != "-" or not (ahead.islower() and behind.islower() or "-" in (ahead, behind))


def _beside(text: str, start: int, stop: int) -> str:
    """What stands right beside a sign: a letter, a digit, a space."""

    def kind(character: str) -> str:
        return "9" if character.isdigit() else "a" if character.isalpha() else character

    return kind(text[start - 1] if start else " ") + kind(text[stop] if stop < len(text) else " ")


def _matched(shapes: tuple[Shape, ...], text: str, position: int, style: Style) -> list[Proposal]:
    found: list[Proposal] = []
    near = set(text[position : position + _NEAR])
    seen = set()
    for name, pattern, readings_of, needs in shapes:
        if needs and near.isdisjoint(needs):
            continue
        m = pattern.match(text, position)
        if m and m[0] and (name, m.end()) not in seen and (readings := list(readings_of(m, style))):
            seen.add((name, m.end()))
            found.append(Proposal(m.end(), own_features(name, m), readings))
    return found


@lru_cache(maxsize=64)
def _marks(text: str, mark: str) -> list[int]:
    return [m.start() for m in re.finditer(rf"(?<!\d){mark}(?=\w)|(?<=\w){mark}(?!\w)", text)]


def own_features(shape: str, m: re.Match[str]) -> list[str]:
    """What the form of a token tells: its shape, the length and size of its numbers, its letters."""
    found = [f"s={shape}"]
    written = m[0]
    numbers = re.findall(r"\d+(?:[.,]\d+)*", written[:40])
    lengths = ",".join(str(min(len(n), 6)) for n in numbers)
    found.append(f"{shape} len={lengths}")
    for i, n in enumerate(numbers[:2]):
        found += (f"{shape} {i}={n[:6]}", f"{shape} {i}:{_size(n)}")
        if n[0] == "0":
            found.append(f"{shape} {i}:pad")
    if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit():
        found += _compared(shape, int(numbers[0][:9]), int(numbers[1][:9]))
    letters = re.sub(r"[\d.,]+", "0", written[:24])
    found.append(f"{shape} form={letters}")
    return found


def _size(n: str) -> str:
    if not n.isdigit():
        whole, _, part = n.partition(".")
        return f".{len(whole)}.{len(part)}{'<60' if part[:2] < '60' else ''}"
    value = int(n[:9])
    for limit in (0, 1, 12, 24, 31, 59, 99, 999, 1499, 1999, 2100):
        if value <= limit:
            return f"<={limit}{'00' if n.endswith('00') else ''}"
    return ">"


def _compared(shape: str, first: int, second: int) -> list[str]:
    order = "<" if first < second else ">" if first > second else "="
    found = [f"{shape} {order}", f"{shape} {first}/{second}"]
    if first + second == 100:
        found.append(f"{shape} sum=100")
    if 1 <= first <= 12 and 1 <= second <= 31:
        found.append(f"{shape} day{order}")
    return found


def _of_words(text: str, position: int, style: Style) -> list[Proposal]:
    if greek := _GREEK.match(text, position):
        return [Proposal(position + 1, [], [reading("greek", words.GREEK[greek[0].lower()])])]
    core = _CORE.match(text, position)
    assert core
    word, stop = core[0], core.end()
    if word.lower() in style.known:
        return [Proposal(stop, [], [Reading(("word",), None)])]
    own = [f"w={word.lower()}", f"s={_case(word)}"]
    plain = [Reading(("word",), None)]
    found = []
    ahead = text[max(0, position - 3) : position]
    follows = words.Follows(
        number=ahead[-1:].isdigit(),
        zone=bool(_AT_HOURS.search(text[max(0, position - 5) : position])),
        per=text.startswith("/", stop),
        dimension=bool(_MEASURED.search(ahead)),
        reference=bool(_REFERRED.match(text, stop)),
        verse=bool(_VERSE.match(text, stop) or (word != "Is" and _CHAPTER.match(text, stop))),
        label=bool(_LABELLED.match(text, stop)),
        function=bool(_APPLIED.match(text, stop)),
    )
    plain += words.abbreviations(word, style, dot=False, follows=follows)
    if word.lower() in ("dr", "mr", "mrs") and len(plain) > 1:
        del plain[0]
    if len(word) == 1 and word in "Aa" and not (word == "a" and _SMALL_BEHIND.match(text, stop)):
        plain.append(reading("letter", style.letters("A")))
    if word.lower() in ("am", "pm") and text[max(0, position - 3) : position].rstrip()[-1:].isdigit():
        plain.append(reading("half", style.half(word[0])))
    if len(word) == 1 and word in "AaPp" and text[position - 1 : position].isdigit():
        plain.append(reading("half", style.half(word)))
    if (
        len(word) == 2
        and word[0].isupper()
        and word[1] == "s"
        and _WORD_AHEAD.search(text[max(0, position - 12) : position])
    ):
        plain.append(reading("letters", f"{style.letters(word[0])}'s"))
    if (capitals := _CAPITALS.match(text, position)) and style.for_voice:
        plain_features = [*own, *words.looks(capitals[1]), f"w={capitals[1].lower()}"]
        if capitals.end() == stop or not text[stop - 1].isalpha():
            plain += words.capitals(capitals[1], capitals[2] or "", style)[1:]
            own = plain_features
        else:
            found.append(
                Proposal(capitals.end(), plain_features, words.capitals(capitals[1], capitals[2] or "", style)[1:])
            )
    elif _is_unsaid(text, position, stop, word) and word not in ("am", "pm"):
        plain += words.spelled(word, style)
        own += words.looks(word)
    if numeral := _NUMERAL.match(text, position):
        readings = words.numerals(numeral[1], "'s" if numeral[2] else "")
        if readings:
            if numeral.end() == stop:
                plain += readings
                if _GOES_ON.match(text, stop):
                    found.append(Proposal(stop + 1, own, readings))
            else:
                found.append(Proposal(numeral.end(), own, readings))
    if word in _SIGN_ROWS and _between_terms(text, position, stop):
        plain += _SIGN_ROWS[word]
        own.append(f"s={word}{_beside(text, position, stop)}")
    found.insert(0, Proposal(stop, own, plain))
    if text.startswith(".", stop):
        dotted = words.abbreviations(word, style, dot=True, follows=follows)
        if dotted:
            too = "too" if words.is_word_too(word) else ""
            behind = next((c for c in text[stop + 1 : stop + 4] if not c.isspace()), "$")
            own += (f"entry {too}", f"entry {too}{edge(behind)}")
            found.append(Proposal(stop + 1, own, dotted))
            found[0] = found[0]._replace(own=own)
    found += _with_signs(text, position, style, own)
    return found


def _between_terms(text: str, start: int, stop: int) -> bool:
    """Whether an x stands beside a number, or between two capitals."""
    ahead, behind = text[max(0, start - 2) : start].rstrip()[-1:], text[stop : stop + 2].lstrip()[:1]
    return ahead.isdigit() or behind.isdigit() or (ahead.isupper() and behind.isupper()) or ahead in ('"', "'")


def _with_signs(text: str, position: int, style: Style, own: list[str]) -> list[Proposal]:
    found = []
    for m in (
        *(p.match(text, position) for p in _SLASHED),
        _ELISION.match(text, position),
        _ALNUM.match(text, position),
    ):
        if m and (readings := words.abbreviations(m[0], style, dot=True)):
            stop = m.end() + text.startswith(".", m.end())
            found.append(Proposal(stop, [*own, f"w={m[0].lower()}"], readings))
    if m := _INITIALS.match(text, position):
        own = [*own, f"w={m[0].lower()}", f"s=initials{min(len(m[0]), 7)}"]
        readings = [*words.initials(m, style), *words.abbreviations(m[0].rstrip(".").replace(" ", ""), style, dot=True)]
        found.append(Proposal(m.end(), own, readings))
    shapes = LETTERS + CAPITALS if text[position].isupper() else LETTERS + CAPITALS[2:3]
    return found + _matched(shapes, text, position, style)


def _is_unsaid(text: str, start: int, stop: int, word: str) -> bool:
    """Whether a small word may be no word: without a vowel, or beside a digit."""
    if not word.islower() or len(word) > 5:
        return False
    if text[start - 1 : start].isdigit() or text[stop : stop + 1].isdigit():
        return True
    if re.search("[aeiouy]", word):
        return False
    return "-" in (text[start - 1 : start], text[stop : stop + 1]) or not words.is_known(word)


def _case(word: str) -> str:
    if len(word) == 1:
        return "letter" if word.islower() else "Letter"
    return "lower" if word.islower() else "UPPER" if word.isupper() else "Capital" if word[1:].islower() else "miXed"


PLAIN = re.compile(
    r"\s+|(?![bcdfghjklmnpqrstvwxz]{2,5}(?![\w'])|[ivxl]{1,6}(?![\w']))[a-z]+(?:'[a-z]+)*(?=[\s,;:!?]|\Z)|(?<=[\w.])'[sS](?!\w)|[,;!?()\"“”](?![\d\w])"
)
"""Spaces and words in small letters that may be read otherwise only if a table has them."""
SPECIAL = frozenset([*words.ENTRIES, *words.ALONE, *_SIGN_ROWS, "a", "am", "i"])
