"""The CTC loss beside plain torch: appends rows to benchmarks/results/ctc_loss.jsonl.

    python benchmarks/ctc_loss.py [--shapes T,L,V,B ...] [--repeats 20] [--ragged | --two-threads | --stars]

What is compared and how is described in `ctc.benchmark`. With --ragged: utterances of half the frames to all of them.
With --two-threads: how many times as fast two threads are as one, for the loss, for copying and for computing. With
--stars: the kernel without and with a star in each transcript.
"""

import argparse

import torch

from common.benchmark import Timings, append_row, spread
from ctc import benchmark as loss

Row = dict[str, object]


def one_thread_row(shape: tuple[int, int, int, int], repeats: int, is_ragged: bool = False) -> Row:
    times = loss.measure(*shape, repeats, is_ragged)
    ms = loss.medians(times)
    row: Row = {"lengths": "ragged" if is_ragged else "full", "metric": "latency_ms", **_spread(times)}
    row |= {f"{name}_p50": round(ms[name], 4) for name in loss.CONTESTANTS}
    row |= {f"times_torch_{name}": round(ms["torch"] / ms[name], 1) for name in ("fresh", "pooled", "kernel")}
    return row | {"times_the_copy": round(ms["kernel"] / ms["copy"], 2)}


def ragged_row(shape: tuple[int, int, int, int], repeats: int) -> Row:
    return one_thread_row(shape, repeats, is_ragged=True)


def two_threads_row(shape: tuple[int, int, int, int], repeats: int) -> Row:
    times = loss.two_threads(*shape, repeats)
    return {"metric": "two_threads"} | {f"times_one_thread_{name}": round(value, 2) for name, value in times.items()}


def stars_row(shape: tuple[int, int, int, int], repeats: int) -> Row:
    times = loss.stars(*shape, repeats)
    ms = loss.medians(times)
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
        type=loss.parse_shape,
        default=loss.SMALL + loss.MODELS + loss.LARGE,
        metavar="T,L,V,B",
        help=loss.SHAPES_HELP,
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
