"""Numbers of European languages in words where they agree with what they count: einem, un', veintiuna, doscientas.

espeak-ng counts rightly otherwise: all other numbers stay in figures. The genders of nouns are rows of the tables; for
nouns that have none their endings decide.
"""

import re
from functools import lru_cache

from common.text.european.language import Language, without_article
from common.text.numbers import in_words

Forms = dict[str, str]
"""Words by the names of their parts for the model."""


_NOUN = re.compile(r"\s([^\W\d_]{1,30}(?:-[^\W\d_]{1,12})?)(?![\w'’])")


def noun_behind(text: str, position: int) -> str:
    """The word behind a place, "" where there is none."""
    noun = _NOUN.match(text, position)
    return noun[1] if noun else ""


@lru_cache(maxsize=4096)
def gender(noun: str, language: Language) -> str:
    """m, f or n; "stop" for a word that is no noun."""
    known, small = language.genders, noun.lower()
    forms = [small]
    if language.code in ("es", "pt", "fr") and small[-1:] in "sx":
        singular = (("es", ""), ("ces", "z"), ("iones", "ión"))
        forms += [small[:-1], *(re.sub(rf"{ending}\Z", one, small) for ending, one in singular)]
    for form in forms:
        if form in known and (form == small or known[form] != "stop"):
            return known[form]
    for start in range(1, len(small)):
        for form in forms:
            if found := known.get(f"-{form[start:]}"):
                return found
    return "m"


_ONE = {"m": ("ein", "einem", "einen"), "f": ("eine", "einer", ""), "n": ("ein", "einem", "")}  # of German


def agreed(value: int, noun: str, language: Language) -> Forms:
    """`value` in words as it stands before `noun`, where it is counted otherwise: in German in all cases."""
    kind, code = gender(noun, language), language.code
    if kind == "stop":
        return {}
    if code == "de" and value == 1 and noun[0].isupper():
        if noun == "Uhr":
            return {"agreed": "ein"}
        return {
            f"agreed{case}": one for case, one in zip(("", " dative", " accusative"), _ONE[kind], strict=True) if one
        }
    if code not in ("es", "pt", "fr", "it"):
        return {}
    counted = in_words(value, code, "cardinal") or ""
    said = _AGREED[code](counted, kind, noun)
    return {"agreed": said} if said != counted or (code, value) == ("it", 1) else {}


def _spanish(said: str, kind: str, noun: str) -> str:
    said = re.sub(r"uno(?= mil\b)", "un", said.replace("veintiuno mil", "veintiún mil"))
    if kind == "f":
        millions, mark, rest = said.rpartition("mill")
        return millions + mark + re.sub(r"(?<=[ei]nt)os\b", "as", re.sub(r"uno\Z", "una", rest))
    return re.sub(r"uno\Z", "un", re.sub(r"veintiuno\Z", "veintiún", said))


def _portuguese(said: str, kind: str, noun: str) -> str:
    if kind != "f" or "milh" in said:
        return said
    return re.sub(r"um\Z", "uma", re.sub(r"dois\Z", "duas", re.sub(r"entos\b", "entas", said)))


def _french(said: str, kind: str, noun: str) -> str:
    return f"{said}e" if kind == "f" and re.search(r"\bun\Z", said) else said


def _italian(said: str, kind: str, noun: str) -> str:
    if said != "uno":
        return said
    if kind == "f":
        return "un'" if noun[0].lower() in "aeiouàèéìòù" else "una"
    return "uno" if re.match(r"s[^aeiou]|z|gn|ps|pn|x|y", noun.lower()) else "un"


_AGREED = {"es": _spanish, "pt": _portuguese, "fr": _french, "it": _italian}


def figures(written: str) -> str:
    """1 234 567 and 1'250 without what divides their groups; 1.500 and 2,5 as they are."""
    return re.sub(r"(?<=\d)[ \u00a0\u2009\u202f'’](?=\d)", "", written)


