"""From the manifests of a configuration to batches of log-mel features and targets."""

import math
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from common.config import ConfigError
from common.data import corpora
from common.data.loading import AudioBatch, SpeechDataset
from common.data.manifest import Utterance
from common.text.dictionary import WORD_END, read_symbols
from common.text.language import Spelling
from common.text.vocabulary import Vocabulary
from jasper.config import Config, DataConfig


def vocabulary_of(config: Config) -> Vocabulary:
    """The labels a model of `config` writes."""
    return Vocabulary(tuple(config.model.labels))


def with_labels(config: Config) -> tuple[Config, str]:
    """`config` with the labels of its dictionary, if it names one, and where labels come from. Raises ConfigError."""
    if config.data.dictionary is None:
        return config, "those of model.labels"
    symbols = read_symbols(config.data.dictionary)
    if long := [symbol for symbol in symbols if len(symbol) > 1]:
        raise ConfigError(f"{config.data.dictionary}: symbol {long[0]!r}: expected single letters")
    labels = "".join(" " if symbol == WORD_END else symbol for symbol in symbols)
    return replace(config, model=replace(config.model, labels=labels)), f"those of {config.data.dictionary}"


def spelling_of(config: Config) -> Spelling:
    """What writes transcripts in the labels of `config`."""
    data = config.data
    return Spelling(
        config.model.labels,
        language=data.language,
        unknown_letters=data.unknown_letters,
        normalizes=data.normalize_text,
    )


def read_utterances(
    sources: Iterable[str], data: DataConfig, spelling: Spelling, *, training: bool
) -> tuple[list[Utterance], list[str]]:
    """The utterances of all `sources`, texts as `spelling` writes them, and one message for everything left out.

    Durations and speakers are selected in training only: an evaluation counts every utterance. Raises ManifestError.
    """
    utterances, messages = corpora.read_utterances(
        sources,
        root=data.root,
        on_error=data.on_error,
        purpose="train" if training else "evaluate",
        advice=f"name manifests with {'--data.train' if training else '--data.validation'}",
        speakers=data.speakers if training else (),
        min_seconds=data.min_seconds if training else 0.0,
        max_seconds=data.max_seconds if training else math.inf,
    )
    return [replace(u, text=spelling(u.text)) for u in utterances], messages


def speech_dataset(
    utterances: list[Utterance], config: Config, *, training: bool, lenient: bool = False
) -> SpeechDataset:
    """Audio and targets of `utterances`, perturbed in training only.

    `lenient`: letters that are no labels are errors of the model, and not of the data; targets are without them.
    """
    vocabulary = vocabulary_of(config)
    return SpeechDataset(
        utterances,
        encode=vocabulary.encode_known if lenient else vocabulary.encode,
        sample_rate=config.features.sample_rate,
        trim=config.data.trim_silence,
        speed=config.data.speed if training else None,
        perturbation=config.data.perturbation if training else None,
        seed=config.seed,
        on_error=config.data.on_error,
    )


def unfit(batch: AudioBatch, frames_B: Tensor) -> list[int]:
    """Rows of `batch` whose target needs more output frames than the `frames_B` they have.

    CTC needs one frame per label and one more between two equal ones.
    """
    targets_BU, lengths_B = batch.targets_BU, batch.target_lengths_B
    inside_BU = torch.arange(targets_BU.shape[1]) < lengths_B[:, None]
    repeats_B = ((targets_BU[:, 1:] == targets_BU[:, :-1]) & inside_BU[:, 1:]).sum(1)
    return torch.nonzero(lengths_B + repeats_B > frames_B).flatten().tolist()
