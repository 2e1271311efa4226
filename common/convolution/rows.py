"""Linear layers on arrays, by the native library where there is one. Needs no torch.

Shapes: I features in, O out, R rows.
"""

import ctypes
import math
import threading

import numpy as np

from common.convolution import library
from common.convolution.library import ACTIVATIONS, DIRECT, WEIGHTS, Activation, ConvolutionProblem, Weights
from common.convolution.weights.sizes import BOUNDS, Sizes, inverse
from ctc import native

PROBED_ROWS = 2  # of noise of either kind


class Rows:
    """A linear layer, whose weights are packed as `weights` for the kernels.

    What a row gets has the same bits whatever the other rows are; "int8" rounds rows of the input to bytes, too.
    """

    def __init__(
        self, weight_OI: np.ndarray, bias_O: np.ndarray | None, weights: Weights = "float32", *, threads: int = 0
    ) -> None:
        """`threads`: 0 for as many as torch takes, without torch one for each core.

        Weights that "int8" would harm (`Sizes`) are kept in "float32", as `weights` says then.
        """
        self.filters, self.channels = weight_OI.shape
        self.bias_O = None if bias_O is None else np.ascontiguousarray(bias_O, np.float32)
        self.threads, self.weights = threads, weights
        weight_OI = np.ascontiguousarray(weight_OI, np.float32)
        self._library = library.load()
        if self._library is None:
            self._weight = weight_OI
        elif weights == "int8":
            sizes = Sizes(np.square(weight_OI, dtype=np.float64)[None])
            self._pack(self._library, weight_OI, sizes.powers())
            if not self._is_exact_enough(weight_OI, sizes):
                self.weights = "float32"
        if self._library is not None and self.weights != "int8":
            self._pack(self._library, weight_OI, None)

    def _pack(self, made: ctypes.CDLL, weight_OI: np.ndarray, scale_I: np.ndarray | None) -> None:
        self._scale_I = scale_I  # what the problem points to
        # To a multiple of 64 bytes, where vectors begin.
        size = made.convolution_packed_bytes(1, self.channels, self.filters, WEIGHTS[self.weights])
        room = np.empty(size + 64, np.uint8)
        self._weight = room[-room.ctypes.data % 64 :][:size]
        sizes = (DIRECT, 0, 1, 1, self.channels, self.filters, WEIGHTS[self.weights], self._threads())
        scale = None if scale_I is None else scale_I.ctypes.data
        library.check(made.convolution_pack(weight_OI.ctypes.data, scale, None, *sizes, self._weight.ctypes.data))
        problem = ConvolutionProblem(taps=1, channels=self.channels, filters=self.filters, form=DIRECT)
        problem.weights, problem.weight, problem.scale = WEIGHTS[self.weights], self._weight.ctypes.data, scale
        problem.batch = problem.stride = problem.dilation = 1
        problem.input_slope = 1.0
        if self.bias_O is not None:
            problem.bias = self.bias_O.ctypes.data
        self.problem = bytes(problem)

    def _is_exact_enough(self, weight_OI: np.ndarray, sizes: Sizes) -> bool:
        """Whether bytes give noise what floats do, but for what they round away."""
        x_RI = sizes.inputs(PROBED_ROWS).reshape(-1, self.channels)
        found_RO = self(x_RI) - (0.0 if self.bias_O is None else self.bias_O)
        size_RO = np.sqrt(np.square(x_RI, dtype=np.float64) @ sizes.square_OI.T)
        return bool((np.abs(found_RO - x_RI @ weight_OI.T) * inverse(size_RO)).max() <= BOUNDS["int8"])

    def __call__(self, x_RI: np.ndarray, activation: Activation = "identity") -> np.ndarray:
        """y_RO of float32 rows, after "identity", "gelu", or ReLU: "leaky_relu"."""
        if self._library is None:
            return self._plain(x_RI, activation)
        x_RI = np.ascontiguousarray(x_RI, np.float32)
        rows = len(x_RI)
        y_RO = np.empty((rows, self.filters), np.float32)
        if not rows:
            return y_RO
        problem = ConvolutionProblem.from_buffer_copy(self.problem)
        problem.frames = problem.outputs = rows
        problem.x, problem.x_batch_stride, problem.x_frame_stride = x_RI.ctypes.data, x_RI.size, self.channels
        problem.y, problem.y_batch_stride, problem.y_frame_stride = y_RO.ctypes.data, y_RO.size, self.filters
        problem.activation, problem.threads = ACTIVATIONS[activation], self._threads()
        problem.workspace_bytes = self._library.convolution_workspace(ctypes.byref(problem))
        if problem.workspace_bytes > _OWN.room.nbytes:
            _OWN.room = np.empty(problem.workspace_bytes, np.uint8)
        problem.workspace = _OWN.room.ctypes.data
        library.check(self._library.convolution_run(ctypes.byref(problem)))
        return y_RO

    def _threads(self) -> int:
        return self.threads or native.threads()

    def _plain(self, x_RI: np.ndarray, activation: Activation) -> np.ndarray:
        y_RO = np.matmul(self._weight, x_RI[:, :, None])[..., 0]  # a product for each row: its bits are its own
        if self.bias_O is not None:
            y_RO += self.bias_O
        if activation == "gelu":
            return y_RO * (0.5 + 0.5 * _erf(y_RO / np.float32(np.sqrt(2.0))))
        return np.maximum(y_RO, 0.0) if activation == "leaky_relu" else y_RO


_erf = np.vectorize(math.erf, otypes=[np.float32])


class _Workspace(threading.local):
    def __init__(self) -> None:
        self.room = np.empty(0, np.uint8)


_OWN = _Workspace()