def counted(written: str, forms: str, language: Language) -> Forms:
    """A number as it is written and the form that goes with it; of one alone the form that has its article."""
    known, code, number = forms.split("/"), language.code, figures(written)
    if "{}" in forms:
        return {"measure": forms.replace("{}", number)}
    plain = re.sub(r"\.(?=\d{3}(?!\d))", "", number)
    if len(known) == 4 and code in ("ru", "pl") and number != "1":
        return {"measure": f"{number} {known[_slavic(plain, code)]}"}
    if len(known) == 1:
        return {"measure": f"{number} {known[0]}"}
    bare = without_article(known[0])
    if number == "1":
        cases = agreed(1, bare, language) if code == "de" else {}
        return {"measure": known[0]} | {
            f"measure {part}": f"{one} {bare}" for part, one in cases.items() if part != "agreed"
        }
    if code in ("fr", "pt") and re.match(r"[01](?:[.,]|\Z)", plain):
        return {"measure": f"{number} {bare}"}
    several = known[-1]
    if plain.endswith("000000") and (of := {"es": "de ", "pt": "de ", "fr": "de ", "it": "di "}.get(code)):
        several = re.sub(r"\bde (?=h?[aeiou])", "d'", of + several) if code == "fr" else of + several
    words = (
        agreed(int(plain), bare.split()[0], language) if plain.isdecimal() and len(plain) < 13 and code != "de" else {}
    )
    found = {"measure": f"{words.get('agreed', number)} {several}"}
    if code == "de" and re.search(r"(?:Jahr|Mona|Tag)(?:e|te)\Z", several):
        found["measure dative"] = f"{number} {several}n"
    return found


def _slavic(number: str, code: str) -> int:
    is_whole, last, last_two = number.isdecimal(), int(number[-1]), int(number[-2:].strip(",."))
    few = is_whole and last in (2, 3, 4) and last_two not in (12, 13, 14)
    one = is_whole and last == 1 and last_two != 11
    return (1 if one else 2 if few or not is_whole else 3) if code == "ru" else (1 if few else 2 if is_whole else 3)


def of_many(forms: str, language: Language) -> str:
    """The form of a currency behind a million."""
    known = forms.split("/")
    return known[2] if language.code == "pl" and len(known) == 4 else known[-1]


_RUSSIAN = {"f": "ая", "ое": "ое", "ого": "ого", "ому": "ому", "ом": "ом"}


def ordinals(number: int, language: Language, kind: str = "m") -> Forms:
    """An ordinal number in the form of its ending; in German in all its own."""
    code = language.code
    if code == "fr" and number == 1:
        return {"ordinal": "première" if kind == "f" else "premier"}
    if kind == "short":
        return {"ordinal": said} if code == "es" and (said := {1: "primer", 3: "tercer"}.get(number)) else {}
    if not (said := in_words(number, code, "ordinal")):
        return {}
    if code == "fr":
        said = re.sub(r"(vingt|cent)s(?=ième)", r"\1", said)
    if code == "es":
        said = {11: "undécimo", 12: "duodécimo"}.get(number, said)
    if code == "de":
        return {"ordinal": said} | {f"ordinal {end}": said + end for end in "nrs"}
    if code == "ru" and kind in _RUSSIAN:
        said = re.sub(r"(?:ый|ой|ий)\Z", _RUSSIAN[kind], said)
    return {"ordinal": re.sub(r"o\b", "a", said) if kind == "f" and code in ("es", "it", "pt") else said}


def declined(number: int, language: Language) -> list[str]:
    """The ordinal number of a day, a year or a century in the genitive and the locative of Russian and Polish."""
    code = language.code
    if code not in ("ru", "pl") or not (said := in_words(number, code, "ordinal")):
        return []
    if code == "ru":
        of = re.sub(r"(?:третий|[ыо]й)\Z", lambda end: "третьего" if end[0] == "третий" else "ого", said)
        return [of, re.sub(r"ьего\Z", "ьем", re.sub(r"ого\Z", "ом", of))]
    *rest, ten, one = ["", "", *said.split()]
    both = [re.sub(r"y\Z", "ego", re.sub(r"i\Z", "iego", word)) if word != "tysięcy" else word for word in (ten, one)]
    of = " ".join(word for word in (*rest, *both) if word)
    return [of, re.sub(r"(i?)ego\b", lambda end: "im" if end[1] else "ym", of)]


def year(number: int, language: Language) -> str:
    """A year of a date."""
    code = language.code
    if code == "nl" and 1100 <= number < 2000:
        rest = number % 100
        return f"{number // 100} {rest}" if rest > 9 else f"{number // 100}honderd" if not rest else str(number)
    said = in_words(number, "de", "year") if code == "de" else "".join(declined(number, language)[:1])
    return said or str(number)
