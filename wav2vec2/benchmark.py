"""Speed beside `transformers` and beside the published contrastive loss: `python -m wav2vec2.benchmark --help`.

    python -m wav2vec2.benchmark configs/wav2vec2/base.toml --task inference --seconds 10
    python -m wav2vec2.benchmark configs/wav2vec2/toy.toml --task pretraining --audio LibriSpeech --batch_size 8
    python -m wav2vec2.benchmark --task contrast

The sides take turns in one run, and the ratio is the median over the turns. Weights are random; audio is noise unless
`--audio` names a folder of recordings, of which as many as are needed are cut to `--seconds`. A row per side goes to
benchmarks/results/wav2vec2_<task>.jsonl.

Shapes: B utterances, N samples, M masked frames, C width in which they are compared, K distractors.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from common import audio, benchmark, config, distributed
from common.benchmark import RESULTS, Timings
from common.config import ConfigError
from common.precision import DTYPES, Precision, autocast, float32_math
from wav2vec2 import huggingface
from wav2vec2.config import LearningConfig, ModelConfig
from wav2vec2.extractor import n_frames
from wav2vec2.masking import MaskConfig, Targets, draw_targets
from wav2vec2.model import Wav2Vec2
from wav2vec2.objective import ObjectiveConfig, contrast
from wav2vec2.pretraining import Wav2Vec2ForPretraining
from wav2vec2.quantizer import TemperatureConfig
from wav2vec2.reference import published_loss

SAMPLE_RATE = 16000
Calls = dict[str, Callable[[], object]]  # by side
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """What to measure."""

    model: ModelConfig = field(default_factory=ModelConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    temperature: TemperatureConfig = field(default_factory=TemperatureConfig)
    task: Literal["inference", "pretraining", "contrast"] = "inference"
    """Audio to representations; whole optimiser steps; the contrastive loss and its gradient."""
    sides: tuple[Literal["ours", "hourglass", "transformers"], ...] = ("ours", "hourglass", "transformers")
    """inference: who takes part. A model with an hourglass has no other side."""
    hourglass: str = "[2,(8,4),2]"
    """inference: the shortening of a third side; empty for none."""
    batch_size: int = 1
    """Utterances per call."""
    seconds: float = 10.0
    """Their length."""
    audio: Path | None = None
    """Folder of recordings to take them from instead of noise."""
    precision: Precision = "fp32"
    """Arithmetic of the network."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    repeats: int = 5
    """Turns that are timed."""
    warmup: int = 1
    """Turns before them that are not."""
    seed: int = 0
    """Weights, noise and masks are functions of it."""
    name: str = ""
    """What the rows call the model; by default the name of the TOML file."""
    results: Path = RESULTS
    """Folder of the files that rows are appended to."""

    def __post_init__(self) -> None:
        if not self.sides:
            raise ValueError("sides: expected at least one of ours, hourglass, transformers")
        if min(self.batch_size, self.repeats) < 1 or self.seconds <= 0:
            raise ValueError(
                f"batch_size = {self.batch_size}, repeats = {self.repeats}, seconds = {self.seconds}: expected above 0"
            )


def main(cfg: BenchmarkConfig) -> list[Row]:
    """Measures, appends the rows and prints them; returns them. Raises ConfigError."""
    device = distributed.pick_device(cfg.device)
    torch.manual_seed(cfg.seed)
    task = {"inference": inference, "pretraining": pretraining, "contrast": contrastive}[cfg.task]
    with float32_math(cfg.precision):
        calls = task(cfg, device)
        timings = benchmark.compare(calls, device=device, warmup=cfg.warmup, repeats=cfg.repeats)
        rows = list(_rows(cfg, calls, timings, device))
    for row in rows:
        print(_line(row), flush=True)
        benchmark.append_row(f"wav2vec2_{cfg.task}", row, device=device, folder=cfg.results)
    return rows


