"""The readings that fractions can have, alone and with what they are parts of; each function is as those of `say`."""

import re
import unicodedata

from common.text.engine.shapes import Readings, reading
from common.text.european.language import Language, without_article
from common.text.european.numbers import agreed, gender, noun_behind
from common.text.numbers import in_words


def fraction(m: re.Match[str], language: Language) -> Readings:
    """1/2, 2/3 der Gäste, 8/10 Punkten, 1 1/2 Std., 3/4 l, ½"""
    whole, unit, code = m["whole"] or "", m["unit"] or "", language.code
    parts = (m["top"], m["bottom"]) if m["top"] else unicodedata.normalize("NFKC", m["sign"]).split("\u2044")
    of = language.said("say", "out of")
    if not parts[0].isdecimal():  # 14,5/20
        if of and not (unit or whole):
            yield reading("outof", f"{parts[0]} {of} {parts[1]}")
        return
    top, bottom = map(int, parts)
    if unit:
        if 0 < top < bottom and "{}" not in (forms := language.said("unit", unit)):
            yield from _of_unit(whole, top, bottom, forms.split("/"), language)
        return
    is_half, noun = (top, bottom) == (1, 2), noun_behind(m.string, m.end())
    if whole:
        if is_half and code == "de":
            yield reading("half", f"{_in_one_word(whole)}einhalb")
        return
    if of:
        yield reading("outof", f"{top} {of} {bottom}")
    for kind in "mf" if is_half else "":  # un an et 1/2
        if half := language.said("half behind", kind):
            yield reading(f"half behind {kind}", half.partition(" ")[2])
    if 0 < top < bottom:
        if said := language.said("fraction", f"{top}/{bottom}") or _part(top, bottom, language):
            yield reading("fraction", said)
        if is_half and noun and (half := language.said("half", gender(noun, language))):
            yield reading("half", half)
            yield reading("half bare", without_article(half))


def mixed(m: re.Match[str], language: Language) -> Readings:
    """2 1/2 tasses → 2 tasses et demie"""
    whole, noun = m["whole"], m["noun"]
    if half := language.said("half behind", gender(noun, language)):
        one = noun.removesuffix("s") if whole == "1" else noun
        said = agreed(int(whole), one, language).get("agreed", whole)
        yield reading("half", f"{said} {one} {half}".replace("' ", "'"))


def _of_unit(whole: str, top: int, bottom: int, forms: list[str], language: Language) -> Readings:
    """1/2 h, 3/4 l, 1 1/2 Std."""
    one, many, code = without_article(forms[0]) if len(forms) > 1 else forms[0], forms[-1], language.code
    kind, is_half = gender(one.split()[0], language), (top, bottom) == (1, 2)
    if not whole and is_half:
        yield reading("half", f"{language.said('half', kind) or language.said('half', 'm')} {one}")
    elif not whole and (part := _part(top, bottom, language)):
        said = f"{part} {language.said('say', 'of parts')}{one}"
        yield reading("fraction", re.sub(r"\bde (?=h?[aeiou])", "d'", said) if code == "fr" else said)
    elif code == "de" and whole and (is_half or language.said("part", str(bottom))):
        tops = in_words(top, code, "cardinal") or ""
        part = "einhalb" if is_half else f" {_part(top, bottom, language).replace(str(top), tops)}"
        yield reading("half" if is_half else "fraction", f"{_in_one_word(whole)}{part} {many}")
    elif whole and is_half and (half := language.said("half behind", kind)):
        yield reading("half", f"{forms[0] if whole == '1' else f'{whole} {many}'} {half}")
    elif whole and is_half and (half := language.said("say", "and a half")):
        yield reading("half", f"{whole} {half} {many}")


def _in_one_word(whole: str) -> str:
    return "ein" if whole == "1" else in_words(int(whole), "de", "cardinal") or whole


_ONE_PART = {"de": "ein", "fr": "un", "es": "un", "it": "un", "pt": "um", "nl": "een", "sv": "en"}
_MANY_PARTS = {"it": "i", "fr": "s", "es": "s", "pt": "s"}


def _part(top: int, bottom: int, language: Language) -> str:
    """drei Viertel, tres cuartos"""
    code, part = language.code, language.said("part", str(bottom))
    if code == "de" and bottom > 2:
        part = ((in_words(bottom, "de", "ordinal") or "").removesuffix("e") + "el").capitalize()
    if top == 1 or not part:
        return f"{_ONE_PART[code]} {part}" if part else ""
    several = part[:-1] + "i" if code == "it" else part if part.endswith("s") else part + _MANY_PARTS.get(code, "")
    return f"{top} {several}"
