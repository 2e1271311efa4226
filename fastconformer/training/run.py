"""A training run: its data and pieces, its network and what follows it, new or as the checkpoint says."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from common.data.lists.keeping import counted
from common.data.loading import AudioBatch, SpeechDataset
from common.data.manifest import ManifestError, Utterances
from common.features import LogMel
from common.recognition.spelled import dataset_of, read_utterances
from common.recognition.training import log_letters
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import RunDirectory
from common.text.language import Spelling
from common.text.pieces import Pieces, train_pieces
from common.text.vocabulary import VocabularyError
from common.training.epochs import Epochs
from common.training.layers.batch_norm import synchronized
from common.training.learner import Learner, amount_of, size_of
from common.training.state import TrainingError, TrainingState
from fastconformer.attention.pieces import SPECIALS, PromptedPieces, learned_pieces
from fastconformer.attention.prompt import PromptFormat
from fastconformer.attention.training.targets import Targets, Texts, askable, languages_of
from fastconformer.checkpoints import own, reading
from fastconformer.checkpoints.imported import TrainedModel
from fastconformer.config import Config, DataConfig
from fastconformer.network.model import Model

NAME = "fastconformer"  # checkpoints in a run directory start with it
DEPENDS_ON = ("model", "optim.kind", "features.sample_rate", "features.mel_bins", "features.hop_samples")


def started_from(cfg: Config, directory: RunDirectory) -> tuple[Config, TrainedModel | None]:
    """The configuration with what `checkpoint` says of the model, and that model. Raises CheckpointError, ConfigError.

    A run that goes on needs no checkpoint but its own.
    """
    start = reading.read(cfg.checkpoint) if cfg.checkpoint is not None and directory.saved is None else None
    theirs = None
    if start is not None:  # adapters may be added to what has none
        adapters = cfg.model.encoder.adapter_width or start.model.encoder.adapter_width
        model = replace(start.model, encoder=replace(start.model.encoder, adapter_width=adapters))
        theirs = replace(cfg, model=model, features=start.features)
    part = "model.encoder" if cfg.from_checkpoint == "encoder" else "model"
    cfg = directory.adopted(cfg, theirs, (part, "features"))
    cfg.check_lookaheads()
    return cfg, start


def spelling_of(data: DataConfig, pieces: Pieces | None, *, is_prompted: bool = False) -> Callable[[str], str]:
    """What writes transcripts as pieces, the `pieces` where they are known already, are cut from them.

    Where prompts say what is written (`is_prompted`), texts may be of several languages, with punctuation or without.
    """
    normalizes = data.normalize_text
    if normalizes is None:
        normalizes = not is_prompted and (pieces is None or not pieces.are_cased)
    if not normalizes:
        return _stripped
    return Spelling(None, language=data.language, unknown_letters=data.unknown_letters)


def _stripped(text: str) -> str:
    return " ".join(text.split())


class Run:
    """What a training step uses. Raises CheckpointError and the readers' errors."""

    def __init__(self, cfg: Config, start: TrainedModel | None, directory: RunDirectory):
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        directory.compare(cfg, depends_on=DEPENDS_ON)
        known = self._known_pieces(start)
        self.spelling = spelling_of(cfg.data, known, is_prompted=cfg.model.attention.layers > 0)
        utterances = self._utterances(training=True)
        validation = self._utterances(training=False) if cfg.data.validation else None
        if isinstance(self.spelling, Spelling):
            log_letters(self.spelling, cfg.data, directory.log.event)
        self.pieces = known or self._learned_pieces(utterances)
        self.targets: Targets | None = None
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = Model(cfg.model, cfg.features.mel_bins).to(self.world.device)
        if cfg.checkpoint is not None and start is not None and directory.saved is None:
            weights, takes = start.weights, cfg.from_checkpoint
            if takes == "encoder":
                weights, takes = {n: w for n, w in weights.items() if n.startswith("encoder.")}, "any"
            directory.start_from(self.model, weights, cfg.checkpoint, takes)
        for name, parameter in self.model.named_parameters():
            if cfg.learns != "all":
                is_head = not name.startswith("encoder.")
                parameter.requires_grad_(is_head if cfg.learns == "heads" else ".adapter." in name)
        if cfg.sync_batch_norm:
            synchronized(self.model)
        learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.learner = Learner(self.model, cfg, self.world, parameters=learning)
        extra = {"format": own.FORMAT, "pieces": own.encoded_pieces(self.pieces)}
        self.state = TrainingState(directory, cfg, self.learner.parts, extra=extra, saves=not cfg.dry_run)
        self.learner.join()
        self.log_mel = LogMel(cfg.features).to(self.world.device)
        seconds, corpora, rows = utterances.seconds, utterances.corpora, None
        blocks, tokens = utterances.blocks(cfg.data.order), None
        if isinstance(self.pieces, PromptedPieces):
            self.train_set = self._dataset(utterances, None, training=True)
            self.targets = self._targets(self.pieces)
            self.state.extra["directions"] = self._directions(start, self.targets)
            rows = self.targets.first
            corpora = tuple(
                (name, int(count)) for (name, _), count in zip(corpora, _counts(corpora, rows), strict=True)
            )
            tokens = self.targets.tokens
            seconds, blocks = seconds[rows], blocks if blocks is None else blocks[rows]
        else:
            self.train_set = self._dataset(utterances, self.pieces, training=True)
            if cfg.batch_tokens:
                tokens = counted(utterances, self.pieces.encode, own.encoded_pieces(self.pieces))
        self.validation: SpeechDataset | None = None
        if validation is not None:
            if isinstance(self.pieces, PromptedPieces):
                validation = self._askable(validation, self.pieces)
            self.validation = self._dataset(validation, None, training=False)
        self.epochs = Epochs(seconds, cfg, self.world, corpora=corpora, rows=rows, blocks=blocks, tokens=tokens)

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        of_data = amount_of(self.train_set.utterances, "utterances")
        facts = (size_of(self.model), f"{self.pieces.blank} pieces", of_data, self.epochs.about)
        self.directory.describe(self.cfg, facts, steps=self.epochs.steps, done=self.state.progress.step)

    @property
    def decoder(self) -> Literal["transducer", "attention", ""]:
        """What decodes beside CTC."""
        if self.model.attention is not None:
            return "attention"
        return "transducer" if self.model.prediction is not None else ""

    def texts(self, batch: AudioBatch) -> Texts | None:
        """What an attention decoder learns of a batch."""
        return None if self.targets is None else self.targets(batch.heard, batch.indices)

    def _targets(self, pieces: PromptedPieces) -> Targets:
        """The texts to learn. Raises TrainingError for what cannot be written, or notes it, as data.on_error says."""
        cfg = self.cfg.model.attention
        prompt = PromptFormat(cfg.prompt, pieces, cfg.language)
        skipped = self.train_set.skipped if self.cfg.data.on_error == "skip" else None
        try:
            return Targets(self.train_set.utterances, pieces, prompt, positions=cfg.positions, skipped=skipped)
        except ValueError as error:
            raise TrainingError(f"{error}; leave it out, or set --data.on_error skip") from None

    def _directions(self, start: TrainedModel | None, targets: Targets) -> list[str]:
        """What the model has learned to write of what; none, for all, where that of its checkpoint is not known."""
        cfg, saved = self.cfg, self.directory.saved
        goes_on = cfg.checkpoint is not None and cfg.from_checkpoint == "architecture"
        before = start.model.attention.directions if start is not None and goes_on else ()
        before = before if saved is None else saved.get("directions", ())
        return [] if goes_on and not before else sorted({*before, *targets.directions})

    def _askable(self, validation: Utterances, pieces: PromptedPieces) -> Utterances:
        """The utterances whose prompts can be made. Raises TrainingError for others, or logs them, as `_targets`."""
        cfg = self.cfg.model.attention
        found, left_out = askable(validation, PromptFormat(cfg.prompt, pieces, cfg.language))
        if left_out and self.cfg.data.on_error != "skip":
            raise TrainingError(f"data.validation: {left_out[0]}; leave it out, or set --data.on_error skip")
        self.directory.left_out(left_out)
        return found

    def frames(self, samples_B: Tensor) -> Tensor:
        """frames_B that the encoder gives for so many samples."""
        return self.model.encoder.output_frames(self.cfg.features.frames(samples_B))

    def _utterances(self, *, training: bool) -> Utterances:
        data = self.cfg.data
        sources = data.train if training else data.validation
        utterances, left_out = read_utterances(sources, data, self.spelling, training=training)
        self.directory.left_out(left_out)
        return utterances

    def _dataset(self, utterances: Utterances, pieces: Pieces | None, *, training: bool) -> SpeechDataset:
        cfg, encode = self.cfg, pieces.encode if pieces is not None else None
        return dataset_of(utterances, cfg.data, cfg.features, encode, seed=cfg.seed, training=training)

    def _known_pieces(self, start: TrainedModel | None) -> Pieces | None:
        """Those of the checkpoint that the run goes on from or starts with. Raises CheckpointError."""
        if self.directory.saved is not None and "pieces" in self.directory.saved:
            return own.decoded_pieces(self.directory.saved["pieces"], self.cfg.model.pieces)
        if start is None or self.cfg.from_checkpoint != "architecture":
            return None
        parts = start.pieces.parts if isinstance(start.pieces, PromptedPieces) else [("", start.pieces)]
        try:
            for name, part in parts:
                if name != SPECIALS:
                    part.encode("")
        except VocabularyError as error:
            told = "has no SentencePiece model, without which texts cannot be cut"
            raise CheckpointError(f"{self.cfg.checkpoint}: {told} ({error})") from None
        return start.pieces

    def _learned_pieces(self, utterances: Utterances) -> Pieces:
        cfg = self.cfg
        try:
            if cfg.model.attention.layers:
                head = cfg.model.attention
                texts = languages_of(utterances, head.language, skips=cfg.data.on_error == "skip")
                return learned_pieces(texts, size=cfg.model.pieces, kind=cfg.data.piece_kind, prompt=head.prompt)
            return train_pieces((u.text for u in utterances), size=cfg.model.pieces, kind=cfg.data.piece_kind)
        except VocabularyError as error:
            raise ManifestError(f"model.pieces = {cfg.model.pieces}: {error}") from None


def _counts(corpora: Sequence[tuple[str, int]], rows: np.ndarray) -> np.ndarray:
    """How many of `rows`, in ascending order, are of each corpus, which stand one after the other."""
    ends = np.cumsum([0, *(count for _, count in corpora)])
    return np.diff(np.searchsorted(rows, ends))
