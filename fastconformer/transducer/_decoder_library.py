"""Calls the native decoder through ctypes: structures of `include/transducer_decode.h`, and weights as it reads them.

Arrays alone, no torch: runtimes without it decode with the same library.

Shapes: B utterances, S encoder frames, C encoder width, H prediction network, J joint, V labels and blank, W outputs.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from ctypes import Structure, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ctc import native
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer._library import ACTIVATIONS, INSTRUCTION_SETS, load_cpu, refused, size_of
from fastconformer.transducer.weights import INTERNAL_MOST, DecoderWeights, arrays_of

if TYPE_CHECKING:  # these modules need torch
    from common.devices.precision import InferencePrecision
    from ctc import Scorer

ALIGNMENT = 64  # bytes, as the vector units of the kernels like it
MOST_SYMBOLS = 1000
"""Labels on a frame, at most: there is room for so many on each, and nobody says a tenth of it."""
PANEL = 32
"""Widths are padded to a multiple of it, and so many rows of a packed matrix lie beside each other."""


@dataclass(frozen=True, kw_only=True)
class DecoderOptions:
    """How many labels a frame may have, what is taken off of them, and how the native decoder works.

    But for `precision`, what is below `internal_weight` changes nothing of what is found.
    """

    max_symbols: int = 10
    """Labels after which the next frame is looked at."""
    internal_weight: float = 0.0
    """Where there are scorers: factor of the log-probabilities of the internal language model (prediction network and
    joint, given a frame of zeros), which are taken off."""
    slots: int = 32
    """Utterances that a thread decodes at once."""
    window: int = 4
    """Frames of an utterance that go through the joint at once, at most, where utterances are few."""
    window_rows: int | None = None
    """Frames of all utterances of a thread that do; None for what was fastest."""
    instruction_set: Literal["automatic", "generic", "avx2", "avx512"] = "automatic"
    """Which build of the kernel, for tests."""
    precision: "InferencePrecision" = "fp32"
    """Precision of the matrices that the kernels of a GPU read; they compute in float32, as a CPU does with its own."""

    def __post_init__(self) -> None:
        check_labels(self.max_symbols, self.internal_weight)


class NetworkStruct(Structure):
    """`transducerNetwork`."""

    _fields_ = native.fields(
        "n classes encoder hidden joint layers duration_count; p durations first_gates gate_weights gate_biases "
        "encoder_weights encoder_bias prediction_weights output_weights output_bias output_rows; i activation"
    )


class DecodeOptionsStruct(Structure):
    """`transducerDecodeOptions`."""

    _fields_ = native.fields(
        "n max_symbols slots window window_rows; i threads instruction_set; d internal_weight internal_most"
    )


@functools.cache
def functions() -> ctypes.CDLL | None:
    """The CPU library with the decoder declared, or None where it is not built and cannot be."""
    library = load_cpu()
    names = {"transducer_decode_workspace": "ppp", "transducer_decode": "pppnnnpn" + "p" * 12 + ">i"}
    return None if library is None else native.declare(library, names)


class ScorerTables:
    """Pointers to `ctc_scorer` for every utterance, NULL for None; equal scorers have one table."""

    def __init__(self, scorers: "Sequence[Scorer | None]") -> None:
        different = {id(scorer): scorer for scorer in scorers if scorer is not None}
        tables = {key: scorer.table() for key, scorer in different.items()}
        addresses = [None if scorer is None else ctypes.addressof(tables[id(scorer)]) for scorer in scorers]
        self._kept: tuple[Any, ...] = (tables, tuple(scorers))
        self._pointers = (c_void_p * len(addresses))(*addresses)
        self.address = ctypes.addressof(self._pointers) if any(addresses) else None


class DecoderResult(NamedTuple):
    """What the decoder found, in rows of which each utterance fills the first `counts_B`."""

    tokens_BN: np.ndarray
    frames_BN: np.ndarray
    durations_BN: np.ndarray
    confidences_BN: np.ndarray
    entropies_BN: np.ndarray
    counts_B: np.ndarray


def decoded_of(found: DecoderResult, *, has_durations: bool) -> list[DecodedLabels]:
    """The same by utterance, as lists."""
    return [labels_of(found[:5], n, count, has_durations) for n, count in enumerate(found.counts_B.tolist())]


def labels_of(
    parts: Sequence[np.ndarray], row: int | tuple[int, int], count: int, has_durations: bool
) -> DecodedLabels:
    """The first so many of a row of tokens, frames, durations, confidences and entropies."""
    tokens, frames, durations, confidences, entropies = (part[row][:count].tolist() for part in parts)
    return DecodedLabels(tokens, frames, durations if has_durations else None, confidences, entropies)


class NativeNetwork:
    """Weights as the kernels read them: padded, packed, and the first layer's input gates as a table of the labels."""

    def __init__(self, weights: DecoderWeights, place: Callable[[np.ndarray], int] | None = None) -> None:
        """`weights`: tensors or arrays. `place` puts an array where kernels of a GPU read it, and says its address."""
        own: Any = arrays_of(weights)
        self._kept: list[np.ndarray] = []

        def placed(array: np.ndarray) -> int:
            if place is not None:
                return place(array)
            self._kept.append(array)
            return array.ctypes.data

        classes, hidden = own.embedding.shape
        first, *others = own.lstm
        table_VG = own.embedding @ first.input_weight.T + (first.input_bias + first.hidden_bias)
        gates: list[tuple[int, int | None]] = [(placed(_packed(_gates(first.hidden_weight))), None)]
        for layer in others:
            both = np.concatenate([_widened(layer.input_weight), _widened(layer.hidden_weight)], axis=1)
            bias = _gates((layer.input_bias + layer.hidden_bias)[:, None])[:, 0]
            gates.append((placed(_packed(_gates(both))), placed(aligned(bias))))
        self._gates = [(c_void_p * len(gates))(*addresses) for addresses in zip(*gates, strict=True)]
        gate_weights, gate_biases = map(ctypes.addressof, self._gates)
        outputs = [own.output_weight[:classes], own.output_weight[classes:]]
        biases = [own.output_bias[:classes], own.output_bias[classes:]]
        self.durations = np.array(own.durations, np.int32)
        self.network = NetworkStruct(
            classes=classes,
            encoder=own.encoder_weight.shape[1],
            hidden=hidden,
            joint=own.encoder_weight.shape[0],
            layers=len(own.lstm),
            duration_count=len(own.durations),
            durations=self.durations.ctypes.data if own.durations else None,
            first_gates=placed(aligned(_gates(table_VG.T).T)),
            gate_weights=gate_weights,
            gate_biases=gate_biases,
            encoder_weights=placed(_packed(_lengthened(own.encoder_weight))),
            encoder_bias=placed(aligned(_lengthened((own.encoder_bias + own.prediction_bias)[:, None])[:, 0])),
            prediction_weights=placed(_packed(_lengthened(_widened(own.prediction_weight)))),
            output_weights=placed(_packed(np.concatenate([_lengthened(_widened(part)) for part in outputs]))),
            output_bias=placed(aligned(np.concatenate([_lengthened(b[:, None], -np.inf)[:, 0] for b in biases]))),
            output_rows=placed(aligned(_widened(outputs[0]))) if place is None else None,  # for language models alone
            activation=ACTIVATIONS[own.activation],
        )

    def decode(
        self,
        encoded_BSC: np.ndarray,
        frames_B: np.ndarray,
        state: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
        scorers: "Sequence[Scorer | None]",
        options: DecoderOptions,
        threads: int,
    ) -> DecoderResult:
        """Decodes a batch on the CPU, float32, channels adjacent, lengths (int64) checked; updates `state`.

        Raises ValueError for an utterance whose frames hold NaN.
        """
        library = functions()
        assert library is not None
        batch, frames, _ = encoded_BSC.shape
        capacity = frames * options.max_symbols
        threads = max(1, min(threads, batch))
        choice = DecodeOptionsStruct(
            *(options.max_symbols, max(1, min(options.slots, -(-batch // threads))), options.window),
            *(options.window_rows or (6 if len(self.durations) else 24), threads),
            *(INSTRUCTION_SETS[options.instruction_set], options.internal_weight, INTERNAL_MOST),
        )
        size = size_of(library.transducer_decode_workspace, self.network, choice)
        workspace = aligned(np.zeros(size, np.uint8))
        tokens, emitted, durations = np.empty((3, batch, capacity), np.int32)
        confidences, entropies = np.empty((2, batch, capacity), np.float32)
        tables = ScorerTables(scorers)
        strides = [encoded_BSC.strides[axis] // encoded_BSC.itemsize for axis in (0, 1)]
        outputs = (tokens, emitted, durations, confidences, entropies, np.zeros(batch, np.int64))
        states = (None, None) if state is None else state[:2]
        scored = (tables.address, state[2] if state is not None and tables.address else None)
        refuses = refused(
            library.transducer_decode,
            *(self.network, choice, encoded_BSC, batch, *strides, frames_B, capacity),
            *(*outputs, *states, *scored, workspace),
        )
        if refuses is not None:
            raise ValueError(f"encoded: utterance {refuses}: its frames hold NaN")
        return DecoderResult(*outputs)


def check_labels(number: int, internal_weight: float = 0.0) -> None:
    """Raises ValueError for what is no number of labels on a frame, and no weight of the internal language model."""
    if not 0 <= internal_weight < math.inf:
        raise ValueError(f"internal_weight: expected a number, at least 0, found {internal_weight}")
    if not isinstance(number, int | np.integer) or not 1 <= number <= MOST_SYMBOLS:
        expected = f"{MOST_SYMBOLS} at most" if isinstance(number, int) and number > 0 else "1 or more"
        raise ValueError(f"max_symbols: expected {expected}, found {number}")


def padded(width: int) -> int:
    """`width`, up to a multiple of `PANEL`."""
    return -(-width // PANEL) * PANEL


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy whose elements are adjacent, the first at a multiple of ALIGNMENT."""
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _widened(matrix: np.ndarray) -> np.ndarray:
    """More columns, of 0."""
    return np.pad(matrix, ((0, 0), (0, padded(matrix.shape[1]) - matrix.shape[1])))


def _lengthened(matrix: np.ndarray, value: float = 0.0) -> np.ndarray:
    """More rows, of `value`."""
    missing = padded(matrix.shape[0]) - matrix.shape[0]
    return np.pad(matrix, ((0, missing), (0, 0)), constant_values=value)


def _gates(matrix: np.ndarray) -> np.ndarray:
    """[4H, columns] with H padded in each of the four gates; columns of the state too."""
    gates = np.concatenate([_lengthened(gate) for gate in np.split(matrix, 4)])
    return gates if matrix.shape[1] == 1 else _widened(gates)


def _packed(matrix: np.ndarray) -> np.ndarray:
    """[rows / PANEL, columns, PANEL]"""
    rows, columns = matrix.shape
    return aligned(matrix.reshape(rows // PANEL, PANEL, columns).swapaxes(1, 2))
