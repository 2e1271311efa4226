"""A piece of a text and its words."""

from typing import NamedTuple


class Token(NamedTuple):
    """A piece of a text, its class, and its words; None where the piece stands for itself."""

    written: str
    kind: str
    spoken: str | None
