"""Calls the native beam search through ctypes: structures of `include/transducer_beam.h`. Arrays alone, no torch.

Shapes: B utterances, N sequences of each, S encoder frames, C encoder width, L labels at most.
"""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_size_t, c_void_p
from typing import NamedTuple

import numpy as np

from ctc import Scorer
from fastconformer.transducer._decoder_library import NativeNetwork, NetworkStruct, ScorerTables, aligned, functions
from fastconformer.transducer._library import INSTRUCTION_SETS, INVALID_VALUE, SUCCESS

NODES = 1024
"""Room at first for labels of all kept sequences of an utterance, those that several begin with counted once."""
NODES_EACH = 256
"""More of it for every sequence."""
MORE_NODES = -1  # TRANSDUCER_BEAM_MORE_NODES, in place of a count
GROWTH = 8
BYTES_EACH = 20  # of a label in the results: its number, frame, duration, confidence and entropy


class BeamOptionsStruct(Structure):
    """`transducerBeamOptions`."""

    _fields_ = (
        *((name, c_int64) for name in ("beam", "n_best")),
        ("drop", c_double),
        *((name, c_int64) for name in ("max_symbols", "slots", "nodes")),
        *((name, c_int32) for name in ("threads", "instruction_set")),
        ("internal_weight", c_double),
    )


@functools.cache
def beam_functions() -> ctypes.CDLL | None:
    """The CPU library with the beam search declared, or None where it is not built and cannot be."""
    library = functions()
    if library is None:
        return None
    for size in (library.transducer_beam_workspace, library.transducer_beam_state):
        size.argtypes = (POINTER(NetworkStruct), POINTER(BeamOptionsStruct), POINTER(c_size_t))
    library.transducer_beam.argtypes = (
        *(
            POINTER(NetworkStruct),
            POINTER(BeamOptionsStruct),
            c_void_p,
            c_int64,
            c_int64,
            c_int64,
            c_void_p,
            c_void_p,
            c_int32,
        ),
        *(c_void_p, c_int64, *(c_void_p,) * 11, POINTER(c_int64)),
    )
    return library


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

    def __init__(
        self,
        network: NativeNetwork,
        *,
        beam: int,
        n_best: int,
        drop: float,
        slots: int,
        room: int,
        memory: int,
        internal_weight: float = 0.0,
        instruction_set: str = "automatic",
    ) -> None:
        self.network, self.beam, self.slots, self.memory = network, beam, slots, memory
        self.room = room or 1024 + NODES_EACH * beam
        self._choice = (beam, n_best, drop), INSTRUCTION_SETS[instruction_set], internal_weight

    def start(self) -> np.ndarray:
        """The state of an utterance before its first frames, bytes."""
        size = _bytes("transducer_beam_state", self.network, self._options(1, 1, self.room, 1))
        return aligned(np.zeros(size, np.uint8))

    def __call__(
        self,
        encoded_BSC: np.ndarray,
        frames_B: np.ndarray,
        scorers: Sequence[Scorer | None],
        *,
        max_symbols: int,
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
        slots = max(1, min(self.slots, -(-batch // threads)))
        nodes = NODES + NODES_EACH * self.beam if states is None else self.room
        choice = self._options(max_symbols, slots, nodes, threads)
        self._check_memory(choice, encoded_BSC.shape[1], states is not None)
        found = _searched(self.network, encoded_BSC, frames_B, scorers, choice, states, is_over)
        for n in np.flatnonzero(found.counts_B == MORE_NODES).tolist():
            choice = self._options(max_symbols, 1, nodes, 1)
            own, alone = int(frames_B[n]), slice(n, n + 1)
            while found.counts_B[n] == MORE_NODES:
                choice.nodes *= GROWTH
                if _bytes("transducer_beam_workspace", self.network, choice) > self.memory:
                    raise ValueError(
                        f"beam: utterance {n}: sequences of {own} frames, {self.beam} of them with little in common, "
                        f"take more than the {self.memory:,} bytes of `memory`; take a smaller beam or more memory"
                    )
                own_1SC = encoded_BSC[alone, :own]
                again = _searched(self.network, own_1SC, frames_B[alone], scorers[alone], choice, None, True, n)
                for whole, part in zip(found, again, strict=True):
                    if whole.ndim == 3:
                        whole[n, :, : part.shape[2]] = part[0]
                    else:
                        whole[n] = part[0]
        return found

    def _check_memory(self, choice: BeamOptionsStruct, frames: int, has_states: bool) -> None:
        """Raises ValueError where the search, or what it finds, takes more than `memory` for an utterance."""
        capacity = _capacity(choice, frames, has_states)
        searched = choice.slots * choice.threads
        needed = (
            _bytes("transducer_beam_workspace", self.network, choice) // searched
            + BYTES_EACH * choice.n_best * capacity
        )
        if needed > self.memory:
            raise ValueError(
                f"beam: {self.beam} sequences, {choice.n_best} of them returned, take {needed:,} bytes for {frames} "
                f"frames; expected at most the {self.memory:,} of `memory`: take a smaller beam or n_best"
            )

    def _options(self, max_symbols: int, slots: int, nodes: int, threads: int) -> BeamOptionsStruct:
        of_beam, *others = self._choice
        return BeamOptionsStruct(*of_beam, max_symbols, slots, nodes, threads, *others)


def _bytes(function: str, network: NativeNetwork, choice: BeamOptionsStruct) -> int:
    size = c_size_t()
    status = getattr(beam_functions(), function)(network.network, choice, size)
    if status != SUCCESS:
        raise RuntimeError(f"{function} of the native library answered with status {status}")
    return size.value


def _capacity(choice: BeamOptionsStruct, frames: int, has_states: bool) -> int:
    """Labels that a sequence has at most."""
    return frames * choice.max_symbols + (choice.nodes if has_states else 0)


def _searched(
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
    invalid = c_int64()
    outputs = (tokens, emitted, durations, confidences, entropies, lengths, settled, *log_probs, counts)
    tables = ScorerTables(scorers)
    addresses = None if states is None else (c_void_p * batch)(*(state.ctypes.data for state in states))
    strides = [encoded_BSC.strides[axis] // encoded_BSC.itemsize for axis in (0, 1)]
    status = library.transducer_beam(
        *(network.network, choice, encoded_BSC.ctypes.data, batch, *strides, frames_B.ctypes.data, addresses, is_over),
        *(tables.address, capacity, *(part.ctypes.data for part in outputs), workspace.ctypes.data, invalid),
    )
    if status == INVALID_VALUE and invalid.value >= 0:
        raise ValueError(f"encoded: utterance {first + invalid.value}: its frames hold NaN")
    if status != SUCCESS:
        raise RuntimeError(f"transducer_beam of the native library answered with status {status}")
    return BeamResult(*outputs)
