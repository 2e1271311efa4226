"""From the manifests of a configuration to batches of log-mel features and targets."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from common.config import ConfigError
from common.data.loading import SpeechDataset
from common.data.manifest import Utterance, Utterances, read_sources
from common.recognition.spelled import spelled
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
) -> tuple[Utterances, list[str]]:
    """The utterances of all `sources`, texts as `spelling` writes them, and one message for everything left out.

    Durations and speakers are selected in training only: an evaluation counts every utterance. Raises ManifestError.
    """
    utterances, messages = read_sources(
        sources, root=data.root, on_error=data.on_error, training=training,
        speakers=data.speakers, min_seconds=data.min_seconds, max_seconds=data.max_seconds,
    )  # fmt: skip
    return spelled(utterances, spelling), messages


def speech_dataset(
    utterances: Sequence[Utterance], config: Config, *, training: bool, lenient: bool = False
) -> SpeechDataset:
    """Audio and targets of `utterances`, perturbed and joined in training only.

    `lenient`: letters that are no labels are errors of the model, and not of the data; targets are without them.
    """
    vocabulary = vocabulary_of(config)
    return SpeechDataset(
        utterances,
        encode=vocabulary.encode_known if lenient else vocabulary.encode,
        sample_rate=config.features.sample_rate,
        trim=config.data.trim_silence,
        keep=config.features.keeper(),
        speed=config.data.speed if training else None,
        perturbation=config.data.perturbation if training else None,
        silence=config.data.silence if training else None,
        join=config.data.join if training else None,
        seed=config.seed,
        on_error=config.data.on_error,
    )
