"""The CTC loss beside plain torch: appends rows to benchmarks/results/ctc_loss.jsonl.

    python benchmarks/ctc_loss.py [--shapes T,L,V,B ...] [--repeats 20] [--ragged | --two-threads | --stars]

Every repeat runs all contestants once, in a random order; rows have medians of processor time for loss and gradient
from float32 logits. "fresh" allocates the gradient, "pooled" lends it (`GradientPool`), "kernel" is the C function
alone on buffers that exist; "copy" copies the logits once, which is the least that any implementation must do. With
--ragged: utterances of half the frames to all of them. With --two-threads: how many times as fast two threads are as
one, for the loss, for copying and for computing. With --stars: the kernel without and with a star in each transcript.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from common.benchmark import Timings, append_row, spread
from ctc.bindings._loss_library import LossOptions, TargetLabels, run
from ctc.loss import ctc_loss
from ctc.loss.memory import GradientPool

SMALL = [(150, 40, 28, batch) for batch in (1, 16, 32, 64, 128)]
LARGE = [(150, 20, 5000, batch) for batch in (1, 16, 32, 64, 128)]
CONTESTANTS = ("torch", "fresh", "pooled", "kernel", "copy")
MODELS = [(835, 200, 29, 32), (500, 150, 32, 16)]
SHAPES_HELP = "frames, labels of a transcript, classes with the blank, utterances (default: sizes of real models)"


def contestants(T: int, L: int, V: int, B: int, is_ragged: bool = False) -> dict[str, Callable[[], object]]:
    """What is compared, on one random batch; of utterances of T / 2 to T frames where they are ragged."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(T, B, V, generator=generator, requires_grad=True)
    targets = torch.randint(1, V, (B, L), generator=generator)
    frames = torch.randint(T // 2, T + 1, (B,), generator=generator) if is_ragged else torch.full((B,), T)
    labels = frames * L // T
    pool, gradient, copied = GradientPool(), torch.empty(T, B, V), torch.empty(T, B, V)
    arguments, options = TargetLabels(targets, frames, labels, L), LossOptions(reduction="sum")
    data = logits.detach()

    def gradient_of(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, logits)[0]

    return {
        "torch": lambda: gradient_of(F.ctc_loss(F.log_softmax(logits, 2), targets, frames, labels, reduction="sum")),
        "fresh": lambda: gradient_of(ctc_loss(logits, targets, frames, labels, reduction="sum")),
        "pooled": lambda: gradient_of(ctc_loss(logits, targets, frames, labels, reduction="sum", pool=pool)),
        "kernel": lambda: run(data, arguments, options, gradient),
        "copy": lambda: copied.copy_(data),
    }


def timed(rivals: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Milliseconds of each run, interleaved; the first run of each is not counted."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    shuffle = random.Random(0).shuffle
    for repeat in range(repeats + 1):
        shuffle(order)
        for name in order:
            start = clock()
            rivals[name]()
            if repeat > 0:
                times[name].append(1e3 * (clock() - start))
    return times


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: statistics.median(values) for name, values in times.items()}


def measure(T: int, L: int, V: int, B: int, repeats: int = 20, is_ragged: bool = False) -> dict[str, list[float]]:
    """Milliseconds of the runs of every contestant, on as many threads as torch is set to."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    return timed(contestants(T, L, V, B, is_ragged), repeats, clock)


def two_threads(T: int, L: int, V: int, B: int, repeats: int = 20) -> dict[str, float]:
    """How many times as fast two threads are as one: at the loss, and at what limits it, copying and arithmetic."""
    loss = contestants(T, L, V, B)["pooled"]
    numbers, copied = torch.randn(1 << 23), torch.empty(1 << 23)
    work = {"loss": loss, "copy": lambda: copied.copy_(numbers), "arithmetic": lambda: torch.sin(numbers, out=copied)}

    def on(threads: int, call: Callable[[], object]) -> Callable[[], object]:
        def run_on() -> object:
            torch.set_num_threads(threads)
            return call()

        return run_on

    rivals = {f"{name} {threads}": on(threads, call) for name, call in work.items() for threads in (1, 2)}
    ms = medians(timed(rivals, repeats, time.perf_counter))
    torch.set_num_threads(1)
    return {name: ms[f"{name} 1"] / ms[f"{name} 2"] for name in work}


def stars(T: int, L: int, V: int, B: int, repeats: int = 20) -> dict[str, list[float]]:
    """Milliseconds of the kernel without stars, with one amid each transcript, and with it in extended range."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(T, B, V, generator=generator)
    plain = torch.randint(1, V, (B, L), generator=generator)
    starred = plain.clone()
    starred[:, L // 2] = -1
    frames, labels, gradient = torch.full((B,), T), torch.full((B,), L), torch.empty(T, B, V)

    def kernel(targets: Tensor, options: LossOptions) -> Callable[[], object]:
        arguments = TargetLabels(targets, frames, labels, L)
        return lambda: run(logits, arguments, options, gradient)

    rivals = {
        "plain": kernel(plain, LossOptions(reduction="sum")),
        "star": kernel(starred, LossOptions(reduction="sum", star=-1)),
        "extended": kernel(starred, LossOptions(reduction="sum", star=-1, extended_range=True)),
    }
    return timed(rivals, repeats, time.process_time if torch.get_num_threads() == 1 else time.perf_counter)


def parse_shape(text: str) -> tuple[int, int, int, int]:
    """(T, L, V, B) of "T,L,V,B"."""
    T, L, V, B = map(int, text.split(","))
    return T, L, V, B


Row = dict[str, object]


def one_thread_row(shape: tuple[int, int, int, int], repeats: int, is_ragged: bool = False) -> Row:
    times = measure(*shape, repeats, is_ragged)
    ms = medians(times)
    row: Row = {"lengths": "ragged" if is_ragged else "full", "metric": "latency_ms", **_spread(times)}
    row |= {f"{name}_p50": round(ms[name], 4) for name in CONTESTANTS}
    row |= {f"times_torch_{name}": round(ms["torch"] / ms[name], 1) for name in ("fresh", "pooled", "kernel")}
    return row | {"times_the_copy": round(ms["kernel"] / ms["copy"], 2)}


def ragged_row(shape: tuple[int, int, int, int], repeats: int) -> Row:
    return one_thread_row(shape, repeats, is_ragged=True)


def two_threads_row(shape: tuple[int, int, int, int], repeats: int) -> Row:
    times = two_threads(*shape, repeats)
    return {"metric": "two_threads"} | {f"times_one_thread_{name}": round(value, 2) for name, value in times.items()}


def stars_row(shape: tuple[int, int, int, int], repeats: int) -> Row:
    times = stars(*shape, repeats)
    ms = medians(times)
    row: Row = {"metric": "stars", **_spread(times)} | {f"{name}_p50": round(value, 4) for name, value in ms.items()}
    row["star_times_plain"] = round(ms["star"] / ms["plain"], 2)
    return row | {"extended_times_star": round(ms["extended"] / ms["star"], 2)}


def _spread(times: dict[str, list[float]]) -> Row:
    return {"spread": spread(*map(Timings, times.values()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shapes",
        nargs="+",
        type=parse_shape,
        default=SMALL + MODELS + LARGE,
        metavar="T,L,V,B",
        help=SHAPES_HELP,
    )
    parser.add_argument("--repeats", type=int, default=20, help="turns of every comparison (default 20)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--ragged",
        action="store_const",
        dest="row",
        const=ragged_row,
        help="utterances of half the frames to all of them",
    )
    what.add_argument(
        "--two-threads",
        action="store_const",
        dest="row",
        const=two_threads_row,
        help="two threads against one",
    )
    what.add_argument(
        "--stars",
        action="store_const",
        dest="row",
        const=stars_row,
        help="transcripts with a star against those without",
    )
    parser.set_defaults(row=one_thread_row)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for shape in options.shapes:
        sizes = dict(zip(("frames", "labels", "classes", "batch"), shape, strict=True))
        row: Row = {"precision": "fp32", **sizes, "n": options.repeats}
        row |= options.row(shape, options.repeats)
        print(append_row("ctc_loss", row, device=torch.device("cpu")), flush=True)


if __name__ == "__main__":
    main()
