"""Packed convolutions of few channels beside a bare conv1d: appends rows to benchmarks/results/small_layers.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/small_layers.py [--repeats 400]

A call of a layer, from Python, each side in the layout it likes: microseconds of the least and the median call, the
sides in turns, and whether a recording has the same bits alone and as one of eight.
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from common.benchmark import append_row, compare, spread
from common.convolution.operator import FusedConvolution, prepare

SHAPES = ((3, 16, 16, 100), (3, 16, 16, 500), (1, 64, 29, 100), (1, 64, 29, 500), (7, 8, 8, 2000), (5, 32, 32, 500))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400, help="turns of every comparison (default 400)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for taps, channels, filters, frames in SHAPES:
        torch.manual_seed(0)
        weight_OIK, bias_O = torch.randn(filters, channels, taps), torch.randn(filters)
        layer = FusedConvolution(weight_OIK, bias_O, frames=frames)
        prepare(layer)
        x_BTI = torch.randn(8, frames, channels)
        one_BTI, one_BIT = x_BTI[:1], x_BTI[:1].mT.contiguous()

        def plain(x_BIT: Tensor, weight_OIK: Tensor = weight_OIK, bias_O: Tensor = bias_O) -> Tensor:
            return F.conv1d(x_BIT, weight_OIK, bias_O, padding=weight_OIK.shape[2] // 2)

        calls = {"layer": lambda layer=layer, x=one_BTI: layer(x), "conv1d": lambda x=one_BIT: plain(x)}
        with torch.inference_mode():
            alike = {"layer": torch.equal(layer(x_BTI)[:1], layer(one_BTI))}
            alike["conv1d"] = torch.equal(plain(x_BTI.mT.contiguous())[:1], plain(one_BIT))
            times = compare(calls, device=torch.device("cpu"), warmup=20, repeats=options.repeats)
        row = {"taps": taps, "channels": channels, "filters": filters, "frames": frames, "n": options.repeats}
        least = {name: 1e3 * min(side.milliseconds) for name, side in times.items()}
        row |= {f"{name}_least_us": round(value, 2) for name, value in least.items()}
        row |= {f"{name}_us": round(1e3 * side.percentile(50), 2) for name, side in times.items()}
        row |= {"speed": round(least["conv1d"] / least["layer"], 3), "spread": spread(*times.values())}
        row |= {f"{name}_bits_alike": value for name, value in alike.items()}
        print(row)
        append_row("small_layers", row, device=torch.device("cpu"))


if __name__ == "__main__":
    main()
