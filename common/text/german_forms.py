"""What German alone writes in forms, timetables, addresses and recipes: clocks without Uhr, days, postcodes."""

import re
from collections.abc import Callable

from common.text.english.style import text_after, text_before
from common.text.english.words import is_roman, roman
from common.text.numbers import in_words

Reading = Callable[[re.Match[str], str], str | None]
Rule = tuple[str, str, Reading]

_DECLINED = re.compile(r"\b(?:vom|am|der|den|dem|des|zum|im|bis|ab|seit)\s\Z", re.IGNORECASE)
_PLAYED = re.compile(
    r"\b(?:gewann\w*|sieg\w*|mit|endete\w*|Endstand|Niederlage|verlor\w*|unterlag\w*|spielte?n?|Halbzeit|Pause|Satz|führt\w*)"
    r"\s\Z|\(\Z"
)
_RATIO = re.compile(
    r"\b(?:Maßstab|Verhältnis|Quote|Schlüssel|Bestzeit|Chance|Mischung)(?:\s(?:von|bei|ist|im|liegt bei))*\s\Z"
)


def _days(match: re.Match[str], code: str) -> str:
    """vom 12.–15. August"""
    first, last = (in_words(int(day), "de", "ordinal") for day in re.findall(r"\d+", match[0]))
    ending = "n" if _DECLINED.search(text_before(match)) else ""
    return f"{first}{ending} bis {last}{ending}"


def _clock(match: re.Match[str], code: str) -> str | None:
    """Abfahrt 7:02, without Uhr"""
    hour, minute = (int(part) for part in match[0].split(":"))
    if _PLAYED.search(text_before(match)):
        return f"{hour} zu {minute}"
    if hour > 24 or _RATIO.search(text_before(match)):
        return None
    return f"{hour} Uhr {minute}" if minute else f"{hour} Uhr"


def _decade(match: re.Match[str], code: str) -> str | None:
    said = in_words(int(match[0][:4]), "de", "year")
    return f"{said}er" if said else None


def _group_of(match: re.Match[str], code: str) -> str | None:
    """ein 3er → Dreier; die 90er Jahre → neunziger"""
    said = f"{in_words(int(match[0][:-2]), 'de', 'cardinal')}er".replace("einser", "einer")
    return said if re.match(r"[\s-]Jahre", text_after(match)) else said[0].upper() + said[1:]


def _rank(match: re.Match[str], code: str) -> str | None:
    said = in_words(int(match[0].rstrip(".")), "de", "ordinal")
    return f"{said[0].upper()}{said[1:]}r" if said else None


def _last_rank(match: re.Match[str], code: str) -> str | None:
    """Er kam als 1. an, sie als 3.; but sie ist kleiner als 3."""
    said = in_words(int(match[0].rstrip(".")), "de", "ordinal")
    who = _RANKED.search(text_before(match))
    return f"{said[0].upper()}{said[1:]}{'' if who[1].lower() == 'sie' else 'r'}." if said and who else None


_RANKED = re.compile(r"\b(sie|er|ich|du|kam|landete|startete|endete|ging)\sals\s\Z", re.IGNORECASE)
_STREET = re.compile(
    r"(?:[Ss]tr\.|[Ss]traße|[Ww]eg|[Pp]latz|[Aa]llee|[Gg]asse|[Rr]ing|[Dd]amm|[Uu]fer|[Cc]haussee|[Mm]arkt|[Hh]of|[Pp]fad"
    r"|[Ss]teig|[Gg]raben|\b(?:Am|An|Im|Unter|Auf|Zum|Zur)\s(?:de[rnm]\s)?(?:alten\s|Alten\s)?[A-ZÄÖÜ][a-zäöüß]+)"
    r"\s\d{1,3}\s?[a-z]?(?:\s?[-–/]\s?\d{1,3}[a-z]?)?,?\s\Z"
)
_COUNTED = re.compile(
    r"\s(?:Euro|Dollar|Franken|Mark|Pfund|Yen|Cent|Rubel|Kronen|Kilo\w*|Gramm|Tonnen|Meter|Quadrat\w+|Kubik\w+|Liter|Hektar"
    r"|Watt|Volt|Grad|Prozent|Punkte|Mal|Stück|Tage|Stunden|Minuten|Sekunden|Wochen|Monate|Jahre|Menschen|Leute|Personen"
    r"|Männer|Frauen|Kinder|\w*(?:[Bb]esucher|[Bb]ürger|[Bb]ewohner|[Ee]inwohner|schauer|nehmer|geber|[Ss]chüler|[Aa]rbeiter"
    r"|[Ll]eser|[Mm]itglieder|[Kk]äufer|[Nn]utzer|[Hh]örer|innen|[Ff]ans|[Ff]älle|[Bb]äume|[Tt]iere|[Aa]utos|[Bb]ücher|[Ww]örter"
    r"|[Ss]timmen|[Ss]tudenten|[Ss]tudierende|[Ss]oldaten|[Gg]äste|[Kk]unden|[Ss]tellen|plätze|[Ff]lüchtlinge|[Tt]ote"
    r"|[Ss]chritte|[Ss]eiten|[Ww]ohnungen|[Hh]aushalte|[Aa]nrufe|[Aa]ufrufe|[Ff]ollower|[Zz]eichen|[Ee]xemplare|[Mm]eilen|[Pp]ferde|[Kk]ühe|[Ss]chafe"
    r"|[Hh]unde|[Bb]etten|[Zz]eilen|[Nn]amen|[Tt]eile|[Bb]ilder|[Ff]otos|[Ff]ragen|[Hh]äuser|[Ss]pieler|[Ww]ähler|[Ll]äufer"
    r"|[Dd]emonstranten|[Pp]olizisten|[Oo]pfer|[Vv]erletzte|[Kk]arten|[Tt]ickets|[Ff]ahrzeuge|[Aa]nträge|[Uu]nterschriften"
    r"))(?!\w)"
)
_TOWN = r"\s[A-ZÄÖÜ][\wäöüß-]+(?:\s(?:(?:am|an der|im|in der|ob der)\s)?[A-ZÄÖÜ][\wäöüß-]+)?"


