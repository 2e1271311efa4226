"""Transducer losses beside plain torch and transformers: appends rows to benchmarks/results/transducer_loss.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/transducer_loss.py [--repeats 5] [--only losses|errors|fused|trained]
    OMP_NUM_THREADS=1 python benchmarks/transducer_loss.py --only trained --model MODEL --test TEST

Losses with their gradient from logits: RNN-T against anti-diagonals in torch, TDT against transformers' tdt_loss. "In
place" the gradient takes the place of the logits; otherwise most of the time goes into page faults of a fresh one.
Errors: against float64. Fused: with the joint, on a synthetic alignment; the other sides make all logits, and have
anti-diagonals or the native loss behind them. Trained: the same of the lattices that a trained TDT model (a checkpoint)
has of its longest utterances, transformers' loss behind all logits. Seconds of processor time, the sides in turns.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.transducer_sides import (
    JointProblem,
    LossProblem,
    antidiagonals,
    joint_problem,
    loss_problem,
    trained_problems,
    unfused_logits,
)
from common.benchmark import Timings, append_row, compare, peak_memory, ratio, spread
from fastconformer.transducer.loss._loss_library import TransducerLossOptions, TransducerTargets
from fastconformer.transducer.loss.fused_loss import joint_loss
from fastconformer.transducer.loss.losses import SKIP_BELOW, rnnt_loss, tdt_loss
from fastconformer.transducer.loss.plain_losses import plain_losses

CPU = torch.device("cpu")
DURATIONS = (0, 1, 2, 3, 4)
Row = dict[str, object]
TRAINED = 8  # utterances, the longest
SHAPES = ((8, 200, 50, 1024), (8, 100, 40, 128))


def loss_rows(repeats: int) -> Iterator[Row]:
    for batch, frames, labels, classes in SHAPES:
        shape: Row = {"batch": batch, "frames": frames, "labels": labels, "classes": classes}
        for loss, durations in (("RNN-T", ()), ("TDT", DURATIONS)):
            problem = loss_problem(batch, frames, labels, classes + len(durations), classes)
            other = "transformers" if durations else "torch"
            sides = {
                "in place": (ours(problem, durations, in_place=True), torch.clone),
                "ours": (ours(problem, durations), torch.Tensor.detach),
                other: (
                    transformers_side(problem, durations) if durations else torch_side(problem),
                    torch.Tensor.detach,
                ),
            }
            times = gradients(sides, problem.logits_BTUW.detach(), repeats)
            row: Row = {"metric": "loss and gradient", "loss": loss, **shape, "other": other, "n": repeats}
            row |= {"in_place_ms_p50": times["in place"].percentile(50), "ms_p50": times["ours"].percentile(50)}
            row |= {"other_ms_p50": times[other].percentile(50), "spread": spread(*times.values())}
            row |= {"in_place_times_faster": ratio(times[other], times["in place"])}
            row |= {"times_faster": ratio(times[other], times["ours"])}
            yield row


Side = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]


def gradients(sides: dict[str, Side], logits_BTUW: Tensor, repeats: int) -> dict[str, Timings]:
    """Times loss and gradient of every side, in turns; a side makes its logits first, which does not count."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, (loss, prepared) in sides.items():
            given_BTUW = prepared(logits_BTUW).requires_grad_()
            start = time.process_time()
            torch.autograd.grad(loss(given_BTUW), given_BTUW)
            if turn > 0:
                times[name].append((time.process_time() - start) * 1e3)
    return {name: Timings(values) for name, values in times.items()}


def ours(problem: LossProblem, durations: tuple[int, ...], **options) -> Callable[[Tensor], Tensor]:
    if durations:
        return lambda logits_BTUW: tdt_loss(logits_BTUW, *problem[1:], durations, reduction="sum", **options)
    return lambda logits_BTUW: rnnt_loss(logits_BTUW, *problem[1:], reduction="sum", **options)


