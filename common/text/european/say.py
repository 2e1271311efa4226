"""The readings that numbers, prices, times, dates and signs of European languages can have, for the model to choose.

Each function yields the readings of one match of a shape. What is None stands for itself; espeak-ng counts figures.
"""

import re
from collections.abc import Iterable

from common.text.engine.shapes import Readings, reading
from common.text.european.language import Language, without_article
from common.text.european.numbers import (
    Forms,
    agreed,
    counted,
    declined,
    figures,
    gender,
    noun_behind,
    of_many,
    ordinals,
    year,
)
from common.text.numbers import in_words, is_roman, roman


def _each(forms: Forms) -> Readings:
    return (reading(parts, said) for parts, said in forms.items())


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


def number(m: re.Match[str], language: Language) -> Readings:
    """12, 1 234 567, 1'250, 1945, 10115, 2.1"""
    written, code = m[0], language.code
    plain = written if written.isdecimal() else figures(written)
    if written[0] != "0" or len(written) < 3 or not written.isdecimal():
        yield reading("number", plain if plain != written else None)
    plain = re.sub(r"\.(?=\d{3}(?!\d))", "", plain) if "." in plain else plain
    if not plain.isdecimal():
        if written.count(".") == 1 and "," not in written and not re.match(r"\s?%", m.string[m.end() : m.end() + 2]):
            yield reading("version", written.replace(".", f" {language.said('say', 'dot')} "))
        return
    value = int(plain[:15])
    noun = noun_behind(m.string, m.end())
    if value == 1 and code == "de" and (adjective := _ADJECTIVE.match(m.string, m.end())):  # 1 neue Nachricht
        parts = ("agreed accusative", "agreed dative", "agreed f") if adjective[1] == "en" else ("agreed",)
        yield from _each(dict(zip(parts, _BEFORE_ADJECTIVES[adjective[1]], strict=True)))
    elif noun:
        yield from _each({part: said for part, said in agreed(value, noun, language).items() if said[-1] != "'"})
    if value < 25 and code != "fr" and (hour := _hour(value, language)) != str(value):  # a la 1, all'1
        yield reading("hour", hour)
    if value == 1 and code in _FIRST and language.of_months.match(m.string, m.end()):
        yield reading("day", _FIRST[code])
    is_year = len(written) == 4 and 1100 <= value < 2000 and not m.string[m.end() : m.end() + 1].isalpha()
    if code in ("de", "nl") and is_year and (said := year(value, language)) != plain:
        yield reading("year", said)
    if code == "fr" and len(written) == 4 and written.isdecimal() and written[2] != "0":  # le 3615
        yield reading("pairs", f"{plain[:2]} {plain[2:]}")
    if (len(written) > 2 or written[0] == "0") and written.isdecimal():
        yield reading("digits", " ".join(plain))
    if 0 < value < 32 and language.of_months.match(m.string, m.end()):
        yield from (reading("day", said) for said in declined(value, language)[:1])


_FIRST = {"fr": "premier", "it": "primo", "pt": "primeiro"}  # of a month
_ADJECTIVE = re.compile(r" [a-zäöüß]{2,20}?(e|er|es|en) (?=[A-ZÄÖÜ])")
_BEFORE_ADJECTIVES = {"e": ("eine",), "er": ("ein",), "es": ("ein",), "en": ("einen", "einem", "einer")}


def single(m: re.Match[str], language: Language) -> Readings:
    """1-Zimmer-Wohnung, 1-jährig"""
    yield reading("single", "ein")


def compound(m: re.Match[str], language: Language) -> Readings:
    """500-g-Packung, 24-Std.-Dienst"""
    number, several = m["number"], language.said("unit", m["unit"]).split("/")[-1]
    yield reading("compound", f"{'ein' if number == '1' else number}-{several}")


def elided(m: re.Match[str], language: Language) -> Readings:
    """1 ora → un'ora"""
    if (said := agreed(1, m[1], language).get("agreed", "")).endswith("'"):
        yield reading("agreed", said)


def points(m: re.Match[str], language: Language) -> Readings:
    """3.2.1, 10.0.0.1:80"""
    host, _, port = m[0].partition(":")
    groups = host.split(".")
    is_grouped = len(groups) != 4 and all(len(group) == 3 for group in groups[1:])
    if is_grouped or (len(groups) > 3 and re.match(r"0\d", host)):
        return  # 1.000.000, 06.12.34.56.78
    said = host.replace(".", f" {language.said('say', 'dot')} ")
    yield reading("version", f"{said} {language.said('say', 'colon')} {port}" if port else said)