def inference(cfg: BenchmarkConfig, device: torch.device) -> Calls:
    """Representations of a batch: ours, with an hourglass, and those of `transformers`."""
    audio_BN = speech(cfg, device)
    dtype = DTYPES[cfg.precision]
    is_plain, models = cfg.model.shortening is None, dict[str, nn.Module]()
    if "ours" in cfg.sides or not is_plain:
        models["ours"] = Wav2Vec2(cfg.model, cfg.learning)
    if is_plain and cfg.hourglass and "hourglass" in cfg.sides:
        models["hourglass"] = Wav2Vec2(replace(cfg.model, hourglass=cfg.hourglass), cfg.learning)
    if is_plain and "transformers" in cfg.sides:
        models["transformers"] = _theirs("Wav2Vec2Model", cfg)
    calls: Calls = {}
    for side, model in models.items():
        model.to(device, dtype).eval().requires_grad_(False)
        # transformers casts no audio; ours takes it in float32, as features are
        calls[side] = partial(_infer, model, audio_BN.to(dtype) if side == "transformers" else audio_BN)
    return calls


@torch.inference_mode()
def _infer(model: nn.Module, audio_BN: Tensor) -> object:
    return model(audio_BN)


def pretraining(cfg: BenchmarkConfig, device: torch.device) -> Calls:
    """Forward pass, loss, backward pass and optimiser, with the same masks and distractors on both sides."""
    audio_BN = speech(cfg, device)
    learning = replace(cfg.learning, layer_drop=0.0)  # it would take other layers out on each side
    frames = n_frames(audio_BN.shape[1], cfg.model.conv_layers)
    targets = draw_targets([frames] * cfg.batch_size, cfg.mask, distractors=cfg.objective.distractors, seed=cfg.seed)
    ours = Wav2Vec2ForPretraining(cfg.model, learning).to(device).train()
    theirs = _theirs("Wav2Vec2ForPreTraining", replace(cfg, learning=learning)).to(device).train()
    theirs.set_gumbel_temperature(cfg.temperature.start)  # type: ignore[operator]
    inputs = {
        "mask_time_indices": targets.mask_BS.to(device),
        "sampled_negative_indices": _negatives(targets).to(device),
    }

    def our_loss() -> Tensor:
        loss = ours(audio_BN, None, [targets.to(device)], objective=cfg.objective, temperature=cfg.temperature.start)
        return loss.total / loss.frames

    def their_loss() -> Tensor:
        return theirs(audio_BN, **inputs).loss / targets.positions_BM.numel()

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Callable[[], Tensor]) -> None:
        optimizer.zero_grad(set_to_none=True)
        with autocast(device, cfg.precision):
            loss = loss_of()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 25.0)
        optimizer.step()

    adam = partial(torch.optim.AdamW, lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, fused=True)
    return {
        "ours": partial(step, ours, adam(ours.parameters()), our_loss),
        "transformers": partial(step, theirs, adam(theirs.parameters()), their_loss),
    }


def contrastive(cfg: BenchmarkConfig, device: torch.device) -> Calls:
    """The loss of as many masked frames as a batch has, and its gradients; the codes are all different."""
    frames = n_frames(round(cfg.seconds * SAMPLE_RATE), cfg.model.conv_layers)
    targets = draw_targets([frames] * cfg.batch_size, cfg.mask, distractors=cfg.objective.distractors, seed=cfg.seed)
    shape = (*targets.positions_BM.shape, cfg.model.final_dim)
    context_BMC, targets_BMC = (torch.randn(shape, device=device, requires_grad=True) for _ in range(2))
    codes_BMG = torch.randint(cfg.model.codebook_size, (*shape[:2], cfg.model.codebooks), device=device)
    distractors_BMK = targets.distractors_BMK.to(device)
    options = {"temperature": cfg.objective.logit_temperature}

    def ours() -> tuple[Tensor, ...]:
        loss = contrast(context_BMC, targets_BMC, codes_BMG, distractors_BMK, **options).loss
        return torch.autograd.grad(loss, (context_BMC, targets_BMC))

    def published() -> tuple[Tensor, ...]:
        loss = published_loss(context_BMC, targets_BMC, distractors_BMK, **options)
        return torch.autograd.grad(loss, (context_BMC, targets_BMC))

    return {"ours": ours, "published": published}


