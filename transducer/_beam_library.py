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
NODES = 1 << 20
"""Room at first for labels of all kept sequences of an utterance, those that several begin with counted once."""
MORE_NODES = -1  # TRANSDUCER_BEAM_MORE_NODES, in place of a count
GROWTH = 8


class Options(Structure):
    """`transducerBeamOptions`."""

    _fields_ = (
        *((name, c_int64) for name in ("beam", "n_best")),
        ("drop", c_double),
        *((name, c_int64) for name in ("max_symbols", "slots", "nodes")),
        *((name, c_int32) for name in ("threads", "instruction_set")),
    )


@functools.cache
def beam_functions() -> ctypes.CDLL | None:
    """The CPU library with the beam search declared, or None where it is not built and cannot be."""
    library = functions()
    if library is None:
        return None
    library.transducer_beam_workspace.argtypes = (POINTER(Network), POINTER(Options), c_int64, POINTER(c_size_t))
    library.transducer_beam.argtypes = (
        *(POINTER(Network), POINTER(Options), c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int64),
        *(*(c_void_p,) * 10, POINTER(c_int64)),
    )
    return library


class Found(NamedTuple):
    """What the search found, in rows of which each sequence fills its length."""

    tokens_BNL: Tensor
    frames_BNL: Tensor
    durations_BNL: Tensor
    confidences_BNL: Tensor
    entropies_BNL: Tensor
    lengths_BN: Tensor
    log_probs_BN: Tensor
    external_BN: Tensor
    counts_B: Tensor


def search(
    network: NativeNetwork,
    encoded_BSC: Tensor,
    frames_B: Tensor,
    scorers: Sequence[Scorer | None],
    *,
    beam: int,
    n_best: int,
    drop: float,
    max_symbols: int,
    slots: int,
    memory: int,
    instruction_set: str = "automatic",
) -> Found:
    """Searches a batch on the CPU, float32, channels adjacent, lengths checked.

    An utterance whose sequences have little in common is searched again, alone and with more room. Raises ValueError
    for one whose frames hold NaN, and for one that would take more than `memory` bytes.
    """
    batch, frames, _ = encoded_BSC.shape
    threads = max(1, min(torch.get_num_threads(), batch))
    slots = max(1, min(slots, -(-batch // threads)))
    choice = Options(beam, n_best, drop, max_symbols, slots, NODES, threads, INSTRUCTION_SETS[instruction_set])
    found = _searched(network, encoded_BSC, frames_B, scorers, choice, _workspace_bytes(network, choice, frames))
    choice.slots = choice.threads = 1
    for n in (found.counts_B == MORE_NODES).nonzero().flatten().tolist():
        choice.nodes = NODES
        own, alone = int(frames_B[n]), slice(n, n + 1)
        while found.counts_B[n] == MORE_NODES:
            choice.nodes *= GROWTH
            size = _workspace_bytes(network, choice, own)
            if size > memory:
                raise ValueError(
                    f"beam: utterance {n}: sequences of {own} frames, {beam} of them with little in common, take more "
                    f"than the {memory:,} bytes of `memory`; take a smaller beam or more memory"
                )
            again = _searched(network, encoded_BSC[alone, :own], frames_B[alone], scorers[alone], choice, size, n)
            for whole, part in zip(found, again, strict=True):
                if whole.dim() == 3:
                    whole[n, :, : part.shape[2]] = part[0]
                else:
                    whole[n] = part[0]
    return found


def _workspace_bytes(network: NativeNetwork, choice: Options, frames: int) -> int:
    library = beam_functions()
    assert library is not None
    size = c_size_t()
    status = library.transducer_beam_workspace(network.network, choice, frames, size)
    if status != SUCCESS:
        raise RuntimeError(f"transducer_beam_workspace of the native library answered with status {status}")
    return size.value


def _searched(
    network: NativeNetwork,
    encoded_BSC: Tensor,
    frames_B: Tensor,
    scorers: Sequence[Scorer | None],
    choice: Options,
    workspace_bytes: int,
    first: int = 0,
) -> Found:
    """One call of the library; `first`: the number of the first utterance, for messages."""
    library = beam_functions()
    assert library is not None
    batch, frames, _ = encoded_BSC.shape
    workspace = torch.empty(workspace_bytes + ALIGNMENT, dtype=torch.uint8)
    n_best, capacity = choice.n_best, frames * choice.max_symbols
    tokens, emitted, durations = torch.empty(3, batch, n_best, capacity, dtype=torch.int32)
    confidences, entropies = torch.empty(2, batch, n_best, capacity)
    lengths, log_probs = torch.zeros(batch, n_best, dtype=torch.int64), torch.zeros(batch, n_best, dtype=torch.float64)
    external, counts, invalid = torch.zeros_like(log_probs), torch.zeros(batch, dtype=torch.int64), c_int64()
    outputs = (tokens, emitted, durations, confidences, entropies, lengths, log_probs, external, counts)
    tables = ScorerTables(scorers)
    status = library.transducer_beam(
        *(network.network, choice, encoded_BSC.data_ptr(), batch, encoded_BSC.stride(0), encoded_BSC.stride(1)),
        *(frames_B.data_ptr(), tables.address, capacity, *(part.data_ptr() for part in outputs)),
        *(workspace.data_ptr() + -workspace.data_ptr() % ALIGNMENT, invalid),
    )
    if status == INVALID_VALUE and invalid.value >= 0:
        raise ValueError(f"encoded: utterance {first + invalid.value}: its frames hold NaN")
    if status != SUCCESS:
        raise RuntimeError(f"transducer_beam of the native library answered with status {status}")
    return Found(*outputs)
