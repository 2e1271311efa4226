"""Greedy decoding by the CUDA library: `transducerDeviceBatch` of `include/transducer_decode.h`, on the current stream.

A batch is decoded in a room, memory for batches up to some size that is kept, so that its launches are recorded once as
CUDA graphs and replayed for every batch that fits. What scorers know lies on the device as the arrays that it is on the
host.

Shapes: B utterances, S encoder frames, C encoder width, J joint, H prediction network, L layers, N the longest possible
result.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from ctypes import Structure, byref, c_uint8
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import ctc
from common.devices.graphs import recorded, warn_refused
from common.devices.precision import DTYPES, InferencePrecision
from ctc import native
from fastconformer.transducer._decoder_library import DecoderResult, NativeNetwork, padded
from fastconformer.transducer.loss import _cuda_library
from fastconformer.transducer.loss._loss_library import TYPES
from fastconformer.transducer.weights import INTERNAL_MOST, DecoderWeights, array_of

Found = TypeVar("Found")
MOST_LAYERS, MOST_JOINT = 8, 1024
"""`TRANSDUCER_MOST_...` of transducer_decode.h."""
SCORER_BYTES = 64
"""`TRANSDUCER_SCORER_BYTES` of transducer_decode.h."""
STEPS_AT_ONCE = 16
"""After so many steps the host looks whether all are done."""
ROWS, WINDOWS = 8, (8, 4, 2, 1)
"""Frames that a block of the output layer takes at once, and how many of them may be one utterance's."""
NAN = -1
FEWEST_FRAMES = 16
MOST_ROOMS, MOST_BYTES = 16, 1 << 30
"""Rooms, and their memory together, beyond which those go that were not used for longest."""
LANGUAGE_MODEL = "language model"


class DeviceBatch(Structure):
    """`transducerDeviceBatch`."""

    _fields_ = native.fields(
        "n batch frames capacity max_symbols window; p encoded projected frame_counts tokens found_frames durations "
        "confidences entropies counts states positions is_active emitted pending logits scorers scorer_states; "
        "d internal_weight internal_most; i weight_type"
    )


def serves(weights: DecoderWeights) -> bool:
    """Whether the CUDA library decodes with weights of this device and of these sizes."""
    return _cuda_library.serves(weights.embedding) and _fit(weights)


def why_missing(weights: DecoderWeights) -> str | None:
    """Why it does not, for weights that are not on the CPU."""
    if not _fit(weights):
        return f"its kernels take {MOST_LAYERS} layers and a joint of {MOST_JOINT} at most"
    return _cuda_library.why_missing(weights.embedding.device)


def _fit(weights: DecoderWeights) -> bool:
    return (
        len(weights.lstm) <= MOST_LAYERS
        and len(weights.encoder_weight) <= MOST_JOINT
        and len(weights.durations) <= _cuda_library.MOST_DURATIONS
    )


def room_for(batch: int, frames: int) -> tuple[int, int]:
    """The size of the room that takes so many utterances of so many frames: few sizes, at most half of them empty."""
    size = FEWEST_FRAMES
    while size < frames:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return 1 << max(0, batch - 1).bit_length(), size


