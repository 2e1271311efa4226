"""Abbreviations, units, ordinals and dates of European languages in words, where espeak-ng reads letters.

espeak-ng pronounces words and counts, but takes "Dr." for two letters, "3." for three and "kg" for K, G. What stands
here is put in words before it; everything else stays for espeak. Where a language has no table, nothing changes.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from common.text.english.tokens import Token


class Language(NamedTuple):
    """What a language writes shorter than it says it."""

    abbreviations: Mapping[str, str]
    """With their dots, as they are written: {"z. B.": "zum Beispiel"}. A space in one may be missing."""
    units: Mapping[str, str]
    """Behind a number: {"kg": "Kilogramm"}."""
    never_last: str = ""
    """More abbreviations that end no sentence, without their dot, as a pattern."""
    currencies: str = ""
    """Of $, €, £ and ¥, in the plural: they stand before their amount, and are said behind it."""
    has_ordinal_dot: bool = False
    """Whether "3." is the third."""


_UNITS = ("km/h", "°C", "kg", "g", "km", "m", "cm", "mm", "l", "h", "min")


def _units(names: str) -> dict[str, str]:
    return dict(zip(_UNITS, names.split("|"), strict=True))


_GERMAN = Language(
    abbreviations={
        "z. B.": "zum Beispiel", "d. h.": "das heißt", "u. a.": "unter anderem", "o. ä.": "oder ähnlich",
        "i. d. R.": "in der Regel", "u. U.": "unter Umständen", "v. Chr.": "vor Christus", "n. Chr.": "nach Christus",
        "s. o.": "siehe oben", "s. u.": "siehe unten", "Dr.": "Doktor", "Prof.": "Professor", "Hr.": "Herr",
        "Hrn.": "Herrn", "Fr.": "Frau", "Nr.": "Nummer", "St.": "Sankt", "Str.": "Straße", "Tel.": "Telefon",
        "Jh.": "Jahrhundert", "Mio.": "Millionen", "Mrd.": "Milliarden", "bzw.": "beziehungsweise", "ca.": "circa",
        "usw.": "und so weiter", "etc.": "et cetera", "inkl.": "inklusive", "exkl.": "exklusive", "evtl.": "eventuell",
        "ggf.": "gegebenenfalls", "vgl.": "vergleiche", "sog.": "sogenannt", "max.": "maximal", "min.": "minimal",
        "Std.": "Stunden", "Min.": "Minuten", "Sek.": "Sekunden", "Abb.": "Abbildung", "Kap.": "Kapitel",
        "Bd.": "Band", "S.": "Seite", "Jan.": "Januar", "Feb.": "Februar", "Aug.": "August", "Sept.": "September",
        "Okt.": "Oktober", "Nov.": "November", "Dez.": "Dezember", "Mo.": "Montag", "Di.": "Dienstag",
        "Mi.": "Mittwoch", "Do.": "Donnerstag", "Sa.": "Samstag", "So.": "Sonntag",
    },
    units=_units(
        "Kilometer pro Stunde|Grad Celsius|Kilogramm|Gramm|Kilometer|Meter|Zentimeter|Millimeter|Liter|Stunden|Minuten"
    ),
    never_last=r"Dipl|Ing|geb|gest|verh|Hl|Mag|Art|Abs|Anm|Aufl|\w+str|Chr|[^\W\d_]",
    currencies="Dollar|Euro|Pfund|Yen",
    has_ordinal_dot=True,
)  # fmt: skip
_SPANISH = Language(
    abbreviations={
        "EE. UU.": "Estados Unidos", "a. C.": "antes de Cristo", "d. C.": "después de Cristo", "p. ej.": "por ejemplo",
        "Sr.": "señor", "Sra.": "señora", "Srta.": "señorita", "Sres.": "señores", "Dr.": "doctor", "Dra.": "doctora",
        "Ud.": "usted", "Uds.": "ustedes", "núm.": "número", "pág.": "página", "págs.": "páginas", "etc.": "etcétera",
        "aprox.": "aproximadamente", "Avda.": "avenida", "Av.": "avenida", "tel.": "teléfono", "cap.": "capítulo",
        "Prof.": "profesor", "Sta.": "santa", "Sto.": "santo", "máx.": "máximo", "mín.": "mínimo", "min.": "minutos",
    },
    units=_units(
        "kilómetros por hora|grados Celsius|kilogramos|gramos|kilómetros|metros|centímetros|milímetros|litros"
        "|horas|minutos"
    ),
    never_last=r"Dña|Lic|Ing|Arq|Gral|Mons|vs|EE|p|[^\W\d_]",
    currencies="dólares|euros|libras|yenes",
)  # fmt: skip
_FRENCH = Language(
    abbreviations={
        "av. J.-C.": "avant Jésus-Christ", "apr. J.-C.": "après Jésus-Christ", "p. ex.": "par exemple",
        "c.-à-d.": "c'est-à-dire", "M.": "monsieur", "MM.": "messieurs", "Mme": "madame", "Mmes": "mesdames",
        "Mlle": "mademoiselle", "Dr": "docteur", "Pr": "professeur", "St": "saint", "Ste": "sainte", "n°": "numéro",
        "etc.": "et cetera", "env.": "environ", "chap.": "chapitre", "tél.": "téléphone", "bd": "boulevard",
        "éd.": "édition", "cf.": "confer", "max.": "maximum", "min.": "minutes",
    },
    units=_units(
        "kilomètres par heure|degrés Celsius|kilogrammes|grammes|kilomètres|mètres|centimètres|millimètres|litres"
        "|heures|minutes"
    ),
    never_last=r"art|vol|pp|hab|av|apr|c\.-à-d|[^\W\d_]",
    currencies="dollars|euros|livres|yens",
)  # fmt: skip
_ITALIAN = Language(
    abbreviations={
        "a.C.": "avanti Cristo", "d.C.": "dopo Cristo", "p. es.": "per esempio", "Sig.ra": "signora", "Sig.": "signor",
        "Sigg.": "signori", "Dott.ssa": "dottoressa", "Dott.": "dottor", "Dr.": "dottor", "Prof.": "professor",
        "Avv.": "avvocato", "Ing.": "ingegner", "ecc.": "eccetera", "pag.": "pagina", "tel.": "telefono", "S.": "san",
        "ca.": "circa", "min.": "minuti",
    },
    units=_units(
        "chilometri orari|gradi Celsius|chilogrammi|grammi|chilometri|metri|centimetri|millimetri|litri|ore|minuti"
    ),
    never_last=r"On|Mons|art|cap|fig|vol|[^\W\d_]",
    currencies="dollari|euro|sterline|yen",
)  # fmt: skip
_PORTUGUESE = Language(
    abbreviations={
        "a.C.": "antes de Cristo", "d.C.": "depois de Cristo", "p. ex.": "por exemplo", "Sr.": "senhor",
        "Sra.": "senhora", "Dr.": "doutor", "Dra.": "doutora", "Prof.": "professor", "Profa.": "professora",
        "Av.": "avenida", "R.": "rua", "etc.": "et cetera", "pág.": "página", "tel.": "telefone", "nº": "número",
        "aprox.": "aproximadamente", "min.": "minutos",
    },
    units=_units(
        "quilómetros por hora|graus Celsius|quilogramas|gramas|quilómetros|metros|centímetros|milímetros|litros"
        "|horas|minutos"
    ),
    never_last=r"Eng|Exmo|art|cap|vol|[^\W\d_]",
    currencies="dólares|euros|libras|ienes",
)  # fmt: skip
_DUTCH = Language(
    abbreviations={
        "v. Chr.": "voor Christus", "n. Chr.": "na Christus", "d.w.z.": "dat wil zeggen", "o.a.": "onder andere",
        "m.a.w.": "met andere woorden", "t/m": "tot en met", "bijv.": "bijvoorbeeld", "bv.": "bijvoorbeeld",
        "dhr.": "de heer", "mevr.": "mevrouw", "mw.": "mevrouw", "dr.": "dokter", "prof.": "professor",
        "nr.": "nummer", "blz.": "bladzijde", "enz.": "enzovoort", "ca.": "circa", "St.": "Sint", "str.": "straat",
        "tel.": "telefoon", "mln.": "miljoen", "mld.": "miljard", "min.": "minuten",
    },
    units=_units(
        "kilometer per uur|graden Celsius|kilogram|gram|kilometer|meter|centimeter|millimeter|liter|uur|minuten"
    ),
    never_last=r"ir|drs|ing|mr|art|jl|[^\W\d_]",
    currencies="dollar|euro|pond|yen",
)  # fmt: skip

LANGUAGES: dict[str, Language] = {
    "de": _GERMAN, "es": _SPANISH, "fr": _FRENCH, "it": _ITALIAN, "pt": _PORTUGUESE, "nl": _DUTCH,
    **{
        code: Language({}, {}, "[^\\W\\d_]", has_ordinal_dot=True)
        for code in ("da nb no fi cs sk pl hu hr sl bs sr et lv is tr lb").split()  # noqa: SIM905
    },
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
    return list(_tokens(text, language, code))


def _tokens(text: str, language: Language, code: str) -> Iterator[Token]:
    position = 0
    for match in _pattern(code).finditer(text):
        said = _said(match, language, code)
        if said is None:
            continue
        if match.start() > position:
            yield Token(text[position : match.start()], "text", None)
        yield Token(match[0], match.lastgroup or "text", said)
        position = match.end()
    if position < len(text):
        yield Token(text[position:], "text", None)


@cache
def _pattern(code: str) -> re.Pattern[str]:
    language = LANGUAGES[code]
    parts = [r"(?P<code>(?<!\w)(?:https?://|www\.)\S+)"]  # is left as it is
    if code == "de":
        parts += [
            r"(?P<time>(?<![\d:])(\d{1,2}):(\d\d)(?=\s?Uhr\b)\s?Uhr)",
            r"(?P<date>(?<![\d.])\d{1,2}\.\d{1,2}\.(?:\d{4})?(?!\d))",
        ]
        parts.append(r"(?P<street>(?<=[a-zß])str\.(?!\w))")
        parts.append(r"(?P<year>(?<![\w.,:])1[1-9]\d\d(?![\w%€$]|[.,:]\d))")
    if language.currencies:
        parts.append(r"(?P<money>(?:R\$|US\$|[$€£¥])\s?\d[\d.,]*(?<=\d))")
    if code == "it":
        parts.append(r"(?P<first>(?<!\w)1°(?=\s[a-z]))")
    if language.has_ordinal_dot:
        parts.append(r"(?P<ordinal>(?<![\w.,:])\d{1,2}\.(?=\s[^\W\d_]))")
    if language.units:
        units = "|".join(re.escape(unit) for unit in language.units)
        parts.append(rf"(?P<unit>(?<=\d)\s?(?:{units})(?!\w))")
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
        before, after = match.string[: match.start()], match.string[match.end() :]
        if _is_so(before + written, after):
            return None
        if written == "S." and code == "de" and not re.match(r"\s?\d", match.string[match.end() :]):
            return None  # an initial, no page
        wanted = re.sub(r"\s", "", written)
        known = _in_either_case(language.abbreviations)
        said = next(said for short, said in known.items() if short.replace(" ", "") == wanted)
        ends = written.endswith(".") and not after.strip(" \t\n\"'”“»)")
        return f"{said}." if ends else said  # the dot was that of the sentence, too
    if kind == "money":
        sign, amount = re.fullmatch(r"(\D+?)\s?(\d.*)", written).groups()  # type: ignore[union-attr]
        names = dict(zip("$€£¥", language.currencies.split("|"), strict=True))
        return f"{amount} {'reais' if sign == 'R$' else names[sign[-1]]}"
    if kind == "first":
        return "primo"
    if kind == "street":
        return "straße"
    if kind == "unit":
        unit = language.units[written.strip()]
        return f" {unit}"
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


_STARTERS = re.compile(
    "(?:der|die|das|ein|eine|er|sie|es|wir|ich|ihr|dann|da|doch|aber|und|oder|so|auch|nun|als|wenn|am|im|in|an|auf|danach"
    "|jetzt|hier|dort|nach|vor|bei|mit|wer|was|wo|wie|warum|ja|nein|man|dies|diese|dieser|den|dem|zum|zur|vom)",
    re.IGNORECASE,
)
_DECLINED = re.compile(r"\b(?:am|im|vom|zum|beim|zur|den|dem|des|der|ab|bis|seit|und|oder|jeden)\s\Z", re.IGNORECASE)
_NOMINATIVE = re.compile(r"(?:\A|[.!?:]\s)Der\s\Z|\b(?:ist|war|sind|wird)\sder\s\Z")
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
    return code in LANGUAGES and bool(_abbreviated(code).search(before))


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
    return said + "n" if said and code == "de" and _is_declined(match.string[: match.start()]) else said


def _is_declined(before: str) -> bool:
    return bool(_DECLINED.search(before)) and not _NOMINATIVE.search(before)


def _german_date(match: re.Match[str]) -> str | None:
    day, month, *year = (int(number) for number in re.findall(r"\d+", match[0]))
    if not 1 <= day <= 31 or not 1 <= month <= 12:
        return None
    is_declined = _is_declined(match.string[: match.start()])
    if not year and not is_declined and not match.string[match.end() :].strip():
        return None  # "Version 2.1." ends a sentence
    ending = "n" if is_declined else ""
    said = f"{_number(day, 'de', 'ordinal')}{ending} {_MONTHS[month - 1]}"
    return f"{said} {_number(year[0], 'de', 'year')}" if year else said


_WITH_ORDINALS = frozenset(["de", "da", "no", "fi", "hu", "sl", "tr"])  # in the form that texts have most often


@cache
def _number(number: int, code: str, kind: str) -> str | None:
    from num2words import num2words

    if kind == "ordinal" and code not in _WITH_ORDINALS:
        return None
    try:
        return str(num2words(number, lang=code, to=kind))
    except (NotImplementedError, ValueError, KeyError):
        return None
