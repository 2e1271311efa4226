"""Roman numerals."""

import re

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL = re.compile("(?=.)(?:M{0,3})(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


def roman(numeral: str) -> str:
    """The digits of a Roman numeral: XIV → 14."""
    values = [_VALUES[letter] for letter in numeral]
    return str(sum(-value if value < max(values[i:]) else value for i, value in enumerate(values)))


def is_roman(text: str) -> bool:
    """Whether `text` is a Roman numeral in capitals."""
    return bool(_NUMERAL.fullmatch(text))