class CudaDecoder:
    """A network on a device, its matrices in `precision`. Weights that change afterwards have no effect."""

    def __init__(self, weights: DecoderWeights, precision: InferencePrecision = "fp32") -> None:
        self.device, self.dtype = weights.embedding.device, DTYPES[precision]
        encoder = weights.encoder_weight.shape[1]
        missing = padded(encoder) - encoder
        wider = np.pad(array_of(weights.encoder_weight), ((0, 0), (0, missing)))
        self._weights: list[Tensor] = []
        self.network = NativeNetwork(weights._replace(encoder_weight=wider), self._placed)
        self.layers, self.hidden, self.encoder = (
            len(weights.lstm),
            padded(weights.embedding.shape[1]),
            encoder + missing,
        )
        self.joint = padded(len(weights.encoder_weight))
        self.logit_width = padded(weights.blank + 1) + padded(len(weights.durations))
        self.records = self.device.type == "cuda"
        """Whether launches are recorded as graphs."""
        self._scorers = DeviceScorers(self.device, weights.blank + 1)
        self._rooms: OrderedDict[tuple[object, ...], Room] = OrderedDict()
        self._short = Shortages()
        self._alone = threading.RLock()  # a room holds one batch

    def _placed(self, array: np.ndarray) -> int:
        tensor = self.moved(array)
        tensor = tensor.to(self.dtype) if array.ndim == 3 else tensor  # packed matrices; not biases and embeddings
        self._weights.append(tensor)
        return tensor.data_ptr()

    def moved(self, array: np.ndarray) -> Tensor:
        """The same on the device."""
        return torch.from_numpy(array).to(self.device)

    @torch.inference_mode()
    def decode(
        self,
        encoded_BSC: Any,
        counts_B: np.ndarray,
        state: Sequence[Tensor] | None,
        scorers: Sequence[ctc.Scorer | None],
        *,
        max_symbols: int,
        internal_weight: float = 0.0,
    ) -> DecoderResult:
        """Decodes a batch, lengths checked; updates `state`, the tensors of a `DecoderState` in their order.

        Raises ValueError for an utterance whose frames hold NaN, and torch.OutOfMemoryError, as `within_memory`.
        """
        settings = (max_symbols, any(scorers), internal_weight)
        with self._alone:
            addresses = self.placed(scorers)
            given = (torch.as_tensor(encoded_BSC), counts_B, state, addresses, settings)
            what = (*room_for(*given[0].shape[:2]), *settings)
            return self.within_memory(lambda: self._decoded(*given), what, scorers)

    def placed(self, scorers: Sequence[ctc.Scorer | None]) -> list[int]:
        """Their addresses on the device. Raises torch.OutOfMemoryError, as `within_memory`."""
        return self.within_memory(lambda: [self._scorers.address(own) for own in scorers], LANGUAGE_MODEL, scorers)

    def within_memory(
        self, compute: Callable[[], Found], what: Hashable, scorers: Sequence[ctc.Scorer | None]
    ) -> Found:
        """`compute()`, and where memory is short once more without the rooms.

        What fails then, something that is always called `what` beside these scorers, raises torch.OutOfMemoryError
        without a try, and leaves the rooms, until more memory is free than there was.
        A device is asked for its memory only where something failed before.
        """
        self._short.check(what, scorers, self._free)
        for _ in range(2):
            try:
                found = compute()
            except torch.OutOfMemoryError:
                if self._drop_rooms():
                    continue
                break
            self._short.forget(what, scorers)
            return found
        raise self._short.noted(what, scorers, self._free())

    def _free(self) -> int:
        """Memory of a GPU that tensors can have once the rooms have gone; what torch keeps unused counts."""
        if self.device.type != "cuda":
            return 0
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        with self._alone:
            rooms = sum(room.nbytes for room in self._rooms.values())
        return torch.cuda.mem_get_info(self.device)[0] + unused + rooms

    def _drop_rooms(self) -> bool:
        """Whether there were any."""
        with self._alone:
            had = bool(self._rooms)
            self._rooms.clear()
            return had

    def _decoded(
        self,
        encoded_BSC: Tensor,
        counts_B: np.ndarray,
        state: Sequence[Tensor] | None,
        scorers: Sequence[int],
        settings: tuple[Any, ...],
    ) -> DecoderResult:
        with native.current_stream(self.device) as stream:
            room = self._room(*encoded_BSC.shape[:2], *settings)
            room.enter(encoded_BSC, counts_B, state, scorers)
            room.begin(stream)
            while bool(room.active_B.any()):
                room.step(stream)
            return room.leave(len(counts_B), state)

    def _room(self, batch: int, frames: int, *settings: Any) -> "Room":
        key = (*room_for(batch, frames), *settings)
        if key not in self._rooms:
            room = Room(self, *room_for(batch, frames), *settings)
            if self.records:
                self._record(room)
            self._rooms[key] = room
            while len(self._rooms) > 1 and (
                len(self._rooms) > MOST_ROOMS or sum(own.nbytes for own in self._rooms.values()) > MOST_BYTES
            ):
                self._rooms.popitem(last=False)
        self._rooms.move_to_end(key)
        return self._rooms[key]

    def _record(self, room: "Room") -> None:
        """The launches of an empty room as graphs; once that failed, launches go on one by one."""
        try:
            room.begin, room.step = (_replayed(launches, room) for launches in (room.begin, room.step))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.records = False
            warn_refused("greedy decoding", error)


