"""From the manifests of a configuration to batches of log-mel features and targets."""

from collections.abc import Iterable
from dataclasses import replace

from common.data.loading import SpeechDataset
from common.data.manifest import Utterance, read_sources
from common.text.normalize import normalize_english
from common.text.vocabulary import Vocabulary
from jasper.config import Config, DataConfig


def vocabulary_of(config: Config) -> Vocabulary:
    """The labels a model of `config` writes."""
    return Vocabulary(tuple(config.model.labels))


def read_utterances(
    sources: Iterable[str], data: DataConfig, labels: str, *, training: bool
) -> tuple[list[Utterance], list[str]]:
    """The utterances of all `sources`, texts ready to be encoded, and one message for everything left out.

    Durations and speakers are selected in training only: an evaluation counts every utterance. Raises ManifestError.
    """
    utterances, messages = read_sources(
        sources, root=data.root, on_error=data.on_error, training=training,
        speakers=data.speakers, min_seconds=data.min_seconds, max_seconds=data.max_seconds,
    )  # fmt: skip
    if data.normalize_text:
        utterances = [replace(u, text=normalized(u.text, labels)) for u in utterances]
    return utterances, messages


def normalized(text: str, labels: str) -> str:
    """`text` in lower case, spelled out, and without what is not a label."""
    lower = text.strip().lower()
    if set(lower) <= set(labels):
        return " ".join(lower.split())  # most corpora are normalised already; this keeps start-up short
    return normalize_english(text, keep=labels)


def speech_dataset(utterances: list[Utterance], config: Config, *, training: bool) -> SpeechDataset:
    """Audio and targets of `utterances`, perturbed in training only."""
    return SpeechDataset(
        utterances,
        encode=vocabulary_of(config).encode,
        sample_rate=config.features.sample_rate,
        trim=config.data.trim_silence,
        speed=config.data.speed if training else None,
        perturbation=config.data.perturbation if training else None,
        seed=config.seed,
        on_error=config.data.on_error,
    )
