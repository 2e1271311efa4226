"""The native library on tensors: convolutions, with a workspace for each thread; `library.py` declares it."""

import ctypes
import functools
import math
import threading
import time
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from common.convolution.algorithms import Algorithm, in_float32
from common.convolution.library import (
    ACTIVATIONS,
    BYTES,
    DIRECT,
    HALVES,
    INSTRUCTIONS,
    PAIRS,
    PANEL,
    PLAIN,
    WEIGHTS,
    WORKSPACE_TOO_SMALL,
    Activation,
    ConvolutionProblem,
    Instructions,
    Weights,
    best_instructions,
    check,
    load,
)

__all__ = [  # with what `library.py` declares of it
    "BYTES", "INSTRUCTIONS", "PANEL", "WEIGHTS", "Activation", "ConvolutionProblem", "Epilogue", "Instructions",
    "PackedConvolution", "Weights", "best_instructions", "check", "fastest_for_bfloat16", "fits", "load", "loaded",
    "pack", "run", "unpack", "workspace",
]  # fmt: skip
DTYPES: dict[Weights, torch.dtype] = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "fixed24": torch.uint8, "int8": torch.uint8
}  # fmt: skip


class PackedConvolution(NamedTuple):
    """A convolution's weights in the order of the kernels, and the matrices of its algorithm."""

    weight: Tensor
    """float32, bfloat16, or bytes of fixed point and of int8."""
    taps: int
    channels: int
    filters: int
    algorithm: Algorithm | None
    """None: direct."""
    input: Tensor
    output: Tensor
    instructions: Instructions = "automatic"
    weights: Weights = "float32"
    scale_I: Tensor | None = None
    """What the weights were divided by, and the input is multiplied by on the way in."""
    sizes: bytes = b""
    """A `ConvolutionProblem` with the numbers that all calls have in common."""


def fits(
    algorithm: Algorithm | None, taps: int, stride: int, weights: Weights, instructions: Instructions = "automatic"
) -> bool:
    """Whether the library packs and runs such weights. Needs the library."""
    block = 0 if algorithm is None else algorithm.block
    numbers = _form(algorithm), block, taps, stride, WEIGHTS[weights], INSTRUCTIONS[instructions]
    return bool(loaded().convolution_fits(*numbers))


