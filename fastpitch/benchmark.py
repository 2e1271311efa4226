"""Latency and real-time factor of FastPitch and of every vocoder after it: `python -m fastpitch.benchmark`.

    python -m fastpitch.benchmark --vocoders istft hifigan waveglow --batch_sizes 1 4 8 --precisions fp32 bf16
    python -m fastpitch.benchmark --fastpitch FastPitch.pt --vocoders hifigan_gen.pt --modes eager compiled graph

Every utterance has 128 symbols and 8.05 s, as in the published tables: the durations are given, because those of random
weights mean nothing, and speed does not depend on the weights. Single calls from tokens to mel frames, or to samples,
are timed with the device synchronised before and after, warm-up excluded; the modes take turns. A row per measurement
goes to benchmarks/results/fastpitch_inference.jsonl.

Shapes: B utterances, T symbols, M mel bins.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from common import benchmark, config
from common.benchmark import Timings, TimingSettings
from common.config import ConfigError
from common.devices import distributed
from common.devices.precision import Precision, cast_for_inference, float32_math
from common.features import TTS
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.config import ModelConfig
from fastpitch.acoustic.model import FastPitch
from fastpitch.speaking.runtime import Mode, accelerate, accelerate_vocoder
from fastpitch.vocoders.networks.config import HifiganConfig, IstftConfig, WaveglowConfig
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.istft import IstftGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.vocoder import Denoiser, Generator, Vocoder, VocoderError, load_vocoder

Row = dict[str, Any]
Call = Callable[[], object]

ENGLISH_SYMBOLS = 148  # of the published English symbol set
V2 = HifiganConfig(channels=128)
V3 = HifiganConfig(
    upsample_rates=(8, 8, 4), upsample_kernels=(16, 16, 8), channels=256, resblock="2", resblock_kernels=(3, 5, 7),
    resblock_dilations=((1, 2), (2, 6), (3, 12)),
)  # fmt: skip
RANDOM: dict[str, Callable[[], Generator]] = {
    "istft": lambda: IstftGenerator(IstftConfig(), TTS),
    "hifigan": lambda: HifiganGenerator(HifiganConfig(), TTS.mel_bins),
    "hifigan_v2": lambda: HifiganGenerator(V2, TTS.mel_bins),
    "hifigan_v3": lambda: HifiganGenerator(V3, TTS.mel_bins),
    "waveglow": lambda: Waveglow(WaveglowConfig(), TTS.mel_bins, TTS.hop_samples),
    "waveglow_512": lambda: Waveglow(WaveglowConfig(channels=512), TTS.mel_bins, TTS.hop_samples),
}
COLUMNS = {"what": "what", "mode": "mode", "precision": "precision", "batch": "batch", "p50": "p50 ms", "p90": "p90 ms"}
COLUMNS |= {"p99": "p99 ms", "mean": "mean ms", "times_real_time": "x real", "peak_memory_mib": "MiB"}
COLUMNS["times_faster_than_eager"] = "x eager"


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(TimingSettings):
    """What to measure."""

    fastpitch: Path | None = None
    """Checkpoint of FastPitch; without one, the published size with random weights."""
    vocoders: tuple[str, ...] = ("istft", "hifigan")
    """Vocoders, each measured together with FastPitch: istft, hifigan (V1), hifigan_v2, hifigan_v3, waveglow (256
    channels), waveglow_512, with random weights, or checkpoints."""
    batch_sizes: tuple[int, ...] = (1, 4, 8)
    """Utterances per call."""
    precisions: tuple[Precision, ...] = ("fp32",)
    """Arithmetic of the networks."""
    modes: tuple[Mode, ...] = ("eager",)
    """Execution of the networks: as written, compiled, or replayed as CUDA graphs."""
    symbols: int = 128
    """Symbols per utterance."""
    seconds: float = 8.05
    """Seconds of speech per utterance."""
    sigma: float = 0.9
    """Standard deviation of the noise that WaveGlow starts from."""
    denoising: float = 0.01
    """Strength of the denoiser after HiFi-GAN and WaveGlow; 0 for none. The published tables are with it."""
    cudnn_benchmark: bool = True
    """Whether cuDNN tries its algorithms for each new shape, during the warm-up."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    seed: int = 0
    """Seed of random weights and symbols."""

    def __post_init__(self) -> None:
        if min(self.repeats, self.symbols, *self.batch_sizes) < 1:
            found = f"repeats = {self.repeats}, symbols = {self.symbols}, batch_sizes = {self.batch_sizes}"
            raise ValueError(f"{found}: expected at least 1")
        if self.seconds * TTS.sample_rate < self.symbols * TTS.hop_samples:
            raise ValueError(f"{self.seconds:g} s for {self.symbols} symbols: expected at least a frame for each")


class Text(NamedTuple):
    """A batch of symbols, and durations in frames that sum up to the length that is asked for."""

    tokens_BT: Tensor
    lengths_B: Tensor
    durations_BT: Tensor


