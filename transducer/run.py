"""A training run: its data and pieces, its network and what follows it, new or as the checkpoint says."""

import functools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from common import checkpoint, config, distributed
from common.checkpoint import CheckpointError
from common.data.batching import Batches, bucketed_batches
from common.data.loading import SpeechDataset
from common.data.manifest import ManifestError, Utterance
from common.ema import Ema
from common.features import LogMel
from common.optim import build_optimizer
from common.precision import grad_scaler
from common.run_directory import RunDirectory
from common.schedule import build_schedule
from common.text.language import Spelling
from common.text.pieces import Pieces, train_pieces
from common.text.vocabulary import VocabularyError
from common.training_state import TrainingState, must_fit
from transducer import data
from transducer.checkpoints import own, reading
from transducer.checkpoints.imported import Imported
from transducer.config import Config
from transducer.network.model import Model

NAME = "transducer"  # checkpoints in a run directory start with it
DEPENDS_ON = ("model", "optim.kind", "features.sample_rate", "features.mel_bins", "features.hop_samples")


def started_from(cfg: Config, directory: RunDirectory) -> tuple[Config, Imported | None]:
    """The configuration with what `checkpoint` says of the model, and that model. Raises CheckpointError.

    A run that goes on needs neither: its own checkpoint has both.
    """
    if cfg.checkpoint is None:
        return cfg, None
    if directory.saved is not None:
        with must_fit(directory.folder):
            before = config.build(Config, directory.saved["config"], "")
        return replace(cfg, model=before.model, features=before.features), None
    imported = reading.read(cfg.checkpoint)
    if not imported.pieces.model:
        raise CheckpointError(f"{cfg.checkpoint}: has no SentencePiece model, without which texts cannot be cut")
    return replace(cfg, model=imported.model, features=imported.features), imported


class Run:
    """What a training step uses. Raises CheckpointError and the readers' errors."""

    def __init__(self, cfg: Config, start: Imported | None, directory: RunDirectory):
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON)
        self.spelling = data.spelling_of(cfg.data)
        utterances = self._utterances(training=True)
        validation = self._utterances(training=False) if cfg.data.validation else None
        self._check_letters()
        self.pieces = self._pieces(utterances, start)
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = Model(cfg.model, cfg.features.mel_bins).to(self.world.device)
        self.optimizer = build_optimizer(self.model.parameters(), cfg.optim)
        self.scaler = grad_scaler(self.world.device, cfg.precision)
        if start is not None and directory.saved is None:
            for message in checkpoint.load_matching(self.model, start.weights, str(cfg.checkpoint)):
                if not message.partition(":")[0].endswith("num_batches_tracked"):
                    directory.log.event(f"{cfg.checkpoint}: {message}")
        self.ema = Ema(self.model, cfg.ema) if cfg.ema else None
        parts = {"weights": self.model, "ema": self.ema, "optimizer": self.optimizer, "scaler": self.scaler}
        extra = {"format": own.FORMAT, "pieces": own.encoded_pieces(self.pieces)}
        self.state = TrainingState(directory, cfg, parts, extra=extra)
        self.parallel = distributed.data_parallel(self.model, self.world)
        self.log_mel = LogMel(cfg.features).to(self.world.device)
        self.train_set = data.speech_dataset(utterances, cfg, self.pieces, training=True)
        self.validation: SpeechDataset | None = None
        if validation is not None:
            self.validation = data.speech_dataset(validation, cfg, None, training=False)
        self.unfit = SimpleNamespace(skipped={})  # messages by index
        self.reads: list[Any] = [read for read in (self.train_set, self.unfit, self.validation) if read is not None]
        self.seconds = [utterance.seconds for utterance in utterances]
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
            f"{parameters:,} parameters; {self.pieces.blank} pieces; {len(self.seconds)} utterances, {hours:.2f} h; "
            f"{steps} steps an epoch"
        )
        self.directory.log.progress(self.cfg.epochs * steps, self.state.progress.step)

    def _utterances(self, *, training: bool) -> list[Utterance]:
        utterances, left_out = data.read_utterances(self.cfg, training=training, spelling=self.spelling)
        for message in left_out:
            self.directory.log.event(f"left out: {message}")
        return utterances

    def _check_letters(self) -> None:
        """Logs the language of the texts. Raises LanguageError for letters that are none of it."""
        if isinstance(self.spelling, Spelling):
            self.directory.log.event(f"texts in {self.spelling.described()}")
            self.spelling.check(", ".join((*self.cfg.data.train, *self.cfg.data.validation)))
            if self.spelling.unknown:
                self.directory.log.event(self.spelling.told())

    def _pieces(self, utterances: list[Utterance], start: Imported | None) -> Pieces:
        """Those of the checkpoint that the run goes on from or starts with; otherwise learned from the texts."""
        if self.directory.saved is not None and "pieces" in self.directory.saved:
            return own.decoded_pieces(self.directory.saved["pieces"])
        if start is not None:
            return start.pieces
        cfg = self.cfg
        try:
            return train_pieces((u.text for u in utterances), size=cfg.model.pieces, kind=cfg.data.piece_kind)
        except VocabularyError as error:
            raise ManifestError(f"{error}; set --model.pieces") from None

    def _batches(self, epoch: int) -> Batches:
        """This process's share of the batches of an epoch."""
        cfg, world = self.cfg, self.world
        return bucketed_batches(
            self.seconds, batch_size=cfg.batch_size, seed=cfg.seed, epoch=epoch, ranks=world.size, rank=world.rank
        )
