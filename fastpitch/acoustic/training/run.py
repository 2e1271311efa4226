"""A training run of FastPitch: its data, its network and what follows it, new or as the checkpoint says."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from common.config import ConfigError
from common.data.manifest import Utterances
from common.features import LogMel
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError, Imported
from common.runs.run_directory import RunDirectory
from common.training.epochs import Epochs
from common.training.learner import Learner, amount_of, size_of
from common.training.state import TrainingState
from fastpitch import voices
from fastpitch.acoustic.checkpoints.own import FORMAT
from fastpitch.acoustic.checkpoints.reading import read, refiner_of
from fastpitch.acoustic.config import Config, rate_warning, scaled_rate
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.refiner import Refiner
from fastpitch.acoustic.training import data, pitch_folder
from fastpitch.acoustic.training.adversary import Adversary
from fastpitch.acoustic.training.data import ClipDataset
from fastpitch.acoustic.training.objective import Parts
from fastpitch.front.symbols import TextConfig, TextProcessor

NAME = "fastpitch"  # checkpoints in a run directory start with it
ADVERSARIAL = ("adversarial_loss", "feature_loss", "discriminator_loss")
DEPENDS_ON = (
    *(f"model.{name}" for name in ("channels", "uses_energy", "harmonics", "speakers", "speaker_conditions")),
    *(f"model.{part}.{size}" for part in ("encoder", "decoder") for size in ("layers", "heads", "head_channels")),
    *(f"model.refiner.{size}" for size in ("layers", "channels", "filter_channels", "kernel", "bins", "learns")),
    *("model.aligner", "model.aligner_channels", "teacher"),
    *("text.symbol_set", "trained", "optim.kind", "features.sample_rate", "features.mel_bins", "features.hop_samples"),
)
ADOPTED = ("model", "features", "pitch.sample_rate", "pitch.hop_samples", "text", "data.energy")


def asked_for(cfg: Config, start: Imported[Config] | None) -> tuple[str, ...]:
    """Settings that stay as configured where a checkpoint says what the model is: those that follow from the data.

    They are the number of speakers, an aligner, a refiner that is trained alone, and another language or symbol set
    than the usual.
    """
    kept, usual = ["model.aligner", "model.speakers"], TextConfig()
    if start is not None and start.config.model.speakers == 1:
        kept += ["model.speaker_weight", "model.speaker_conditions"]
    if (cfg.text.language, cfg.text.symbol_set) != (usual.language, usual.symbol_set):
        kept.append("text")
    if cfg.trained == "refiner":
        kept.append("model.refiner")
    return tuple(kept)


class Run:
    """What a training step uses. Raises ConfigError, CheckpointError and the readers' errors."""

    def __init__(self, cfg: Config, directory: RunDirectory):
        start = self._read_start(cfg) if directory.saved is None else None
        cfg = directory.adopted(cfg, start and start.config, ADOPTED, keeps=asked_for(cfg, start))
        self.cfg, self.directory, self.world = cfg, directory, directory.world
        if not cfg.model.aligner and cfg.data.durations_dir is None:
            raise ConfigError("model.aligner = false: expected data.durations_dir, which says what it would find")
        directory.compare(cfg, depends_on=DEPENDS_ON)
        if self.world.is_main and (changed := pitch_folder.settle(cfg)):
            directory.log.event(changed)
        self.world.barrier()
        torch.manual_seed(cfg.seed)  # the same initial weights in every process
        self.model = build_model(cfg).to(self.world.device)
        if start is not None:
            self._start_from(start)
        self.train_set = self._dataset(training=True)
        self._set_pitch_statistics(is_new=directory.saved is None)
        if cfg.trained == "refiner":
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(name.startswith("refiner."))
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        if cfg.teacher is not None and self.model.refiner is not None:
            self.model.refiner.wanted = teacher_of(cfg.teacher, like=self.model.refiner).to(self.world.device).forward
        if cfg.data.durations_dir is not None and self.model.aligner is not None:
            self.model.aligner.requires_grad_(False)  # it stays as it is; no process waits for its gradients
        self.learner = Learner(self.model, cfg, self.world, parameters=trained)
        self.adversary = Adversary(cfg, self.world) if cfg.adversary.weight else None
        parts = self.learner.parts | (self.adversary.parts if self.adversary is not None else {})
        extra = {"format": FORMAT, "symbols": list(TextProcessor(cfg.text).symbols)}
        self.state = TrainingState(directory, cfg, parts, extra=extra, saves=not cfg.dry_run)
        self._set_pitch_statistics(is_new=False)  # those of today, also where a run goes on
        self.learner.join()
        if self.adversary is not None:
            self.adversary.learner.join()
        self.log_mel = LogMel(cfg.features).to(self.world.device)
        self.validation = self._dataset(training=False) if cfg.data.validation else None
        found = Utterances.of(self.train_set.utterances)
        self.epochs = Epochs(
            found.seconds, cfg, self.world, lr=scaled_rate(cfg, self.world.size), blocks=found.blocks(cfg.data.order)
        )

    @property
    def learners(self) -> dict[str, Learner]:
        """The networks that learn, by what their norms are called in the log."""
        return {"": self.learner} | ({"discriminator_": self.adversary.learner} if self.adversary is not None else {})

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The numbers of a step, in their order."""
        return ("loss", *Parts._fields, *(ADVERSARIAL if self.adversary is not None else ()))

    def describe(self) -> None:
        """Writes the settings and a line about the run."""
        facts = (size_of(self.model), amount_of(self.train_set.utterances, "clips"), self.epochs.about)
        self.directory.describe(self.cfg, facts, steps=self.epochs.steps, done=self.state.progress.step)
        if warning := rate_warning(self.cfg, self.world.size):
            self.directory.log.event(warning)

    def _dataset(self, *, training: bool) -> ClipDataset:
        cfg = self.cfg
        sources = cfg.data.train if training else cfg.data.validation
        utterances, left_out = data.read_utterances(sources, cfg, training=training)
        self.directory.left_out(left_out)
        keeps_mels = training and self.world.device.type == "cpu" and not cfg.data.workers
        return ClipDataset(utterances, cfg, training=training, keeps_mels=keeps_mels)

    def _set_pitch_statistics(self, *, is_new: bool) -> None:
        """Mean and deviation as configured, or, in a new run, as measured, like the range; otherwise they stay."""
        data_config = self.cfg.data
        if is_new and self.cfg.trained == "all":
            measured = pitch_folder.measured(self.train_set, self.world)
            set_pitch_statistics(self.model, measured.mean, measured.std)
            self.model.pitch_range.copy_(torch.tensor(measured.range))
            self.directory.log.event(measured.told)
        if data_config.pitch_mean:
            set_pitch_statistics(self.model, data_config.pitch_mean, data_config.pitch_std)

    @staticmethod
    def _read_start(cfg: Config) -> Imported[Config] | None:
        if cfg.checkpoint is None:
            if cfg.trained == "refiner":
                raise ConfigError('trained = "refiner": expected checkpoint, the model whose refiner learns')
            return None
        path = voices.located(cfg.checkpoint, voices.ACOUSTIC)
        with checkpoint.usable(path):
            return read(path)

    def _start_from(self, start: Imported[Config]) -> None:
        assert self.cfg.checkpoint is not None
        path, directory = voices.located(self.cfg.checkpoint, voices.ACOUSTIC), self.directory
        with checkpoint.usable(path):
            weights = checkpoint.widened(start.ema or start.weights)
            theirs, ours = (TextProcessor(text).symbols for text in (start.config.text, self.cfg.text))
        if theirs != ours:
            own = F.pad(self.model.symbols.weight.detach().cpu(), (0, 1))
            learned_S = weights.get("symbols_learned", torch.ones(len(theirs)))
            found = torch.column_stack([weights["symbols.weight"], learned_S])
            found, kept = embeddings_of_shared_symbols(found, theirs, own, ours)
            weights["symbols.weight"], weights["symbols_learned"] = found[:, :-1], found[:, -1] > 0
            directory.log.event(f"{path}: embeddings of {kept} of {len(ours)} symbols kept, the others start anew")
        if "symbols.weight" not in weights or weights["symbols.weight"].shape != self.model.symbols.weight.shape:
            weights.pop("symbols_learned", None)  # their embeddings are not taken
        if self.cfg.trained == "refiner" and (absent := self._not_of_refiner(weights)):
            told = f'{len(absent)} weights that trained = "refiner" leaves as they are, {absent[0]} the first of them'
            raise CheckpointError(f"{path}: does not have, in the shape that model describes, {told}")
        if self.cfg.teacher is not None:  # the refiner begins anew, of whatever size the checkpoint's own is
            weights = {name: weight for name, weight in weights.items() if not name.startswith("refiner.")}
            weights |= {name: weight for name, weight in self.model.state_dict().items() if name.startswith("refiner.")}
        directory.start_from(self.model, weights, path, self.cfg.from_checkpoint)

    def _not_of_refiner(self, weights: Mapping[str, Tensor]) -> list[str]:
        """Names of this model's weights, but those of its refiner, that are not among `weights` in their shape."""
        others = "refiner.", "pitch_range", "symbols_learned"  # the latter two are not in checkpoints of before
        own = ((name, w.shape) for name, w in self.model.state_dict().items() if not name.startswith(others))
        return [name for name, shape in own if name not in weights or weights[name].shape != shape]