def torch_side(problem: LossProblem) -> Callable[[Tensor], Tensor]:
    return lambda logits_BTUV: antidiagonals(logits_BTUV, problem.targets_BL)


def transformers_side(problem: LossProblem, durations: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    from transformers.loss.loss_tdt import tdt_loss as other

    classes = problem.logits_BTUW.shape[3] - len(durations)

    def loss(logits_BTUW: Tensor) -> Tensor:
        parts = (logits_BTUW[..., :classes], logits_BTUW[..., classes:])
        lengths = (problem.targets_BL, problem.frames_B, problem.labels_B)
        return other(*parts, *lengths, classes - 1, list(durations), reduction="sum")

    return loss


def error_rows() -> Iterator[Row]:
    batch, frames, labels, classes = 1, 200, 50, 64
    for loss, durations in (("RNN-T", ()), ("TDT", DURATIONS)):
        problem = loss_problem(batch, frames, labels, classes + len(durations), classes)
        exact = problem.logits_BTUW.detach().double().requires_grad_()
        options = TransducerLossOptions(blank=classes - 1, durations=tuple(durations))
        expected = plain_losses(exact, TransducerTargets(*problem[1:]), options).sum()
        (expected_gradient,) = torch.autograd.grad(expected, exact)
        found = ours(problem, durations)(problem.logits_BTUW)
        (gradient,) = torch.autograd.grad(found, problem.logits_BTUW)
        row: Row = {"metric": "error", "loss": loss, "frames": frames, "labels": labels, "classes": classes}
        row["relative_error_of_the_loss"] = abs(found.item() / expected.item() - 1)
        row["largest_error_of_the_gradient"] = (gradient.double() - expected_gradient).abs().max().item()
        yield row


def fused_rows(repeats: int) -> Iterator[Row]:
    frames, labels, joint, classes = 200, 50, 640, 1024
    shape: Row = {"frames": frames, "labels": labels, "joint": joint, "classes": classes}
    many = joint_problem(8, frames, labels, joint, classes, sharpness=0.25)
    sides = {
        "fused": lambda: joint_loss(*many, reduction="sum").backward(),
        "unfused": lambda: rnnt_loss(unfused_logits(many), *many[4:], reduction="sum").backward(),
    }
    needed = {}
    for name, call in sides.items():
        for x in many.inputs:
            x.grad = torch.zeros_like(x)  # the gradients are there already
        needed[name] = peak_memory(call, CPU) - sum(x.numel() * x.element_size() for x in many.inputs)
    row: Row = {"metric": "fused memory", "batch": 8, **shape, "mib": needed["fused"] / 2**20}
    yield row | {"unfused_mib": needed["unfused"] / 2**20, "times_less": needed["unfused"] / needed["fused"]}

    one = joint_problem(1, frames, labels, joint, classes, sharpness=0.25)
    losses: dict[str, Callable[[], Tensor]] = {
        "torch": lambda: antidiagonals(unfused_logits(one), one.targets_BL),
        "unfused": lambda: rnnt_loss(unfused_logits(one), *one[4:], reduction="sum"),
        "all cells": lambda: joint_loss(*one, reduction="sum", skip_below=0.0),
        "fused": lambda: joint_loss(*one, reduction="sum"),
    }
    calls = {name: lambda loss=loss: torch.autograd.grad(loss(), one.inputs) for name, loss in losses.items()}
    times = compare(calls, device=CPU, warmup=1, repeats=repeats, clock=time.process_time)
    whole, most = calls["all cells"](), calls["fused"]()
    error = max(float((a - b).norm() / b.norm()) for a, b in zip(most, whole, strict=True))
    row = {"metric": "fused time", "batch": 1, **shape, "skip_below": SKIP_BELOW, "kept": kept_share(one), "n": repeats}
    row |= {f"{name.replace(' ', '_')}_ms_p50": timings.percentile(50) for name, timings in times.items()}
    row["spread"] = spread(*times.values())
    row |= {
        "all_cells_times_torch": ratio(times["all cells"], times["torch"]),
        "times_faster_than_torch": ratio(times["torch"], times["fused"]),
        "times_faster_than_unfused": ratio(times["unfused"], times["fused"]),
        "error_of_skipping": error,
    }
    yield row


def trained_rows(path: str, manifest: str, repeats: int) -> Iterator[Row]:
    """Utterances one by one, with all their times added up."""
    problems, durations = trained_problems(path, manifest, TRAINED)
    sides: dict[str, Callable[[JointProblem], Tensor]] = {
        "transformers": lambda one: transformers_side(as_logits(one), durations)(unfused_logits(one)),
        "unfused": lambda one: tdt_loss(unfused_logits(one), *one[4:], durations, reduction="sum"),
        "all cells": lambda one: joint_loss(*one, durations, reduction="sum", skip_below=0.0),
        "fused": lambda one: joint_loss(*one, durations, reduction="sum"),
    }

    def gradients_of(loss: Callable[[JointProblem], Tensor]) -> list[tuple[Tensor, ...]]:
        return [torch.autograd.grad(loss(one), one.inputs) for one in problems]

    calls = {name: lambda loss=loss: gradients_of(loss) for name, loss in sides.items()}
    times = compare(calls, device=CPU, warmup=1, repeats=repeats, clock=time.process_time)
    errors = [
        float((a - b).norm() / b.norm())
        for most, whole in zip(calls["fused"](), calls["all cells"](), strict=True)
        for a, b in zip(most, whole, strict=True)
    ]
    kept = [kept_share(one, durations) for one in problems]
    weight_WJ = problems[0].weight_VJ
    row: Row = {"metric": "trained time", "batch": 1, "utterances": len(problems), "loss": "TDT", "n": repeats}
    row |= {"frames": max(one.encoded_BTJ.shape[1] for one in problems)}
    row |= {"labels": max(one.targets_BL.shape[1] for one in problems)}
    row |= {"joint": weight_WJ.shape[1], "outputs": weight_WJ.shape[0], "skip_below": SKIP_BELOW}
    row |= {"kept": sum(kept) / len(kept)}
    row |= {f"{name.replace(' ', '_')}_ms_p50": timings.percentile(50) for name, timings in times.items()}
    row["spread"] = spread(*times.values())
    row |= {
        "all_cells_times_transformers": ratio(times["all cells"], times["transformers"]),
        "times_faster_than_transformers": ratio(times["transformers"], times["fused"]),
        "times_faster_than_unfused": ratio(times["unfused"], times["fused"]),
        "error_of_skipping": max(errors),
    }
    yield row


def as_logits(problem: JointProblem) -> LossProblem:
    """What the loss of logits is computed of."""
    return LossProblem(unfused_logits(problem), *problem[4:])


def kept_share(problem: JointProblem, durations: tuple[int, ...] = ()) -> float:
    logits_BTUW = unfused_logits(problem).detach().requires_grad_()
    loss = ours(as_logits(problem), durations)(logits_BTUW)
    return (torch.autograd.grad(loss, logits_BTUW)[0] != 0).any(3).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison")
    parser.add_argument(
        "--only",
        choices=["losses", "errors", "fused", "trained"],
        help="measurement to make; by default all, trained if there is a model",
    )
    parser.add_argument("--model", help="checkpoint of a TDT model, for trained")
    parser.add_argument("--test", help="manifest or corpus folder of its utterances")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {
        "losses": lambda: loss_rows(options.repeats),
        "errors": error_rows,
        "fused": lambda: fused_rows(options.repeats),
    }
    if options.only == "trained" and not (options.model and options.test):
        parser.error("trained: expected --model and --test")
    if options.model and options.test:
        rows["trained"] = lambda: trained_rows(options.model, options.test, options.repeats)
    for name, make in rows.items():
        if options.only in (None, name):
            for row in make():
                rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
                print(append_row("transducer_loss", {"precision": "fp32", **rounded}, device=CPU), flush=True)


if __name__ == "__main__":
    main()