def ordinal(m: re.Match[str], language: Language) -> Readings:
    """2ª, 19e, 1er, 3-й"""
    if said := language.said("ordinal", m[0]):
        yield reading("ordinal", said)
    elif len(m[1]) < 4:
        kinds = [kind[0] for kind in language.rows["ending"][m[2]]]
        if kinds == ["m"] and (noun := noun_behind(m.string, m.end())) and gender(noun, language) == "m":  # 3.º piso
            yield from (reading("ordinal short", said) for said in ordinals(int(m[1]), language, "short").values())
        for kind in kinds:
            yield from _each(ordinals(int(m[1]), language, kind))


_WITH_ORDINALS = frozenset(["de", "da", "no", "fi", "hu", "sl", "tr"])  # in the form that texts have most often


def dotted(m: re.Match[str], language: Language) -> Readings:
    """am 3. Mai, der 2. Weltkrieg, als 3."""
    if language.code in _WITH_ORDINALS:
        is_noun = language.code == "de" and not noun_behind(m.string, m.end())[:1].isupper()  # er wurde Dritter
        for parts, said in ordinals(int(m[1]), language).items():
            yield reading(parts, said[0].upper() + said[1:] if is_noun and parts != "ordinal n" else said)


def decade(m: re.Match[str], language: Language) -> Readings:
    """die 90er Jahre, ein 3er, die 1920er"""
    said = in_words(int(m[1]), "de", "year" if len(m[1]) == 4 else "cardinal")
    said = f"{said}er".replace("einser", "einer") + m[2]
    is_noun = (
        len(m[1]) < 4 and noun_behind(m.string, m.end()) != "Jahre" and m.string[m.end() : m.end() + 6] != "-Jahre"
    )
    yield reading("decade", said[0].upper() + said[1:] if is_noun else said)


def times(m: re.Match[str], language: Language) -> Readings:
    """3x täglich"""
    is_word = language.code == "de"
    said = "ein" if m[1] == "1" and is_word else in_words(int(m[1]), "de", "cardinal") if is_word else m[1]
    yield reading("times", language.said("say", "times").format(said))


def telephone(m: re.Match[str], language: Language) -> Readings:
    """030 123456, +49 30 12345; 01 42 68 53 00 in pairs, 612 345 678 in groups"""
    groups = re.findall(r"\d+", m[0])
    if not 7 <= sum(map(len, groups)) <= 16 or len(groups) < 2 or re.fullmatch(r"\d{4}[^ ]\d{4}", m[0]):
        return  # 1914-1918
    plus = f"{language.said('sign', '+') or 'plus'} " if m[0].startswith("+") else ""
    yield reading("telephone", plus + ", ".join(map(" ".join, groups)))
    if language.code in ("fr", "es", "it"):
        yield reading("telephone pairs", plus + ", ".join(g if g[0] != "0" else " ".join(g) for g in groups))


def numeral(m: re.Match[str], language: Language) -> Readings:
    """Kapitel IV, Wilhelm II., Felipe VI, le XIXe siècle"""
    yield reading("word", None)
    if not is_roman(m[1]) or m[1] in ("CC", "CD", "CV", "DC", "MC", "MD", "MM"):  # which are read as letters
        return
    value, ending, code = int(roman(m[1])), m[2] or "", language.code
    own = "" if ending in (".", "") and code != "de" else ending
    if own in ("", "."):
        yield reading("roman", str(value) + ("." if ending == "." else ""))
    if (ending and code == "de") or ending not in ("", "."):
        for parts, said in ordinals(value, language, "f" if ending == "re" else "m").items():
            for article in (
                {"": ("der", "die"), "n": ("des", "dem", "den", "der")}.get(parts[8:], ()) if code == "de" else ()
            ):
                yield reading(f"king {article} {parts}", f"{article} {said}")
            yield reading(parts, said)
    elif code != "de":
        article = {"nl": "de ", "sv": "den "}.get(code, "")
        if value > int(language.said("say", "kings") or 99):  # Alfonso trece
            return
        yield from (reading("roman in", said) for said in declined(value, language)[1:])  # w XIX w.
        forms = {said: part for kind, part in _KINGS for said in ordinals(value, language, kind).values()}
        yield from (reading(part, article + said + ending) for said, part in reversed(forms.items()))


_KINGS = (("short", "king short"), ("f", "king f"), ("m", "king"))  # el III milenio, la II edición, Felipe VI


# ---------------------------------------------------------------------------------------------------------------------
# Measures and money