def _replayed(launches: Callable[[int], None], room: "Room") -> Callable[[int], None]:
    def on_current_stream(_: Tensor) -> None:
        with native.current_stream(room.active_B.device) as stream:
            launches(stream)

    graph = recorded(on_current_stream, [room.active_B], None)
    return lambda _: graph.replay()


class Room:
    """Memory for a batch of up to `batch` utterances of up to `frames` frames, and what computes there."""

    def __init__(
        self, of: CudaDecoder, batch: int, frames: int, max_symbols: int, has_scorers: bool, internal_weight: float
    ) -> None:
        def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=of.device)

        window, capacity = next(n for n in WINDOWS if n * batch <= ROWS or n == 1), frames * max_symbols
        self.encoded_BSC, projected_BSJ = numbers(batch, frames, of.encoder), numbers(batch, frames, of.joint)
        self.frames_B, self.found_B, self.scorers_B = numbers(3, batch, dtype=torch.int64)
        self.results_3BN, self.shares_2BN = numbers(3, batch, capacity, dtype=torch.int32), numbers(2, batch, capacity)
        network_BX = numbers(batch, 2 * of.layers * of.hidden + of.joint)
        self.position_B3, language_B3 = numbers(batch, 3, dtype=torch.int64), numbers(batch, 3, dtype=torch.int32)
        self.state = (network_BX, self.position_B3, language_B3)
        self.active_B, emitted_B = numbers(2, batch, dtype=torch.int32)
        pending_BLH, logits = numbers(batch, of.layers, of.hidden), numbers(batch, window, of.logit_width)
        given = (self.encoded_BSC, projected_BSJ, self.frames_B, *self.results_3BN, *self.shares_2BN, self.found_B)
        parts = (*given, network_BX, self.position_B3, self.active_B, emitted_B, pending_BLH, logits)
        scored = (self.scorers_B.data_ptr() if has_scorers else None, language_B3.data_ptr())
        known = DeviceBatch(
            *(batch, frames, capacity, max_symbols, window, *(part.data_ptr() for part in parts), *scored),
            *(internal_weight, INTERNAL_MOST, TYPES[of.dtype]),
        )
        self._kept, library = parts, _cuda_library.DEVICE.loaded()
        self.nbytes = sum(part.nbytes for part in (*parts, self.scorers_B, language_B3))
        """Memory of the device, without that of graphs."""
        own = (byref(of.network.network), byref(known))
        self.begin: Callable[[int], None] = lambda stream: library.transducer_decode_begin_cuda(*own, stream)
        """Begins with the batch; takes the current stream, as `step` does."""
        self.step: Callable[[int], None] = lambda stream: library.transducer_decode_steps_cuda(
            *own, STEPS_AT_ONCE, stream
        )

    def enter(
        self, encoded_BSC: Tensor, counts_B: np.ndarray, state: Sequence[Tensor] | None, scorers: Sequence[int]
    ) -> None:
        """A batch takes the place of the one before."""
        batch, frames, width = encoded_BSC.shape
        self.encoded_BSC[:batch, :frames, :width].copy_(encoded_BSC)
        numbers_2B = np.zeros((2, len(self.frames_B)), np.int64)
        numbers_2B[:, :batch] = counts_B, scorers
        self.frames_B.copy_(torch.from_numpy(numbers_2B[0]))
        self.scorers_B.copy_(torch.from_numpy(numbers_2B[1]))
        self.position_B3.zero_()
        if state is not None:
            for own, given in zip(self.state, state, strict=True):
                own[:batch].copy_(given)

    def leave(self, batch: int, state: Sequence[Tensor] | None) -> DecoderResult:
        """What was found in `batch` utterances, and where they go on."""
        if state is not None:
            self.position_B3[:, 0] -= self.frames_B
            for own, given in zip(self.state, state, strict=True):
                given.copy_(own[:batch])
        counts = self.found_B[:batch].cpu()
        for n, count in enumerate(counts.tolist()):
            if count == NAN:
                raise ValueError(f"encoded: utterance {n}: its frames hold NaN")
        longest = int(counts.max()) if batch else 0
        parts = (part_BN[:batch, :longest].cpu() for part_BN in (*self.results_3BN, *self.shares_2BN))
        return DecoderResult(*(part.numpy() for part in (*parts, counts)))


