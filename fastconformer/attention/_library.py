"""The native step of attention decoders on arrays; `include/attention_step.h` declares it. Needs no torch."""

import ctypes
import functools
import itertools
import threading
from collections.abc import Mapping, Sequence
from ctypes import Structure, c_void_p
from pathlib import Path

import numpy as np

import common.convolution
import ctc
from common.convolution import library as products
from common.convolution.library import ConvolutionProblem
from common.convolution.rows import Rows
from ctc import native
from fastconformer.attention.search import Best, CachedToken

LIBRARY = native.NativeLibrary(
    package=Path(__file__).parent,
    command="python -m fastconformer.attention.build",
    headers=(
        *(Path(ctc.__file__).parent / folder for folder in ("csrc", "include")),
        Path(common.convolution.__file__).parent / "include",
    ),
)
Norm = tuple[np.ndarray, np.ndarray]
NORMS = ("text_norm", "sound_norm", "norm")
PRODUCTS = ("text.qkv", "text.leave", "sound.query", "sound.leave", "enter", "leave")


class NormStruct(Structure):
    """`attention_norm`."""

    _fields_ = native.fields("p scale shift")


class BlockStruct(Structure):
    """`attention_block`."""

    _fields_ = native.fields(f"NormStruct {' '.join(NORMS)}; p {' '.join(PRODUCTS)}", NormStruct)


class DecoderStruct(Structure):
    """`attention_network`."""

    _fields_ = native.fields(
        "n layers width heads inner classes positions; p blocks tokens places; NormStruct embedding_norm norm; p head;"
        "i activation; p multiply multiply_bytes",
        NormStruct,
    )


class StepStruct(Structure):
    """`attention_step`."""

    _fields_ = native.fields(
        "n tokens; p labels at slots first store; n capacity; p heard frames; n asked best;"
        "p asked_tokens allowed found log_probs; i threads instructions; p workspace; z workspace_bytes"
    )


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library, or None where it, or that of products, is missing and cannot be built."""
    library = native.load(LIBRARY) if products.load() is not None else None
    return library and native.declare(library, {"attention_step_workspace": "pp>z", "attention_step_run": "pp"})


class NativeStep:
    """The network of a decoder for the native step. Needs the library."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        embeddings: tuple[np.ndarray, np.ndarray],
        blocks: Sequence[tuple[Mapping[str, Norm], Mapping[str, Rows]]],
        norms: tuple[Norm, Norm],
        head: Rows,
        activation: int,
    ) -> None:
        """`sizes` and `activation` by the header's names; `norms` of the embedding and behind the last block."""
        self._kept: list[object] = []
        structs = (BlockStruct * len(blocks))()
        for struct, (block_norms, layers) in zip(structs, blocks, strict=True):
            for name in NORMS:
                setattr(struct, name, self._norm(block_norms[name]))
            for name in PRODUCTS:
                setattr(struct, name, self._layer(layers[name]))
        convolutions = products.load()
        assert convolutions is not None, "callers ask `load` first"
        self._network = DecoderStruct(
            **sizes, blocks=ctypes.addressof(structs), tokens=self._floats(embeddings[0]),
            places=self._floats(embeddings[1]), embedding_norm=self._norm(norms[0]), norm=self._norm(norms[1]),
            head=self._layer(head), activation=activation,
            multiply=ctypes.cast(convolutions.convolution_run, c_void_p),
            multiply_bytes=ctypes.cast(convolutions.convolution_workspace, c_void_p),
        )  # fmt: skip
        self._kept.append(structs)
        self._threads = head.threads

    def __call__(
        self,
        store: np.ndarray,
        tokens: Sequence[CachedToken],
        asked: Sequence[int],
        best: int,
        allowed_V: Sequence[np.ndarray],
        *,
        instructions: int = 0,
    ) -> list[Best]:
        """As `DecoderStep`; keys and values of the tokens go to `store` [layers, slots, 2, heads, width of a head]."""
        library = load()
        assert library is not None, "callers ask `load` first"
        best = min(best, self._network.classes)
        lists = {id(token.slots): token.slots for token in tokens}
        starts = dict(zip(lists, itertools.accumulate(map(len, lists.values()), initial=0), strict=False))
        arrays = {
            "labels": np.array([token.label for token in tokens], np.int64),
            "at": np.array([token.at for token in tokens], np.int64),
            "slots": np.fromiter(itertools.chain.from_iterable(lists.values()), np.int64),
            "first": np.array([starts[id(token.slots)] for token in tokens], np.int64),
            "store": store,
            "heard": np.array([token.heard.keys_values.ctypes.data for token in tokens], np.uintp),
            "frames": np.array([token.heard.keys_values.shape[3] for token in tokens], np.int64),
            "asked_tokens": np.array(asked, np.int64),
            "allowed": np.array([allowed.ctypes.data for allowed in allowed_V], np.uintp),
            "found": (found := np.empty((len(asked), best), np.int32)),
            "log_probs": (log_probs := np.empty((len(asked), best), np.float32)),
        }
        step = StepStruct(
            tokens=len(tokens), capacity=store.shape[1], asked=len(asked), best=best,
            threads=self._threads or native.threads(), instructions=instructions,
        )  # fmt: skip
        for name, array in arrays.items():
            setattr(step, name, array.ctypes.data)
        step.workspace_bytes = library.attention_step_workspace(self._network, step)
        if step.workspace_bytes > _OWN.room.nbytes - 64:
            _OWN.room = np.empty(step.workspace_bytes + 64, np.uint8)
        step.workspace = _OWN.room.ctypes.data + -_OWN.room.ctypes.data % 64
        library.attention_step_run(self._network, step)
        return [Best(*both) for both in zip(found.tolist(), log_probs.tolist(), strict=True)]

    def _floats(self, values: np.ndarray) -> int:
        values = np.ascontiguousarray(values, np.float32)
        self._kept.append(values)
        return values.ctypes.data

    def _norm(self, norm: Norm) -> NormStruct:
        return NormStruct(*map(self._floats, norm))

    def _layer(self, rows: Rows) -> int:
        problem = ConvolutionProblem.from_buffer_copy(rows.problem)
        self._kept += [rows, problem]
        return ctypes.addressof(problem)


class _Workspace(threading.local):
    def __init__(self) -> None:
        self.room = np.empty(64, np.uint8)


_OWN = _Workspace()
