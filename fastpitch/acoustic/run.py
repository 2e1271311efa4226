"""A training run of FastPitch: its data, its network and what follows it, new or as the checkpoint says."""

import functools
from typing import Any

import torch
from torch import Tensor

from common import checkpoint, distributed, hub
from common.data.batching import Batches, bucketed_batches
from common.ema import Ema
from common.features import LogMel
from common.optim import build_optimizer
from common.precision import grad_scaler
from common.run_directory import RunDirectory
from common.schedule import build_schedule
from common.training_state import TrainingState
from fastpitch.acoustic import data
from fastpitch.acoustic.checkpoint_import import FORMAT, read
from fastpitch.acoustic.config import Config, rate_warning, scaled_rate
from fastpitch.acoustic.data import ClipDataset
from fastpitch.acoustic.model import FastPitch
from fastpitch.front.symbols import TextProcessor

NAME = "fastpitch"  # checkpoints in a run directory start with it
DEPENDS_ON = (
    *(f"model.{name}" for name in ("channels", "uses_energy", "speakers", "speaker_conditions")),
    *(f"model.{part}.{size}" for part in ("encoder", "decoder") for size in ("layers", "heads", "head_channels")),
    *("text.symbol_set", "optim.kind", "features.sample_rate", "features.mel_bins", "features.hop_samples"),
)


class Run:
    """What a training step uses. Raises CheckpointError and the readers' errors."""

    def __init__(self, cfg: Config, directory: RunDirectory):
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON)
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = build_model(cfg).to(self.world.device)
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = build_optimizer(trained, cfg.optim)
        self.scaler = grad_scaler(self.world.device, cfg.precision)
        if directory.saved is None:
            self._start_from_checkpoint()
        set_pitch_statistics(self.model, cfg)
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        parts = {"weights": self.model, "ema": self.ema, "optimizer": self.optimizer, "scaler": self.scaler}
        symbols = list(TextProcessor(cfg.text).symbols)
        self.state = TrainingState(
            directory, cfg, parts, extra={"format": FORMAT, "symbols": symbols}, saves=not cfg.dry_run
        )
        set_pitch_statistics(self.model, cfg)  # those of today, also where a run goes on
        self.parallel = distributed.data_parallel(self.model, self.world)
        self.log_mel = LogMel(cfg.features).to(self.world.device)
        self.train_set = self._dataset(training=True)
        self.validation = self._dataset(training=False) if cfg.data.validation else None
        self.reads: list[Any] = [read for read in (self.train_set, self.validation) if read is not None]
        self.seconds = [utterance.seconds for utterance in self.train_set.utterances]
        self.batches = functools.lru_cache(2)(self._batches)
        steps = len(self.batches(0))
        self.learning_rate = build_schedule(
            cfg.schedule, lr=scaled_rate(cfg, self.world.size), steps_per_epoch=steps, total_steps=steps * cfg.epochs
        )

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        self.directory.write_settings(self.cfg)
        hours, steps = sum(self.seconds) / 3600, len(self.batches(0))
        parameters = sum(p.numel() for p in self.model.parameters())
        log = self.directory.log
        log.event(f"{parameters:,} parameters; {len(self.seconds)} clips, {hours:.2f} h; {steps} steps an epoch")
        if warning := rate_warning(self.cfg, self.world.size):
            log.event(warning)
        log.progress(self.cfg.epochs * steps, self.state.progress.step)

    def _dataset(self, *, training: bool) -> ClipDataset:
        cfg = self.cfg
        sources = cfg.data.train if training else cfg.data.validation
        utterances, left_out = data.read_utterances(sources, cfg, training=training)
        for message in left_out:
            self.directory.log.event(f"left out: {message}")
        return ClipDataset(utterances, cfg, training=training)

    def _batches(self, epoch: int) -> Batches:
        """This process's share of the batches of an epoch."""
        cfg, world = self.cfg, self.world
        return bucketed_batches(
            self.seconds, batch_size=cfg.batch_size, seed=cfg.seed, epoch=epoch, ranks=world.size, rank=world.rank
        )

    def _start_from_checkpoint(self) -> None:
        path, log = self.cfg.checkpoint, self.directory.log
        if path is None:
            return
        path = hub.located(path)
        with checkpoint.usable(path):
            start = read(checkpoint.load(path), path)
            weights = dict(start.ema or start.weights)
            theirs, ours = (TextProcessor(text).symbols for text in (start.config.text, self.cfg.text))
        if theirs != ours:
            own = self.model.symbols.weight.detach().cpu()
            weights["symbols.weight"], kept = embeddings_of_shared_symbols(weights["symbols.weight"], theirs, own, ours)
            log.event(f"{path}: embeddings of {kept} of {len(ours)} symbols kept, the others start anew")
        for message in checkpoint.load_matching(self.model, weights, path):
            log.event(f"{path}: {message}")


def build_model(cfg: Config) -> FastPitch:
    """The network of `cfg`, with new weights."""
    return FastPitch(cfg.model, n_symbols=len(TextProcessor(cfg.text).symbols), mel_bins=cfg.features.mel_bins)


def set_pitch_statistics(model: FastPitch, cfg: Config) -> None:
    """The model's mean and deviation of pitch become those of the training data."""
    for buffer, values in ((model.pitch_mean, cfg.data.pitch_mean), (model.pitch_std, cfg.data.pitch_std)):
        buffer.copy_(torch.tensor(values, device=buffer.device).expand_as(buffer))


def embeddings_of_shared_symbols(
    theirs_SC: Tensor, their_symbols: tuple[str, ...], ours_SC: Tensor, our_symbols: tuple[str, ...]
) -> tuple[Tensor, int]:
    """Our embeddings with theirs in place of each symbol that both know, and how many those are."""
    index = {symbol: i for i, symbol in enumerate(their_symbols)}
    shared = [(i, index[symbol]) for i, symbol in enumerate(our_symbols) if symbol in index]
    if theirs_SC.shape[1] != ours_SC.shape[1]:
        return theirs_SC, 0  # models of different width: `load_matching` tells
    embeddings_SC = ours_SC.clone()
    for i, j in shared:
        embeddings_SC[i] = theirs_SC[j]
    return embeddings_SC, len(shared)
