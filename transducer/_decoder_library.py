"""Calls the native decoder through ctypes: structures of `include/transducer_decode.h`, and weights as it reads them.

Shapes: B utterances, S encoder frames, C encoder width, H prediction network, J joint, V labels and blank, W outputs.
"""

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ctc import Scorer
from transducer._library import load_cpu
from transducer._loss_library import INSTRUCTION_SETS, INVALID_VALUE, SUCCESS, memory
from transducer.weights import DecoderWeights, on_host

PANEL = 32
"""Widths are padded to a multiple of it, and so many rows of a packed matrix lie beside each other."""
ACTIVATIONS = {"relu": 0, "tanh": 1, "sigmoid": 2}


class Network(Structure):
    """`transducerNetwork`."""

    _fields_ = (
        *((name, c_int64) for name in ("classes", "encoder", "hidden", "joint", "layers", "duration_count")),
        *((name, c_void_p) for name in ("durations", "first_gates", "gate_weights", "gate_biases")),
        *((name, c_void_p) for name in ("encoder_weights", "encoder_bias", "prediction_weights")),
        *((name, c_void_p) for name in ("output_weights", "output_bias")),
        ("activation", c_int32),
    )


class Options(Structure):
    """`transducerDecodeOptions`."""

    _fields_ = (
        *((name, c_int64) for name in ("max_symbols", "slots", "window", "window_rows")),
        *((name, c_int32) for name in ("threads", "instruction_set")),
    )


@functools.cache
def functions() -> ctypes.CDLL | None:
    """The CPU library with the decoder declared, or None where it is not built and cannot be."""
    library = load_cpu()
    if library is None:
        return None
    library.transducer_decode_workspace.argtypes = (POINTER(Network), POINTER(Options), POINTER(c_size_t))
    library.transducer_decode.argtypes = (
        *(POINTER(Network), POINTER(Options), c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64),
        *(*(c_void_p,) * 11, POINTER(c_int64)),
    )
    return library


class ScorerTables:
    """Pointers to `ctc_scorer` for every utterance, NULL for None; equal scorers have one table."""

    def __init__(self, scorers: Sequence[Scorer | None]) -> None:
        different = {id(scorer): scorer for scorer in scorers if scorer is not None}
        tables = {key: scorer.table() for key, scorer in different.items()}
        addresses = [None if scorer is None else ctypes.addressof(tables[id(scorer)]) for scorer in scorers]
        self._kept: tuple[Any, ...] = (tables, tuple(scorers))
        self._pointers = (c_void_p * len(addresses))(*addresses)
        self.address = ctypes.addressof(self._pointers) if any(addresses) else None


class Found(NamedTuple):
    """What the decoder found, in rows of which each utterance fills the first `counts_B`."""

    tokens_BN: Tensor
    frames_BN: Tensor
    durations_BN: Tensor
    confidences_BN: Tensor
    entropies_BN: Tensor
    counts_B: Tensor


