"""What European languages write in forms, timetables, recipes and addresses: by classes that most of them share.

Prices of something ("8 €/Nacht"), days of the week and months that are cut short, references ("p. 45"), halves and
mixed numbers before a unit, versions, addresses of the web, calculations, "3x"; and what German alone writes so.
"""

import re
from collections.abc import Callable

from common.text.english.roman import roman
from common.text.european_tables import LANGUAGES
from common.text.european_words import FORMS
from common.text.numbers import in_words

Reading = Callable[[re.Match[str], str], str | None]
Rule = tuple[str, str, Reading]


_CAPITAL = "A-ZÄÖÜÁÉÍÓÚÀÈÙÇŚŁŻА-Я"


def rules(code: str) -> list[Rule]:
    """The classes of a language, the first one first."""
    if code not in FORMS:
        return []
    words, language = FORMS[code], LANGUAGES[code]
    units = "|".join(re.escape(unit) for unit in sorted(language.units, key=len, reverse=True))
    found: list[Rule] = [
        ("range", r"(?<=\d)\s?[-–]\s?(?=\d{1,2}(?:\.|\s?(?:h|Uhr|uur))?(?:\s*[,.;)]|\s*\Z))", _hours_between),
        ("electronic", r"(?<![\w.])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}|(?<!\w)(?:https?://|www\.)[^\s<>\"]*[\w/]",
         _electronic),
        ("version", r"(?<![\w.,:])\d{1,3}(?:\.\d{1,3}){2,4}(?![\w:]|[.,]\d)", _version),
        ("measure", rf"(?<![\w.,/])(?:\d{{1,3}}\s)?\d/\d\s?(?:{units or '(?!)'})(?!\w)", _parts_of_a_unit),
        ("money", r"(?<![\w.,])\d[\d.]{0,12},[-–—]+(?:\s?(?:€|EUR\b))?", _even_price),
        ("times", r"(?<![\w.,])\d{1,2}\s?[x×](?=\s[^\W\d_])", _times),
        ("per", r"(?<=[€£$łr])\s?/\s?[^\W\d_]+(?:\.(?=\s[^\W\d_]))?|(?<=[^\W\d_])/(?=[^\W\d_]{3,})", _per),
        ("reference", rf"(?<![\w.])(?:{_shorts(words.references)})\.?\s?(?=\d)", _reference),
        ("math", r"(?<=\d)\s?[+=]\s?(?=\d)", _calculation),
    ]  # fmt: skip
    if words.days:
        day = rf"(?:{_shorts(words.days)})(?!\w)\.?"
        found.append(
            (
                "weekday",
                rf"(?<!\w){day}(?=\s?(?:[-–,/]|{words.until})\s?(?:{_shorts(words.days)})(?!\w))(?:\s?[-–])?",
                _day,
            )
        )
        found.append(("weekday", rf"(?<!\w){day}(?=,?\s\d)", _day_ahead))
        found.append(("weekday", rf"(?:(?<=[-–,/ ])|(?<!\w)){day}", _day_behind))
    if language.months and code not in ("de", "ru", "pl"):
        found.append(("month", r"(?<![\w.])[^\W\d_]{3,5}\.?(?!\w)", _month))
    if code in ("ru", "pl"):
        months = language.months
        found.append(("date", rf"(?<![\w.,/-])\d{{1,2}}(?=\s(?:{months})(?!\w))", _day_of_month))
    if code == "pl":
        found.append(("year", r"(?<![\w.,])[12]\d{3}\s?r\.(?!\w)", _polish_year))
    if code == "nl":
        found.append(
            ("hours", r"(?<![\d:.,])\d{1,2}[.:][0-5]\d(?=\s?[-–]\s?\d{1,2}[.:]\d\d\s?(?:uur|u\b))", _dutch_hours)
        )
    if code in ("es", "fr"):
        found.append(("telephone", _TELEPHONES[code], _telephone))
    if code == "es":
        found.append(
            (
                "abbreviation",
                r"(?:(?<=a )|(?<=ad )|(?<=ón ))(?:máx|mín)\.",
                lambda m, name: f"{m[0][:2]}{'xim' if 'x' in m[0] else 'nim'}a",
            )
        )
    if code in ("es", "pt"):
        found.append(
            ("title", r"(?<![\w.])D\.(?=\s[A-ZÁÉÍÓÚ][a-zá-ú])", lambda match, name: {"es": "don"}.get(name, "dom"))
        )
        found.append(("century", r"(?<![\w.])(?:s|séc)\.\s?[IVX]+(?!\w)", _century))
    if code == "de":
        found += _GERMAN
    return found


