"""What identifies the data of a run: of every utterance its id, place, text and the size of its file.

A checkpoint holds it, so that a run does not go on with other data unnoticed: a hash that tells whether anything is
another, and 16 bits of each value, by which the first that is can be named. A million utterances take 8 MB.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from common.data.lists.utterances import Utterances
from common.data.utterance import Utterance

Changed = Literal["refuse", "accept"]
FIELDS = ("its id", "its duration", "its text", "the size of its file")

_AT_A_TIME = 1 << 18


def digest(utterances: Sequence[Utterance]) -> dict[str, Any]:
    """The digest of a list: `hash` in hexadecimal and `marks` [N, 4], 16 bits of each of `FIELDS`.

    Lists that were read have looked at their files then.
    """
    digested, found = hashlib.sha256(), Utterances.of(utterances)
    marks_N4 = np.empty((len(found), 4), np.int16)
    for start in range(0, len(found), _AT_A_TIME):
        whole = found[start : start + _AT_A_TIME].column(lambda part: part.marks)
        digested.update(whole.tobytes())
        marks_N4[start : start + len(whole)] = whole.astype(np.uint16).view(np.int16)
    return {"hash": digested.hexdigest(), "marks": torch.from_numpy(marks_N4)}


def difference(before: dict[str, Any], now: dict[str, Any], utterances: Sequence[Utterance]) -> str:
    """What differs between `utterances`, whose digest is `now`, and the list of `before`: one line, "" for nothing."""
    if before["hash"] == now["hash"]:
        return ""
    old, new = before["marks"], now["marks"]
    both = min(len(old), len(new))
    rows = (old[:both] != new[:both]).any(1).nonzero().flatten()
    counts = f"{len(new)} utterances where there were {len(old)}" if len(old) != len(new) else f"{len(rows)} utterances"
    if not len(rows):
        return f"{counts}, the first {both} of them the same"
    first = int(rows[0])
    others = [name for name, is_other in zip(FIELDS, (old[first] != new[first]).tolist(), strict=True) if is_other]
    is_another = "another stood there" if FIELDS[0] in others else f"{' and '.join(others)} changed"
    return f"{counts}, the first that differs is number {first + 1}, {utterances[first].id}: {is_another}"
