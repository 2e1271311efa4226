"""Mandarin: characters to initials, finals and tones, by pypinyin; numbers as they are counted."""

import re
from functools import cache
from typing import Any

PHONES = (
    "^", "A", "AI", "AN", "ANG", "AO", "B", "C", "CH", "D", "E", "EI", "EN", "ENG", "ER", "F", "G", "H", "I", "IE",
    "IN", "ING", "IU", "J", "K", "L", "M", "N", "O", "ONG", "OU", "P", "Q", "R", "S", "SH", "T", "U", "UI", "UN", "V",
    "VE", "VN", "W", "X", "Y", "Z", "ZH",
)  # fmt: skip
"""Initials and parts of finals, in the order of the published symbol set; ^ stands for no initial, V for ü."""
TONES = ("1", "2", "3", "4", "5")
"""5 is the neutral tone."""
PUNCTUATION = "，。？！；：、‘’“”（）【】「」《》"

HAN = r"〇㐀-䶿一-鿿豈-﫿\U00020000-\U0003134f"  # Chinese characters, for use in a character class

_INITIAL = re.compile(r"(ZH|CH|SH|[BPMFDTNLGKHJQXRZCSYW])?(.+)")
_GLIDE = re.compile(r"([IUV])(.+)")
_AFTER_J_Q_X_Y = {"U": "V", "UE": "VE", "UAN": "VAN", "UN": "VN"}
_INTERJECTIONS = {
    "N": ("N", "EN"), "NG": ("N", "EN"), "M": ("M", "EN"), "HM": ("H", "EN"), "HNG": ("H", "ENG"), "Ê": ("^", "E"),
    "R": ("^", "ER"),
}  # fmt: skip


def syllable(pinyin: str) -> tuple[str, ...]:
    """A syllable with its tone in phones: zhuang1 → ZH U ANG 1, yue4 → Y VE 4. Raises ValueError."""
    name, tone = pinyin[:-1].upper().replace("Ü", "V"), pinyin[-1]
    if tone not in TONES:
        raise ValueError(f"{pinyin!r}: expected a syllable of pinyin with its tone, 1 to 5, such as hao3")
    if name in _INTERJECTIONS:
        return (*_INTERJECTIONS[name], tone)
    match = _INITIAL.fullmatch(name)
    initial, final = (match[1] or "^", match[2]) if match else ("^", name)
    if initial in ("J", "Q", "X", "Y"):
        final = _AFTER_J_Q_X_Y.get(final, final)
    final = {"UE": "VE"}.get(final, final)
    glide = _GLIDE.fullmatch(final)
    parts = (glide[1], glide[2]) if glide and final not in _phones() else (final,)
    if not _phones().issuperset((initial, *parts)):
        raise ValueError(f"{pinyin!r}: no syllable of Mandarin; expected pinyin such as hao3")
    return (initial, *parts, tone)


def phones(characters: str, *, tone_sandhi: bool) -> list[tuple[str, ...]]:
    """The phones and tone of every character of a run of Chinese ones; () for one that pypinyin does not know.

    `tone_sandhi` lets pypinyin change tones as speakers do: 你好 ni3 hao3 → ni2 hao3, 不是 bu4 shi4 → bu2 shi4.
    """
    from pypinyin import Style, lazy_pinyin

    syllables = lazy_pinyin(
        characters,
        style=Style.TONE3,
        neutral_tone_with_five=True,
        tone_sandhi=tone_sandhi,
        errors=_unreadable,
    )
    return [syllable(pinyin) if pinyin else () for pinyin in syllables]


def _unreadable(characters: str) -> Any:
    return [""] * len(characters)  # a list, which pypinyin spreads: an item for each, as for the others


_DIGITS = "零一二三四五六七八九"


def digits(number: str) -> str:
    """205 → 二零五."""
    return "".join(_DIGITS[int(digit)] for digit in number)


def cardinal(number: int) -> str:
    """Numbers below 10¹² as they are counted: 12 → 十二, 1005 → 一千零五, 120500 → 十二万零五百."""
    if number == 0:
        return _DIGITS[0]
    words = ""
    for power, name in ((8, "亿"), (4, "万"), (0, "")):
        group = number // 10**power % 10_000
        has_gap = words and group < 1_000 and number % 10 ** (power + 4)
        if group:
            words += ("零" if has_gap and not words.endswith("零") else "") + _below_10000(group) + name
    return words.removeprefix("一") if words.startswith("一十") else words


def _below_10000(number: int) -> str:
    words = ""
    for value, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // value % 10
        if digit:
            words += _DIGITS[digit] + name
        elif words and number % value and not words.endswith("零"):
            words += "零"
    return words


@cache
def _phones() -> frozenset[str]:
    return frozenset(PHONES)
