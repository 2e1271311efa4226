"""What European languages write in figures and say in words: prices, times, ranges, ordinals, kings, fractions.

Each class is a pattern and a reading, by language; numbers that espeak-ng counts rightly stay in figures. The tables of
units and abbreviations are those of `common.text.european_tables`.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from common.text import european_forms
from common.text.english.words import roman
from common.text.numbers import in_words


class Speech(NamedTuple):
    """Words that a language puts between figures."""

    to: str
    minus: str
    ampersand: str
    cents: str
    """Between and behind the parts of a price, {} {}: a whole amount with its currency, and hundredths."""
    clock: str
    """An hour and its minutes, {} {}."""
    hour: str
    """A full hour, {}."""
    times: str
    """What a time of the day is recognised by, as a pattern with hour and minute."""
    ordinals: str = "(?!)()"
    """What an ordinal number looks like, as a pattern with the number and its ending."""
    kings: str = "ordinal"
    """How the number of a king is said: ordinal, cardinal, or ordinal up to ten."""
    century: str = "(?!)()"
    """What a century in Roman numerals looks like, as a pattern with the numeral."""
    century_is: str = "cardinal"
    """How its number is said."""
    fractions: str = ""
    """Half, third, quarter, three quarters."""


_CLOCK = r"(\d{1,2}):([0-5]\d)"
SPEECH = {
    "de": Speech("bis", "minus", "und", "{} {}", "{} Uhr {}", "{} Uhr", r"(\d{1,2})[.:]([0-5]\d)\s?Uhr"),
    "fr": Speech(
        "à", "moins", "et", "{} {}", "{} heures {}", "{} heures",
        r"(\d{1,2})\s?(?:h|:)\s?([0-5]\d)(?:\s?(?:h|min)(?!\w))?",
        r"(\d+)(ers?|res?|nde?|ième|eme|ème|e)", "cardinal", r"([IVX]+)e(?=\s(?:siècle|s\.|République|arrondissement))",
        "ordinal", "un demi|un tiers|un quart|trois quarts",
    ),
    "es": Speech(
        "a", "menos", "y", "{} con {}", "{} {}", "{}", rf"{_CLOCK}(?:\s?(?:h|hs|hrs|horas)\b\.?)?",
        r"(\d+)\.?(º|ª|er|o|a)", "ten", r"(?<=[Ss]iglo )([IVX]+)", "cardinal",
        "un medio|un tercio|un cuarto|tres cuartos",
    ),
    "it": Speech(
        "a", "meno", "e", "{} e {}", "{} e {}", "{}",
        r"(\d{1,2})[:.]([0-5]\d)(?<=:\d\d)|(?<=ore )(\d{1,2})[.:]([0-5]\d)",
        r"(\d+)(°|º|ª)(?=\s[a-z])", "ordinal", r"([IVX]+)(?=\ssecolo)", "ordinal",
        "mezzo|un terzo|un quarto|tre quarti",
    ),
    "pt": Speech(
        "a", "menos", "e", "{} e {}", "{} e {}", "{} horas", r"(\d{1,2})[h:]([0-5]\d)(?:\s?h)?",
        r"(\d+)\.?(º|ª|°)", "ten",
        r"(?<=[Ss]éculo )([IVX]+)", "cardinal", "meio|um terço|um quarto|três quartos",
    ),
    "nl": Speech(
        "tot", "min", "en", "{} {}", "{} uur {}", "{} uur", r"(\d{1,2})[.:]([0-5]\d)\s?(?:uur|u\b)",
        r"(\d+)(e|ste|de)", "the ordinal", fractions="een half|een derde|een kwart|driekwart",
    ),
    "sv": Speech(
        "till", "minus", "och", "{} {}", "{} {}", "{}",
        r"(?<=[Kk]l\. )(\d{1,2})[.:]([0-5]\d)|(?<=[Kk]l )(\d{1,2})[.:]([0-5]\d)",
        r"(\d+):(a|e)", "the ordinal", fractions="en halv|en tredjedel|en fjärdedel|tre fjärdedelar",
    ),
    "pl": Speech(
        "do", "minus", "i", "{} {}", "{} {}", "{}", _CLOCK, century=r"([IVX]+)(?=\s(?:wiek|w\.))", century_is="ordinal",
        fractions="pół|jedna trzecia|jedna czwarta|trzy czwarte",
    ),
    "ru": Speech(
        "до", "минус", "и", "{} {}", "{} {}", "{}", _CLOCK, r"(\d+)-(й|я|е|го|му|м)", century=r"([IVX]+)(?=\sвек)",
        century_is="ordinal", fractions="половина|одна треть|одна четверть|три четверти",
    ),
    "tr": Speech("ile", "eksi", "ve", "{} {}", "{} {}", "{}", _CLOCK, fractions="yarım|üçte bir|dörtte bir|dörtte üç"),
}  # fmt: skip
# Kings and popes by their names in the languages that have numbers behind them.
_KINGS = (
    "Wilhelm|Friedrich|Heinrich|Karl|Ludwig|Otto|Franz|Joseph|Leopold|Maximilian|Ferdinand|Johannes Paul"
    "|Benedikt|Elisabeth"
    "|Louis|Henri|Charles|François|Philippe|Napoléon|Jean-Paul|Benoît|Élisabeth|Felipe|Carlos|Alfonso|Fernando|Isabel"
    "|Enrique|Juan Pablo|Benedicto|Vittorio Emanuele|Umberto|Carlo|Giovanni Paolo|Benedetto|João|Pedro|Manuel|Afonso"
    "|Willem|Gustav|Karl|Oscar|Oskar|Carl|Erik|Elizabeth|Pius|León|Leone|Leo|Papa|Pape|Papst|Albert|Georg"
)
_KING = re.compile(rf"\b(?:{_KINGS})(?:\s[A-Z]\w+)?\s\Z")

_PLUS = {
    "de": "plus ", "fr": "plus ", "es": "más ", "it": "più ", "pt": "mais ", "nl": "plus ", "sv": "plus ",
    "pl": "plus ", "ru": "плюс ",
}  # fmt: skip

_Reading = Callable[[re.Match[str], str], str | None]


class Found(NamedTuple):
    """A piece of a text, its class and its words."""

    start: int
    stop: int
    kind: str
    spoken: str


def found(text: str, code: str) -> Iterator[Found]:
    """The pieces of `text` that belong to a class, from left to right."""
    if code not in SPEECH or text.isalpha():
        return
    position = 0
    pattern, rules = _rules(code)
    while match := pattern.search(text, position):
        name, (kind, reading) = match.lastgroup or "", rules[match.lastgroup or ""]
        said = reading(match, code)
        if said is None:  # one of the classes behind it may be meant
            match, kind, said = _another(match, name, code)
        if said is not None and match.end() > match.start():
            yield Found(match.start(), match.end(), kind, said)
        position = max(match.end(), match.start() + 1) if said is not None else match.start() + 1


def _another(match: re.Match[str], name: str, code: str) -> tuple[re.Match[str], str, str | None]:
    for kind, pattern, reading in _each(code)[int(name.removeprefix("rule")) + 1 :]:
        other = pattern.match(match.string, match.start())
        if other and (said := reading(other, code)) is not None:
            return other, kind, said
    return match, "", None


@cache
def _each(code: str) -> list[tuple[str, re.Pattern[str], _Reading]]:
    return [(kind, re.compile(pattern), reading) for kind, pattern, reading in _listed(code)]


@cache
def _rules(code: str) -> tuple[re.Pattern[str], dict[str, tuple[str, _Reading]]]:
    """One pattern with a named group per class; groups within are read anew by the class."""
    rules = _listed(code)
    names = {f"rule{i}": (kind, reading) for i, (kind, _, reading) in enumerate(rules)}
    return re.compile("|".join(f"(?P<rule{i}>{pattern})" for i, (_, pattern, _) in enumerate(rules))), names


def _listed(code: str) -> list[tuple[str, str, _Reading]]:
    speech = SPEECH[code]
    return [
        *european_forms.rules(code),
        ("telephone",
         r"(?<![\w.,])(?:\+\d{1,3}|\(?0\d{1,4}\)?)(?:[\s/-]|\s/\s)\d{2,}(?:[\s/-]\d{2,})*(?!\w|[.,]\d)", _telephone),
        ("money", r"(?<![\w.,])\d[\d.]*,\d\d\s?(?:€|EUR\b|£|zł|R\$)|(?:€|£|R\$)\s?\d[\d.]*,\d\d(?!\d)", _price),
        ("length", r"(?<![\d:.])\d{1,2}:\d\d:\d\d(?:\s?Std\.)?(?![\d:])", _length),
        ("time", rf"(?<![\d:.,])(?:{_anonymous(speech.times)})(?![\d:])", _time),
        ("hours", r"(?<![\d:.,])\d{1,2}:\d\d(?=\s?[-–]\s?\d{1,2}:\d\d)" if code == "de" else "(?!)", _hours),
        ("score", r"(?<![\d:.])\d{1,2}:\d(?!\d|:)" if code == "de" else "(?!)", _score),
        ("ordinal", rf"(?<![\w.,:])(?:{_anonymous(speech.ordinals)})(?!\w)", _ordinal),
        ("century", rf"(?<!\w)(?:{_anonymous(speech.century)})(?!\w)", _century),
        ("king", r"(?<!\w)[IVX]+(?!\w)\.?", _king),
        ("fraction", r"(?<![\w./])\d{1,2}/\d{1,2}(?![\w/])", _fraction),
        ("year", r"(?<![\w.,])\d{4}\s?г\.(?!\w)" if code == "ru" else "(?!)", _russian_year),
        ("year",
         r"(?<![\w.,])(?<!-\d\d-)(?<!-\d-)1[1-9]\d\d(?![\w%€$]|[.,:]\d)" if code == "nl" else "(?!)", _dutch_year),
        ("range",
         r"(?<=\d)\s?[-–]\s?(?=\d+(?:[.,:]\d+)*\s?(?:[€%$£°]|[^\W\d_]))|(?<=\d{4})[-–](?=\d{4}(?!\d))"
         r"|(?<=\d:\d\d)\s?[-–]\s?(?=\d{1,2}:\d\d(?![\d:]))", _range),
        ("sign", r"(?<![\w.,)\d%€])[-−](?=\d)", lambda match, name: f"{SPEECH[name].minus} "),
        ("sign", r"(?<![\w.,)\d%€+])\+(?=\d)" if code in _PLUS else "(?!)", lambda match, name: _PLUS[name]),
        ("code", r"(?:(?<=PLZ )|(?<=Postleitzahl )|(?<=D-))\d{5}(?!\d)" if code == "de" else "(?!)",
         lambda match, name: " ".join(match[0])),
        ("sign", r"(?<=\w\s)&(?=\s\w)", lambda match, name: SPEECH[name].ampersand),
        ("section", r"§§?" if code == "de" else "(?!)", lambda m, name: "Paragrafen" if len(m[0]) > 1 else "Paragraf"),
        ("ordinal", r"(?:(?<=wurde )|(?<=wird )|(?<=war )|(?<=ist )|(?<=als ))\d{1,2}\.(?=\s(?:im|in|bei|beim)\b)"
         if code == "de" else "(?!)", _place),
    ]  # fmt: skip


def _anonymous(pattern: str) -> str:
    """Without groups, whose numbers would shift."""
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)


def _parts(pattern: str, match: re.Match[str]) -> list[str]:
    inner = re.compile(pattern).match(match.string, match.start())
    return [group for group in inner.groups() if group] if inner else []


def _telephone(match: re.Match[str], code: str) -> str | None:
    digits = re.sub(r"\D", "", match[0])
    if len(digits) < 7:
        return None
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(" ".join(group) for group in re.findall(r"\d+", match[0]))


_MONEY = {
    "de": {"€": "Euro", "£": "Pfund"}, "fr": {"€": "euros", "£": "livres"}, "es": {"€": "euros", "£": "libras"},
    "it": {"€": "euro", "£": "sterline"}, "pt": {"€": "euros", "R$": "reais", "£": "libras"},
    "nl": {"€": "euro", "£": "pond"}, "sv": {"€": "euro", "£": "pund"}, "tr": {"€": "avro", "£": "sterlin"},
    "pl": {"€": "euro", "zł": "złotych", "£": "funtów"}, "ru": {"€": "евро", "£": "фунтов"},
}  # fmt: skip
_HUNDREDTHS = {
    "de": "Cent", "fr": "centimes", "es": "céntimos", "it": "centesimi", "pt": "centavos", "nl": "cent", "sv": "cent",
    "pl": "groszy", "ru": "центов", "tr": "sent",
}  # fmt: skip


_ONE = {
    "de": "ein", "fr": "un", "es": "un", "it": "un", "pt": "um", "nl": "één", "sv": "en", "pl": "jeden", "ru": "один",
    "tr": "bir",
}  # fmt: skip


def _price(match: re.Match[str], code: str) -> str | None:
    """12,50 € → 12 Euro 50; 0,45 € → 45 Cent"""
    whole, parts = re.search(r"(\d[\d.]*),(\d\d)", match[0]).groups()  # type: ignore[union-attr]
    sign = "€" if "EUR" in match[0] else re.sub(r"[\d.,\s]", "", match[0])
    name = _MONEY[code].get(sign)
    if name is None:
        return None
    behind = "groszy" if sign == "zł" else ""
    if whole.strip("0.") == "":
        return f"{int(parts)} {behind or _HUNDREDTHS[code]}"
    if whole == "1":
        name = {"euros": "euro", "reais": "real", "livres": "livre", "libras": "libra", "złotych": "złoty"}.get(
            name, name
        )
    if code == "pl" and whole[-1] in "234" and whole[-2:-1] != "1" and sign == "zł":
        name = "złote"
    whole = _ONE[code] if whole == "1" else whole
    amount = f"{whole} {name}"
    return amount if parts == "00" else " ".join([SPEECH[code].cents.format(amount, int(parts)), behind]).strip()


def _length(match: re.Match[str], code: str) -> str | None:
    hours, minutes, seconds = (int(part) for part in re.findall(r"\d+", match[0]))
    if code != "de" or minutes > 59 or seconds > 59:
        return None
    names = (("Stunde", hours), ("Minute", minutes), ("Sekunde", seconds))
    return " ".join(f"eine {name}" if number == 1 else f"{number} {name}n" for name, number in names)


def _time(match: re.Match[str], code: str) -> str | None:
    parts = _parts(SPEECH[code].times, match)
    if len(parts) < 2 or int(parts[0]) > 24:
        return None
    hour, minute = int(parts[0]), int(parts[1])
    if code == "pl":
        return _polish_time(match, hour, minute)
    if not minute:
        return "une heure" if code == "fr" and hour == 1 else SPEECH[code].hour.format(hour)
    said = SPEECH[code].clock.format(hour, minute if minute > 9 or code == "de" else f"0 {minute}")
    if code != "fr":
        return said
    return re.sub(r"\A(1|0) heures", r"\1 heure", said) + (" minutes" if match[0].endswith("min") else "")


def _polish_time(match: re.Match[str], hour: int, minute: int) -> str | None:
    said = in_words(hour, "pl", "ordinal")
    if not said or not hour:
        return None
    is_at = re.search(
        r"(?i:\b(?:o|od|do|po|przed|około)(?:\sgodz(?:inie|\.)?)?\s\Z)",
        match.string[max(0, match.start() - 60) : match.start()],
    )
    ending = "ej" if is_at else "a"
    words = [re.sub("i\\Z", "i" + ending if is_at else "ia", re.sub("y\\Z", ending, word)) for word in said.split()]
    return " ".join(words) + (f" {minute}" if minute else "")


def _hours(match: re.Match[str], code: str) -> str | None:
    """10:00–11:30 Uhr"""
    hour, minute = (int(part) for part in match[0].split(":"))
    return f"{hour} Uhr {minute}" if minute else str(hour)


def _score(match: re.Match[str], code: str) -> str:
    return match[0].replace(":", " zu ")


_FEMININE = {"ª", "a", "re", "res", "nde", "я"}


def _ordinal(match: re.Match[str], code: str) -> str | None:
    parts = _parts(SPEECH[code].ordinals, match)
    if len(parts) < 2 or len(parts[0]) > 3:
        return None
    return _declined(int(parts[0]), code, feminine=parts[1] in _FEMININE and code != "sv", ending=parts[1])


def _declined(number: int, code: str, *, feminine: bool = False, ending: str = "") -> str | None:
    if code == "fr" and number == 1:
        return "première" if feminine else "premier"
    if code == "es" and ending == "er":
        return {1: "primer", 3: "tercer"}.get(number)
    said = in_words(number, code, "ordinal")
    if not said:
        return None
    if code == "ru":
        endings = {"я": "ая", "е": "ое", "го": "ого", "му": "ому", "м": "ом"}
        return re.sub(r"(?:ый|ой|ий)\Z", endings[ending], said) if ending in endings else said
    return re.sub(r"o\b", "a", said) if feminine and code in ("es", "it", "pt") else said


def _century(match: re.Match[str], code: str) -> str | None:
    numeral = re.match("[IVX]+", match[0])
    if numeral is None:
        return None
    number = int(roman(numeral[0]))
    return _declined(number, code) if SPEECH[code].century_is == "ordinal" else str(number)


def _king(match: re.Match[str], code: str) -> str | None:
    """Wilhelm II. → der zweite; Louis XIV → 14; Felipe VI → sexto"""
    numeral = match[0].rstrip(".")
    if not _KING.search(match.string[max(0, match.start() - 60) : match.start()]) or (
        code == "de" and not match[0].endswith(".")
    ):
        return None
    number, kings = int(roman(numeral)), SPEECH[code].kings
    dot = "." if match[0].endswith(".") and (code != "de" or not match.string[match.end() :].strip()) else ""
    if kings == "cardinal" or (kings == "ten" and number > 10):
        return ("premier" if code == "fr" and number == 1 else str(number)) + dot
    said = _declined(number, code)
    article = {"de": "der ", "nl": "de ", "sv": "den "}.get(code, "")
    return f"{article}{said}{dot}" if said else None


def _fraction(match: re.Match[str], code: str) -> str | None:
    top, bottom = (int(part) for part in match[0].split("/"))
    if code == "de" and re.match(r"\s(?:Punkt|Stern|Mal|Fälle|Befragt)\w*", match.string[match.end() :]):
        return f"{top} von {bottom}"
    if not 0 < top < bottom:
        return None
    if (
        code == "de"
        and bottom > 2
        and re.match(r"\s(?:der|des|von|aller)\b|\s?[,.;!?]|\Z", match.string[match.end() :])
    ):
        part = (in_words(bottom, "de", "ordinal") or "").removesuffix("e") + "el"
        return f"{'ein' if top == 1 else top} {part[0].upper() + part[1:]}"
    known = dict(zip([(1, 2), (1, 3), (1, 4), (3, 4)], SPEECH[code].fractions.split("|"), strict=False))
    return known.get((top, bottom)) or None


def _russian_year(match: re.Match[str], code: str) -> str | None:
    """в 2020 г. → в две тысячи двадцатом году; 2020 г. → две тысячи двадцатого года"""
    said = in_words(int(match[0][:4]), "ru", "ordinal")
    if not said:
        return None
    is_in = re.search(r"\b[Вв]\s\Z", match.string[max(0, match.start() - 60) : match.start()])
    ending, name = ("ом", "году") if is_in else ("ого", "года")
    third = {"ом": "третьем", "ого": "третьего"}[ending]
    dot = "" if match.string[match.end() :].strip() else "."
    return re.sub(r"третий\Z", third, re.sub(r"(?:ый|ой)\Z", ending, said)) + f" {name}{dot}"


def _dutch_year(match: re.Match[str], code: str) -> str | None:
    century, rest = match[0][:2], match[0][2:]
    if rest == "00":
        return f"{century}honderd"
    return f"{century} {int(rest)}" if rest[0] != "0" else None


def _range(match: re.Match[str], code: str) -> str:
    return f" {SPEECH[code].to} "


def _place(match: re.Match[str], code: str) -> str | None:
    """Er wurde 2. im Rennen → Zweiter"""
    said = in_words(int(match[0].rstrip(".")), "de", "ordinal")
    return f"{said[0].upper()}{said[1:]}r" if said else None
