"""A training run of a vocoder: its data, its networks and what follows them, new or as the checkpoint says."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from common import checkpoint, distributed
from common.data.batching import Batches, bucketed_batches
from common.data.manifest import read_sources
from common.ema import Ema
from common.features import LogMel
from common.optim import build_optimizer
from common.precision import grad_scaler
from common.run_directory import RunDirectory
from common.schedule import build_schedule
from common.training_state import TrainingState
from fastpitch.vocoders import hifigan_import, waveglow_import
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.networks.weight_norm import unfolded
from fastpitch.vocoders.training.data import SegmentDataset
from fastpitch.vocoders.training.discriminators import Discriminators
from fastpitch.vocoders.training.objective import GeneratorLoss

# The weights depend on these; a checkpoint that was made with others is refused.
_FEATURES = ("optim.kind", "features.sample_rate", "features.mel_bins", "features.hop_samples")
_DISCRIMINATORS = tuple(f"discriminator.{name}" for name in ("periods", "scales", "resolutions", "divide_channels"))
DEPENDS_ON = {
    "hifigan": ("generator", "hifigan", *_DISCRIMINATORS, *_FEATURES),
    "istft": ("generator", "istft", *_DISCRIMINATORS, *_FEATURES),
    "waveglow": ("model", *_FEATURES),
}


class Run:
    """What a training step uses. `discriminators`, their optimiser and scale are None where only one network learns.

    Raises CheckpointError and the readers' errors.
    """

    discriminators: Discriminators | None = None
    discriminators_optimizer: Optimizer | None = None
    discriminators_scaler: GradScaler | None = None

    def __init__(self, cfg: HifiganRun | WaveglowRun, directory: RunDirectory):
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON[cfg.generator])
        device = self.world.device
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.generator = build_generator(cfg, normalized=True).to(device)
        if isinstance(cfg, HifiganRun):
            self.discriminators = Discriminators(cfg.discriminator).to(device)
            self.discriminators_optimizer = build_optimizer(self.discriminators.parameters(), cfg.optim)
            self.discriminators_scaler = grad_scaler(device, cfg.precision)
        self.generator_optimizer = build_optimizer(self.generator.parameters(), cfg.optim)
        self.generator_scaler = grad_scaler(device, cfg.precision)
        if directory.saved is None:
            self._start_from_checkpoints()
        self.ema = Ema(self.generator, cfg.ema) if cfg.ema else None
        parts = self._parts()
        self.spoken = tuple(parts)[:2]  # the parts that speak: the generator and its average
        self.state = TrainingState(directory, cfg, parts, extra={"format": format_of(cfg)})
        self.parallel_generator = distributed.data_parallel(self.generator, self.world)
        self.parallel_discriminators = (
            distributed.data_parallel(self.discriminators, self.world) if self.discriminators is not None else None
        )
        self.log_mel = LogMel(cfg.features).to(device)
        # What is compared goes up to half of the sample rate, beyond what generators hear.
        self.full_mel = LogMel(replace(cfg.features, highest_hz=cfg.features.sample_rate / 2)).to(device)
        self.train_set = self._dataset(training=True)
        self.validation = self._dataset(training=False) if cfg.data.validation else None
        self.reads: list[Any] = [read for read in (self.train_set, self.validation) if read is not None]
        self.batches = functools.lru_cache(2)(self._batches)
        steps = len(self.batches(0))
        self.learning_rate = build_schedule(
            cfg.schedule, lr=cfg.optim.lr, steps_per_epoch=steps, total_steps=steps * cfg.epochs
        )

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The numbers of a step, in their order."""
        if self.discriminators is None:
            return ("loss",)
        return ("loss", *(f"{part}_loss" for part in _LOSSES), "discriminator_loss")

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        self.directory.write_settings(self.cfg)
        clips, steps = self.train_set.utterances, len(self.batches(0))
        sizes = f"{_parameters(self.generator):,} parameters in the generator"
        if self.discriminators is not None:
            sizes += f", {_parameters(self.discriminators):,} in the discriminators"
        hours = sum(utterance.seconds for utterance in clips) / 3600
        self.directory.log.event(f"{sizes}; {len(clips)} clips, {hours:.2f} h; {steps} steps an epoch")
        self.directory.log.progress(self.cfg.epochs * steps, self.state.progress.step)

    def _parts(self) -> dict[str, Any]:
        """Under the names that checkpoints have had."""
        if self.discriminators is None:
            networks = {"weights": self.generator, "ema": self.ema}
            return networks | {"optimizer": self.generator_optimizer, "scaler": self.generator_scaler}
        return {
            "generator": self.generator,
            "generator_ema": self.ema,
            "discriminators": self.discriminators,
            "generator_optimizer": self.generator_optimizer,
            "discriminators_optimizer": self.discriminators_optimizer,
            "generator_scaler": self.generator_scaler,
            "discriminators_scaler": self.discriminators_scaler,
        }

    def _dataset(self, *, training: bool) -> SegmentDataset:
        cfg, data = self.cfg, self.cfg.data
        sources = data.train if training else data.validation
        utterances, left_out = read_sources(sources, root=data.root, on_error=data.on_error, training=training)
        for message in left_out:
            self.directory.log.event(f"left out: {message}")
        return SegmentDataset(utterances, data, cfg.features, seed=cfg.seed)

    def _batches(self, epoch: int) -> Batches:
        """This process's share of the batches of an epoch, as indices of segments."""
        cfg, world = self.cfg, self.world
        return bucketed_batches(
            [0.0] * len(self.train_set),  # segments are of one length
            batch_size=cfg.batch_size, seed=cfg.seed, epoch=epoch, ranks=world.size, rank=world.rank,
        )  # fmt: skip

    def _start_from_checkpoints(self) -> None:
        cfg = self.cfg
        if isinstance(cfg, WaveglowRun):
            if cfg.checkpoint is not None:
                with checkpoint.usable(cfg.checkpoint):
                    flow = waveglow_import.read(checkpoint.load(cfg.checkpoint), cfg.checkpoint)
                self._take(self.generator, flow.ema or flow.weights, cfg.checkpoint)
            return
        generator, discriminators = cfg.checkpoint, cfg.checkpoint_discriminators
        if generator is not None:
            state = checkpoint.load(generator)
            with checkpoint.usable(generator):
                self._take(self.generator, hifigan_import.read(state, generator).weights, generator)
            if discriminators is None and hifigan_import.is_checkpoint(state) and "discriminators" in state:
                discriminators = generator
        if discriminators is not None and self.discriminators is not None:
            with checkpoint.usable(discriminators):
                weights = hifigan_import.read_discriminators(checkpoint.load(discriminators), discriminators)
                self._take(self.discriminators, weights, discriminators)

    def _take(self, network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
        for message in taken(network, weights, path):
            self.directory.log.event(message)


_LOSSES = ("mel", "stft", "feature", "adversarial")
assert len(_LOSSES) + 1 == len(GeneratorLoss._fields)


def name_of(cfg: HifiganRun | WaveglowRun) -> str:
    """What checkpoints in a run directory start with."""
    return "waveglow" if isinstance(cfg, WaveglowRun) else "hifigan"


def format_of(cfg: HifiganRun | WaveglowRun) -> str:
    """What checkpoints say they are."""
    return waveglow_import.FORMAT if isinstance(cfg, WaveglowRun) else hifigan_import.FORMAT


def taken(network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> list[str]:
    """Gives `network` the weights of the file at `path`, normalised or not; what is to be said of it."""
    told = checkpoint.load_matching(network, unfolded(weights, network), path)
    return [f"{path}: {message}" for message in told] or [f"{path}: taken"]


def _parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