def _table(words: str) -> dict[str, str]:
    return dict(entry.split(" ", 1) for entry in words.split("|")) if words else {}


def _shorts(words: str) -> str:
    shorts = sorted(_table(words), key=len, reverse=True)
    return "|".join(f"[{short[0].upper()}{short[0]}]{re.escape(short[1:])}" for short in shorts) or "(?!)"


def _long(words: str, short: str) -> str | None:
    table = _table(words)
    bare = short.strip(". ")
    return table.get(bare) or table.get(bare[:1].lower() + bare[1:])


def _window(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - 40) : match.start()]


def _ahead(match: re.Match[str]) -> str:
    return match.string[match.end() : match.end() + 40]


# ---------------------------------------------------------------------------------------------------------------------
# Classes of most languages


def _electronic(match: re.Match[str], code: str) -> str | None:
    """info@muster.de → info at muster Punkt de"""
    at, dot, slash, dash, underscore = FORMS[code].marks.split("|")
    names = {"@": at, ".": dot, "/": slash, "-": dash, "_": underscore}
    written = re.sub(r"^https?://", "", match[0].rstrip("/"))
    parts = re.findall(r"[^\W\d_]+|\d+|.", written)
    spoken = (
        "w w w" if part == "www" else " ".join(part) if part.isdigit() else names.get(part, part) for part in parts
    )
    return " ".join(spoken)


def _version(match: re.Match[str], code: str) -> str | None:
    """3.2.1, but neither 1.000.000 nor 3.10.2021"""
    groups = match[0].split(".")
    if all(len(group) == 3 for group in groups[1:]):
        return None
    return f" {FORMS[code].marks.split('|')[1]} ".join(groups)


_FEMININE = {"de": "eine ", "es": "una ", "fr": "une ", "it": "un'|una ", "pt": "uma ", "ru": "одна ", "pl": "jedna "}
_GERMAN_NEUTER = (
    "Kilogramm",
    "Gramm",
    "Pfund",
    "Watt",
    "Grad",
    "Hektar",
    "Prozent",
    "Gigabyte",
    "Megabyte",
    "Terabyte",
)
_NAMED_PARTS = {
    "de": {3: "Drittel", 4: "Viertel", 5: "Fünftel", 8: "Achtel"},
    "fr": {3: "tiers", 4: "quart", 5: "cinquième", 8: "huitième"},
    "es": {3: "tercio", 4: "cuarto", 5: "quinto", 8: "octavo"},
    "it": {3: "terzo", 4: "quarto", 5: "quinto", 8: "ottavo"},
    "pt": {3: "terço", 4: "quarto", 5: "quinto", 8: "oitavo"},
    "nl": {3: "derde", 4: "kwart", 5: "vijfde", 8: "achtste"},
    "sv": {3: "tredjedels", 4: "kvarts", 5: "femtedels", 8: "åttondels"},
}  # fmt: skip
_ONE_PART = {"de": "ein", "fr": "un", "es": "un", "it": "un", "pt": "um", "nl": "een", "sv": "en"}
_MANY_PARTS = {"de": "", "nl": "", "sv": "", "it": "i", "fr": "s", "es": "s", "pt": "s"}


def _parts_of_a_unit(match: re.Match[str], code: str) -> str | None:
    """1/2 kg, 1 1/2 Std., 3/4 l"""
    whole, top, bottom, unit = re.fullmatch(r"(?:(\d+)\s)?(\d)/(\d)\s?(.*)", match[0]).groups()  # type: ignore[union-attr]
    words, forms = FORMS[code], LANGUAGES[code].units[unit].split("/")
    one, many = (forms[0], forms[-1]) if len(forms) > 1 else ("", forms[0])
    name = re.sub(r"^(?:\w+ |un')", "", one) if one else many
    if "{}" in many or int(top) >= int(bottom) or code not in _NAMED_PARTS:
        return None
    dot = "." if unit.endswith(".") and not match.string[match.end() :].strip() else ""
    if whole:
        if (top, bottom) != ("1", "2"):
            return None
        if code == "de":
            return f"{'ein' if whole == '1' else in_words(int(whole), 'de', 'cardinal')}einhalb {many}{dot}"
        return f"{whole} {words.and_a_half} {many}{dot}"
    if (top, bottom) == ("1", "2"):
        his, her, its, _ = words.halves.split("|")
        is_hers = any(one.startswith(article) for article in _FEMININE.get(code, "-").split("|"))
        half = her if is_hers else its if name in _GERMAN_NEUTER else his
        return f"{half} {name}{dot}"
    part = _NAMED_PARTS[code].get(int(bottom))
    if part is None:
        return None
    between = words.halves.rsplit("|", 1)[1]
    if top == "1":
        return f"{_ONE_PART[code]} {part} {between}{name}{dot}"
    part = part[:-1] + "i" if code == "it" else part if part.endswith("s") else part + _MANY_PARTS[code]
    return f"{top} {part} {between}{name}{dot}"


