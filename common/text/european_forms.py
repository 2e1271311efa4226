"""What European languages write in forms, timetables, recipes and addresses: by classes that most of them share.

Prices of something ("8 €/Nacht"), days of the week and months that are cut short, references ("p. 45"), halves and
mixed numbers before a unit, versions, addresses of the web, calculations, "3x". What German alone writes so stands in
`common.text.german_forms`.
"""

import re

from common.text.english.style import text_after, text_before
from common.text.english.words import roman
from common.text.european_signs import signs
from common.text.european_tables import LANGUAGES
from common.text.european_words import FORMS
from common.text.german_forms import GERMAN, Rule
from common.text.numbers import in_words
from common.text.romance_forms import ROMANCE

_CAPITAL = "A-ZÄÖÜÁÉÍÓÚÀÈÙÇŚŁŻА-Я"


def rules(code: str) -> list[Rule]:
    """The classes of a language, the first one first."""
    if code not in FORMS:
        return []
    words, language = FORMS[code], LANGUAGES[code]
    units = "|".join(re.escape(unit) for unit in sorted(language.units, key=len, reverse=True))
    found: list[Rule] = [
        *signs(code),
        *ROMANCE.get(code, []),
        ("range", r"(?<=\d)\s?[-–]\s?(?=\d{1,2}(?:\.|\s?(?:h|Uhr|uur))?(?:\s*[,.;)]|\s*\Z))", _hours_between),
        ("electronic", r"(?<![\w.])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}|(?<!\w)(?:https?://|www\.)[^\s<>\"]*[\w/]",
         _electronic),
        ("version", r"(?<![\w.,:])\d{1,3}(?:\.\d{1,3}){2,4}(?![\w:]|[.,]\d)", _version),
        ("measure", rf"(?<![\w.,/])(?:\d{{1,3}}\s)?\d/\d\s?(?:{units or '(?!)'})(?!\w)", _parts_of_a_unit),
        ("money", r"(?:€\s?|(?<![\w.,]))\d[\d.]{0,12},[-–—]+(?:\s?(?:€|EUR\b|[Ee]uros?\b))?", _even_price),
        ("money", rf"(?<!\w)(?:{_CODES}|Fr\.(?=\s?\d[\d'’]*[.,](?:\d\d|[-–—])(?!\d|\s?Uhr)))\s?{_AMOUNT}",
         _price_in_code),
        ("math", r"(?<=[\dm])\s?[x×]\s?(?=\d)", _product),
        ("times", r"(?<![\w.,])\d{1,2}\s?[x×](?=\s[^\W\d_])", _times),
        ("per", r"(?<=[€£$łr])\s?/\s?[^\W\d_]+(?:\.(?=\s[^\W\d_]|,))?|(?<=[^\W\d_])/(?=[^\W\d_]{3,})", _per),
        ("reference", rf"(?<![\w.])(?:{_shorts(words.references)})\.?\s?(?=\d)", _reference),
        ("math", r"(?<=\d)\s?[+=]\s?(?=\d)|(?<=[\w€%²³])\s=\s(?=\d)", _calculation),
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
        found += GERMAN
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


_NAMED = re.compile(r"\b(?!(?:Am|Vom|Ab|Bis|Seit|Zum)\s)[A-Z]\w*\s\Z")


def _version(match: re.Match[str], code: str) -> str | None:
    """3.2.1, but neither 1.000.000 nor 3.10.2021"""
    groups = match[0].split(".")
    if all(len(group) == 3 for group in groups[1:]):
        return None
    is_day = re.fullmatch(r"(?:[012]?\d|3[01])\.(?:0?\d|1[012])\.\d\d", match[0])
    if is_day and (re.search(r"\b0", match[0]) or not re.search(_NAMED, text_before(match))):
        return None  # am 3.10.21; but Python 3.10.12
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
    if whole is None and re.search(r"\d\s\Z", text_before(match)):
        return None  # of 2 3/4 l
    if "{}" in many or int(top) >= int(bottom) or code not in _NAMED_PARTS:
        return None
    dot = "." if unit.endswith(".") and not match.string[match.end() :].strip() else ""
    if whole:
        if (top, bottom) != ("1", "2"):
            part = _NAMED_PARTS[code].get(int(bottom))
            if code != "de" or part is None:
                return None
            return f"{in_words(int(whole), 'de', 'cardinal')} {in_words(int(top), 'de', 'cardinal')} {part} {many}{dot}"
        if code == "de":
            return f"{'ein' if whole == '1' else in_words(int(whole), 'de', 'cardinal')}einhalb {many}{dot}"
        if code in _HALF_BEHIND:
            half = _HALF_BEHIND[code][any(one.startswith(article) for article in _FEMININE[code].split("|"))]
            return f"{one if whole == '1' else f'{whole} {many}'} {half}{dot}"
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


_HALF_BEHIND = {
    "es": ("y medio", "y media"), "pt": ("e meio", "e meia"), "fr": ("et demi", "et demie"),
    "it": ("e mezzo", "e mezza"),
}  # fmt: skip
_PRODUCTS = {
    "de": "mal", "fr": "fois|sur", "es": "por", "it": "per", "pt": "vezes|por", "nl": "keer|bij", "sv": "gånger",
    "pl": "razy|na", "ru": "умножить на|на",
}  # fmt: skip


def _product(match: re.Match[str], code: str) -> str:
    """5 x 3; 3 × 4 m, of sides"""
    of_numbers, *of_sides = _PRODUCTS[code].split("|")
    are_sides = re.match(r"[\d.,]+\s?(?:[mcdk]?m|px|m[èe]tres?|метр|м|см)(?!\w)|\d+\s?[x×]", text_after(match))
    return f" {of_sides[0] if of_sides and are_sides else of_numbers} "


_CODES = "CHF|EUR|USD|GBP"
_AMOUNT = r"\d(?:[\d.'’ ]*\d)?(?:[.,](?:\d\d(?!\d)|[-–—]+))?(?![\w,.’']\d)"
_CURRENCY = {
    "de": "Franken Euro Dollar Pfund", "fr": "francs_suisses euros dollars livres",
    "es": "francos_suizos euros dólares libras", "it": "franchi_svizzeri euro dollari sterline",
    "pt": "francos_suíços euros dólares libras", "nl": "frank euro dollar pond",
}  # fmt: skip


def _price_in_code(match: re.Match[str], code: str) -> str | None:
    """CHF 1'250.– → 1250 Franken; Fr. 12.50"""
    written = re.search(r"(\d(?:[\d.'’ ]*?\d)?)(?:[.,](\d\d|[-–—]+))?\Z", match[0])
    if written is None or code not in _CURRENCY:
        return None
    short = "CHF" if match[0].startswith("Fr") else match[0][:3]
    name = _CURRENCY[code].split()[_CODES.split("|").index(short)].replace("_", " ")
    whole, parts = re.sub(r"\D", "", written[1]), written[2] or ""
    said = f"{whole} {name}" if whole != "1" or code != "de" else f"ein {name}"
    if not parts.isdigit() or parts == "00":
        return said
    between = {"es": " con ", "it": " e ", "pt": " e "}.get(code, " ")
    return f"{said}{between}{int(parts)}"


_EURO = {"de": "Euro", "fr": "euros", "es": "euros", "it": "euro", "pt": "euros", "nl": "euro", "sv": "kronor"}


def _even_price(match: re.Match[str], code: str) -> str | None:
    """25,– €"""
    has_sign = re.search("€|EUR|uro", match[0]) is not None
    name = "euro" if code == "sv" and has_sign else _EURO.get(code)
    return f"{match[0].partition(',')[0].lstrip('€ ')} {name}" if name and (has_sign or code != "sv") else None


def _times(match: re.Match[str], code: str) -> str:
    number, said = re.match(r"\d+", match[0])[0], FORMS[code].times  # type: ignore[index]
    if code == "de":
        return said.format("ein" if number == "1" else in_words(int(number), "de", "cardinal"))
    return f"{number} {said}"


_PRICE = re.compile(r"(?:[€£$]|zł|\bkr|\bEUR|[Ee]uros?)\Z")
_COUNT = re.compile(r"\d\s?[^\W\d_]+\Z")
_ANOTHER_PRICE = re.compile(r"(?:\s?[^\W\d_]+)?\s(?:[^\W\d_]+\s)?\d+(?:[.,]\d+)?\s?(?:[€£$]|zł|kr|EUR|[Ee]uro)")
_OR = re.compile(r"(?:oder|und|ou|et|o|y|e|of|en|och|eller|lub|i|или|и)(?!\w)")
_COUNTED_THINGS = {"st": "styck", "szt": "sztukę", "pers": "person", "Pers": "Person", "Std": "Stunde", "Min": "Minute"}


def _per(match: re.Match[str], code: str) -> str | None:
    """8 €/kg, 8 Tropfen/Tag; but neither 10 Mitarbeiter/innen nor 10 €/ermäßigt 8 €"""
    unit, ahead, behind = match[0].lstrip(" /"), text_before(match), text_after(match)
    word = unit.rstrip(".") or re.match(r"\w+", behind)[0]  # type: ignore[index]
    is_known = word in LANGUAGES[code].units or word in _COUNTED_THINGS or word in FORMS[code].periods.split("|")
    if _PRICE.search(ahead):
        if _OR.fullmatch(word) or _ANOTHER_PRICE.match(behind) or not (is_known or code != "de" or word.istitle()):
            return None
    elif not is_known or not _COUNT.search(ahead):
        return None
    if not unit:
        return f" {FORMS[code].per} "
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
    if re.search(r"\d\s\Z", text_before(match)):
        return None  # nach 10 Min. 2 Eier
    name = _long(FORMS[code].references, match[0])
    if is_whole and (code != "de" or not match[0].startswith("km")):
        return None
    return f"{name} " if name else None


def _calculation(match: re.Match[str], code: str) -> str | None:
    sign = match[0].strip()
    is_sum = "=" in text_after(match) or "=" in text_before(match) or sign == "="
    return f" {FORMS[code].equals if sign == '=' else FORMS[code].plus} " if is_sum else None


def _is_repeated(match: re.Match[str], day: str) -> bool:
    """zo en zo"""
    word = re.escape(day)
    is_first = re.match(rf"\s\w+\s{word}(?!\w)", text_after(match))
    return bool(is_first or re.search(rf"(?<!\w){word}\s\w+\s\Z", text_before(match)))


def _day(match: re.Match[str], code: str) -> str | None:
    written = match[0].rstrip(" -–")
    if _is_repeated(match, written):
        return None
    name = _long(FORMS[code].days, written)
    return f"{name} {FORMS[code].to} " if written != match[0] and name else name


_HER = re.compile(r"\b(?:la|una|une|uma)\s\Z", re.IGNORECASE)


def _day_ahead(match: re.Match[str], code: str) -> str | None:
    """mer. 12 mai; but neither "au bord de la mer, 12 rue du Port" nor "ter 3 filhos" """
    if code in ("fr", "es", "it", "pt", "nl"):
        is_date = re.match(
            rf",?\s\d{{1,2}}(?:er|º|°)?(?:\s(?:de\s)?(?:{LANGUAGES[code].months})\b|\s[^\W\d_]{{3,4}}\.?\s\d{{4}}"
            r"|[:/.h]\d|\s?h\b|\s?[-–]\s?\d|\s(?:à|a|al)\s\d|\s*(?:[,;)]|\Z))",
            text_after(match),
        )
        if not match[0].endswith(".") or is_date is None or _HER.search(text_before(match)):
            return None
    return _long(FORMS[code].days, match[0])


def _day_behind(match: re.Match[str], code: str) -> str | None:
    words = FORMS[code]
    joined = rf"(?<!\w)(?:{_shorts(words.days)})\.?\s?(?:[-–,/]|{words.until})\s?\Z"
    if not re.search(joined, text_before(match)) or _is_repeated(match, match[0].rstrip(".")):
        return None
    dot = "." if match[0].endswith(".") and not match.string[match.end() :].strip() else ""
    return f"{_long(words.days, match[0])}{dot}"


_AFTER_A_DAY = re.compile(r"(?:\d{1,2}|1er|1º|1°|\sde|\d\.)\s\Z")
_CUT_MONTHS = {"mrt": "maart", "okt": "oktober", "ene": "enero", "dic": "dic", "ago": "agosto", "out": "outubro"}


def _month(match: re.Match[str], code: str) -> str | None:
    """1er janv. 2024"""
    if not _AFTER_A_DAY.search(text_before(match)) or not re.match(r"\s(?:de\s)?\d{4}|\s|\Z|[,;)]", text_after(match)):
        return None
    bare, has_dot = match[0].rstrip(".").lower(), match[0].endswith(".")
    months = LANGUAGES[code].months.split("|")
    found = [name for name in months if name.startswith(bare) or name == _CUT_MONTHS.get(bare)]
    if len(found) != 1 or bare in months or not (has_dot or re.match(r"\s\d{4}", text_after(match))):
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
    if said and re.search(r"\b[Ww]e?\s\Z", text_before(match)):
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
    return f" {FORMS[code].to} " if days and re.search(opens, text_before(match), re.IGNORECASE) else None


_MONEY_OR_PEOPLE = re.compile(r"\s?(?:[€$£%]|euros?|d[óo]lares|pesos|personas|habitantes)")
_COUNTED_THING = re.compile(r"\s?[€$£%]|\s(?!(?:o|y|e|u|para|en|de|si|por|a)\b)[^\W\d_]")
_CALLED = re.compile(r"\b(?:tel|tfno|tlf|llam|llám|móvil|whatsapp|contact|fax|número|marque|marca)", re.IGNORECASE)


def _telephone(match: re.Match[str], code: str) -> str | None:
    groups = re.findall(r"\d+", match[0])
    if code == "fr":  # by pairs
        return ", ".join(" ".join(group) if group[0] == "0" else group for group in groups)
    is_called = _CALLED.search(text_before(match)) is not None
    is_amount = set(map(len, groups)) == {3} and not is_called and match[0] != match.string.strip(" .")
    noun = _MONEY_OR_PEOPLE if is_called else _COUNTED_THING
    is_counted = "000" in groups or noun.match(text_after(match))
    if sum(map(len, groups)) != 9 or is_counted or is_amount:
        return None
    return ", ".join(" ".join(group) for group in groups)


def _century(match: re.Match[str], code: str) -> str:
    return f"{'siglo' if code == 'es' else 'século'} {roman(re.sub('[^IVX]', '', match[0]))}"
