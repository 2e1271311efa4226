"""English text as it is spoken: numbers, dates, times, money and abbreviations in words.

Each rule is a pattern and what is said instead. Those for digits come first, the specific before the general: whatever
digits are left at their end are plain numbers. Text that is normalised already is left as it is.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from common.text.numbers import cardinal, digits, fraction, ordinal, pair, plural, year

_LETTERS = "abcdefghijklmnopqrstuvwxyz' "
_PLAIN = re.compile(r"[a-z']+(?: [a-z']+)*")
_TITLE = re.compile(r"\b(?:mr|mrs|dr)\b")

_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def normalize_english(text: str, *, keep: str | None = None) -> str:
    """The words of `text` in lower case, separated by single spaces.

    `keep` names the characters that may stay besides a-z: by default the apostrophe within a word. Add punctuation to
    keep it ("',.?!"), or letters of another alphabet, which are otherwise written in Latin ones (é → e). Punctuation
    that is not kept becomes a space. No letter is ever dropped: a vocabulary names those that it does not have.
    """
    keep = _LETTERS if keep is None else keep.lower()
    if _PLAIN.fullmatch(text) and not _TITLE.search(text) and "'" in keep:
        return text
    text = _in_ascii(text, keep)
    for pattern, spoken in _DIGIT_RULES if any(map(str.isdigit, text)) else ():
        text = pattern.sub(spoken, text)
    for pattern, spoken in _WORD_RULES:
        text = pattern.sub(spoken, text)
    return _tidy(text.lower(), keep)


# ---------------------------------------------------------------------------------------------------------------------
# Characters

_SYMBOLS = str.maketrans(
    {
        **dict.fromkeys("’ʼ´", "'"),
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("–‒", "-"),
        **dict.fromkeys("\u00a0\u2009\u202f", " "),
        **dict.fromkeys("™®©", ""),
        **{
            fraction: f" {top}/{bottom}"
            for fraction, top, bottom in zip("½⅓⅔¼¾⅕⅛⅜⅝⅞", "1121311357", "2334458888", strict=True)
        },
        "—": " - ",
        "―": " - ",
        "−": "-",
        "…": "...",
        "²": " squared ",
        "³": " cubed ",
        "×": " times ",
        "÷": " divided by ",
    }
)
_UNDERSTOOD = "£€¥₹¢°‘"


@lru_cache(maxsize=4096)
def _latin(character: str) -> str:
    from anyascii import anyascii

    is_picture = not character.isalnum() and anyascii(character).startswith(":")
    return " " if is_picture else anyascii(character)


def _in_ascii(text: str, keep: str) -> str:
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text).translate(_SYMBOLS)
    return "".join(c if c.isascii() or c in _UNDERSTOOD or c.lower() in keep else _latin(c) for c in text)


def _tidy(text: str, keep: str) -> str:
    text = re.sub(rf"[^\w{re.escape(keep)}]|_", " ", text)
    # An apostrophe belongs to a word.
    text = re.sub(r"(?<![^\W\d_])'+(?![^\W\d_])", " ", text)
    return re.sub(r" (?=[,.?!;:])", "", " ".join(text.split()))


# ---------------------------------------------------------------------------------------------------------------------
# Abbreviations

# With a dot in any case; those of `_CAPITALISED` also without one.
_ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "messrs": "messieurs", "drs": "doctors", "jr": "junior", "sr": "senior",
    "prof": "professor", "rev": "reverend", "hon": "honorable", "gov": "governor", "sen": "senator",
    "rep": "representative", "pres": "president", "gen": "general", "maj": "major", "col": "colonel",
    "lt": "lieutenant", "capt": "captain", "cpt": "captain", "cmdr": "commander", "sgt": "sergeant", "cpl": "corporal",
    "esq": "esquire", "co": "company", "corp": "corporation", "inc": "incorporated", "ltd": "limited",
    "bros": "brothers", "assn": "association", "dept": "department", "univ": "university", "govt": "government",
    "ave": "avenue", "blvd": "boulevard", "rd": "road", "hwy": "highway", "apt": "apartment", "mt": "mount",
    "ft": "fort", "vs": "versus", "etc": "et cetera", "approx": "approximately", "vol": "volume", "ch": "chapter",
    "fig": "figure", "ext": "extension", "tel": "telephone",
}  # fmt: skip
_ALSO_WORDS = frozenset(["apt", "co", "ext", "fig", "gen", "hon", "pres", "rep", "rev", "sen"])
_CAPITALISED = "Messrs|Drs|Jr|Sr|Prof|Rev|Gov|Sen|Maj|Lt|Capt|Cmdr|Sgt|Cpl|Esq|Ltd|Blvd|Mt"
_MONTHS = {
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "may": "may", "jun": "june", "jul": "july",
    "aug": "august", "sep": "september", "sept": "september", "oct": "october", "nov": "november", "dec": "december",
}  # fmt: skip
_MONTH_NAMES = tuple(dict.fromkeys(_MONTHS.values()))

# What follows "St." or "Dr." where it ends an address: these words do not begin a name.
NOT_A_NAME = re.compile(
    "(?:a|an|and|are|as|at|because|but|by|for|from|has|he|her|his|i|in|into|is|it|its|my|near|next|no|of|on|or|our|she|so"
    "|that|the|then|there|these|they|this|to|until|was|we|were|when|where|which|while|who|will|with|you)",
    re.IGNORECASE,
)


def _street_or(alternative: str, street: str) -> Callable[[re.Match[str]], str]:
    """A title stands before a name; a kind of street stands behind one."""

    def spoken(match: re.Match[str]) -> str:
        follows = re.match(r"\s+([\w']+)", match.string[match.end() :])
        ahead = re.search(r"([\w']+)\s+$", match.string[: match.start()])
        if ahead is None or NOT_A_NAME.fullmatch(ahead[1]):
            return f"{alternative} "
        if follows is None or NOT_A_NAME.fullmatch(follows[1]):
            return f"{street} "
        is_name = follows[1][0].isupper() or match[0][0].islower()
        return f"{alternative} " if is_name else f"{street} "

    return spoken


def _abbreviation(match: re.Match[str]) -> str:
    is_word = match[1] in _ALSO_WORDS  # at the end of a sentence; the abbreviation has a capital
    return match[0] if is_word else _ABBREVIATIONS.get(match[1].lower(), match[0])


# ---------------------------------------------------------------------------------------------------------------------
# Money and units

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_MAGNITUDES = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "tn": "trillion"}
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "¢": ("cent", "cents", "", ""),
}
UNITS = {
    "%": "percent", "km/h": "kilometer per hour", "mph": "mile per hour", "km": "kilometer", "cm": "centimeter",
    "mm": "millimeter", "m": "meter", "kg": "kilogram", "mg": "milligram", "g": "gram", "lb": "pound", "lbs": "pound",
    "oz": "ounce", "ft": "foot", "yd": "yard", "yds": "yard", "ml": "milliliter", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte",
    "ms": "millisecond", "sec": "second", "secs": "second", "min": "minute", "mins": "minute", "hr": "hour",
    "hrs": "hour", "kw": "kilowatt", "°c": "degree celsius", "°f": "degree fahrenheit", "°": "degree",
}  # fmt: skip
_IN_ANY_CASE = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True) if unit not in ("m", "g"))


def _money(number: str, magnitude: str | None, currency: str) -> str:
    one, many, one_part, many_parts = _CURRENCIES[currency]
    if magnitude:
        return f" {cardinal(number)} {_MAGNITUDES.get(magnitude, magnitude)} {many} "
    whole, _, parts = number.partition(".")
    if len(parts) != 2 or not many_parts:
        return f" {cardinal(number)} {one if number == '1' else many} "
    spoken = []
    if whole.strip("0"):
        spoken.append(f"{cardinal(whole)} {one if whole == '1' else many}")
    if parts != "00" or not spoken:
        spoken.append(f"{cardinal(str(int(parts)))} {one_part if parts == '01' else many_parts}")
    return f" {' '.join(spoken)} "


def _unit(match: re.Match[str]) -> str:
    number, hyphen, unit = match[1], match[2], match[3].lower()
    first, _, rest = UNITS[unit].partition(" ")
    is_one = number == "1" or hyphen or first == "percent" or first.endswith("hertz")
    if not is_one:
        first = "feet" if first == "foot" else plural(first)
    return f" {cardinal(number)} {first} {rest} "


# ---------------------------------------------------------------------------------------------------------------------
# Times and dates

# "may" and "march" are months with a capital only.
_MONTH = rf"\b({'|'.join(name for name in _MONTH_NAMES if name not in ('march', 'may'))}|(?-i:March|May|MARCH|MAY))\b"
_SHORT_MONTH = "|".join(short for short in _MONTHS if short != "may")


def _clock(match: re.Match[str]) -> str:
    hour, minute, second, half = int(match[1]), match[2] or "00", match[3], match[4]
    if hour > 24 or int(minute) > 59:
        return f" {cardinal(match[1])} {cardinal(minute)} "
    spoken = [cardinal(str(hour))]
    if minute != "00":
        spoken.append(pair(minute))
    elif not half:
        spoken.append("o'clock" if 0 < hour <= 12 else "hundred")
    if second:
        spoken.append(f"and {cardinal(str(int(second)))} seconds")
    if half:
        spoken.append(f"{half.lower()}m")
    return f" {' '.join(spoken)} "


def _date(month: int, day: str, in_year: str | None) -> str:
    if not 1 <= month <= 12 or not 1 <= int(day) <= 31:
        return f" {month} {day} {in_year or ''} "
    if in_year and len(in_year) == 2:
        in_year = ("20" if int(in_year) < 50 else "19") + in_year
    return f" {_MONTH_NAMES[month - 1]} {ordinal(day)} {year(in_year) if in_year else ''} "


def _slash_date(match: re.Match[str]) -> str:
    """American order, unless the first number cannot be a month."""
    first, second, in_year = match[1], match[2], match[3]
    month, day = (second, first) if int(first) > 12 else (first, second)
    return _date(int(month), day, in_year)


def _month_and_day(match: re.Match[str]) -> str:
    return _date(_MONTH_NAMES.index(match[1].lower()) + 1, match[2], match[3])


# ---------------------------------------------------------------------------------------------------------------------
# Numbers

KINGS = "Henry|Louis|Charles|George|Edward|Richard|James|William|Elizabeth|Philip|Napoleon|Pius|Benedict|Gregory"
_COUNTED = "Chapter|Part|Volume|Book|Act|Scene|Section|Article|War|Type|Phase|Title|Appendix|Figure|Bowl"
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50}


def roman(numeral: str) -> str:
    """The digits of a Roman numeral below 90: XIV → 14."""
    values = [_ROMAN[letter] for letter in numeral]
    return str(sum(-value if value < max(values[i:]) else value for i, value in enumerate(values)))


def _mixed_fraction(match: re.Match[str]) -> str:
    part = fraction(match[2], match[3])
    if part.startswith("one "):
        part = ("an " if part[4] == "e" else "a ") + part[4:]
    return f" {cardinal(match[1])} and {part} "


def _number(match: re.Match[str]) -> str:
    """Four digits without a comma are read as a year."""
    is_year = re.fullmatch(r"[12]\d{3}", match[0])
    return f" {year(match[0]) if is_year else cardinal(match[0])} "


# ---------------------------------------------------------------------------------------------------------------------
# Rules


# Words that begin with an apostrophe.
_ELIDED = "(?:tis|twas|twere|twill|em|til|cause|bout|n)"


def _rule(pattern: str, spoken: str | Callable[[re.Match[str]], str]) -> _Rule:
    return re.compile(pattern, re.IGNORECASE), spoken


_DIGIT_RULES: tuple[_Rule, ...] = (
    # Signs: -5, -$5, ~5.
    _rule(r"(?<![\w.,)])-(?=[$£€]?\.?\d)", " minus "),
    _rule(r"~\s?(?=\.?\d)", " about "),
    # Times: 9:00-10:30, 8:00 pm, 10 a.m., 17:45.
    _rule(r"(?:(?<=\d:\d\d)|(?<=\d[ap]m))\s?-\s?(?=\d)", " to "),
    _rule(r"\b(\d{1,2})(?::(\d\d))?(?::(\d\d))?\s*([ap])(?:m\b|\.\s?m\b\.?)", _clock),
    _rule(r"\b(\d{1,2}):(\d\d)(?::(\d\d))?()(?:\s+o'clock)?\b(?!:)", _clock),
    _rule(r"\b(\d+):(\d+)\b", r"\1 to \2"),
    # Money: US$5, £5.50, $1.5 million, $3bn, 20 €, 50¢, 5p.
    _rule(r"\bUS(?=\$)", ""),
    _rule(
        rf"(?<!\d)([$£€¥₹])\s?({_NUMBER})(?:\s?(hundred|thousand|million|billion|trillion)\b|((?-i:k|mn|m|bn|tn))\b)?",
        lambda match: _money(match[2], match[3] or match[4], match[1]),
    ),
    _rule(rf"({_NUMBER})\s?([£€¥₹¢])", lambda match: _money(match[1], None, match[2])),
    _rule(r"\b(\d+)p\b", lambda match: f" {cardinal(match[1])} {'penny' if match[1] == '1' else 'pence'} "),
    # References: No. 5, #5, p. 5, pp. 3-5.
    _rule(r"\bnos?\.\s*(?=\d)|#\s?(?=\d)", "number "),
    _rule(r"\bp\.\s*(?=\d)", "page "),
    _rule(r"\bpp\.\s*(?=\d)", "pages "),
    # Dates: 2023-04-07, 4/7/2023, Nov. 22, 1963, the 5th of May.
    _rule(r"\b(\d{4})-(\d\d)-(\d\d)\b", lambda match: _date(int(match[2]), match[3], match[1])),
    _rule(r"\b(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)\b", _slash_date),
    _rule(rf"\b({_SHORT_MONTH})\b\.?(?=\s+\d)", lambda match: _MONTHS[match[1].lower()].capitalize()),
    _rule(rf"(?<=\d\s)({_SHORT_MONTH})\b\.?(?!')", lambda match: _MONTHS[match[1].lower()]),
    _rule(
        rf"{_MONTH}\s+(\d{{1,2}})-(\d{{1,2}})\b",
        lambda match: f"{match[1]} {ordinal(match[2])} to {ordinal(match[3])}",
    ),
    _rule(rf"{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?(?![\w:%/]|[.,]\d)(?:,?\s+(\d{{4}})\b)?", _month_and_day),
    _rule(rf"\b(\d{{1,2}})(?=\s+(?:of\s+)?{_MONTH})", lambda match: ordinal(match[1])),
    # Telephone numbers: 555-0123.
    _rule(r"(?<![\d-])(?:\d{3}-)?\d{3}-\d{4}(?![\d-])", lambda match: f" {digits(match[0])} "),
    # Fractions: 3/4, 2 1/2; but 24/7.
    _rule(r"\b(24)/(7)\b|\b(9)/(11)\b|\b(50)[-/](50)\b", r"\1\3\5 \2\4\6"),
    _rule(r"(?<![/\w])(\d+)\s+(\d+)/(\d+)\b", _mixed_fraction),
    _rule(r"\b(\d+)/(\d+)\b", lambda match: f" {fraction(match[1], match[2])} "),
    # Units: 5 km, 5-km, 20 %, 32°F.
    _rule(rf"(?<![\w.,])({_NUMBER})(?:\s|(-))?({_IN_ANY_CASE}|(?-i:[mg]))(?!\w)(?:\.(?=\s+(?-i:[a-z])))?", _unit),
    _rule(rf"({_NUMBER})\s?((?-i:k|mn|bn|tn))\b", lambda match: f" {cardinal(match[1])} {_MAGNITUDES[match[2]]} "),
    # Ordinals, decades, '63.
    _rule(r"\b(\d[\d,]*)(?:st|nd|rd|th)\b", lambda match: f" {ordinal(match[1])} "),
    _rule(r"\b(\d{3}0)'?s\b", lambda match: f" {plural(year(match[1]))} "),
    _rule(r"'?\b([2-9]0)'?s\b", lambda match: f" {plural(cardinal(match[1]))} "),
    _rule(r"(?<!\w)'(?=\d\d\b)", " "),
    # Ranges: 1914-1918.
    _rule(r"(?<=\d)(?:-|\s-\s)(?=\d)", " to "),
    # Codes and versions: C2766, 1.2.3.
    _rule(r"(?<=[a-z])\d{3,}", lambda match: f" {digits(match[0])} "),
    _rule(r"\b\d+(?:\.\d+){2,}", lambda match: f" {' point '.join(map(cardinal, match[0].split('.')))} "),
    _rule(_NUMBER, _number),
)

_WORD_RULES: tuple[_Rule, ...] = (
    # Quotation marks, as opposed to apostrophes.
    _rule(rf"‘(?={_ELIDED}\b)", "'"),
    _rule(r"‘([^‘]*?)'(?!\w)", r'"\1"'),
    _rule(r"‘", '"'),
    _rule(rf"(?<!\w)'(?!{_ELIDED}\b)(\w(?:[^']|(?<=\w)'(?=\w))*)'(?!\w)", r'"\1"'),
    _rule(r"(?<=[.,!?;:])'", '"'),
    # Abbreviations.
    _rule(r"\b([ap])\.\s?m\b\.?", r"\1m"),
    _rule(r"\be\.\s?g\b\.?", "for example"),
    _rule(r"\bi\.\s?e\b\.?", "that is"),
    _rule(r"\bph\.?d\b\.?", "p h d"),
    _rule(r"&c\b\.?", " et cetera"),
    _rule(r"\b(?:st\.|(?-i:St)\b(?!\.))", _street_or("saint", "street")),
    _rule(r"\bdr\b\.?", _street_or("doctor", "drive")),
    _rule(r"\b(mrs?)\b\.?", _abbreviation),
    _rule(r"\b([a-z]{2,6})\.", _abbreviation),
    _rule(rf"\b((?-i:{_CAPITALISED}))\b", _abbreviation),
    _rule(r"\b((?-i:Jan|Feb|Apr|Aug|Sept?|Oct|Nov|Dec))\.", lambda match: _MONTHS[match[1].lower()]),
    _rule(r"\b([a-z])\.(?=[a-z](?:\.|\b))", r"\1 "),
    # Henry VIII, Chapter IV.
    _rule(
        rf"\b((?-i:{KINGS}))\s+((?-i:[VX]|[IVXL]{{2,}}))\b\.?",
        lambda match: f"{match[1]} the {ordinal(roman(match[2]))}",
    ),
    _rule(rf"\b((?-i:{_COUNTED}))\s+((?-i:[IVXL]+))\b\.?", lambda match: f"{match[1]} {cardinal(roman(match[2]))}"),
    # Symbols that are said.
    _rule(r"&", " and "),
    _rule(r"\+", " plus "),
    _rule(r"@", " at "),
    _rule(r"=", " equals "),
    _rule(r"%", " percent "),
    _rule(r"°", " degrees "),
    _rule(r"[$£€¥₹¢]", lambda match: f" {_CURRENCIES[match[0]][0]} "),
)
