"""NovoGrad and the average of the weights over the parameters of Jasper 10x5, against a loop over the tensors.

    python benchmarks/optim.py

Also compares with the bytes that a step has to move, at the speed at which this machine moves bytes. Needs 7 GB of
memory. One thread on a CPU. Appends a row to benchmarks/results/optim.jsonl.
"""

import argparse

import torch
from torch import nn

from common.benchmark import append_row, compare, ratio, spread
from common.training.ema import Ema
from common.training.optimizers import NovoGrad
from jasper.config import BlockConfig, ModelConfig
from jasper.network.model import Jasper

LR, BETA, EPS, WEIGHT_DECAY, EMA_DECAY = 1e-4, 0.95, 1e-8, 1e-3, 0.999

# A step reads the gradient for its norm and again for the update, and reads and writes weight and momentum; the
# average of the weights, which nothing keeps in a cache until the step is over, reads both and writes one.
NOVOGRAD_PASSES, EMA_PASSES = 6, 3


def jasper_10x5() -> nn.Module:
    widths = [(256, 11), (384, 13), (512, 17), (640, 21), (768, 25)]
    dense = [BlockConfig(filters=f, kernel=k, repeat=5, residual="dense") for f, k in widths for _ in range(2)]
    first = BlockConfig(filters=256, kernel=11, stride=2)
    last = [BlockConfig(filters=896, kernel=29, dilation=2), BlockConfig(filters=1024, kernel=1)]
    return Jasper(ModelConfig(blocks=(first, *dense, *last)), 64)


class NovoGradLoop:
    """One tensor after the other, asking each whether it is new."""

    def __init__(self, parameters: list[nn.Parameter]):
        self.parameters = parameters
        self.momenta = [torch.zeros_like(p) for p in parameters]
        self.moments = [torch.zeros((), device=p.device) for p in parameters]

    @torch.no_grad()
    def step(self) -> None:
        for weight, momentum, moment in zip(self.parameters, self.momenta, self.moments, strict=True):
            energy = weight.grad.square().sum()
            if moment == 0:
                moment.copy_(energy)
            else:
                moment.mul_(0).add_(energy)
            update = weight.grad / (moment.sqrt() + EPS)
            update.add_(weight, alpha=WEIGHT_DECAY)
            momentum.mul_(BETA).add_(update)
            weight.add_(momentum, alpha=-LR)


@torch.no_grad()
def average_in_a_loop(averages: dict[str, torch.Tensor], values: dict[str, torch.Tensor]) -> None:
    for name, value in values.items():
        averages[name].copy_(averages[name] * EMA_DECAY + value * (1 - EMA_DECAY))


def compare_steps(device: torch.device) -> dict[str, object]:
    model = jasper_10x5().to(device)
    parameters = list(model.parameters())
    draw = torch.Generator(device).manual_seed(0)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=draw, device=device)
    optimizer = NovoGrad(parameters, lr=LR, betas=(BETA, 0.0), eps=EPS, weight_decay=WEIGHT_DECAY)
    loop, ema = NovoGradLoop(parameters), Ema(model, EMA_DECAY)
    moved, more = (torch.ones(2**26, device=device) for _ in range(2))
    calls = {
        "novograd loop": loop.step,
        "novograd": optimizer.step,
        "ema loop": lambda: average_in_a_loop(ema.state_dict(), model.state_dict()),
        "ema": ema.update,
        # Reads two arrays and writes one: how fast this machine moves bytes, at the same time as the others.
        "move": lambda: moved.add_(more, alpha=1e-9),
    }
    times = compare(calls, device=device, warmup=1, repeats=5)
    step = times["novograd"].percentile(50) + times["ema"].percentile(50)
    step_loop = times["novograd loop"].percentile(50) + times["ema loop"].percentile(50)
    size = sum(parameter.nbytes for parameter in parameters)
    speed = 3 * moved.nbytes / (times["move"].percentile(50) / 1e3)
    return {
        "metric": "latency_ms",
        "what": "NovoGrad + EMA step, Jasper 10x5",
        "tensors": len(parameters),
        "parameters": sum(parameter.numel() for parameter in parameters),
        "spread": spread(*times.values()),
        "p50": round(step, 2),
        "loop_p50": round(step_loop, 2),
        "times_faster": round(step_loop / step, 2),
        "novograd_times_faster": round(ratio(times["novograd loop"], times["novograd"]), 2),
        "ema_times_faster": round(ratio(times["ema loop"], times["ema"]), 2),
        "gigabytes": round((NOVOGRAD_PASSES + EMA_PASSES) * size / 1e9, 2),
        "gigabytes_per_second": round((NOVOGRAD_PASSES + EMA_PASSES) * size / step / 1e6, 2),
        "machine_gigabytes_per_second": round(speed / 1e9, 2),
        "times_the_bytes_bound": round(step / 1e3 / ((NOVOGRAD_PASSES + EMA_PASSES) * size / speed), 2),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    row = compare_steps(device)
    print(row)
    append_row("optim", row, device=device)


if __name__ == "__main__":
    main()
