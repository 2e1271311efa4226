"""Numbers as an American reader says them, in lower-case words without hyphens: num2words does the counting.

`in_words` has those of other languages; `roman` reads Roman numerals.
"""

import re
from functools import lru_cache

_LONGEST_READ_AS_A_NUMBER, _LONGEST_WITH_COMMAS = 9, 36
_MOST_IN_WORDS = 10**15  # in other languages, where num2words ends in errors of its own beyond some number

Sizes = tuple[tuple[int, str], ...]
_SIZES = ((10**9, "billion"), (10**6, "million"), (1000, "thousand"))  # put together faster than num2words counts them
_INDIAN, _IN_INDIA = ((10**7, "crore"), (10**5, "lakh"), (1000, "thousand")), re.compile(r",\d\d,")
_DENOMINATORS = {2: ("half", "halves"), 4: ("quarter", "quarters")}


@lru_cache(maxsize=8192)
def cardinal(number: str) -> str:
    """`1,205` → one thousand two hundred five; `0.05` → zero point zero five; `007` and long numbers digit by digit.

    Groups as India writes them have its names: `2,50,000` → two lakh fifty thousand.
    """
    whole, _, decimals = number.partition(".")
    if decimals:
        return f"{cardinal(whole)} point {digits(decimals)}".strip()
    plain = whole.replace(",", "").replace(" ", "")
    is_code = len(plain) > 1 and plain.startswith("0")
    is_too_long = len(plain) > (_LONGEST_READ_AS_A_NUMBER if plain == whole else _LONGEST_WITH_COMMAS)
    if is_code or is_too_long:
        return digits(plain)
    return _words(int(plain), "cardinal", _INDIAN if _IN_INDIA.search(whole) else _SIZES) if plain else ""


@lru_cache(maxsize=2048)
def ordinal(number: str) -> str:
    """`22` → twenty second; long numbers digit by digit."""
    plain = number.replace(",", "")
    return digits(plain) if len(plain) > _LONGEST_WITH_COMMAS else _words(int(plain), "ordinal")


def digits(number: str) -> str:
    """`205` → two zero five."""
    return " ".join(_words(int(digit), "cardinal") for digit in number if digit.isdecimal())


def year(number: str) -> str:
    """`1905` → nineteen oh five; `2000` → two thousand; `2024` → twenty twenty four; above 2999 a plain number."""
    century, rest = int(number[:-2]), int(number[-2:])
    if not 10 <= century < 30 or (century % 10 == 0 and rest < 10):
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(str(century))} hundred"
    return f"{cardinal(str(century))} {pair(number[-2:])}"


def pair(number: str) -> str:
    """The last two digits of a time or a year: `05` → oh five; `30` → thirty."""
    return f"oh {cardinal(number[1])}" if number.startswith("0") else cardinal(number)


def in_pairs(number: str) -> str:
    """A house or a flight: `747` → seven forty seven; `1428` → fourteen twenty eight; others digit by digit."""
    if number.startswith("0") or not 3 <= len(number) <= 4:
        return digits(number) if len(number) > 2 else cardinal(number)
    is_round = number.endswith("00")
    if is_round and (len(number) == 3 or number[1] == "0"):
        return cardinal(number)
    return f"{cardinal(number[:-2])} {'hundred' if is_round else pair(number[-2:])}"


def plural(words: str) -> str:
    """`nineteen eighty` → nineteen eighties."""
    return words[:-1] + "ies" if words.endswith("y") else words + "es" if words.endswith("x") else words + "s"


@lru_cache(maxsize=2048)
def fraction(numerator: str, denominator: str, *, improper: bool = False) -> str:
    """`3/4` → three quarters; `1/2` → one half; `1/100` → one hundredth; other fractions with `over`.

    `improper` ones may be above one, as behind a whole number.
    """
    is_long = max(len(numerator), len(denominator)) > _LONGEST_WITH_COMMAS
    top, bottom = (0, 0) if is_long else (int(numerator), int(denominator))
    is_read_as_part = top > 0 and (improper or top < bottom) and (1 < bottom <= 20 or bottom in (32, 64, 100, 1000))
    if not is_read_as_part:
        return f"{cardinal(numerator)} over {cardinal(denominator)}"
    part = ordinal(denominator).removeprefix("one ")
    one, many = _DENOMINATORS.get(bottom, (part, plural(part)))
    return f"{cardinal(numerator)} {one if top == 1 else many}"


@lru_cache(maxsize=8192)
def _words(number: int, kind: str, sizes: Sizes = _SIZES) -> str:
    for size, name in sizes if number < 10**12 else ():
        if number >= size:
            above, below = divmod(number, size)
            if kind == "cardinal" or below:
                return (
                    f"{_words(above, 'cardinal', sizes)} {name} {_words(below, kind, sizes) if below else ''}".rstrip()
                )
    from num2words import num2words

    words = num2words(number, to=kind).replace("-", " ").replace(",", "")
    return " ".join(word for word in words.split() if word != "and")


@lru_cache(maxsize=8192)
def in_words(number: int, language: str, kind: str) -> str | None:
    """`number` from 0 on as `kind` ("ordinal", "year" …) in a language, as num2words names it; None where it cannot."""
    from num2words import num2words

    if number > _MOST_IN_WORDS:
        return None
    try:
        return str(num2words(number, lang=language, to=kind))
    except (NotImplementedError, ValueError, TypeError, ArithmeticError, LookupError):
        return None


_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL = re.compile("(?=.)(?:M{0,3})(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


def roman(numeral: str) -> str:
    """The digits of a Roman numeral: XIV → 14."""
    values = [_VALUES[letter] for letter in numeral]
    return str(sum(-value if value < max(values[i:]) else value for i, value in enumerate(values)))


def is_roman(text: str) -> bool:
    """Whether `text` is a Roman numeral in capitals."""
    return bool(_NUMERAL.fullmatch(text))
