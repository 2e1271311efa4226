"""Seconds of audio per second of every vocoder: `python -m fastpitch.vocoders.benchmark --vocoders v1 waveglow256`.

A vocoder is the name of a TOML file in configs/hifigan or configs/waveglow, with random weights, or a checkpoint (.pt).
The layouts of HiFi-GAN and WaveGlow for CPUs are compared with the published networks whose weight normalisation is
folded (mode `plain`: the same operations as published); both take turns, and the row says how far their audio is apart.
Single calls are timed, warm-up excluded. A row per measurement goes to benchmarks/results/vocoders.jsonl.

Shapes: B utterances, M mel bins, T frames.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from common import benchmark, config
from common.benchmark import TimingSettings
from common.config import ConfigError
from common.devices import distributed
from common.devices.precision import DTYPES, Precision, cast_for_inference, float32_math
from common.features import LogMelConfig
from common.runs.checkpoint import CheckpointError
from common.threads import torch_threads
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.networks.fused import FusedHifigan
from fastpitch.vocoders.networks.fused_waveglow import FusedWaveglow
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.vocoder import Generator, load_generator

COLUMNS = {"vocoder": "vocoder", "mode": "mode", "precision": "precision", "batch": "batch", "p50": "p50 ms"}
COLUMNS |= {"p99": "p99 ms", "times_real_time": "x real", "times_faster_than_plain": "x plain"}
COLUMNS["greatest_difference"] = "difference"


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(TimingSettings):
    """What to measure."""

    vocoders: tuple[str, ...] = ("istft", "quickstart", "v1", "v2", "v3", "waveglow256")
    """Names of configurations (v1, istft, waveglow256 ...), or checkpoints."""
    frames: int = 693
    """Frames per utterance; 693 are the 8.05 s of the published tables."""
    batch_sizes: tuple[int, ...] = (1,)
    """Utterances per call."""
    precisions: tuple[Precision, ...] = ("fp32",)
    """Arithmetic of the networks."""
    threads: int = 1
    """Threads of torch on a CPU."""
    repeats: int = 5
    """Calls that are timed."""
    warmup: int = 1
    """Calls before those that are timed."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    seed: int = 0
    """Seed of random weights and spectrograms."""

    def __post_init__(self) -> None:
        if min(self.frames, self.repeats, self.threads, *self.batch_sizes) < 1:
            found = f"frames = {self.frames}, repeats = {self.repeats}, threads = {self.threads}"
            raise ValueError(f"{found}, batch_sizes = {self.batch_sizes}: expected at least 1")


def main(cfg: BenchmarkConfig) -> list[dict[str, Any]]:
    """Measures, appends the rows and prints them; returns them. Raises ConfigError and CheckpointError."""
    device = distributed.pick_device(cfg.device)
    rows: list[dict[str, Any]] = []
    with torch_threads(cfg.threads):
        for row in measurements(cfg, device):
            benchmark.print_row(row, COLUMNS, with_heads=not rows)
            rows.append(benchmark.append_row("vocoders", row, device=device, folder=cfg.results))
    return rows


@torch.inference_mode()
def measurements(cfg: BenchmarkConfig, device: torch.device) -> Iterator[dict[str, Any]]:
    """A row per vocoder, precision, batch size and mode."""
    for name in cfg.vocoders:
        generator, features = _vocoder(name, cfg.seed)
        for precision in cfg.precisions:
            networks = _modes(generator, device, precision)
            for batch in cfg.batch_sizes:
                draw = torch.Generator().manual_seed(cfg.seed)
                mel_BMT = torch.randn(batch, features.mel_bins, cfg.frames, generator=draw) * 1.5 - 5
                mel_BMT = mel_BMT.to(device, DTYPES[precision])
                calls = {mode: partial(_voice, network, mel_BMT) for mode, network in networks.items()}
                with float32_math(precision):
                    said = {mode: call().float() for mode, call in calls.items()}
                    timings = cfg.compared(calls, device)
                seconds = cfg.frames * features.hop_samples / features.sample_rate
                for mode, times in timings.items():
                    row = {"vocoder": name, "mode": mode, "precision": precision, "batch": batch, "clock": cfg.clock}
                    row |= {"seconds_of_audio": round(seconds, 3), "metric": "latency_ms", **times.summary()}
                    row["times_real_time"] = round(batch * seconds / times.percentile(50) * 1e3, 2)
                    if mode != "plain" and "plain" in timings:
                        row["times_faster_than_plain"] = round(benchmark.ratio(timings["plain"], times), 3)
                        row["greatest_difference"] = float(f"{(said[mode] - said['plain']).abs().max():.3g}")
                    yield row


def _voice(network: Generator, mel_BMT: Tensor) -> Tensor:
    if not isinstance(network, Waveglow | FusedWaveglow):
        return network(mel_BMT)
    group = network.cfg.group
    positions = mel_BMT.shape[2] * network.hop_samples // group
    noise_BGP = 0.6 * torch.randn(len(mel_BMT), group, positions, generator=torch.Generator().manual_seed(0))
    return network.inverse(mel_BMT, noise_BGP.to(mel_BMT))


def _modes(generator: Generator, device: torch.device, precision: Precision) -> dict[str, Generator]:
    networks: dict[str, Generator] = {"plain": generator}
    if isinstance(generator, HifiganGenerator) and device.type == "cpu":
        networks["fused"] = FusedHifigan(generator)
    elif isinstance(generator, Waveglow) and device.type == "cpu":
        networks["fused"] = FusedWaveglow(generator)
    return {mode: cast_for_inference(network.to(device), precision) for mode, network in networks.items()}


def _vocoder(name: str, seed: int) -> tuple[Generator, LogMelConfig]:
    if name.endswith(".pt"):
        loaded = load_generator(Path(name))
        return loaded.generator, loaded.features
    torch.manual_seed(seed)
    schemas: dict[str, type[HifiganRun | WaveglowRun]] = {"hifigan": HifiganRun, "waveglow": WaveglowRun}
    for folder, schema in schemas.items():
        path = config.packaged() / folder / f"{name}.toml"
        if path.is_file():
            cfg = config.load(schema, path)
            return _audible(build_generator(cfg)).eval(), cfg.features
    known = sorted(path.stem for folder in schemas for path in (config.packaged() / folder).glob("*.toml"))
    raise ConfigError(f"vocoders: {name!r}: expected a checkpoint (.pt) or one of {', '.join(known)}")


def _audible(generator: Generator) -> Generator:
    """Weights that keep the size of what passes, as trained ones do: initial ones would fade it to nothing."""
    if isinstance(generator, HifiganGenerator):
        for parameter in generator.parameters():
            if parameter.ndim == 3:
                nn.init.normal_(parameter, 0.0, parameter[0].numel() ** -0.5)
    if isinstance(generator, Waveglow):
        for name, parameter in generator.named_parameters():
            if name.endswith("end.weight"):  # zeros at first
                nn.init.normal_(parameter, 0.0, 0.02)
    return generator


if __name__ == "__main__":
    with config.reported(CheckpointError):
        main(config.command_line(BenchmarkConfig, description=__doc__ or ""))
