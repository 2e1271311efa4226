"""What labels of several letters spell: word pieces, whichever way they mark where words begin and end.

A label spells units: letters, and the boundary between words, which is a space in texts.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

BOUNDARY = " "
BYTE = "\ufffd"
"""In place of a piece that stands for a byte: no word is spelled with it."""
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def _is_special(label: str) -> bool:
    """Whether it stands for no letter: <s>, <pad>, <unk>; [PAD], [UNK] of many models."""
    return len(label) > 2 and label[0] + label[-1] in ("<>", "[]")


def has_pieces(labels: Sequence[str]) -> bool:
    """Whether some of them have several letters."""
    return any(len(label) > 1 and not _is_special(label) for label in labels)


def label_texts(labels: Sequence[str], *, boundary: str = BOUNDARY) -> list[str]:
    """What each label writes, with a space for every boundary between words.

    Boundaries are marked as SentencePiece does ("▁the" begins a word), byte-level BPE ("Ġthe"), WordPiece ("##ing" goes
    on with one, all else begins one), subword-nmt ("th@@" is gone on with, all else ends a word), or Sennrich's BPE
    ("the</w>" ends a word); whichever the labels have. `boundary` and a space are boundaries in all of them. Labels
    like <s> or [UNK] write nothing.
    """
    style = _style([label for label in labels if not _is_special(label)])
    texts = []
    for label in labels:
        if label in (boundary, BOUNDARY):
            texts.append(BOUNDARY)
        elif _is_special(label):
            texts.append(BYTE if _BYTE.fullmatch(label) else "")
        else:
            texts.append(_text(label, style))
    return texts


def _style(labels: Sequence[str]) -> str:
    for mark in ("▁", "Ġ"):
        if any(label.startswith(mark) for label in labels):
            return mark
    if any(label.startswith("##") and len(label) > 2 for label in labels):
        return "##"
    for mark in ("@@", "</w>"):
        if any(label.endswith(mark) and len(label) > len(mark) for label in labels):
            return mark
    return ""


def _text(label: str, style: str) -> str:
    match style:
        case "▁" | "Ġ":
            return label.replace(style, BOUNDARY)
        case "##":
            return label.removeprefix("##") if label.startswith("##") else BOUNDARY + label
        case "@@":
            return label.removesuffix("@@") if label.endswith("@@") else label + BOUNDARY
        case "</w>":
            return label.replace("</w>", BOUNDARY)
    return label


class WordSpelling(NamedTuple):
    """`ctc_spelling`: the units of every label. One more for a blank that the labels may leave out."""

    unit_of: dict[str, int]
    """{letter: number of its unit}, the boundary among them."""
    first_unit: np.ndarray
    units: np.ndarray

    def of(self, label: int) -> list[int]:
        """The units that a label spells."""
        first, last = self.first_unit[label : label + 2]
        return self.units[first:last].tolist()


def spelling(labels: Sequence[str], *, boundary: str = BOUNDARY) -> WordSpelling:
    """The units of `labels`, as `label_texts` reads them."""
    texts = [*label_texts(labels, boundary=boundary), ""]
    unit_of = {letter: number for number, letter in enumerate(sorted({BOUNDARY, *"".join(texts)}))}
    first_unit = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    return WordSpelling(unit_of, first_unit, np.array([unit_of[letter] for text in texts for letter in text], np.int32))
