"""From the manifests of a configuration to batches of log-mel features and targets."""

from collections.abc import Sequence
from dataclasses import replace

from common.config import ConfigError
from common.data.loading import SpeechDataset
from common.data.manifest import Utterance
from common.recognition.spelled import dataset_of
from common.recognition.spelled import read_utterances as read_utterances
from common.text.dictionary import WORD_END, read_symbols
from common.text.language import Spelling
from common.text.vocabulary import Vocabulary
from jasper.config import Config


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


def speech_dataset(
    utterances: Sequence[Utterance], config: Config, *, training: bool, lenient: bool = False
) -> SpeechDataset:
    """Audio and targets of `utterances`, perturbed and joined in training only.

    `lenient`: letters that are no labels are errors of the model, and not of the data; targets are without them.
    """
    vocabulary = vocabulary_of(config)
    encode = vocabulary.encode_known if lenient else vocabulary.encode
    return dataset_of(
        utterances, config.data, config.features, encode,
        seed=config.seed, training=training, trim=config.data.trim_silence,
    )  # fmt: skip