def _postcode(match: re.Match[str], code: str) -> str | None:
    """Weg 2, 50667 Köln; a line 50667 Köln; but 10000 Menschen kamen"""
    ahead, behind = text_before(match), text_after(match)
    ends = r"\s*(?:\n|\Z)" if ahead.endswith(", ") else r"\s*(?:\n|,|\Z)"
    is_town = not match[0].endswith("00") and re.match(_TOWN + ends, behind)
    return " ".join(match[0]) if not _COUNTED.match(behind) and (is_town or _STREET.search(ahead)) else None


def _hour(match: re.Match[str], code: str) -> str | None:
    """um 9 h, um ca. 20 h"""
    return f"{match[0].rstrip(' h')} Uhr" if _AT.search(text_before(match)) else None


_AT = re.compile(r"\b(?:um|gegen)\s(?:ca\.\s|etwa\s)?\Z", re.IGNORECASE)


def _postcode_of(match: re.Match[str], code: str) -> str | None:
    """in 10115 Berlin; but in 12500 Haushalten"""
    behind = text_after(match)
    is_town = re.match(_TOWN, behind) and not re.match(r"\s\w+(?:en|ern|eln)(?!\w)", behind)
    return " ".join(match[0]) if is_town and not match[0].endswith("00") and not _COUNTED.match(behind) else None


_HALVES = {
    "ein halber": "Liter|Meter|Tag|Apfel|Teelöffel|Esslöffel|TL|EL|Bund|Becher|l",
    "ein halbes": "Pfund|Kilo|Jahr|Glas|Brot|Hähnchen|Päckchen|kg",
    "eine halbe": "Stunde|Tasse|Zwiebel|Gurke|Dose|Flasche|Packung|Zitrone|Million|Std\\.",
}


def _half(match: re.Match[str], code: str) -> str | None:
    """1/2 Liter → ein halber Liter"""
    behind = text_after(match)
    return next((half for half, nouns in _HALVES.items() if re.match(rf"\s(?:{nouns})(?!\w)", behind)), None)


_ONE_OF = {"kg": "Kilogramm", "g": "Gramm", "m²": "Quadratmeter", "qm": "Quadratmeter", "km": "Kilometer", "l": "Liter",
           "h": "Stunde", "Std.": "Stunde", "Pers.": "Person", "St.": "Stück", "Min.": "Minute"}  # fmt: skip
_ELECTRIC = re.compile(r"\d\s?(?:V|W|Volt|Watt)(?!\w)|\b(?:Strom|Sicherung)")
_HER_AHEAD = re.compile(r"\b(?:Katharina|Maria|Elisabeth)\s(?:[IVX]+\.?\s)?\Z")

_STRONG = {
    "s": "[OUDE]G|(?:Ober|Unter|Dach)geschoss|Kapitel|Quartal|Halbjahr|Semester|Spiel|Jahr|Buch|Viertel|Bild|Gebot",
    "r": "Stock|Teil|Platz|Akt|Band|Tag|Preis|Gang|Schritt|Spieltag|Advent|Versuch|Satz|Rang|Weltkrieg",
}


