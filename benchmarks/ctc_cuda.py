"""Times the loss on a GPU beside torch's own kernel and cuDNN's: `python benchmarks/ctc_cuda.py [--shapes T,L,V,B …]`.

Every repeat runs all contestants once, in a random order; the table shows medians in microseconds, between two events
of the stream, for loss and gradient from logits with full lengths:

- torch, cudnn: `log_softmax` and `F.ctc_loss` without and with cuDNN, which takes float32 only; "-" where cuDNN refuses
- ours: `ctc_loss` and its backward pass, as a model calls it
- kernels: the kernels of that alone, replayed from a CUDA graph into memory that exists
- copy: the logits copied once, replayed likewise

"of copy" is the part of the bandwidth of copying a gigabyte, measured in the same run, at which "kernels" read the
logits once and write the gradient once. Lengths are on the device for us and for torch, on the host for cuDNN.
"""

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.ctc_loss import LARGE, MODELS, SHAPES_HELP, SMALL, parse_shape
from ctc._interruption import EndedByTheUser
from ctc.bindings import _cuda_library
from ctc.bindings._loss_library import LossOptions, TargetLabels
from ctc.loss import ctc_loss

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
CONTESTANTS = ("torch", "cudnn", "ours", "kernels", "copy")
GIGABYTE = 1 << 30


@contextmanager
def cudnn(enabled: bool) -> Iterator[None]:
    """Whether `F.ctc_loss` may call cuDNN, inside."""
    with torch.backends.cudnn.flags(enabled=enabled):
        yield


def captured(call: Callable[[], object]) -> Callable[[], object]:
    """`call` as a CUDA graph."""
    warm_up = torch.cuda.Stream()
    with torch.cuda.stream(warm_up):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def contestants(T: int, L: int, V: int, B: int, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """What is compared, on one random batch."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(T, B, V, generator=generator).to("cuda", dtype).requires_grad_()
    targets = torch.randint(1, V, (B, L), generator=generator, dtype=torch.int32)
    frames, labels = torch.full((B,), T, dtype=torch.int32), torch.full((B,), L, dtype=torch.int32)
    on_device = targets.cuda(), frames.cuda(), labels.cuda()
    on_host = targets.flatten(), frames, labels
    data, gradient, copied = logits.detach(), torch.empty_like(logits), torch.empty_like(logits)
    arguments = TargetLabels(*on_device, L)

    def theirs(arguments: tuple[Tensor, Tensor, Tensor], is_cudnn: bool) -> Tensor:
        with cudnn(is_cudnn):
            loss = F.ctc_loss(logits.log_softmax(2, dtype=torch.float32), *arguments, reduction="sum")
            return torch.autograd.grad(loss, logits)[0]

    rivals: dict[str, Callable[[], object]] = {
        "torch": lambda: theirs(on_device, False),
        "ours": lambda: torch.autograd.grad(ctc_loss(logits, *on_device, reduction="sum"), logits)[0],
        "kernels": captured(lambda: _cuda_library.run(data, arguments, LossOptions(reduction="sum"), gradient)),
        "copy": captured(lambda: copied.copy_(data)),
    }
    if torch._use_cudnn_ctc_loss(data.float(), *on_host, 0):
        rivals["cudnn"] = lambda: theirs(on_host, True)
    return rivals


def medians(rivals: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median microseconds of each, interleaved; the first two runs of each are not counted."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    shuffle = random.Random(0).shuffle
    for repeat in range(repeats + 2):
        shuffle(order)
        for name in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            rivals[name]()
            end.record()
            torch.cuda.synchronize()
            if repeat >= 2:
                times[name].append(1e3 * start.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def copy_bandwidth(repeats: int) -> float:
    """Bytes read and written in a second by copying a gigabyte."""
    source, target = torch.empty(2, GIGABYTE, dtype=torch.uint8, device="cuda")
    source.random_()
    return 2 * GIGABYTE / (1e-6 * medians({"copy": lambda: target.copy_(source)}, repeats)["copy"])


def difference(T: int, L: int, V: int, B: int) -> float:
    """Relative error (L2) of the gradient from float32 logits against torch's in float64, as a check of the timings."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(T, B, V, generator=generator).cuda().requires_grad_()
    targets = torch.randint(1, V, (B, L), generator=generator).cuda()
    lengths = torch.full((B,), T).cuda(), torch.full((B,), L).cuda()
    (found,) = torch.autograd.grad(ctc_loss(logits, targets, *lengths, reduction="sum"), logits)
    exact = F.ctc_loss(logits.double().log_softmax(2), targets, *lengths, reduction="sum")
    (expected,) = torch.autograd.grad(exact, logits)
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def main() -> None:
    """Prints one line for each type and shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shapes", nargs="+", type=parse_shape, default=SMALL + MODELS + LARGE, metavar="T,L,V,B", help=SHAPES_HELP
    )
    parser.add_argument(
        "--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES), help="types of the logits (default all)"
    )
    parser.add_argument("--repeats", type=int, default=20, help="turns of every comparison (default 20)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit(f"error: this torch ({torch.__version__}) sees no CUDA device")
    bandwidth = copy_bandwidth(options.repeats)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, median of {options.repeats}, microseconds")
    print(f"copying a gigabyte: {bandwidth / 1e12:.2f} TB/s read and written")
    errors = ", ".join(f"{shape}: {difference(*shape):.1e}" for shape in (SMALL[1], MODELS[0], LARGE[1]))
    print(f"gradient against torch in float64: {errors}")
    titles = ["type", "T, L, V, B", *CONTESTANTS, "torch/ours", "torch/kernels", "cudnn/kernels", "of copy"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for name in options.dtypes:
        for T, L, V, B in options.shapes:
            times = medians(contestants(T, L, V, B, DTYPES[name]), options.repeats)
            moved = 2 * T * B * V * torch.finfo(DTYPES[name]).bits / 8
            columns = [_shown(times.get(rival)) for rival in CONTESTANTS]
            columns += [_shown(times["torch"] / times[rival]) for rival in ("ours", "kernels")]
            columns += [_shown(times["cudnn"] / times["kernels"] if "cudnn" in times else None)]
            columns += [f"{moved / (1e-6 * times['kernels']) / bandwidth:.0%}"]
            print(f"| {name} | {T}, {L}, {V}, {B} | {' | '.join(columns)} |", flush=True)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    with EndedByTheUser():
        main()