def measure(m: re.Match[str], language: Language) -> Readings:
    """5 kg, 1 h, 20 %, 6 J."""
    rows = language.rows["unit"][m["unit"]]
    for forms in rows:
        unit = f" u:{forms[0].replace(' ', '_')}" if len(rows) > 1 else ""
        yield from (reading(part + unit, said) for part, said in counted(m["number"], forms[0], language).items())
        if m["unit"] == "m" and (tall := re.fullmatch(r"(\d{1,2}),()(\d\d)", m["number"])):
            yield from height(tall, language)


def height(m: re.Match[str], language: Language) -> Readings:
    """1m80, 1,80 m → un mètre 80"""
    if price := language.said("price", "€").replace(" con ", " "):
        said = counted(m[1], language.said("unit", "m"), language)["measure"]
        yield reading("height", price.format(said, int(m[3])))


def scaled(m: re.Match[str], language: Language) -> Readings:
    """3,5 mln di euro, 2 millones"""
    for part, said in counted(m["number"], language.said("scale", m["scale"]), language).items():
        noun = noun_behind(m.string, m.end())  # 3 mln euro, 3 mln a stagione
        is_counted = noun and gender(noun, language) != "stop"
        yield reading(f"scaled{part[7:]}", said if is_counted else re.sub(r" d[ei]\Z", "", said))


def per(m: re.Match[str], language: Language) -> Readings:
    """/kg, /Tag"""
    between, unit = language.said("say", "per"), m[1].rstrip(".")
    names = [row[0] for kind in ("per", "unit") for row in language.rows[kind].get(unit, ())] or [""]
    for name in names:
        forms = name.split("/")
        one = forms[0].split(" ", 1)[-1] if len(forms) == 4 and language.code == "pl" else ""
        one = one or (forms[1] if len(forms) == 4 else without_article(forms[0]) if len(forms) > 1 else name)
        one = one or unit
        if language.code == "it":  # al mese, all'ora, a persona
            between = "all'" if one[0] in "aeiou" else "al" if gender(one.split()[0], language) == "m" else "a"
        yield reading("per", f"{between} {one}".replace("' ", "'"))


def amount(m: re.Match[str], language: Language) -> Readings:
    """$5, 12,50 €, 25,– €, CHF 1'250.–, 2,3 Mrd. €, € 5,-"""
    sign = (m.groupdict().get("ahead") or m.groupdict().get("behind") or "€").replace("US$", "$").removesuffix(".")
    sign = {"Fr": "CHF", "Euro": "€", "euro": "€", "euros": "€", "Euros": "€"}.get(sign, sign)
    names = language.rows["currency"].get(sign) or language.rows["unit"].get(sign)
    if not names:
        return
    forms, whole, cents = names[0][0], m["whole"], m["cents"] or ""
    if m["scale"]:
        scaled = counted(
            whole + (f",{cents}" if cents.isdecimal() else ""), language.said("scale", m["scale"]), language
        )
        said = f"{next(iter(scaled.values()))} {of_many(forms, language)}"
        yield reading("money", said.replace("de euros", "d'euros") if language.code == "fr" else said)
        return
    cases = counted(figures(whole), forms, language)
    if cents in ("", "00") or not cents.isdecimal():
        if cents or m.groupdict().get("ahead") or sign not in language.rows["unit"]:
            yield from (reading(f"money{part[7:]}", said) for part, said in cases.items())
        return
    price = (language.rows["price"].get(sign) or language.rows["price"].get("€") or [["{} {}", "{}"]])[0]
    value = int(cents) if len(cents) == 2 else cents
    if not whole.strip("0.,") and len(cents) == 2:
        yield reading("cents", price[1].format(value))
    for part, said in cases.items():
        yield reading(f"money{part[7:]}", price[0].format(said, value))


# ---------------------------------------------------------------------------------------------------------------------
# Times and dates


def clock(m: re.Match[str], language: Language) -> Readings:
    """14:30 Uhr, 14h30, 8.30"""
    hours, minutes, code = int(m["hour"]), int(m["minute"]), language.code
    if hours > 24 or not language.said("say", "clock"):
        return
    if code == "pl":
        yield from _polish_clock(hours, minutes)
        return
    hour = _hour(hours, language)
    name = language.said("say", "hour")
    if code == "fr" and hours < 2:
        name = "{} heure"
    if not minutes:
        yield reading("clock", name.format(hour))
        if not any(map(str.isalpha, m[0])):
            yield reading("clock hour", hour)
        return
    minute = str(minutes) if minutes > 9 or code in ("de", "fr") else f"0 {minutes}"
    said = language.said("say", "clock").format(hour, minute)
    said = re.sub(r"\A(une|0) heures", r"\1 heure", said)
    yield reading("clock", said + (" minutes" if code == "fr" and m[0].endswith("min") else ""))