class NativeNetwork:
    """Weights as the kernels read them: padded, packed, and the first layer's input gates as a table of the labels."""

    def __init__(self, weights: DecoderWeights) -> None:
        weights = on_host(weights)
        classes, hidden = weights.embedding.shape
        first, *others = weights.lstm
        table_VG = F.linear(weights.embedding, first.input_weight, first.input_bias + first.hidden_bias)
        gate_weights = [_packed(_gates(first.hidden_weight))]
        gate_biases = [torch.zeros(0)]
        for layer in others:
            both = torch.cat([_widened(layer.input_weight), _widened(layer.hidden_weight)], dim=1)
            gate_weights.append(_packed(_gates(both)))
            gate_biases.append(_gates((layer.input_bias + layer.hidden_bias)[:, None])[:, 0].contiguous())
        outputs = [weights.output_weight[:classes], weights.output_weight[classes:]]
        biases = [weights.output_bias[:classes], weights.output_bias[classes:]]
        self.durations = torch.tensor(weights.durations, dtype=torch.int32)
        self._kept = [
            _gates(table_VG.T).T.contiguous(),
            _packed(_lengthened(weights.encoder_weight)),
            _lengthened((weights.encoder_bias + weights.prediction_bias)[:, None])[:, 0].contiguous(),
            _packed(_lengthened(_widened(weights.prediction_weight))),
            _packed(torch.cat([_lengthened(_widened(part)) for part in outputs])),
            torch.cat([_lengthened(part[:, None], -torch.inf)[:, 0] for part in biases]).contiguous(),
        ]
        self._layers = [*gate_weights, *gate_biases]
        table, encoder, encoder_bias, prediction, output, output_bias = (part.data_ptr() for part in self._kept)
        pointers = c_void_p * len(weights.lstm)
        self._gate_weights = pointers(*(part.data_ptr() for part in gate_weights))
        self._gate_biases = pointers(*(part.data_ptr() or None for part in gate_biases))
        self.network = Network(
            classes=classes,
            encoder=weights.encoder_weight.shape[1],
            hidden=hidden,
            joint=weights.encoder_weight.shape[0],
            layers=len(weights.lstm),
            duration_count=len(weights.durations),
            durations=self.durations.data_ptr() if weights.durations else None,
            first_gates=table,
            gate_weights=ctypes.addressof(self._gate_weights),
            gate_biases=ctypes.addressof(self._gate_biases),
            encoder_weights=encoder,
            encoder_bias=encoder_bias,
            prediction_weights=prediction,
            output_weights=output,
            output_bias=output_bias,
            activation=ACTIVATIONS[weights.activation],
        )

    def decode(
        self,
        encoded_BSC: Tensor,
        frames_B: Tensor,
        state: tuple[Tensor, Tensor, Tensor] | None,
        scorers: Sequence[Scorer | None] = (),
        *,
        max_symbols: int,
        slots: int,
        window: int,
        window_rows: int,
        instruction_set: str = "automatic",
    ) -> Found:
        """Decodes a batch on the CPU, float32, channels adjacent, lengths checked; updates `state`.

        Raises ValueError for an utterance whose frames hold NaN.
        """
        library = functions()
        assert library is not None
        batch, frames, _ = encoded_BSC.shape
        capacity = frames * max_symbols
        threads = max(1, min(torch.get_num_threads(), batch))
        slots = max(1, min(slots, -(-batch // threads)))
        choice = Options(max_symbols, slots, window, window_rows, threads, INSTRUCTION_SETS[instruction_set])
        workspace = memory(library.transducer_decode_workspace, self.network, choice)
        tokens, emitted, durations = torch.empty(3, batch, capacity, dtype=torch.int32)
        confidences, entropies = torch.empty(2, batch, capacity)
        counts_B, invalid = torch.zeros(batch, dtype=torch.int64), c_int64()
        tables = ScorerTables(scorers)
        status = library.transducer_decode(
            *(self.network, choice, encoded_BSC.data_ptr(), batch, encoded_BSC.stride(0), encoded_BSC.stride(1)),
            *(frames_B.data_ptr(), capacity, tokens.data_ptr(), emitted.data_ptr(), durations.data_ptr()),
            *(confidences.data_ptr(), entropies.data_ptr(), counts_B.data_ptr()),
            *((None, None) if state is None else (part.data_ptr() for part in state[:2])),
            *(tables.address, state[2].data_ptr() if state is not None and tables.address else None),
            *(workspace.data_ptr(), invalid),
        )
        if status == INVALID_VALUE and invalid.value >= 0:
            raise ValueError(f"encoded: utterance {invalid.value}: its frames hold NaN")
        if status != SUCCESS:
            raise RuntimeError(f"transducer_decode of the native library answered with status {status}")
        return Found(tokens, emitted, durations, confidences, entropies, counts_B)


def padded(width: int) -> int:
    """`width`, up to a multiple of `PANEL`."""
    return -(-width // PANEL) * PANEL


def _widened(matrix: Tensor) -> Tensor:
    """More columns, of 0."""
    return F.pad(matrix, (0, padded(matrix.shape[1]) - matrix.shape[1]))


def _lengthened(matrix: Tensor, value: float = 0.0) -> Tensor:
    """More rows, of `value`."""
    return F.pad(matrix, (0, 0, 0, padded(matrix.shape[0]) - matrix.shape[0]), value=value)


def _gates(matrix: Tensor) -> Tensor:
    """[4H, columns] with H padded in each of the four gates; columns of the state too."""
    gates = torch.cat([_lengthened(gate) for gate in matrix.chunk(4)])
    return gates if matrix.shape[1] == 1 else _widened(gates)


def _packed(matrix: Tensor) -> Tensor:
    """[rows / PANEL, columns, PANEL]"""
    rows, columns = matrix.shape
    return matrix.reshape(rows // PANEL, PANEL, columns).transpose(1, 2).contiguous()
