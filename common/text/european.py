"""Abbreviations, units, ordinals and dates of European languages in words, where espeak-ng reads letters.

espeak-ng pronounces words and counts, but takes "Dr." for two letters, "3." for three and "kg" for K, G. What stands
here is put in words before it; everything else stays for espeak. Where a language has no table, nothing changes.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache

from common.text import european_classes, european_numbers
from common.text.english.style import Token
from common.text.european_forms import genitive
from common.text.european_tables import LANGUAGES, Language
from common.text.numbers import in_words

_NUMBER = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?:,\d+)?(?!\d)|\d(?:[\d.,]*\d)?)"
_WEEKDAYS = {
    "Mo": "Montag", "Di": "Dienstag", "Mi": "Mittwoch", "Do": "Donnerstag", "Fr": "Freitag", "Sa": "Samstag",
    "So": "Sonntag",
}  # fmt: skip


def language_of(name: str) -> Language | None:
    """The table of a language, by its name in espeak or a BCP 47 tag: de-AT is de."""
    return LANGUAGES.get(_code(name))


def _code(name: str) -> str:
    return name.lower().replace("_", "-").partition("-")[0]


def european_tokens(text: str, name: str) -> list[Token]:
    """All of `text` in tokens, in its order, in the language that has a table by that name."""
    language, code = language_of(name), _code(name)
    if language is None:
        return [Token(text, "text", None)]
    return list(european_numbers.agreed(list(_tokens(text, language, code)), code))


def _tokens(text: str, language: Language, code: str) -> Iterator[Token]:
    pieces = list(european_classes.found(text, code))
    starts = [piece.start for piece in pieces]
    others: list[european_classes.Found] = []
    for match in _pattern(code).finditer(text):
        last = bisect_left(starts, match.end()) - 1  # the last that begins before this one ends
        inside = last >= 0 and pieces[last].stop > match.start()
        if not inside and (said := _said(match, language, code)) is not None:
            others.append(european_classes.Found(match.start(), match.end(), match.lastgroup or "text", said))
    position = 0
    for start, stop, kind, said in sorted(pieces + others):
        if start > position:
            yield Token(text[position:start], "text", None)
        yield Token(text[start:stop], kind, said)
        position = stop
    if position < len(text):
        yield Token(text[position:], "text", None)


@cache
def _pattern(code: str) -> re.Pattern[str]:
    language = LANGUAGES[code]
    parts = [r"(?P<code>(?<!\w)(?:https?://|www\.)\S+)"]  # is left as it is
    if code == "de":
        parts += [
            r"(?P<time>(?<![\d:])(\d{1,2}):(\d\d)(?=\s?Uhr\b)\s?Uhr)",
            r"(?P<date>(?<![\d.])\d{1,2}\.\d{1,2}\.(?:\d{4}|\d\d)?(?!\d))",
        ]
        parts.append(r"(?P<hours>(?<![\d:.,])\d{1,2}\s?[-–]\s?(?=\d{1,2}(?::\d\d)?\s?Uhr\b))")
        parts.append(rf"(?P<weekday>(?<!\w){_WEEKDAY}\.?(?!\w)(?:\s?[-–]\s?(?={_WEEKDAY}(?!\w)))?)")
        parts.append(r"(?P<street>(?<=[a-zß])str\.(?!\w))")
        parts.append(r"(?P<year>(?<![\w.,:])1[1-9]\d\d(?![\w%€$]|[.,:]\d))")
    if language.months:
        parts.append(r"(?P<day>(?<![\d./-])\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)\d{4}(?![\d/]))")
    if language.currencies:
        scales = "|".join(re.escape(scale) for scale in sorted(language.scales, key=len, reverse=True))
        parts.append(rf"(?P<amount>(?<![\w.,]){_NUMBER}\s?(?:{scales or '(?!)'})\s?[€$£¥](?!\w))")
        parts.append(rf"(?P<money>(?:R\$|US\$|[$€£¥])\s?{_NUMBER}(?:\s?(?:{scales or '(?!)'})(?!\w))?)")
    if code == "it":
        parts.append(r"(?P<first>(?<!\w)1°(?=\s[a-z]))")
    if language.has_ordinal_dot:
        parts.append(r"(?P<ordinal>(?<![\w.,:])\d{1,2}\.(?=\s[^\W\d_]))")
    if language.units:
        units = "|".join(re.escape(unit) for unit in sorted(language.units, key=len, reverse=True))
        parts.append(rf"(?P<unit>(?<![\w.,]){_NUMBER}\s?(?:{units})(?!\w))")
    if language.abbreviations:
        written = sorted(_in_either_case(language.abbreviations), key=len, reverse=True)
        spaced = "|".join(re.escape(short).replace(r"\ ", r"\s?") for short in written)
        parts.append(rf"(?P<abbreviation>(?<![\w.])(?:{spaced})(?!\w))")
    return re.compile("|".join(parts))


def _in_either_case(abbreviations: Mapping[str, str]) -> dict[str, str]:
    """As they are written within a sentence and at its beginning, where Max. is a name."""
    first = {short[0].upper() + short[1:]: said for short, said in abbreviations.items() if short != "max."}
    return first | dict(abbreviations)


def _said(match: re.Match[str], language: Language, code: str) -> str | None:
    kind, written = match.lastgroup, match[0]
    if kind == "abbreviation":
        return _abbreviation(match, language, code)
    if kind == "weekday":
        return _weekday(match) or (_abbreviation(match, language, code) if written.endswith(".") else None)
    if kind == "money":
        return _with_dot(_money(written, language, code), match)
    if kind == "amount":
        return _money(written[-1] + written[:-1].strip(), language, code)
    if kind == "unit":
        return _with_dot(_measure(match, language, code), match)
    if kind == "hours":
        return f"{int(written.rstrip(' -–'))} bis "
    if kind == "day":
        return _date(match, language, code)
    if kind == "first":
        return "primo"
    if kind == "street":
        return "straße"
    if kind == "time":
        hour, minute = re.findall(r"\d+", written)
        return f"{int(hour)} Uhr" + (f" {int(minute)}" if int(minute) else "")
    if kind == "date":
        return _german_date(match)
    if kind == "year":
        return _number(int(written), code, "year")
    if kind == "ordinal":
        return _ordinal(match, code)
    return None


def _abbreviation(match: re.Match[str], language: Language, code: str) -> str | None:
    written, after = match[0], match.string[match.end() :]
    if _is_so(match.string[: match.end()], after):
        return None
    if written == "S." and code == "de" and not re.match(r"\s?\d", after):
        return None  # an initial, no page
    wanted = re.sub(r"\s", "", written)
    known = _in_either_case(language.abbreviations)
    return _with_dot(next(said for short, said in known.items() if short.replace(" ", "") == wanted), match)


def _with_dot(said: str, match: re.Match[str]) -> str:
    """With the dot of what was written, if it was that of the sentence, too."""
    ends = match[0].endswith(".") and not match.string[match.end() :].strip(" \t\n\"'”“»)")
    return f"{said}." if ends else said


def _weekday(match: re.Match[str]) -> str | None:
    """A day of the week beside another one, or beside a time or a date, with "bis" if it begins a range."""
    written, before, after = match[0], match.string[: match.start()], match.string[match.end() :]
    said = _WEEKDAYS[written[:2]]
    if written[-1] not in "." + written[1]:
        return f"{said} bis "
    if not (_BEFORE_A_DAY.search(before[-40:]) or _AFTER_A_DAY.match(after)):
        return None
    return _with_dot(said, match)


def _money(written: str, language: Language, code: str) -> str:
    sign, number, scale = re.fullmatch(rf"(\D+?)\s?({_NUMBER})\s?(\D.*)?", written).groups()  # type: ignore[union-attr]
    names = dict(zip("$€£¥", language.currencies.split("|"), strict=True))
    forms = "um real/reais" if sign == "R$" else names[sign[-1]]
    if scale is None:
        return _counted(number, forms, code)
    said = f"{_counted(number, language.scales[scale], code)} {_of_many(forms, code)}"
    return said.replace("de euros", "d'euros") if code == "fr" else said


def _measure(match: re.Match[str], language: Language, code: str) -> str:
    number, unit = re.fullmatch(rf"({_NUMBER})\s?(\D.*)", match[0]).groups()  # type: ignore[union-attr]
    is_part = match.string[: match.start()][-1:] in ("-", "–", "−", "/", "+")  # of a range, a fraction, a signed number
    said = _counted(number, language.units[unit], code, is_part=is_part)
    is_dative = code == "de" and _DATIVE.search(match.string[max(0, match.start() - 40) : match.start()])
    return re.sub(r"(?<=\d (?:Jahr|Mona))(e|te)\Z|(?<=\d Tage)\Z", r"\1n", said) if is_dative else said


_DATIVE = re.compile(r"\b(?:unter|ab|seit|vor|nach|mit|von|innerhalb von|bis zu)\s\Z", re.IGNORECASE)


def _counted(number: str, forms: str, code: str, *, is_part: bool = False) -> str:
    """A number as it is written and the form that goes with it; of one alone the form that has its article."""
    known = forms.split("/")
    if "{}" in forms:
        return forms.replace("{}", number)
    if number == "1" and not is_part and len(known) > 1:
        return known[0]
    digits = re.sub(r"[ \u00a0\u202f]|\.(?=\d{3}(?!\d))", "", number)
    is_whole, last, last_two = digits.isdecimal(), int(digits[-1]), int(digits[-2:].strip(",."))
    if len(known) == 4 and code in ("ru", "pl"):
        few = is_whole and last in (2, 3, 4) and last_two not in (12, 13, 14)
        one = is_whole and last == 1 and last_two != 11
        russian, polish = (1 if one else 2 if few or not is_whole else 3), (1 if few else 2 if is_whole else 3)
        return f"{number} {known[russian if code == 'ru' else polish]}"
    is_singular = number == "1" or (code in ("fr", "pt") and re.match(r"[01](?:[.,]|\Z)", digits) is not None)
    if is_singular and len(known) > 1:
        without_article = re.sub(r"^(?:\w+ |un')", "", known[0])
        return f"{number} {without_article}"
    return f"{number} {known[-1]}"


def _of_many(forms: str, code: str) -> str:
    known = forms.split("/")
    return known[2] if code == "pl" and len(known) == 4 else known[-1]


def _date(match: re.Match[str], language: Language, code: str) -> str | None:
    """A date of day, month and year with slashes or dots."""
    if code == "de":
        return _german_date(match)
    day, month, year = (int(number) for number in re.findall(r"\d+", match[0]))
    if not 1 <= day <= 31 or not 1 <= month <= 12:
        return None
    first = {"fr": "premier", "it": "primo", "pt": "primeiro"}.get(code) if day == 1 else None
    said_day = first or genitive(day, code) or (in_words(day, code, "ordinal") if code == "sv" else None) or str(day)
    said_year = genitive(year, code) or (_in_pairs(year) if code == "nl" else str(year))
    return language.date.format(day=said_day, month=language.months.split("|")[month - 1], year=said_year)


def _in_pairs(year: int) -> str:
    """1985 → 19 85, as the Dutch say it."""
    return f"{year // 100} {year % 100}" if 1100 <= year < 2000 and year % 100 > 9 else str(year)


_WEEKDAY = rf"(?:{'|'.join(_WEEKDAYS)})"
_JOINED = r"\s?(?:[-–/,&+]|bis|und|oder)\s?"
_BEFORE_A_DAY = re.compile(rf"\b{_WEEKDAY}\.?{_JOINED}\Z")
_AFTER_A_DAY = re.compile(
    rf"{_JOINED}{_WEEKDAY}(?!\w)|,?\s*(?:den\s|um\s|ab\s|von\s)?\d{{1,2}}(?:[.:]\s?[\d\w]|\s?Uhr|\s?[-–]\s?\d)"
)
_STARTERS = re.compile(
    "(?:der|die|das|ein|eine|er|sie|es|wir|ich|ihr|dann|da|doch|aber|und|oder|so|auch|nun|als|wenn|am|im|in|an|auf|danach"
    "|jetzt|hier|dort|nach|vor|bei|mit|wer|was|wo|wie|warum|ja|nein|man|dies|diese|dieser|den|dem|zum|zur|vom)",
    re.IGNORECASE,
)
_DECLINED = re.compile(
    r"\b(?:spätestens|spät\.|frühestens|am\s\w+\.?,|(?:\w+tag|Mittwoch|Mo|Di|Mi|Do|Fr|Sa|So)\.?,|am|im|vom|zum|beim|zur|den|dem|des|der|ab|bis|seit|und|oder|jeden)\s\Z",
    re.IGNORECASE,
)
_NOMINATIVE = re.compile(r"(?:\A|[.!?:]\s)Der\s\Z|\b(?:ist|war|sind|wird)\sder\s\Z")
# der zweite Weltkrieg: no feminine noun, which would be in the dative or genitive behind "der".
_MASCULINE = re.compile(
    r"(?:[A-ZÄÖÜ]\w*)?(?:[Kk]rieg|[Tt]eil|[Bb]and|[Tt]ag|[Pp]latz|[Aa]kt|[Mm]onat|[Vv]ersuch|[Aa]dvent|[Pp]reis|[Gg]ang|[Ss]atz|[Ll]auf"
    r"|[Aa]bschnitt|[Bb]ezirk|[Ss]enat|[Ss]tern|[Rr]ang|[Pp]unkt|[Ss]chritt|[Aa]bsatz|[Kk]reuzzug)|Januar|Februar|März|April|Mai|Juni|Juli"
    r"|August|September|Oktober|November|Dezember|Stock|Samstag|Sonntag"
)
_THE = re.compile(r"\b[Dd]er\s\Z")
_MONTHS = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
)  # fmt: skip
_AHEAD_OF_ANOTHER = re.compile(r"\s*\w+\s\d{1,2}\.")


def is_ordinal(before: str, word: str, name: str, after: str = "") -> bool:
    """Whether a text that ends in a number and a dot, such as "am 3.", goes on with `word` in the same sentence.

    `after` is all that follows: "am 1. und 2. Januar".
    """
    language = language_of(name)
    if re.fullmatch("und|oder|bis", word) and _AHEAD_OF_ANOTHER.match(after):
        return True
    if language is None or not language.has_ordinal_dot or not re.search(r"(?<![\w.,:])\d{1,2}\.\Z", before):
        return False
    return not _STARTERS.fullmatch(word) if _code(name) == "de" else not word[:1].isupper()


def is_abbreviation(before: str, name: str, after: str = "") -> bool:
    """Whether a text that ends in a dot ends in an abbreviation of the language, behind which a sentence goes on.

    `after` is all that follows.
    """
    code = _code(name)
    if _is_so(before, after):
        return False
    return code in LANGUAGES and bool(_abbreviated(code).search(before[-60:]))


def _is_so(before: str, after: str) -> bool:
    """Whether a sentence that begins with "So." says so, and not when something is open on Sunday."""
    return before.strip() == "So." and re.match(r"\s*[\d,/–-]", after) is None


@cache
def _abbreviated(code: str) -> re.Pattern[str]:
    language = LANGUAGES[code]
    last = {"usw.", "etc.", "ecc.", "enz.", "EE. UU.", "Jh."}  # which often end a sentence
    known = [short for short in _in_either_case(language.abbreviations) if short[-1] == "." and short not in last]
    spaced = "|".join(re.escape(short).replace(r"\ ", r"\s?") for short in known) or r"(?!)"
    return re.compile(rf"(?:\A|[\s(\"“„«'])(?:{spaced}|(?:{language.never_last or '(?!)'})\.)\Z")


def _ordinal(match: re.Match[str], code: str) -> str | None:
    word = re.match(r"\w+", match.string[match.end() :].lstrip())
    if word is None or not is_ordinal(match.string[: match.end()], word[0], code, match.string[match.end() :]):
        return None
    said = _number(int(match[0].rstrip(".")), code, "ordinal")
    ahead = match.string[: match.start()]
    is_subject = _MASCULINE.fullmatch(word[0]) and _THE.search(ahead[-10:])
    return said + "n" if said and code == "de" and _is_declined(ahead) and not is_subject else said


def _is_declined(before: str) -> bool:
    return bool(_DECLINED.search(before[-60:])) and not _NOMINATIVE.search(before[-60:])


def _german_date(match: re.Match[str]) -> str | None:
    day, month, *year = (int(number) for number in re.findall(r"\d+", match[0]))
    if not 1 <= day <= 31 or not 1 <= month <= 12:
        return None
    is_declined = _is_declined(match.string[: match.start()])
    if not year and not is_declined and not match.string[match.end() :].strip():
        return None  # "Version 2.1." ends a sentence
    ending = "n" if is_declined else ""
    said = f"{_number(day, 'de', 'ordinal')}{ending} {_MONTHS[month - 1]}"
    if year and year[0] < 100:  # am 2.3.81
        return f"{said} {year[0]}" if is_declined else None
    return f"{said} {_number(year[0], 'de', 'year')}" if year else said


_WITH_ORDINALS = frozenset(["de", "da", "no", "fi", "hu", "sl", "tr"])  # in the form that texts have most often


def _number(number: int, code: str, kind: str) -> str | None:
    return None if kind == "ordinal" and code not in _WITH_ORDINALS else in_words(number, code, kind)