_EURO = {"de": "Euro", "fr": "euros", "es": "euros", "it": "euro", "pt": "euros", "nl": "euro", "sv": "kronor"}


def _even_price(match: re.Match[str], code: str) -> str | None:
    """25,– €"""
    has_sign = "€" in match[0] or "EUR" in match[0]
    name = "euro" if code == "sv" and has_sign else _EURO.get(code)
    return f"{match[0].partition(',')[0]} {name}" if name and (has_sign or code != "sv") else None


def _times(match: re.Match[str], code: str) -> str:
    number, said = re.match(r"\d+", match[0])[0], FORMS[code].times  # type: ignore[index]
    if code == "de":
        return said.format("ein" if number == "1" else in_words(int(number), "de", "cardinal"))
    return f"{number} {said}"


_BEFORE_PER = re.compile(r"(?:\d\s?[^\W\d_]+|[€£$]|zł|kr)\Z")
_OR = re.compile(r"(?:oder|und|ou|et|o|y|e|of|en|och|eller|lub|i|или|и)(?!\w)")
_COUNTED_THINGS = {"st": "styck", "szt": "sztukę", "pers": "person", "Pers": "Person", "Std": "Stunde", "Min": "Minute"}


def _per(match: re.Match[str], code: str) -> str | None:
    """8 €/kg, 8 Tropfen/Tag"""
    unit = match[0].lstrip(" /")
    if not unit:
        is_counted = _BEFORE_PER.search(_window(match)) and not _OR.match(_ahead(match))
        return f" {FORMS[code].per} " if is_counted else None
    if not _BEFORE_PER.search(_window(match)):
        return None
    bare = unit.rstrip(".")
    forms = LANGUAGES[code].units.get(bare)
    if forms:
        several = forms.split("/")
        name = (
            several[0].split(" ", 1)[1]
            if len(several) == 4 and code == "pl"
            else several[1]
            if len(several) == 4
            else re.sub(r"^(?:\w+ |un')", "", several[0])
            if len(several) > 1
            else forms
        )
    else:
        name = _COUNTED_THINGS.get(bare, bare)
    return f" {FORMS[code].per} {name}"


def _reference(match: re.Match[str], code: str) -> str | None:
    is_whole = "." not in match[0]
    name = _long(FORMS[code].references, match[0])
    if is_whole and (code != "de" or not match[0].startswith("km")):
        return None
    return f"{name} " if name else None


def _calculation(match: re.Match[str], code: str) -> str | None:
    sign = match[0].strip()
    is_sum = "=" in _ahead(match) or "=" in _window(match) or sign == "="
    return f" {FORMS[code].equals if sign == '=' else FORMS[code].plus} " if is_sum else None


def _day(match: re.Match[str], code: str) -> str | None:
    written = match[0].rstrip(" -–")
    name = _long(FORMS[code].days, written)
    return f"{name} {FORMS[code].to} " if written != match[0] and name else name


def _day_ahead(match: re.Match[str], code: str) -> str | None:
    is_short = code == "nl" and not match[0].endswith(".")
    return None if is_short else _long(FORMS[code].days, match[0])


def _day_behind(match: re.Match[str], code: str) -> str | None:
    words = FORMS[code]
    joined = rf"(?<!\w)(?:{_shorts(words.days)})\.?\s?(?:[-–,/]|{words.until})\s?\Z"
    if not re.search(joined, _window(match)):
        return None
    dot = "." if match[0].endswith(".") and not match.string[match.end() :].strip() else ""
    return f"{_long(words.days, match[0])}{dot}"


