"""A training run of Jasper or QuartzNet: its data, its network and what follows it, new or as the checkpoint says."""

import functools
from types import SimpleNamespace
from typing import Any

import torch

from common import checkpoint, distributed
from common.data.batching import Batches, bucketed_batches
from common.data.loading import SpeechDataset
from common.ema import Ema
from common.features import LogMel
from common.optim import build_optimizer
from common.precision import grad_scaler
from common.run_directory import RunDirectory
from common.schedule import build_schedule
from common.text.language import Spelling
from common.training_state import TrainingState
from jasper import data, importing
from jasper.checkpoint_import import FORMAT
from jasper.config import Config
from jasper.model import Jasper

NAME = "jasper"  # checkpoints in a run directory start with it
DEPENDS_ON = ("model.blocks", "model.labels", "model.activation", "optim.kind", "features.sample_rate",
              "features.mel_bins", "features.hop_samples")  # fmt: skip


class Run:
    """What a training step uses. Raises CheckpointError and the readers' errors."""

    def __init__(self, cfg: Config, directory: RunDirectory):
        cfg, source = data.with_labels(cfg)
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON)
        self.vocabulary = data.vocabulary_of(cfg)
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = Jasper(cfg.model, cfg.features.mel_bins).to(self.world.device)
        self.optimizer = build_optimizer(self.model.parameters(), cfg.optim)
        self.scaler = grad_scaler(self.world.device, cfg.precision)
        if directory.saved is None:
            self._start_from_checkpoint()
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        parts = {"weights": self.model, "ema": self.ema, "optimizer": self.optimizer, "scaler": self.scaler}
        self.state = TrainingState(directory, cfg, parts, extra={"format": FORMAT})
        self.model.checkpoints_activations = cfg.checkpoint_activations
        if cfg.compile:
            for block in self.model.blocks:
                block.compile(dynamic=True)
        self.parallel = distributed.data_parallel(self.model, self.world)
        self.log_mel = LogMel(cfg.features).to(self.world.device)
        spelling = data.spelling_of(cfg)
        directory.log.event(f"texts in {spelling.described()}, {source}")
        self.train_set = self._dataset(spelling, training=True)
        self.validation = self._dataset(spelling, training=False) if cfg.data.validation else None
        if cfg.data.normalize_text or cfg.data.on_error == "stop":  # else utterances with such letters are skipped
            spelling.check(", ".join((*cfg.data.train, *cfg.data.validation)))
        if spelling.unknown:
            directory.log.event(spelling.told())
        self.unfit = SimpleNamespace(skipped={})  # messages by index
        self.reads: list[Any] = [read for read in (self.train_set, self.unfit, self.validation) if read is not None]
        self.seconds = [utterance.seconds for utterance in self.train_set.utterances]
        self.batches = functools.lru_cache(2)(self._batches)
        steps = len(self.batches(0))
        self.learning_rate = build_schedule(
            cfg.schedule, lr=cfg.optim.lr, steps_per_epoch=steps, total_steps=steps * cfg.epochs
        )

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        self.directory.write_settings(self.cfg)
        hours, steps = sum(self.seconds) / 3600, len(self.batches(0))
        parameters = sum(p.numel() for p in self.model.parameters())
        self.directory.log.event(
            f"{parameters:,} parameters; {len(self.seconds)} utterances, {hours:.2f} h; {steps} steps an epoch"
        )
        self.directory.log.progress(self.cfg.epochs * steps, self.state.progress.step)

    def _dataset(self, spelling: Spelling, *, training: bool) -> SpeechDataset:
        cfg = self.cfg
        sources = cfg.data.train if training else cfg.data.validation
        utterances, left_out = data.read_utterances(sources, cfg.data, spelling, training=training)
        for message in left_out:
            self.directory.log.event(f"left out: {message}")
        return data.speech_dataset(utterances, cfg, training=training)

    def _batches(self, epoch: int) -> Batches:
        """This process's share of the batches of an epoch."""
        cfg, world = self.cfg, self.world
        size = {"max_seconds": cfg.batch_seconds} if cfg.batch_seconds else {"batch_size": cfg.batch_size}
        return bucketed_batches(
            self.seconds,
            **size,
            seed=cfg.seed,
            epoch=epoch,
            ranks=world.size,
            rank=world.rank,
        )

    def _start_from_checkpoint(self) -> None:
        path = self.cfg.checkpoint
        if path is None:
            return
        start = importing.read(path, is_start=True)
        for message in start.assumed:
            self.directory.log.event(message)
        for message in checkpoint.load_matching(self.model, start.ema or start.weights, path):
            self.directory.log.event(f"{path}: {message}")