def build_model(cfg: Config) -> FastPitch:
    """The network of `cfg`, with new weights."""
    model = FastPitch(cfg.model, n_symbols=len(TextProcessor(cfg.text).symbols), mel_bins=cfg.features.mel_bins)
    if model.harmonics is not None:
        model.harmonics.draw(cfg.features)
    return model


def teacher_of(path: Path, *, like: Refiner) -> Refiner:
    """The refiner of the checkpoint at `path`, of as many mel bins as the one that learns of it.

    Raises CheckpointError.
    """
    path = voices.located(path, voices.ACOUSTIC)
    with checkpoint.usable(path):
        found = read(path)
        sizes, mel_bins = found.config.model.refiner, found.config.features.mel_bins
        if not sizes.layers or (sizes.bins, mel_bins) != (like.config.bins, like.mel_bins):
            had = f"predicts {sizes.bins} of {mel_bins} mel bins" if sizes.layers else "is not there"
            told = f"expected one of {like.config.bins} of {like.mel_bins}"
            raise CheckpointError(f"{path}: cannot teach this refiner: its own {had}; {told}")
        teacher = refiner_of(found, path)
    return teacher.eval().requires_grad_(False)


def set_pitch_statistics(model: FastPitch, mean: Sequence[float], deviation: Sequence[float]) -> None:
    """The model's mean and deviation of pitch, in Hz, become those of the training data."""
    for buffer, values in ((model.pitch_mean, mean), (model.pitch_std, deviation)):
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
