"""JSON that others wrote."""

import json
from typing import Any

MOST_DIGITS = 308
"""Every integer of so many digits has a float."""


def parsed(text: str | bytes) -> Any:
    """What `json.loads` gives. Raises ValueError, also for text that is nested too deeply to be read, and for integers
    beyond all floats.
    """
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(digits: str) -> int:
    if len(digits.removeprefix("-")) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits: expected at most {MOST_DIGITS}")
    return int(digits)