def speech(cfg: BenchmarkConfig, device: torch.device) -> Tensor:
    """audio_BN of cfg.batch_size recordings that are long enough, or of noise. Raises ConfigError."""
    n_samples = round(cfg.seconds * SAMPLE_RATE)
    if cfg.audio is None:
        return 0.1 * torch.randn(cfg.batch_size, n_samples, device=device)
    clips: list[Tensor] = []
    for path in sorted(p for p in cfg.audio.rglob("*") if p.suffix in (".flac", ".wav")):
        samples = audio.read(path, sample_rate=SAMPLE_RATE).samples
        if len(samples) >= n_samples:
            clips.append(torch.from_numpy(samples[:n_samples]))
        if len(clips) == cfg.batch_size:
            return torch.stack(clips).to(device)
    raise ConfigError(f"{cfg.audio}: {len(clips)} recordings of {cfg.seconds:g} s; expected {cfg.batch_size}")


def peak_memory(call: Callable[[], object], device: torch.device) -> int:
    """MiB that torch's allocator holds at most during `call` beyond what it held before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return round((torch.cuda.max_memory_allocated(device) - before) / 2**20)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    held = peak = 0
    results = profiled.profiler.kineto_results
    for _, size in sorted((e.start_ns(), e.nbytes()) for e in results.events() if e.name() == "[memory]"):
        held += size
        peak = max(peak, held)
    return round(peak / 2**20)


def _rows(
    cfg: BenchmarkConfig,
    calls: Calls,
    timings: dict[str, Timings],
    device: torch.device,
) -> Iterator[Row]:
    memory = {side: peak_memory(call, device) for side, call in calls.items()}
    for side, times in timings.items():
        row: Row = {"config": cfg.name, "side": side, "precision": cfg.precision, "batch": cfg.batch_size}
        row |= {"seconds_of_audio": cfg.seconds, "audio": "speech" if cfg.audio else "noise", "metric": "latency_ms"}
        row |= {"threads": torch.get_num_threads(), **times.summary(), "peak_memory_mib": memory[side]}
        row["times_real_time"] = round(cfg.batch_size * cfg.seconds / times.summary()["mean"] * 1e3, 2)
        row["times_faster"] = {
            other: round(benchmark.ratio(timings[other], times), 3) for other in timings if other != side
        }
        yield row


def _theirs(architecture: str, cfg: BenchmarkConfig) -> nn.Module:
    """The same model of `transformers`, with random weights. Raises ConfigError where it is not installed."""
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            "transformers is not installed, and this compares with it: pip install transformers"
        ) from None
    learning = cfg.learning
    options = {
        "hidden_dropout": learning.dropout,
        "attention_dropout": learning.attention_dropout,
        "activation_dropout": learning.activation_dropout,
        "feat_proj_dropout": learning.input_dropout,
        "feat_quantizer_dropout": learning.feature_dropout,
        "layerdrop": learning.layer_drop,
        "num_negatives": cfg.objective.distractors,
        "diversity_loss_weight": cfg.objective.diversity,
    }
    about = transformers.Wav2Vec2Config(**(huggingface.described(cfg.model, architecture) | options))
    return getattr(transformers, architecture)(about)


def _negatives(targets: Targets) -> Tensor:
    """Distractors as transformers numbers them: by frame of the batch, for every frame."""
    n_utterances, n_frames_ = targets.mask_BS.shape
    negatives_BSK = torch.zeros(n_utterances, n_frames_, targets.distractors_BMK.shape[2], dtype=torch.long)
    for b, (positions_M, distractors_MK) in enumerate(zip(targets.positions_BM, targets.distractors_BMK, strict=True)):
        negatives_BSK[b, positions_M] = b * n_frames_ + positions_M[distractors_MK]
    return negatives_BSK


def _line(row: Row) -> str:
    ratios = ", ".join(f"{ratio:.2f} x as fast as {other}" for other, ratio in row["times_faster"].items())
    return f"{row['config']:>8} {row['side']:>12} {row['p50']:10.1f} ms {row['peak_memory_mib']:6d} MiB  {ratios}"


def _command_line(arguments: list[str]) -> BenchmarkConfig:
    cfg = config.command_line(BenchmarkConfig, arguments, description=__doc__ or "")
    files = [Path(argument).stem for argument in arguments if argument.endswith(".toml")]
    return replace(cfg, name=cfg.name or (files[-1] if files else "base"))


if __name__ == "__main__":
    with config.reported():
        main(_command_line(sys.argv[1:]))
