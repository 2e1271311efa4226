"""Latency of inference and throughput of training: `python -m jasper.benchmark configs/jasper/jasper10x5dr.toml`.

    python -m jasper.benchmark CONFIG.toml --precisions fp16 bf16 --modes eager fused graph
    python -m jasper.benchmark CONFIG.toml --task training --batch_sizes 64 --seconds 16.7 --precisions bf16

Inputs are noise of fixed length, the same in every run; weights are random unless `--checkpoint` names some. Single
calls are timed with the device synchronised before and after, warm-up excluded; the modes of inference take turns. A
row per measurement goes to benchmarks/results/jasper_inference.jsonl or jasper_training.jsonl, beside the published
network to jasper_published.jsonl, and in int8 to jasper_int8.jsonl. Training runs under torchrun too.

Shapes: B utterances, N samples, F mel bands, T feature frames.
"""

import copy
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from common import benchmark, config
from common.audio import waveform
from common.benchmark import USUAL, Timings, TimingSettings
from common.config import ConfigError
from common.convolution import native
from common.convolution.native import Instructions, PackedConvolution
from common.convolution.operator import FusedConvolution
from common.convolution.products import left_to_torch
from common.data.loading import loader
from common.data.manifest import Utterance, write_jsonl
from common.devices import distributed, memory
from common.devices.distributed import World
from common.devices.graphs import GraphRunner
from common.devices.host_copy import HostCopy
from common.devices.precision import DTYPES, InferencePrecision, Precision, cast_for_inference, float32_math
from common.features import LogMel
from common.recognition.training import WeightedBatch
from common.runs.checkpoint import CheckpointError
from common.runs.logging import RunLogger
from common.runs.run_directory import RunDirectory
from common.training.state import TrainingError
from jasper.checkpoints.reading import read_model
from jasper.config import Config
from jasper.network.fused import fuse
from jasper.network.model import Jasper, JasperOutput
from jasper.train import update
from jasper.training.run import NAME, Run

Mode = Literal["published", "eager", "fused", "graph", "fused_fp32"]
Part = Literal["features", "network", "both"]
Network = Callable[[Tensor, Tensor], JasperOutput]
Row = dict[str, Any]