def _unguarded(array: np.ndarray) -> np.ndarray:
    """The same memory, which torch does not take where it cannot be written, as a mapped file."""
    return np.ctypeslib.as_array((c_uint8 * array.nbytes).from_address(array.ctypes.data))


def _arrays_of(scorer: ctc.Scorer) -> list[np.ndarray]:
    found: list[np.ndarray] = []

    def place(array: np.ndarray) -> int:
        found.append(array)
        return 0

    scorer.table(place)
    return found


class Shortages:
    """What a device had no memory for, by its name and the largest array of the scorers beside it: all sets of phrases
    beside a language model share it. Each is tried once at every size of free memory that is more than before."""

    def __init__(self) -> None:
        self._free: dict[tuple[Hashable, int], tuple[weakref.ref[np.ndarray] | None, int]] = {}

    def noted(self, what: Hashable, scorers: Sequence[ctc.Scorer | None], free: int) -> torch.OutOfMemoryError:
        """From here on `check` refuses this with so much free memory or less; the error that says so."""
        largest = _largest(scorers)
        self._free[what, id(largest)] = (largest if largest is None else weakref.ref(largest), free)
        whose = "the language model" if what == LANGUAGE_MODEL else "a batch of this size"
        return torch.OutOfMemoryError(f"the memory of the GPU does not suffice for {whose}")

    def forget(self, what: Hashable, scorers: Sequence[ctc.Scorer | None]) -> None:
        """It was possible after all."""
        if self._free:
            self._free.pop((what, id(_largest(scorers))), None)

    def check(self, what: Hashable, scorers: Sequence[ctc.Scorer | None], free: Callable[[], int]) -> None:
        """Raises torch.OutOfMemoryError for what had too little memory before, and has no more of it."""
        for array in (None, *_arrays(scorers)) if self._free else ():
            known = self._free.get((what, id(array)))
            if known and (known[0] is None or known[0]() is array) and free() <= known[1]:
                raise self.noted(what, scorers, known[1])


def _arrays(scorers: Sequence[ctc.Scorer | None]) -> Iterator[np.ndarray]:
    return (array for own in filter(None, scorers) for array in _arrays_of(own))


def _largest(scorers: Sequence[ctc.Scorer | None]) -> np.ndarray | None:
    return max(_arrays(scorers), key=lambda array: array.nbytes, default=None)


class DeviceScorers:
    """Scorers on a device as long as they live on the host; what several share lies there once."""

    def __init__(self, device: torch.device, vocabulary: int) -> None:
        self._device, self._vocabulary = device, vocabulary
        self._placed: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
        self._made: weakref.WeakKeyDictionary[ctc.Scorer, tuple[int, object]] = weakref.WeakKeyDictionary()

    def address(self, scorer: ctc.Scorer | None) -> int:
        """Where `transducer_scorer_for_device` has put it; 0 for None."""
        if scorer is None:
            return 0
        if scorer not in self._made:
            kept: list[object] = []

            def place(array: np.ndarray) -> int:
                tensor = self._placed.get(id(array))
                if tensor is None:
                    tensor = torch.from_numpy(_unguarded(array)).to(self._device)
                    self._placed[id(array)] = tensor
                kept.append((array, tensor))  # as long as the tensor the array lives, and no other has its id
                return tensor.data_ptr()

            made = np.zeros(SCORER_BYTES, np.uint8)
            on_device = place(np.frombuffer(bytes(scorer.table(place)), np.uint8))
            make = _cuda_library.DEVICE.loaded().transducer_scorer_for_device
            make(scorer.table(), on_device, self._vocabulary, made)
            self._made[scorer] = place(made), kept
        return self._made[scorer][0]
