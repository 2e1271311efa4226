"""A training run of Jasper or QuartzNet: its data, its network and what follows it, new or as the checkpoint says."""

import torch
from torch import Tensor

from common.data.lists.keeping import counted
from common.data.loading import SpeechDataset
from common.data.manifest import Utterances
from common.features import LogMel
from common.recognition.training import log_letters
from common.runs.run_directory import RunDirectory
from common.text.language import Spelling
from common.training.epochs import Epochs
from common.training.learner import Learner, amount_of, size_of
from common.training.state import TrainingState
from jasper import data
from jasper.checkpoints import reading
from jasper.checkpoints.own import FORMAT
from jasper.config import Config
from jasper.network.model import Jasper

NAME = "jasper"  # checkpoints in a run directory start with it
DEPENDS_ON = ("model.blocks", "model.labels", "model.activation", "optim.kind", "features.sample_rate",
              "features.mel_bins", "features.hop_samples")  # fmt: skip


class Run:
    """What a training step uses. Raises CheckpointError and the readers' errors."""

    def __init__(self, cfg: Config, directory: RunDirectory):
        cfg, source = data.with_labels(cfg)
        start = None
        if directory.saved is None and cfg.checkpoint is not None:
            start = reading.read(cfg.checkpoint, is_start=True)
            for assumption in start.assumed:
                directory.log.event(assumption)
        cfg = directory.adopted(cfg, start and start.config, ("model", "features"), keeps=("model.labels",))
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON)
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = Jasper(cfg.model, cfg.features.mel_bins).to(self.world.device)
        if start is not None and cfg.checkpoint is not None:
            directory.start_from(self.model, start.ema or start.weights, cfg.checkpoint, cfg.from_checkpoint)
        self.learner = Learner(self.model, cfg, self.world)
        self.state = TrainingState(directory, cfg, self.learner.parts, extra={"format": FORMAT})
        self.model.checkpoints_activations = cfg.checkpoint_activations
        if cfg.compile:
            for block in self.model.blocks:
                block.compile(dynamic=True)
        self.learner.join()
        self.log_mel = LogMel(cfg.features).to(self.world.device)
        self.vocabulary, spelling = data.vocabulary_of(cfg), data.spelling_of(cfg)
        self.train_set = self._dataset(spelling, training=True)
        self.validation = self._dataset(spelling, training=False) if cfg.data.validation else None
        log_letters(spelling, cfg.data, directory.log.event, source=source)
        found = Utterances.of(self.train_set.utterances)
        self.epochs = Epochs(
            found.seconds, cfg, self.world, corpora=found.corpora,
            blocks=found.blocks(cfg.data.order),
            tokens=counted(found, self.vocabulary.encode, self.vocabulary.labels) if cfg.batch_tokens else None,
        )  # fmt: skip

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        facts = (size_of(self.model), amount_of(self.train_set.utterances, "utterances"), self.epochs.about)
        self.directory.describe(self.cfg, facts, steps=self.epochs.steps, done=self.state.progress.step)

    def frames(self, samples_B: Tensor) -> Tensor:
        """frames_B that the network gives for so many samples."""
        return self.model.output_frames(self.cfg.features.frames(samples_B))

    def _dataset(self, spelling: Spelling, *, training: bool) -> SpeechDataset:
        cfg = self.cfg
        sources = cfg.data.train if training else cfg.data.validation
        utterances, left_out = data.read_utterances(sources, cfg.data, spelling, training=training)
        self.directory.left_out(left_out)
        return data.speech_dataset(utterances, cfg, training=training)