LABELS_PER_SECOND = 13  # of LibriSpeech
COLUMNS = {"config": "model", "mode": "mode", "part": "part", "processes": "processes", "precision": "precision"}
COLUMNS |= {"batch": "batch", "seconds_of_audio": "seconds", "p50": "p50 ms", "p90": "p90 ms", "p99": "p99 ms"}
COLUMNS |= {"mean": "mean ms", "utterances_per_second": "utt/s", "times_real_time": "x real", "peak_memory_mib": "MiB"}
COLUMNS |= {"times_faster_than_eager": "x eager", "times_faster_than_published": "x publ."}
COLUMNS |= {"times_faster_than_fused_fp32": "x fp32", "weights_mib": "MiB weights"}


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(TimingSettings, Config):
    """What to measure, and the run whose model and training step are measured."""

    USUAL: ClassVar = USUAL
    task: Literal["inference", "training"] = "inference"
    """Work that is measured: calls of features and network, or optimiser steps."""
    batch_sizes: tuple[int, ...] = ()
    """Utterances per call (and process). By default 1 2 4 8 16 for inference, batch_size for training."""
    seconds: tuple[float, ...] = ()
    """Lengths of the audio, in seconds. By default 2, 7 and 16.7 for inference, data.max_seconds for training."""
    precisions: tuple[InferencePrecision, ...] = ()
    """Arithmetic of the network, one or several; by default that of the configuration. int8: inference on a CPU."""
    modes: tuple[Mode, ...] = ()
    """Forms of the network: as published (plain convolutions in fp32, whatever the precision), as trained, fused for
    inference, fused and replayed as a CUDA graph, or fused in fp32 whatever the precision. By default eager, fused and,
    on a GPU, graph; for int8 fused_fp32 and fused."""
    instructions: Instructions = "automatic"
    """Vector instructions of the fused network's convolutions on a CPU, avx512_bf16 for bf16 alone; ONEDNN_MAX_CPU_ISA
    sets those of torch."""
    parts: tuple[Part, ...] = ("features", "network", "both")
    """Parts that are measured: audio to features, features to log-probabilities, or audio to log-probabilities."""
    cudnn_benchmark: bool = True
    """Whether cuDNN tries its algorithms for each new shape, during the warm-up."""
    name: str = ""
    """Name of the model in the rows; by default that of the TOML file or of the checkpoint."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repeats < 1:
            raise ValueError(f"repeats = {self.repeats}: expected at least 1")


def main(cfg: BenchmarkConfig) -> list[Row]:
    """Measures, appends the rows and prints them; returns them (in the first process). Raises ConfigError."""
    task = {"inference": inference, "training": training}[cfg.task]
    cudnn = torch.backends.cudnn.flags(enabled=True, benchmark=cfg.cudnn_benchmark)
    rows: list[Row] = []
    usual = "jasper_published" if cfg.task == "inference" and "published" in cfg.modes else f"jasper_{cfg.task}"
    with distributed.start(cfg.device) as world, cudnn:
        for row in task(cfg, world):
            if world.is_main:
                columns = {column: head for column, head in COLUMNS.items() if column in row}
                benchmark.print_row(row, columns, with_heads=not rows)
                name = "jasper_int8" if row["precision"] == "int8" else usual
                rows.append(benchmark.append_row(name, row, device=world.device, folder=cfg.results))
    return rows


def inference(cfg: BenchmarkConfig, world: World) -> Iterator[Row]:
    """A row per precision, length, batch size, part and mode."""
    device = world.device
    model, cfg = _model(cfg)
    modes_of = {precision: _modes(cfg, precision, device) for precision in cfg.precisions or (cfg.precision,)}
    log_mel = LogMel(cfg.features).to(device).eval()
    for precision, modes in modes_of.items():
        with float32_math(precision), torch.inference_mode():
            networks = _networks(model.to(device), modes, precision, cfg.instructions)
            dtype = DTYPES[precision] if device.type == "cuda" else torch.float32  # on a CPU networks cast them
            shared = {"config": cfg.name, "precision": precision, "instructions": cfg.instructions}
            shared["clock"] = cfg.clock
            for seconds in cfg.seconds or (2.0, 7.0, 16.7):
                for batch in cfg.batch_sizes or (1, 2, 4, 8, 16):
                    audio_BN, samples_B = noise(batch, seconds, cfg, device)
                    calls = _calls(log_mel, networks, audio_BN, samples_B, dtype, cfg.parts)
                    timings = cfg.compared(calls, device)
                    for name, times in timings.items():
                        part, _, mode = name.partition(" ")
                        row = shared | {"batch": batch, "seconds_of_audio": seconds, "part": part, "mode": mode}
                        row |= _speed(times, batch, seconds, benchmark.peak_memory_mib(calls[name], device))
                        if mode:
                            row["weights_mib"] = _weights_mib(networks[cast("Mode", mode)])
                        for other in ("eager", "published", "fused_fp32"):
                            slow = timings.get(f"{part} {other}")
                            row[f"times_faster_than_{other}"] = round(benchmark.ratio(slow, times), 3) if slow else None
                        yield row


def _modes(cfg: BenchmarkConfig, precision: InferencePrecision, device: torch.device) -> tuple[Mode, ...]:
    """Forms of the network that are measured in a precision. Raises ConfigError for what it or this machine has not."""
    if "graph" in cfg.modes and device.type != "cuda":
        raise ConfigError(f"modes: graph needs a CUDA device, and this run is on {device}; take eager and fused")
    if precision == "int8" and "eager" in cfg.modes:
        raise ConfigError("modes: eager has no int8; take fused, fused_fp32 and published")
    if cfg.instructions != "automatic":
        best = native.best_instructions()
        if best is not None and native.INSTRUCTIONS[cfg.instructions] > native.INSTRUCTIONS[best]:
            raise ConfigError(f"instructions: {cfg.instructions}: this processor has {best} at most")
        if cfg.instructions == "avx512_bf16" and (precision != "bf16" or "fused_fp32" in cfg.modes):
            raise ConfigError("instructions: avx512_bf16 is for bf16 alone; take automatic")
    if cfg.modes:
        return cfg.modes
    if precision == "int8":
        return "fused_fp32", "fused"
    return ("eager", "fused", "graph") if device.type == "cuda" else ("eager", "fused")


def training(cfg: BenchmarkConfig, world: World) -> Iterator[Row]:
    """A row per precision, length and batch size, of the whole optimiser step from audio on the host."""
    for precision in cfg.precisions or (cfg.precision,):
        if precision == "int8":
            raise ConfigError("precisions: int8 is for inference; take fp32, tf32, bf16 or fp16")
        for seconds in cfg.seconds or (cfg.data.max_seconds,):
            for batch in cfg.batch_sizes or (cfg.batch_size,):
                kept = memory.kept() if world.device.type == "cpu" else nullcontext()  # as in a training
                with tempfile.TemporaryDirectory() as folder, float32_math(precision), kept, memory.uncollected():
                    run = _training_run(cfg, world, Path(folder), precision, seconds, batch)
                    yield _time_training(run, world, Path(folder), seconds)


def _time_training(cfg: BenchmarkConfig, world: World, folder: Path, seconds: float) -> Row:
    with closing(RunLogger(folder, enabled=False)) as log:
        run = Run(cfg, RunDirectory(folder, NAME, world, log, None))
    batch = next(iter(loader(run.train_set, [list(range(cfg.batch_size))], workers=0)))
    weighted = WeightedBatch(batch, torch.ones(cfg.batch_size))
    losses: list[HostCopy] = []

    def step() -> None:
        losses.append(HostCopy(world.mean(update(run, weighted).loss_1)))

    def published() -> None:
        with left_to_torch():
            step()

    calls = {"published": published, "": step} if "published" in cfg.modes else {"": step}
    timings = cfg.compared(calls, world.device)
    (loss,) = losses[-1].tolist()
    if not math.isfinite(loss):
        raise ConfigError(f"the loss of step {len(losses)} is {loss}: what was timed is no training")
    peak = benchmark.peak_memory_mib(step, world.device)
    about = {"config": cfg.name, "precision": cfg.precision, "batch": cfg.batch_size, "seconds_of_audio": seconds}
    about |= {"clock": cfg.clock, "processes": world.size, "grad_accumulation": cfg.grad_accumulation, "ema": cfg.ema}
    about["times_faster_than_published"] = (
        round(benchmark.ratio(timings["published"], timings[""]), 3) if "published" in timings else None
    )
    return about | _speed(timings[""], cfg.batch_size * world.size, seconds, peak)


def _training_run(
    cfg: BenchmarkConfig, world: World, folder: Path, precision: Precision, seconds: float, batch: int
) -> BenchmarkConfig:
    """`cfg` on utterances of noise with random letters, written to `folder`."""
    random = np.random.default_rng(cfg.seed)
    rate = cfg.features.sample_rate
    waveform.write(folder / "noise.wav", 0.1 * random.standard_normal(round(seconds * rate)).astype(np.float32), rate)
    letters = [label for label in cfg.model.labels if not label.isspace()]
    utterances = [
        Utterance(
            id=f"noise-{i}",
            audio=folder / "noise.wav",
            seconds=seconds,
            text="".join(random.choice(letters, round(seconds * LABELS_PER_SECOND))),
        )
        for i in range(batch * world.size)
    ]
    write_jsonl(folder / "noise.jsonl", utterances)
    data = replace(
        cfg.data, root=folder, train=("noise.jsonl",), validation=(), speakers=(), max_seconds=seconds,
        trim_silence=False, normalize_text=False, speed=type(cfg.data.speed)(),
    )  # fmt: skip
    return replace(cfg, data=data, batch_size=batch, precision=precision, output_dir=folder, resume=False)


def _model(cfg: BenchmarkConfig) -> tuple[Jasper, BenchmarkConfig]:
    """The model of the checkpoint, or of the configuration with random weights, and the configuration it has."""
    if cfg.checkpoint is not None:
        model, imported = read_model(cfg.checkpoint)
        own = imported.config
        return model, replace(cfg, model=own.model, features=own.features, name=cfg.name or cfg.checkpoint.stem)
    torch.manual_seed(cfg.seed)
    return Jasper(cfg.model, cfg.features.mel_bins).eval(), cfg


def _networks(
    model: Jasper, modes: tuple[Mode, ...], precision: InferencePrecision, instructions: Instructions
) -> dict[Mode, Network]:
    networks: dict[Mode, Network] = {"published": model} if "published" in modes else {}
    if "eager" in modes:
        own = model if DTYPES[precision] == torch.float32 else copy.deepcopy(model)
        networks["eager"] = cast_for_inference(own, precision)
    if "fused_fp32" in modes:
        networks["fused_fp32"] = cast_for_inference(fuse(model), "fp32", instructions)
    if "fused" in modes or "graph" in modes:
        fused = cast_for_inference(fuse(model), precision, instructions)
        networks |= {"fused": fused} if "fused" in modes else {}
        networks |= {"graph": GraphRunner(fused, fused)} if "graph" in modes else {}
    return networks


def _weights_mib(network: Network) -> int | None:
    """MiB of parameters, buffers and packed weights; None of a CUDA graph."""
    if not isinstance(network, nn.Module):
        return None
    tensors = [*network.parameters(), *network.buffers()]
    for module in network.modules():
        if isinstance(module, FusedConvolution) and isinstance(module.packed, PackedConvolution):
            tensors.append(module.packed.weight)
    return round(sum(tensor.nbytes for tensor in tensors) / 2**20)


def _calls(
    log_mel: LogMel,
    networks: Mapping[Mode, Network],
    audio_BN: Tensor,
    samples_B: Tensor,
    dtype: torch.dtype,
    parts: tuple[Part, ...],
) -> dict[str, Callable[[], object]]:
    """What is timed, by "part mode"; features have no mode."""

    def features() -> tuple[Tensor, Tensor]:
        features_BFT, frames_B = log_mel(audio_BN, samples_B)
        return features_BFT.to(dtype), frames_B

    def both(network: Network) -> JasperOutput:
        return network(*features())

    ready = features()
    calls: dict[str, Callable[[], object]] = {"features": features} if "features" in parts else {}
    for mode, network in networks.items():
        if "network" in parts:
            calls[f"network {mode}"] = partial(network, *ready)
        if "both" in parts:
            calls[f"both {mode}"] = partial(both, network)
    return calls


def noise(batch: int, seconds: float, cfg: Config, device: torch.device) -> tuple[Tensor, Tensor]:
    """Noise of that length, and how many samples each utterance has."""
    samples = round(seconds * cfg.features.sample_rate)
    generator = torch.Generator().manual_seed(cfg.seed)
    audio_BN = 0.1 * torch.randn(batch, samples, generator=generator)
    return audio_BN.to(device), torch.full((batch,), samples, device=device)


def _speed(times: Timings, utterances: int, seconds: float, memory: int | None) -> Row:
    summary = times.summary()
    per_second = utterances / summary["mean"] * 1e3
    speed = {"utterances_per_second": round(per_second, 2), "times_real_time": round(per_second * seconds, 2)}
    return {"metric": "latency_ms", **summary, **speed, "peak_memory_mib": memory}


if __name__ == "__main__":
    with config.reported(CheckpointError, TrainingError):
        main(benchmark.command_line(BenchmarkConfig, __doc__))