def _hour(hours: int, language: Language) -> str:
    """The hour of a clock: las 21 → veintiuna, all'1 → una."""
    if (language.code, hours) == ("it", 1):
        return "una"
    noun = {"es": "hora", "pt": "hora", "fr": "heure"}.get(language.code)
    return (agreed(hours, noun, language) if noun and hours < 25 else {}).get("agreed", str(hours))


def _polish_clock(hours: int, minutes: int) -> Readings:
    words = (in_words(hours, "pl", "ordinal") or "").split()
    for parts, ending, soft in (("clock", "a", "ia"), ("clock at", "ej", "iej")):
        said = [re.sub(r"i\Z", soft, re.sub(r"y\Z", ending, word)) for word in words]
        yield reading(parts, " ".join(said) + (f" {minutes}" if minutes else ""))


def length(m: re.Match[str], language: Language) -> Readings:
    """2:15:30 Std., 48'30\""""
    parts = [str(int(part)) for part in re.findall(r"\d+", m[0])]
    if language.code == "de" or ":" not in m[0]:
        named = zip(parts, ("h", "min", "s")[-len(parts) :], strict=True)
        known = [(part, language.rows["unit"][unit][0][0]) for part, unit in named]
        yield reading("length", " ".join(counted(part, forms, language)["measure"] for part, forms in known))


def date(m: re.Match[str], language: Language) -> Readings:
    """24.12.2023, 1/5/2024, am 2.3., 2024-05-01"""
    day, month, in_year = (int(m[name] or 0) for name in ("day", "month", "year"))
    names, code = language.listed("months"), language.code
    if not (names and 1 <= day <= 31 and 1 <= month <= 12):
        return
    said_year = year(in_year, language) if len(m["year"] or "") == 4 else m["year"] or ""
    if len(m["year"] or "") == 2 and code != "de":  # 25/12/23
        said_year = str(in_year + (2000 if in_year < 50 else 1900))
    if code == "de":
        said = in_words(day, "de", "ordinal") or ""
        for ending in ("n", "", "r"):
            yield reading(f"date {ending}".strip(), f"{said}{ending} {names[month - 1]} {said_year}".strip())
        return
    first = _FIRST.get(language.code) if day == 1 else None
    ranked = in_words(day, "sv", "ordinal") if language.code == "sv" else None
    said_day = first or "".join(declined(day, language)[:1]) or ranked or str(day)
    form = language.said("say", "date")
    form = form if m["year"] else re.sub(r"(?: de)? \{year\}.*", "", form)
    yield reading("date", form.format(day=said_day, month=names[month - 1], year=said_year))


def days(m: re.Match[str], language: Language) -> Readings:
    """1985 r., 2020 г."""
    names = ("roku", "roku") if language.code == "pl" else ("года", "году")
    for parts, said, name in zip(("year", "year in"), declined(int(m[1]), language), names, strict=False):
        yield reading(parts, f"{said} {name}")


def month(m: re.Match[str], language: Language) -> Readings:
    """5 janv. 2024, 3 mar 2024"""
    short = m[1].lower()
    cut = language.said("cut", short)
    found = [name for name in language.listed("months") if name.startswith(short) or name == cut]
    if len(found) == 1 and found[0] != short:
        yield reading("month", found[0])
        if language.code in ("es", "pt"):  # 3 feb. 2024
            ahead = "" if m.string.endswith("de ", 0, m.start()) else "de "
            in_year = " de" if re.match(r"\s\d{4}(?!\d)", m.string[m.end() : m.end() + 6]) else ""
            yield reading("month of", f"{ahead}{found[0]}{in_year}")


# ---------------------------------------------------------------------------------------------------------------------
# Signs


def sign(m: re.Match[str], language: Language) -> Readings:
    """> 50 %, 10 → 20, 5 × 3, &, §"""
    yield reading("sign", None)
    for said, kind in language.rows["sign"][m[0].strip()]:
        yield reading(kind, said)


def electronic(m: re.Match[str], language: Language) -> Readings:
    """info@muster.de → info at muster Punkt de"""
    names = {"@": "at", ".": "dot", "/": "slash", "-": "dash", "_": "underscore"}
    names = {written: language.said("say", name) for written, name in names.items()}
    if not names["@"]:
        return
    parts: Iterable[str] = re.findall(r"[^\W\d_]+|\d+|.", re.sub(r"^https?://", "", m[0].rstrip("/")))
    said = (
        "w w w" if part == "www" else " ".join(part) if part.isdecimal() else names.get(part, part) for part in parts
    )
    yield reading("electronic", " ".join(said))