_AFTER_A_DAY = re.compile(r"(?:\d{1,2}|1er|1º|1°|\sde|\d\.)\s\Z")
_CUT_MONTHS = {"mrt": "maart", "okt": "oktober", "ene": "enero", "dic": "dic", "ago": "agosto", "out": "outubro"}


def _month(match: re.Match[str], code: str) -> str | None:
    """1er janv. 2024"""
    if not _AFTER_A_DAY.search(_window(match)) or not re.match(r"\s(?:de\s)?\d{4}|\s|\Z|[,;)]", _ahead(match)):
        return None
    bare, has_dot = match[0].rstrip(".").lower(), match[0].endswith(".")
    months = LANGUAGES[code].months.split("|")
    found = [name for name in months if name.startswith(bare) or name == _CUT_MONTHS.get(bare)]
    if len(found) != 1 or bare in months or not (has_dot or re.match(r"\s\d{4}", _ahead(match))):
        return None
    return found[0]


def genitive(number: int, code: str) -> str | None:
    """The ordinal number of a day or year in the genitive, as dates have it in Russian and Polish; None elsewhere."""
    if code not in ("ru", "pl") or not (said := in_words(number, code, "ordinal")):
        return None
    if code == "ru":
        return re.sub(r"(?:третий|[ыо]й)\Z", lambda end: "третьего" if end[0] == "третий" else "ого", said)
    *rest, ten, one = ["", "", *said.split()]
    declined = [
        re.sub(r"y\Z", "ego", re.sub(r"i\Z", "iego", word)) if word != "tysięcy" else word for word in (ten, one)
    ]
    return " ".join(word for word in (*rest, *declined) if word)


def _day_of_month(match: re.Match[str], code: str) -> str | None:
    """12 мая → двенадцатого мая"""
    return genitive(int(match[0]), code) if 1 <= int(match[0]) <= 31 else None


def _polish_year(match: re.Match[str], code: str) -> str | None:
    """w 1985 r. → w tysiąc dziewięćset osiemdziesiątym piątym roku"""
    said = genitive(int(match[0][:4]), "pl")
    if said and re.search(r"\b[Ww]e?\s\Z", _window(match)):
        said = re.sub(r"(i?)ego\b", lambda ending: "im" if ending[1] else "ym", said)
    dot = "" if match.string[match.end() :].strip() else "."
    return f"{said} roku{dot}" if said else None


def _dutch_hours(match: re.Match[str], code: str) -> str:
    hour, minute = (int(part) for part in re.split("[.:]", match[0]))
    return f"{hour} uur {minute}" if minute else f"{hour} uur"


_TELEPHONES = {
    "es": r"(?<![\w.,])[6-9]\d{1,2}(?:[\s-]\d{2,3}){2,4}(?![\w.,]\d|\w)",
    "fr": r"(?<![\w.,])0\d(?:[\s.]\d\d){4}(?!\w|[.,]\d)",
}


def _hours_between(match: re.Match[str], code: str) -> str | None:
    """mån-fre 9–18: opening hours behind a day"""
    days = "|".join(long for long in _table(FORMS[code].days).values())
    opens = rf"\b(?:{_shorts(FORMS[code].days)}|{days}|kl|klockan)\.?,?\s\d{{1,2}}\Z"
    return f" {FORMS[code].to} " if days and re.search(opens, _window(match), re.IGNORECASE) else None


def _telephone(match: re.Match[str], code: str) -> str | None:
    groups = re.findall(r"\d+", match[0])
    if code == "fr":  # by pairs
        return ", ".join(" ".join(group) if group[0] == "0" else group for group in groups)
    return ", ".join(" ".join(group) for group in groups) if sum(map(len, groups)) == 9 else None


def _century(match: re.Match[str], code: str) -> str:
    return f"{'siglo' if code == 'es' else 'século'} {roman(re.sub('[^IVX]', '', match[0]))}"


# ---------------------------------------------------------------------------------------------------------------------
# German alone

_DECLINED = re.compile(r"\b(?:vom|am|der|den|dem|des|zum|im|bis|ab|seit)\s\Z", re.IGNORECASE)
_PLAYED = re.compile(
    r"\b(?:gewann\w*|sieg\w*|mit|endete\w*|Endstand|Niederlage|verlor\w*|unterlag\w*|spielte?n?|Halbzeit|Pause|Satz|führt\w*)"
    r"\s\Z|\(\Z"
)
_RATIO = re.compile(r"\b(?:Maßstab|Verhältnis|Chance|Mischung)(?:\s(?:von|bei|ist|im|liegt bei))*\s\Z")