def pack(
    weight_OKI: Tensor,
    algorithm: Algorithm | None,
    *,
    weights: Weights = "float32",
    scale_I: Tensor | None = None,
    instructions: Instructions = "automatic",
) -> PackedConvolution:
    """float32 weights [O, K, I], on the CPU, kept as `weights` for `run` by those instructions. Needs the library.

    Of fixed point and bytes, weights are divided by `scale_I`, and `run` multiplies the input by it; "int8" rounds
    inputs to bytes too. RuntimeError for what does not `fits`.
    """
    library = loaded()
    filters, taps, channels = weight_OKI.shape
    weight_OKI = weight_OKI.float().contiguous()
    stored, block = (taps, 0) if algorithm is None else (algorithm.stored, algorithm.block)
    dtype = DTYPES[weights]
    n_bytes = library.convolution_packed_bytes(stored, channels, filters, WEIGHTS[weights])
    packed = torch.empty(n_bytes // dtype.itemsize, dtype=dtype)
    transform = None if algorithm is None else _kept_transform(algorithm).contiguous()
    pointers = (None if tensor is None else tensor.data_ptr() for tensor in (weight_OKI, scale_I, transform))
    sizes = (block, stored, taps, channels, filters, WEIGHTS[weights], torch.get_num_threads())
    check(library.convolution_pack(*pointers, _form(algorithm), *sizes, packed.data_ptr()))
    matrices = torch.empty(0), torch.empty(0)
    if algorithm is not None and algorithm.halves is not None:
        cosine_EE, sine_OE, output_MN, _ = algorithm.halves
        matrices = in_float32([cosine_EE, sine_OE]), in_float32([output_MN])
    elif algorithm is not None:
        matrices = in_float32([algorithm.input_PN]), in_float32([algorithm.output_MP])
    problem = ConvolutionProblem(
        taps=taps, channels=channels, filters=filters, form=_form(algorithm), weights=WEIGHTS[weights]
    )
    problem.block, problem.points = block, 0 if algorithm is None else algorithm.points
    problem.instructions = INSTRUCTIONS[instructions]
    return PackedConvolution(
        packed, taps, channels, filters, algorithm, *matrices, instructions, weights, scale_I, bytes(problem)
    )


def check_packable(weight: Tensor, packed: PackedConvolution | None, weights: Weights) -> None:
    """Raises ValueError for weights of a layer that are not float32 on the CPU, and for what rounded them before.

    `packed`: what has been made of them, if anything; `weights`: as which they are to be packed now.
    """
    kept = weights if packed is None else packed.weights
    if kept != weights and kept in ("bfloat16", "int8"):
        raise ValueError(f"weights to pack as {weights}: they are packed as {kept}, which rounded them; load them anew")
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        told = f"found {str(weight.dtype).removeprefix('torch.')} on {weight.device}"
        raise ValueError(f"weights to pack as {weights}: expected float32 on the CPU, {told}")


def _form(algorithm: Algorithm | None) -> int:
    if algorithm is None:
        return DIRECT
    if algorithm.halves is None:
        return PLAIN
    return PAIRS if algorithm.in_pairs else HALVES


def _kept_transform(algorithm: Algorithm) -> Tensor:
    """[points or N, K] what makes of taps the weights that are kept."""
    return algorithm.halves.weight_NK if algorithm.halves and algorithm.in_pairs else algorithm.weight_PK


def unpack(packed: PackedConvolution) -> Tensor:
    """The float32 weights [K, I, O] that were packed, but for rounding."""
    algorithm, panels = packed.algorithm, -(-packed.filters // PANEL)
    pair = {"bfloat16": 2, "int8": 4}.get(packed.weights, 1)
    depth = -(-packed.channels // pair) * pair
    weight = _from_whole_numbers(packed, depth) if packed.weights in ("fixed24", "int8") else packed.weight

    def rows(values: Tensor, *slabs: int) -> Tensor:
        """[*slabs, depth, PANEL], with rows of bfloat16 no longer interleaved."""
        return values.view(*slabs, depth // pair, PANEL, pair).transpose(-2, -1).flatten(-3, -2)

    if algorithm is None:
        kept = rows(weight, panels, packed.taps).transpose(0, 1)
    elif not algorithm.in_pairs:
        kept = rows(weight, algorithm.points, panels)
    else:
        n_edges = 2 - algorithm.block % 2
        single = n_edges * panels * depth * PANEL
        edges, both = weight[:single], weight[single:]
        edges = rows(edges, n_edges, panels)
        by_part = both.view(-1, depth // pair, 2, PANEL * pair).transpose(1, 2).contiguous()
        parts = rows(by_part.flatten(), by_part.shape[0] // panels, panels, 2)
        kept = torch.cat([edges[:1], parts[:, :, 0], edges[1:], parts[:, :, 1]])
    kept = kept[:, :, : packed.channels].transpose(1, 2).flatten(2)[..., : packed.filters].float()

    def scaled(weight_KIO: Tensor) -> Tensor:
        return (weight_KIO if packed.scale_I is None else weight_KIO * packed.scale_I[:, None]).float()

    if algorithm is None:
        return scaled(kept)
    inverse_K = torch.linalg.pinv(_kept_transform(algorithm))
    return scaled((inverse_K @ kept.double().flatten(1)).view(packed.taps, *kept.shape[1:]))


def _from_whole_numbers(packed: PackedConvolution, depth: int) -> Tensor:
    """The same weights in the same order, as float32."""
    panels = -(-packed.filters // PANEL)
    slabs = panels * (1 if packed.algorithm is None else packed.algorithm.stored)
    n_bytes = slabs * depth * PANEL * BYTES[packed.weights]
    rows, units = packed.weight[:n_bytes], packed.weight[n_bytes : n_bytes + slabs * PANEL * 4]
    units_SJ = units.clone().view(torch.float32).view(slabs, PANEL)
    if packed.weights == "int8":
        whole_SDJ = rows.view(torch.int8).view(slabs, depth // 4, PANEL, 4)
        units_SJ = units_SJ.repeat_interleave(4, 1).view(slabs, PANEL, 4)
    else:
        words = F.pad(rows.view(-1, 3), (1, 0)).view(torch.int32)  # in the upper three quarters
        whole_SDJ = words.view(slabs, depth, PANEL)
    if packed.algorithm is not None and packed.algorithm.in_pairs:  # both parts alternate, in units of the first
        single = (2 - packed.algorithm.block % 2) * panels
        units_SJ = torch.cat([units_SJ[:single], units_SJ[single::2].repeat_interleave(2, 0)])
    return (whole_SDJ * units_SJ[:, None]).flatten()


class Epilogue(NamedTuple):
    """What happens to inputs on the way in, and to sums on the way out."""

    bias_O: Tensor | None = None
    residual_BSO: Tensor | None = None
    activation: Activation = "identity"
    slope: float = 0.0
    """Slope of the leaky ReLU; ceiling of the clipped one."""
    input_slope: float = 1.0
    """Slope of a leaky ReLU of the input."""


def run(
    x_BTI: Tensor,
    packed: PackedConvolution,
    epilogue: Epilogue,
    out_BSO: Tensor,
    *,
    stride: int = 1,
    dilation: int = 1,
    before: int = 0,
    output_lengths_B: Tensor | None = None,
) -> None:
    """Writes the convolution of x_BTI, zeros around it, to out_BSO, and zeros beyond output_lengths_B (int64).

    Values are float32, channels adjacent in memory.
    """
    bias_O, residual_BSO, activation, slope, input_slope = epilogue
    problem = ConvolutionProblem.from_buffer_copy(packed.sizes)
    problem.weight = packed.weight.data_ptr()
    if packed.algorithm is not None:
        problem.input, problem.output = packed.input.data_ptr(), packed.output.data_ptr()
    if packed.scale_I is not None:
        problem.scale = packed.scale_I.data_ptr()
    problem.batch, problem.frames, channels = x_BTI.shape
    _, problem.outputs, filters = out_BSO.shape
    if (channels, filters) != (packed.channels, packed.filters):
        raise ValueError(f"channels {channels} to {filters}: expected {packed.channels} to {packed.filters}")
    problem.stride, problem.dilation, problem.before = stride, dilation, before
    problem.x, (problem.x_batch_stride, problem.x_frame_stride, _) = x_BTI.data_ptr(), x_BTI.stride()
    problem.y, (problem.y_batch_stride, problem.y_frame_stride, _) = out_BSO.data_ptr(), out_BSO.stride()
    if output_lengths_B is not None:
        problem.output_lengths = output_lengths_B.data_ptr()
    if bias_O is not None:
        problem.bias = bias_O.data_ptr()
    if residual_BSO is not None:
        problem.residual = residual_BSO.data_ptr()
        problem.residual_batch_stride, problem.residual_frame_stride, _ = residual_BSO.stride()
    problem.activation, problem.output_slope, problem.input_slope = ACTIVATIONS[activation], slope, input_slope
    problem.threads = torch.get_num_threads()
    library = loaded()
    points = _OWN.points
    problem.workspace, problem.workspace_bytes = points.data_ptr(), points.numel()
    status = library.convolution_run(ctypes.byref(problem))
    if status == WORKSPACE_TOO_SMALL:  # to ask for its size before each call would take a third longer
        problem.workspace_bytes = library.convolution_workspace(ctypes.byref(problem))
        with torch.inference_mode(False):
            points = _OWN.points = torch.empty(problem.workspace_bytes, dtype=torch.uint8)
        problem.workspace = points.data_ptr()
        status = library.convolution_run(ctypes.byref(problem))
    check(status)


@functools.cache
def fastest_for_bfloat16() -> Instructions:
    """Whether to multiply in bfloat16 or to widen weights to floats: some processors do the first at half the speed."""
    if best_instructions() != "avx512_bf16":
        return "automatic"
    x_BTI, weight_OKI, out_BTO = torch.ones(1, 96, 256), torch.ones(256, 1, 256), torch.empty(1, 96, 256)
    seconds: dict[Instructions, float] = {"automatic": math.inf, "avx512_bf16": math.inf}
    for _ in range(5):
        for instructions in seconds:
            packed = pack(weight_OKI, None, weights="bfloat16", instructions=instructions)
            start = time.thread_time()  # what else this machine does must not choose
            run(x_BTI, packed, Epilogue(), out_BTO, stride=1, dilation=1, before=0)
            seconds[instructions] = min(seconds[instructions], time.thread_time() - start)
    return min(seconds, key=lambda instructions: seconds[instructions])


BYTE = torch.empty(0, dtype=torch.uint8)


class _Workspace(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self.points = BYTE  # of `run`


_OWN = _Workspace()


def workspace(like: Tensor, name: str, *shape: int) -> Tensor:
    """This thread's buffer of that name, of the type and on the device of `like`, with whatever was in it before.

    It grows and stays: fresh memory costs a fault per page, which takes as long as some layers.
    """
    key, size = (name, like.dtype, like.device), math.prod(shape)
    if key not in _OWN.buffers or _OWN.buffers[key].numel() < size:
        with torch.inference_mode(False):
            _OWN.buffers[key] = torch.empty(size, dtype=like.dtype, device=like.device)
    return _OWN.buffers[key][:size].view(shape)


def loaded() -> ctypes.CDLL:
    """The library, after `load` has told that it is there."""
    library = load()
    assert library is not None, "callers ask `load` first"
    return library
