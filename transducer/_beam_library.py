"""Calls the native beam search through ctypes: structures of `include/transducer_beam.h`.

Shapes: B utterances, N sequences of each, S encoder frames, C encoder width, L labels at most.
"""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_size_t, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor

from ctc import Scorer
from transducer._decoder_library import NativeNetwork, Network, ScorerTables, functions
from transducer._library import INSTRUCTION_SETS, INVALID_VALUE, SUCCESS

ALIGNMENT = 64


class Options(Structure):
    """`transducerBeamOptions`."""

    _fields_ = (
        *((name, c_int64) for name in ("beam", "n_best", "room")),
        ("drop", c_double),
        *((name, c_int64) for name in ("max_symbols", "slots")),
        *((name, c_int32) for name in ("threads", "instruction_set")),
    )


@functools.cache
def beam_functions() -> ctypes.CDLL | None:
    """The CPU library with the beam search declared, or None where it is not built and cannot be."""
    library = functions()
    if library is None:
        return None
    for size in (library.transducer_beam_workspace, library.transducer_beam_state):
        size.argtypes = (POINTER(Network), POINTER(Options), POINTER(c_size_t))
    library.transducer_beam.argtypes = (
        *(POINTER(Network), POINTER(Options), c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int32),
        *(c_void_p, c_int64, *(c_void_p,) * 11, POINTER(c_int64)),
    )
    return library


class Found(NamedTuple):
    """What the search found, in rows of which each sequence fills its length; `settled_B` labels are in all of them."""

    tokens_BNL: Tensor
    frames_BNL: Tensor
    durations_BNL: Tensor
    confidences_BNL: Tensor
    entropies_BNL: Tensor
    lengths_BN: Tensor
    settled_B: Tensor
    log_probs_BN: Tensor
    external_BN: Tensor
    counts_B: Tensor


class NativeSearch:
    """The native search with its options."""

    def __init__(
        self,
        network: NativeNetwork,
        *,
        beam: int,
        n_best: int,
        room: int,
        drop: float,
        slots: int,
        instruction_set: str = "automatic",
    ) -> None:
        self.network, self.slots, self.instruction_set = network, slots, INSTRUCTION_SETS[instruction_set]
        self.of_beam = (beam, n_best, room, drop)

    def start(self) -> Tensor:
        """The state of an utterance before its first frames, bytes."""
        return torch.zeros(self._bytes("transducer_beam_state", self._options(1, 1, 1)), dtype=torch.uint8)

    def __call__(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor,
        scorers: Sequence[Scorer | None],
        *,
        max_symbols: int,
        states: Sequence[Tensor] | None = None,
        is_over: bool = True,
    ) -> Found:
        """Searches a batch on the CPU, float32, channels adjacent, lengths checked; with `states`, which it updates.

        Raises ValueError for an utterance whose frames hold NaN.
        """
        library = beam_functions()
        assert library is not None
        batch, frames, _ = encoded_BSC.shape
        _, n_best, room, _ = self.of_beam
        threads = max(1, min(torch.get_num_threads(), batch))
        choice = self._options(max_symbols, max(1, min(self.slots, -(-batch // threads))), threads)
        workspace = torch.empty(self._bytes("transducer_beam_workspace", choice) + ALIGNMENT, dtype=torch.uint8)
        capacity = frames * max_symbols + (room if states is not None else 0)
        tokens, emitted, durations = torch.empty(3, batch, n_best, capacity, dtype=torch.int32)
        confidences, entropies = torch.empty(2, batch, n_best, capacity)
        lengths, log_probs = torch.zeros(batch, n_best, dtype=torch.int64), torch.zeros(2, batch, n_best).double()
        settled, counts = torch.zeros(2, batch, dtype=torch.int64)
        invalid = c_int64()
        outputs = (tokens, emitted, durations, confidences, entropies, lengths, settled, *log_probs, counts)
        tables = ScorerTables(scorers)
        addresses = None if states is None else (c_void_p * batch)(*(state.data_ptr() for state in states))
        status = library.transducer_beam(
            *(self.network.network, choice, encoded_BSC.data_ptr(), batch),
            *(encoded_BSC.stride(0), encoded_BSC.stride(1), frames_B.data_ptr(), addresses, is_over),
            *(tables.address, capacity, *(part.data_ptr() for part in outputs)),
            *(workspace.data_ptr() + -workspace.data_ptr() % ALIGNMENT, invalid),
        )
        if status == INVALID_VALUE and invalid.value >= 0:
            raise ValueError(f"encoded: utterance {invalid.value}: its frames hold NaN")
        if status != SUCCESS:
            raise RuntimeError(f"transducer_beam of the native library answered with status {status}")
        return Found(*outputs)

    def _options(self, max_symbols: int, slots: int, threads: int) -> Options:
        return Options(*self.of_beam, max_symbols, slots, threads, self.instruction_set)

    def _bytes(self, function: str, choice: Options) -> int:
        size = c_size_t()
        status = getattr(beam_functions(), function)(self.network.network, choice, size)
        if status != SUCCESS:
            raise RuntimeError(f"{function} of the native library answered with status {status}")
        return size.value
