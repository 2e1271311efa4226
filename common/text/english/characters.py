"""One form of characters that mean the same: quotation marks, dashes, spaces, fractions."""

import unicodedata

_VARIANTS = str.maketrans(
    {
        **dict.fromkeys("’ʼ´", "'"),
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("–‒‑", "-"),
        **dict.fromkeys("\u00a0\u2009\u202f", " "),
        **dict.fromkeys("™®©†‡", ""),
        **{
            fraction: f" {top}/{bottom}"
            for fraction, top, bottom in zip("½⅓⅔¼¾⅕⅛⅜⅝⅞", "1121311357", "2334458888", strict=True)
        },
        "—": " - ",
        "―": " - ",
        "−": "-",
        "…": "...",
        "º": "°",
        "⋅": "·",
    }
)


def prepared(text: str) -> str:
    """`text` with one form of each quotation mark, dash, space and fraction."""
    return text if text.isascii() else "".join(prepared_characters(unicodedata.normalize("NFC", text)))


def prepared_characters(text: str) -> list[str]:
    """What `prepared` makes of every character of a text that is composed (NFC)."""
    return [character.translate(_VARIANTS) for character in text]