def main(cfg: BenchmarkConfig) -> list[Row]:
    """Measures, appends the rows and prints them; returns them. Raises ConfigError, CheckpointError, VocoderError."""
    device = distributed.pick_device(cfg.device)
    for name in cfg.vocoders:
        if name not in RANDOM and not Path(name).is_file():
            raise ConfigError(f"vocoders: {name}: no such file; expected a checkpoint or one of {', '.join(RANDOM)}")
    rows: list[Row] = []
    with torch.backends.cudnn.flags(enabled=True, benchmark=cfg.cudnn_benchmark):
        for row in measured(cfg, device):
            benchmark.print_row(row, COLUMNS, with_heads=not rows)
            rows.append(benchmark.append_row("fastpitch_inference", row, device=device, folder=cfg.results))
    return rows


@torch.inference_mode()
def measured(cfg: BenchmarkConfig, device: torch.device) -> Iterator[Row]:
    """A row per precision, batch size, vocoder (none first) and mode."""
    for precision in cfg.precisions:
        with float32_math(precision):
            models = {mode: _model(cfg, device, precision, mode) for mode in cfg.modes}
            for vocoder in ("", *cfg.vocoders):
                voices = {mode: _voice(vocoder, cfg, device, precision, mode) for mode in cfg.modes}
                for batch in cfg.batch_sizes:
                    text = random_text(cfg, batch, models[cfg.modes[0]].symbols.num_embeddings, device)
                    calls: dict[str, Call] = {mode: _call(models[mode], voices[mode], text, cfg) for mode in cfg.modes}
                    yield from _rows(calls, vocoder, precision, batch, cfg, device)


def _rows(
    calls: dict[str, Call], vocoder: str, precision: Precision, batch: int, cfg: BenchmarkConfig, device: torch.device
) -> Iterator[Row]:
    timings = cfg.compared(calls, device)
    name = Path(vocoder).stem if vocoder else ""
    shared: Row = {"what": f"FastPitch + {name}" if name else "FastPitch", "precision": precision, "batch": batch}
    shared |= {"symbols": cfg.symbols, "seconds_of_audio": cfg.seconds, "clock": cfg.clock}
    shared["denoising"] = cfg.denoising if _is_denoised(vocoder) else 0.0
    for mode, times in timings.items():
        eager = timings.get("eager")
        yield (
            shared
            | {"mode": mode}
            | _speed(times, batch * cfg.seconds, benchmark.peak_memory_mib(calls[mode], device))
            | {"times_faster_than_eager": round(benchmark.ratio(eager, times), 3) if eager else None}
        )


def _model(cfg: BenchmarkConfig, device: torch.device, precision: Precision, mode: Mode) -> FastPitch:
    if cfg.fastpitch is not None:
        from fastpitch.speaking.synthesizer import load

        return accelerate(load(cfg.fastpitch, device=str(device), precision=precision).model, mode)
    torch.manual_seed(cfg.seed)
    with torch.inference_mode(False):  # weights made inside of it cannot tell whether they have changed
        model = FastPitch(ModelConfig(), n_symbols=ENGLISH_SYMBOLS, mel_bins=TTS.mel_bins)
    return accelerate(cast_for_inference(model.to(device), precision), mode)


def _voice(
    name: str, cfg: BenchmarkConfig, device: torch.device, precision: Precision, mode: Mode
) -> Vocoder | Denoiser | None:
    if not name:
        return None
    if name in RANDOM:
        torch.manual_seed(cfg.seed)
        with torch.inference_mode(False):
            vocoder = Vocoder(RANDOM[name](), TTS, name=name, device=device, precision=precision)
    else:
        vocoder = load_vocoder(name, device=str(device), precision=precision)
    vocoder = accelerate_vocoder(vocoder, mode)
    return Denoiser(vocoder, cfg.denoising) if cfg.denoising and _is_denoised(name) else vocoder


def _is_denoised(vocoder: str) -> bool:
    return bool(vocoder) and vocoder != "istft"


def random_text(cfg: BenchmarkConfig, batch: int, n_symbols: int, device: torch.device) -> Text:
    """Random symbols, as many in each utterance."""
    generator = torch.Generator().manual_seed(cfg.seed)
    tokens_BT = torch.randint(1, n_symbols, (batch, cfg.symbols), generator=generator)
    frames = round(cfg.seconds * TTS.sample_rate / TTS.hop_samples)
    ends_T = torch.arange(1, cfg.symbols + 1) * frames // cfg.symbols
    durations_BT = ends_T.diff(prepend=torch.zeros(1, dtype=torch.long)).float().repeat(batch, 1)
    return Text(tokens_BT.to(device), torch.full((batch,), cfg.symbols, device=device), durations_BT.to(device))


def _call(model: FastPitch, voice: Vocoder | Denoiser | None, text: Text, cfg: BenchmarkConfig) -> Call:
    def speak() -> Tensor:
        spectrogram = model.infer(text.tokens_BT, text.lengths_B, durations_BT=text.durations_BT)
        if voice is None:
            return spectrogram.mel_BMT
        return voice(spectrogram.mel_BMT, spectrogram.frames_B, sigma=cfg.sigma)

    return speak


def _speed(times: Timings, seconds: float, memory: int | None) -> Row:
    """`seconds` of speech come out of a call; `times_real_time` is how many of them in a second, at the median."""
    speed = round(seconds / times.percentile(50) * 1e3, 2)
    return {"metric": "latency_ms", **times.summary(), "times_real_time": speed, "peak_memory_mib": memory}


if __name__ == "__main__":
    config.run(main, BenchmarkConfig, __doc__, CheckpointError, VocoderError)