def _days(match: re.Match[str], code: str) -> str:
    """vom 12.–15. August"""
    first, last = (in_words(int(day), "de", "ordinal") for day in re.findall(r"\d+", match[0]))
    ending = "n" if _DECLINED.search(_window(match)) else ""
    return f"{first}{ending} bis {last}{ending}"


def _clock(match: re.Match[str], code: str) -> str | None:
    """Abfahrt 7:02, without Uhr"""
    hour, minute = (int(part) for part in match[0].split(":"))
    if _PLAYED.search(_window(match)):
        return f"{hour} zu {minute}"
    if hour > 24 or _RATIO.search(_window(match)):
        return None
    return f"{hour} Uhr {minute}" if minute else f"{hour} Uhr"


_MASCULINE_IN_E = ("Name", "Käse", "Junge", "Kunde", "Affe", "Hase", "Löwe", "Buchstabe", "Gedanke", "Zeuge", "Kollege")
_NEUTER_IN_E = ("Ende", "Auge", "Gebäude", "Gebirge", "Interesse", "Gemüse", "Getriebe", "Café")
_WOMANLY = re.compile(r"(?:e|ung|heit|keit|ion|tät|schaft|ette|ur|ei(?<!Ei))\Z")
_NAME_AHEAD = re.compile(r"[A-ZÄÖÜ][\wäöüß]*\.?\s\Z")


def _one(match: re.Match[str], code: str) -> str | None:
    """1 Prise Salz → eine Prise; 1 Ei → ein Ei; but Kapitel 1 Einleitung"""
    noun = re.match(r"\s([A-ZÄÖÜ][a-zäöüß]+)", match.string[match.end() : match.end() + 40])
    if noun is None or f"{noun[1]}." in LANGUAGES["de"].units or _NAME_AHEAD.search(_window(match)):
        return None
    is_hers = _WOMANLY.search(noun[1]) and not noun[1].endswith((*_MASCULINE_IN_E, *_NEUTER_IN_E))
    return "eine" if is_hers else "ein"


def _decade(match: re.Match[str], code: str) -> str | None:
    said = in_words(int(match[0][:4]), "de", "year")
    return f"{said}er" if said else None


def _rank(match: re.Match[str], code: str) -> str | None:
    said = in_words(int(match[0].rstrip(".")), "de", "ordinal")
    return f"{said[0].upper()}{said[1:]}r" if said else None


_GERMAN: list[Rule] = [
    ("date", r"(?<![\w.,])\d{1,2}\.\s?[-–]\s?\d{1,2}\.(?=\s(?:[A-ZÄ][a-zä]{2,}))", _days),
    ("time", r"(?<![\w.,:])\d{1,2}:[0-5]\d(?![\w:]|[.,]\d|\s?Uhr|\s?[-–]\s?\d{1,2}:\d\d\s?Uhr)", _clock),
    ("code", r"(?:(?<=,\s)|(?<=\n)|(?<=\A))\d{5}(?=\s[A-ZÄÖÜ][a-zäöü])", lambda match, code: " ".join(match[0])),
    ("decade", r"(?<![\w.,])1[1-9]\d0er(?!\w)", _decade),
    ("ordinal", r"(?:(?<=als )|(?<=wurde )|(?<=wird ))\d{1,2}\.(?=\s(?:ins|nach|vor|hinter|durch|auf|mit)\b)", _rank),
    ("number", r"(?<![\w.,:/-]\s)(?<![\w.,:/–-])1(?=\s[A-ZÄÖÜ][a-zäöüß]{2,})", _one),
    ("number", r"(?:(?<=,\s)|(?<=[a-zäöüß]\s)|(?<=\)\s))1(?=\s[A-ZÄÖÜ][a-zäöüß])", _one),
    ("abbreviation", r"(?<=[€\d] )p\.\s?a\.", lambda match, code: "pro Jahr"),
    ("abbreviation", r"(?<=\d\. )[OUDE]G(?!\w)",
     lambda m, code: {"O": "Ober", "U": "Unter", "D": "Dach", "E": "Erd"}[m[0][0]] + "geschoss"),
    ("degrees", r"°(?![CFK])", lambda match, code: " Grad"),
]  # fmt: skip
