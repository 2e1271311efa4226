"""A training run of a vocoder: its data, its networks and what follows them, new or as the checkpoint says."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from common.data.manifest import Utterances, read_sources
from common.features import LogMel
from common.published import hub
from common.runs import checkpoint
from common.runs.run_directory import RunDirectory
from common.training.epochs import Epochs
from common.training.learner import Learner, amount_of, size_of
from common.training.state import Part, TrainingState
from fastpitch import voices
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.checkpoints import hifigan, waveglow
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

ADOPTED = {
    "hifigan": ("generator", "hifigan", "istft", "features"),
    "istft": ("generator", "hifigan", "istft", "features"),
    "waveglow": ("model", "features"),
}


class Run:
    """What a training step uses. `against`, the discriminators, is None where only one network learns.

    Raises CheckpointError and the readers' errors.
    """

    def __init__(self, cfg: HifiganRun | WaveglowRun, directory: RunDirectory):
        path = voices.located(cfg.checkpoint, voices.VOCODER) if cfg.checkpoint is not None else None
        state = checkpoint.load(path) if path is not None and directory.saved is None else None
        start = None
        if path is not None and state is not None:
            with checkpoint.usable(path):
                start = (waveglow if isinstance(cfg, WaveglowRun) else hifigan).read(state, path)
        cfg = directory.adopted(cfg, start and start.config, ADOPTED[cfg.generator])
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON[cfg.generator])
        device = self.world.device
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.generator = build_generator(cfg, normalized=True).to(device)
        judges = Discriminators(cfg.discriminator).to(device) if isinstance(cfg, HifiganRun) else None
        if start is not None and state is not None and path is not None:
            weights = start.ema or start.weights if isinstance(cfg, WaveglowRun) else start.weights
            self._start_from(self.generator, checkpoint.widened(weights), path)
        if judges is not None and directory.saved is None:
            self._start_discriminators(judges, state, path)
        self.learner = Learner(self.generator, cfg, self.world)
        self.against = Learner(judges, cfg, self.world, is_averaged=False) if judges is not None else None
        parts = self._parts()
        self.spoken = tuple(parts)[:2]  # the parts that speak: the generator and its average
        self.state = TrainingState(directory, cfg, parts, extra={"format": format_of(cfg)})
        for learner in self.learners:
            learner.join()
        self.log_mel = LogMel(cfg.features).to(device)
        # What is compared goes up to half of the sample rate, beyond what generators hear.
        self.full_mel = LogMel(replace(cfg.features, highest_hz=cfg.features.sample_rate / 2)).to(device)
        self.train_set = self._dataset(training=True)
        self.validation = self._dataset(training=False) if cfg.data.validation else None
        blocks = Utterances.of(self.train_set.utterances).blocks(cfg.data.order)
        blocks = None if blocks is None else np.tile(blocks, cfg.data.segments_per_clip)
        self.epochs = Epochs(
            np.zeros(len(self.train_set)), cfg, self.world, blocks=blocks
        )  # segments are of one length

    @property
    def learners(self) -> list[Learner]:
        """The generator, and the discriminators where they learn too."""
        return [self.learner] + ([self.against] if self.against is not None else [])

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The numbers of a step, in their order."""
        if self.against is None:
            return ("loss",)
        return ("loss", *(f"{part}_loss" for part in _LOSSES), "discriminator_loss")

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        sizes = [
            f"{size_of(learner.network)} in the {of}"
            for learner, of in zip(self.learners, ("generator", "discriminators"), strict=False)
        ]
        of_data = amount_of(self.train_set.utterances, "clips")
        facts = (*sizes, of_data, self.epochs.about)
        self.directory.describe(self.cfg, facts, steps=self.epochs.steps, done=self.state.progress.step)

    def _parts(self) -> dict[str, Part | None]:
        """Under the names that checkpoints have had; networks first."""
        own = self.learner.parts
        if self.against is None:
            return own
        other = self.against.parts
        networks = {"generator": own["weights"], "generator_ema": own["ema"], "discriminators": other["weights"]}
        rest = ("optimizer", "scaler")
        return networks | {
            f"{of}_{part}": parts[part]
            for part in rest
            for of, parts in (("generator", own), ("discriminators", other))
        }

    def _dataset(self, *, training: bool) -> SegmentDataset:
        cfg, data = self.cfg, self.cfg.data
        sources = data.train if training else data.validation
        utterances, left_out = read_sources(sources, root=data.root, on_error=data.on_error, training=training)
        self.directory.left_out(left_out)
        return SegmentDataset(utterances, data, cfg.features, seed=cfg.seed)

    def _start_from(self, network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
        with checkpoint.usable(path):
            self.directory.start_from(network, unfolded(weights, network), path, self.cfg.from_checkpoint)

    def _start_discriminators(self, judges: Discriminators, state: dict[str, Any] | None, path: Path | None) -> None:
        """From the checkpoint that is named for them, or else from that of the generator, if it has any."""
        named = self.cfg.checkpoint_discriminators if isinstance(self.cfg, HifiganRun) else None
        if named is not None:
            path = hub.located(named)
            state = checkpoint.load(path)
        elif state is None or not (hifigan.is_checkpoint(state) and "discriminators" in state):
            return
        if path is not None and state is not None:
            with checkpoint.usable(path):
                weights = hifigan.read_discriminators(state, path)
            self._start_from(judges, weights, path)


_LOSSES = ("mel", "stft", "feature", "adversarial")
assert len(_LOSSES) + 1 == len(GeneratorLoss._fields)


def name_of(cfg: HifiganRun | WaveglowRun) -> str:
    """What checkpoints in a run directory start with."""
    return "waveglow" if isinstance(cfg, WaveglowRun) else "hifigan"


def format_of(cfg: HifiganRun | WaveglowRun) -> str:
    """What checkpoints say they are."""
    return waveglow.FORMAT if isinstance(cfg, WaveglowRun) else hifigan.FORMAT
