"""Utterances of one or several indexes as a sequence, which is what everything above lists knows of them."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from common.data.lists.index import IN_STORE, IS_PART, Builder, Index
from common.data.utterance import Utterance
from common.files.blocks import BLOCK

Order = Literal["auto", "full", "windows"]


class Numbered(NamedTuple):
    """Names, and of each utterance the number of its own."""

    names: list[str]
    numbers: np.ndarray


class Utterances(Sequence[Utterance]):
    """Utterances of one or several indexes, all or some of them; each is made when it is asked for."""

    def __init__(self, parts: Sequence[Index], rows: np.ndarray | None = None):
        """`rows`: those of all parts together that are meant, in their order; None: all."""
        self.parts = tuple(parts)
        self._rows = rows
        self._shared: Any = None
        self.corpora: tuple[tuple[str, int], ...] = ()
        """What corpora these are of, one after the other, and how many of each; empty where nobody has said it."""
        ends = np.cumsum([len(part) for part in self.parts], dtype=np.int64).tolist()
        self._ends, self._starts = ends, [0, *ends]
        self._count = (self._ends[-1] if ends else 0) if rows is None else len(rows)

    @classmethod
    def of(cls, utterances: Iterable[Utterance], sizes: Iterable[int] | None = None) -> "Utterances":
        """Any utterances as records in memory, with the `sizes` of their recordings where they are known."""
        if isinstance(utterances, Utterances):
            return utterances
        builder = Builder()
        known = iter(sizes) if sizes is not None else None
        for utterance in utterances:
            builder.add(utterance, -1 if known is None else next(known))
        return cls([builder.finish()])

    @classmethod
    def joined(cls, lists: Sequence["Utterances"]) -> "Utterances":
        """Several lists one after the other."""
        parts = [part for one in lists for part in one.parts]
        if all(one._rows is None for one in lists):
            return cls(parts)
        starts = np.cumsum([0, *(one._starts[-1] for one in lists)])
        rows = [one.rows + start for one, start in zip(lists, starts, strict=False)]
        return cls(parts, _narrow(np.concatenate(rows)))

    def __getstate__(self) -> dict[str, Any]:
        """Rows as a tensor in shared memory, which data workers have in common, and which stays until they have it."""
        import torch  # which shares the memory of tensors between processes; what runs without torch has none

        if self._rows is not None and self._shared is None:
            self._shared = torch.from_numpy(self._rows).share_memory_()
            self._rows = self._shared.numpy()
        return self.__dict__ | {"_rows": self._shared, "_shared": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows = state["_rows"]
        self.__dict__.update(state | {"_rows": None if rows is None else rows.numpy()})

    @property
    def rows(self) -> np.ndarray:
        """Those of all parts together that are meant."""
        return np.arange(self._count) if self._rows is None else self._rows

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Utterance: ...
    @overload
    def __getitem__(self, index: "slice | np.ndarray") -> "Utterances": ...
    def __getitem__(self, index: "int | slice | np.ndarray") -> "Utterance | Utterances":
        """An utterance; or a list of those of a slice, of some places, or of a mask over all."""
        if isinstance(index, slice | np.ndarray):
            is_slice = isinstance(index, slice) and self._rows is None
            rows = np.arange(*index.indices(self._count)) if is_slice else self.rows[index]  # type: ignore[union-attr]
            return Utterances(self.parts, _narrow(rows))
        if not -self._count <= index < self._count:
            raise IndexError(f"utterance {index} of {self._count}")
        row = index if self._rows is None else int(self._rows[index])
        row += self._count if row < 0 else 0
        place = 0
        while row >= self._ends[place]:
            place += 1
        return self.parts[place][row - self._starts[place]]

    def __iter__(self) -> Iterator[Utterance]:
        return map(self.__getitem__, range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"Utterances([{shown}{', ' if len(self) > 3 else ''}{f'… {len(self)}' if len(self) > 3 else ''}])"

    def column(self, of: Callable[[Index], np.ndarray]) -> np.ndarray:
        """What `of` a part gives for each of its utterances, for those that are meant; without a copy where it can."""
        if len(self.parts) == 1:
            return of(self.parts[0]) if self._rows is None else of(self.parts[0])[self._rows]
        found = np.concatenate([of(part) for part in self.parts]) if self.parts else np.empty(0)
        return found if self._rows is None else found[self._rows]

    @cached_property
    def in_store(self) -> bool:
        """Whether any recording lies in a store."""
        flags = (part.records["flags"] for part in self.parts if "://" not in part.base)
        return any("://" in part.base for part in self.parts) or any(bool((own & IN_STORE).any()) for own in flags)

    @property
    def seconds(self) -> np.ndarray:
        """Durations [N], float64."""
        return self.column(lambda part: part.seconds)

    @property
    def text_bytes(self) -> np.ndarray:
        """Bytes [N] of the texts in UTF-8."""
        return self.column(lambda part: part.records["text"])

    def blocks(self, order: Order = "auto") -> np.ndarray | None:
        """A number for each utterance [N], equal for those of one BLOCK of a store; None for a full order.

        "auto": where a recording lies in a store. Files that are no parts of others are blocks of their own.
        """
        if order == "full" or (order == "auto" and not self.in_store):
            return None
        numbers = itertools.count()

        def of(part: Index) -> np.ndarray:
            rows = part.records
            is_part = (rows["flags"] & IS_PART) > 0
            place = np.where(is_part, rows["start"] // BLOCK, np.arange(len(part), dtype=np.uint64))
            _, file = np.unique(rows["folder"], return_inverse=True)  # whatever it is called, here and in a store
            place += (file.astype(np.uint64) + np.uint64(next(numbers) << 40)) * np.uint64(0x9E3779B97F4A7C15)
            return ((place * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(32)).astype(np.uint32)

        return self.column(of)

    def speakers(self) -> Numbered:
        """The names of the speakers, and the number of each utterance's in them."""
        names: dict[str, int] = {}

        def numbers(part: Index) -> np.ndarray:
            places, first, inverse = np.unique(part.records["speaker"], return_index=True, return_inverse=True)
            sizes = part.records["speaker_size"][first]
            found = [part.string(at, size) for at, size in zip(places.tolist(), sizes.tolist(), strict=True)]
            return np.array([names.setdefault(name, len(names)) for name in found])[inverse]

        column = self.column(numbers)
        return Numbered(list(names), column)


def _narrow(rows: np.ndarray) -> np.ndarray:
    """In 32 bits where they suffice."""
    return rows.astype(np.int32 if not len(rows) or rows.max() < 2**31 else np.int64, copy=False)
