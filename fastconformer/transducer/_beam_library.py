"""Calls the native beam search through ctypes: structures of `include/transducer_beam.h`. Arrays alone, no torch.

Shapes: B utterances, N sequences of each, S encoder frames, C encoder width, L labels at most.
"""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import Structure, c_void_p
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ctc import Scorer, native
from ctc.decoding.beam import MOST_BEAM
from fastconformer.transducer._decoder_library import NativeNetwork, ScorerTables, aligned, check_labels, functions
from fastconformer.transducer._library import INSTRUCTION_SETS, refused, size_of

NODES = 1024
"""Room at first for labels of all kept sequences of an utterance, those that several begin with counted once."""
NODES_EACH = 256
"""More of it for every sequence."""
MORE_NODES = -1  # TRANSDUCER_BEAM_MORE_NODES, in place of a count
GROWTH = 8
ROWS = 256
"""Sequences of all utterances of a thread that are looked at at once, about."""
BYTES_EACH = 20  # of a label in the results: its number, frame, duration, confidence and entropy


@dataclass(frozen=True, kw_only=True)
class TransducerBeamOptions:
    """How much of the search space is looked at."""

    beam: int = 4
    """Label sequences kept."""
    n_best: int = 1
    """Label sequences returned, at most `beam`."""
    drop: float = -10.0
    """Sequences, and alignments, whose score is this far below the best are dropped; -inf keeps all that fit."""
    max_symbols: int = 10
    """Labels on a frame after which an alignment moves to the next."""
    internal_weight: float = 0.0
    """Factor of the log-probabilities of the internal language model (prediction network and joint, given a frame of
    zeros), which are taken off where there is a scorer."""
    memory: int = 4 << 30
    """Bytes that an utterance may take whose sequences have so little in common that the usual room is used up."""
    room: int = 0
    """Labels, of frames that come in pieces, that are remembered while sequences differ in them; where there are more,
    the most probable alignment settles the first. 0 for more than speech needs."""
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the kernels, for tests."""

    def __post_init__(self) -> None:
        if self.beam > MOST_BEAM:
            raise ValueError(f"beam: expected {MOST_BEAM} at most, found {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best: expected between 1 and the beam of {self.beam}, found {self.n_best}")
        if not self.drop <= 0:
            raise ValueError(f"drop: expected at most 0, found {self.drop}")
        check_labels(self.max_symbols, self.internal_weight)
        if self.memory < 1:
            raise ValueError(f"memory: expected at least 1 byte, found {self.memory}")
        if self.room and self.room <= 2 * self.beam:
            raise ValueError(f"room: expected more than twice the beam of {self.beam}, or 0, found {self.room}")


class BeamOptionsStruct(Structure):
    """`transducerBeamOptions`."""

    _fields_ = native.fields(
        "n beam n_best; d drop; n max_symbols slots nodes; i threads instruction_set; d internal_weight"
    )


@functools.cache
def beam_functions() -> ctypes.CDLL | None:
    """The CPU library with the beam search declared, or None where it is not built and cannot be."""
    library = functions()
    names = {
        "transducer_beam_workspace": "ppp",
        "transducer_beam_state": "ppp",
        "transducer_beam": "pppnnnppipn" + "p" * 12 + ">i",
    }
    return None if library is None else native.declare(library, names)


class BeamResult(NamedTuple):
    """What the search found, in rows of which each sequence fills its length; `settled_B` labels are in all of them."""

    tokens_BNL: np.ndarray
    frames_BNL: np.ndarray
    durations_BNL: np.ndarray
    confidences_BNL: np.ndarray
    entropies_BNL: np.ndarray
    lengths_BN: np.ndarray
    settled_B: np.ndarray
    log_probs_BN: np.ndarray
    external_BN: np.ndarray
    counts_B: np.ndarray


class NativeSearch:
    """The native search with its options."""

    def __init__(self, network: NativeNetwork, options: TransducerBeamOptions) -> None:
        self.network, self.options = network, options
        self.room = options.room or 1024 + NODES_EACH * options.beam

    def start(self) -> np.ndarray:
        """The state of an utterance before its first frames, bytes."""
        size = _bytes("transducer_beam_state", self.network, self._options(1, self.room, 1))
        return aligned(np.zeros(size, np.uint8))

    def __call__(
        self,
        encoded_BSC: np.ndarray,
        frames_B: np.ndarray,
        scorers: Sequence[Scorer | None],
        *,
        threads: int,
        states: Sequence[np.ndarray] | None = None,
        is_over: bool = True,
    ) -> BeamResult:
        """Searches a batch on the CPU, float32, channels adjacent, lengths checked; with `states`, which it updates.

        Without them, an utterance whose sequences have little in common is searched again, alone and with more room.
        Raises ValueError for one whose frames hold NaN, and for one that would take more than `memory` bytes.
        """
        batch = len(encoded_BSC)
        threads = max(1, min(threads, batch))
        slots = max(1, min(ROWS // self.options.beam, -(-batch // threads)))
        nodes = NODES + NODES_EACH * self.options.beam if states is None else self.room
        choice = self._options(slots, nodes, threads)
        self._check_memory(choice, encoded_BSC.shape[1], states is not None)
        found = search_once(self.network, encoded_BSC, frames_B, scorers, choice, states, is_over)
        for n in np.flatnonzero(found.counts_B == MORE_NODES).tolist():
            choice = self._options(1, nodes, 1)
            own, alone = int(frames_B[n]), slice(n, n + 1)
            while found.counts_B[n] == MORE_NODES:
                choice.nodes *= GROWTH
                if _bytes("transducer_beam_workspace", self.network, choice) > self.options.memory:
                    raise ValueError(
                        f"beam: utterance {n}: sequences of {own} frames, {self.options.beam} of them with little in "
                        f"common, take more than the {self.options.memory:,} bytes of `memory`; take a smaller beam or "
                        "more memory"
                    )
                own_1SC = encoded_BSC[alone, :own]
                again = search_once(self.network, own_1SC, frames_B[alone], scorers[alone], choice, None, True, n)
                for whole, part in zip(found, again, strict=True):
                    if whole.ndim == 3:
                        whole[n, :, : part.shape[2]] = part[0]
                    else:
                        whole[n] = part[0]
        return found

    def check_memory(self, frames: int) -> None:
        """Raises ValueError where an utterance of so many frames, searched elsewhere, takes more than `memory`."""
        self._check_memory(self._options(1, NODES + NODES_EACH * self.options.beam, 1), frames, False)

    def _check_memory(self, choice: BeamOptionsStruct, frames: int, has_states: bool) -> None:
        """Raises ValueError where the search, or what it finds, takes more than `memory` for an utterance."""
        capacity = _capacity(choice, frames, has_states)
        searched = choice.slots * choice.threads
        needed = (
            _bytes("transducer_beam_workspace", self.network, choice) // searched
            + BYTES_EACH * choice.n_best * capacity
        )
        if needed > self.options.memory:
            raise ValueError(
                f"beam: {self.options.beam} sequences, {choice.n_best} of them returned, take {needed:,} bytes for "
                f"{frames} frames; expected at most the {self.options.memory:,} of `memory`: take a smaller beam or "
                "n_best"
            )

    def _options(self, slots: int, nodes: int, threads: int) -> BeamOptionsStruct:
        own = self.options
        sizes, kind = (own.max_symbols, slots, nodes, threads), INSTRUCTION_SETS[own.instruction_set]
        return BeamOptionsStruct(own.beam, own.n_best, own.drop, *sizes, kind, own.internal_weight)


def _bytes(function: str, network: NativeNetwork, choice: BeamOptionsStruct) -> int:
    return size_of(getattr(beam_functions(), function), network.network, choice)


def _capacity(choice: BeamOptionsStruct, frames: int, has_states: bool) -> int:
    """Labels that a sequence has at most."""
    return frames * choice.max_symbols + (choice.nodes if has_states else 0)


def search_once(
    network: NativeNetwork,
    encoded_BSC: np.ndarray,
    frames_B: np.ndarray,
    scorers: Sequence[Scorer | None],
    choice: BeamOptionsStruct,
    states: Sequence[np.ndarray] | None = None,
    is_over: bool = True,
    first: int = 0,
) -> BeamResult:
    """One call of the library; `first`: the number of the first utterance, for messages."""
    library = beam_functions()
    assert library is not None
    batch, frames, _ = encoded_BSC.shape
    n_best, capacity = choice.n_best, _capacity(choice, frames, states is not None)
    workspace = aligned(np.empty(_bytes("transducer_beam_workspace", network, choice), np.uint8))
    tokens, emitted, durations = np.empty((3, batch, n_best, capacity), np.int32)
    confidences, entropies = np.empty((2, batch, n_best, capacity), np.float32)
    lengths, log_probs = np.zeros((batch, n_best), np.int64), np.zeros((2, batch, n_best))
    settled, counts = np.zeros((2, batch), np.int64)
    outputs = (tokens, emitted, durations, confidences, entropies, lengths, settled, *log_probs, counts)
    tables = ScorerTables(scorers)
    addresses = None if states is None else (c_void_p * batch)(*(state.ctypes.data for state in states))
    strides = [encoded_BSC.strides[axis] // encoded_BSC.itemsize for axis in (0, 1)]
    refuses = refused(
        library.transducer_beam,
        *(network.network, choice, encoded_BSC, batch, *strides, frames_B, addresses, is_over),
        *(tables.address, capacity, *outputs, workspace),
    )
    if refuses is not None:
        raise ValueError(f"encoded: utterance {first + refuses}: its frames hold NaN")
    return BeamResult(*outputs)