def _without_an_article(match: re.Match[str], code: str) -> str | None:
    """2. OG → zweites; 2. Stock → zweiter"""
    said, behind = in_words(int(match[0].rstrip(".")), "de", "ordinal"), text_after(match)
    ending = next((ending for ending, nouns in _STRONG.items() if re.match(rf"\s(?:{nouns})(?!\w)", behind)), None)
    return f"{said}{ending}" if said and ending else None


def _numeral(match: re.Match[str], code: str) -> str | None:
    """Kapitel IV"""
    return roman(match[0]) if is_roman(match[0]) else None


_NUMBERED = "".join(
    f"|(?<={word} )" for word in ("Kapitel", "Band", "Teil", "Akt", "Buch", "Artikel", "Anhang", "Weltkrieg")
)
_RELEASED = "".join(
    f"|(?<={word} )" for word in ("Version", "iOS", "Android", "Python", "macOS", "Firmware", "Release")
)

GERMAN: list[Rule] = [
    ("ordinal", r"(?:(?<=, )|(?<=\()|(?<=\A))\d{1,2}\.(?=\s[A-Z])", _without_an_article),
    ("number", rf"(?:(?!){_NUMBERED})[IVX]{{1,6}}(?![\w.'])", _numeral),
    ("version", rf"(?:(?<=[\s(]v){_RELEASED})\d{{1,3}}\.\d{{1,3}}(?![\d.,]|\.\d)",
     lambda m, code: m[0].replace(".", " Punkt ")),
    ("math", r"(?<=\d)\s[-−–]\s(?=\d[\d.,]{0,12}\s?=)", lambda match, code: " minus "),
    ("fraction", r"(?<![\w.,/])1/2(?=\s[A-ZÄÖÜlk])", _half),
    ("measure", rf"(?<=pro )(?:{'|'.join(map(re.escape, _ONE_OF))})(?!\w)", lambda m, code: _ONE_OF[m[0]]),
    ("measure", r"(?<=\d )A(?=\s*[.,;)]|\s*\Z)", lambda m, code: "Ampere" if _ELECTRIC.search(m.string) else None),
    ("name", r"d\.\s?Gr\.", lambda m, code: f"{'die' if _HER_AHEAD.search(text_before(m)) else 'der'} Große"),
    ("score", r"(?<=:\d )n\.\s?V\.", lambda match, code: "nach Verlängerung"),
    ("score", r"(?<=:\d )n\.\s?E\.", lambda match, code: "nach Elfmeterschießen"),
    ("abbreviation", r"(?<!\w)Bj\.(?=\s\d{4})", lambda match, code: "Baujahr"),
    ("time", r"(?<![\w.,:])\d{1,2}\s?h(?!\w)", _hour),
    ("abbreviation", r"(?<=bis )spät\.(?=\s\d)", lambda match, code: "spätestens"),
    ("code", r"(?:(?<=\b[Ii]n )|(?<=\baus ))\d{5}(?=\s[A-ZÄÖÜ][a-zäöü])", _postcode_of),
    ("per", r"(?:(?<=brutto)|(?<=netto)|(?<=warm)|(?<=kalt))/(?=(?:Monat|Jahr|Tag|Stunde|Woche|Person)(?!\w))",
     lambda match, code: " pro "),
    ("date", r"(?<![\w.,])\d{1,2}\.\s?[-–]\s?\d{1,2}\.(?=\s(?:[A-ZÄ][a-zä]{2,}))", _days),
    ("time", r"(?<![\w.,:])\d{1,2}:[0-5]\d(?![\w:]|[.,]\d|\s?Uhr|\s?[-–]\s?\d{1,2}:\d\d\s?Uhr)", _clock),
    ("code", r"(?:(?<=,\s)|(?<=\n)|(?<=\A))\d{5}(?=\s[A-ZÄÖÜ][a-zäöü])", _postcode),
    ("decade", r"(?<![\w.,])1[1-9]\d0er(?!\w)", _decade),
    ("number", r"(?<![\w.,-])\d{1,3}er(?!\w)", _group_of),
    ("ordinal",
     r"(?:(?<=als )|(?<=wurde )|(?<=wird ))\d{1,2}\.(?=\s(?:ins|nach|vor|hinter|durch|auf|mit|an|ein|dran)\b)", _rank),
    ("ordinal", r"(?<=als )\d{1,2}\.(?=\s*\Z)", _last_rank),
    ("abbreviation", r"(?<=[€\d] )p\.\s?a\.", lambda match, code: "pro Jahr"),
    ("abbreviation", r"(?<=\d\. )[OUDE]G(?!\w)",
     lambda m, code: {"O": "Ober", "U": "Unter", "D": "Dach", "E": "Erd"}[m[0][0]] + "geschoss"),
    ("degrees", r"°(?![CFK])", lambda match, code: " Grad"),
]  # fmt: skip
