"""What fine-tuning learns from: the labels, where they come from, and utterances whose texts they can write."""

from collections.abc import Callable

from common.recognition.training import log_letters
from wav2vec2.corpus.batches import FinetuningSet
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, Letters, read_dictionary
from wav2vec2.corpus.sources import located, read_utterances
from wav2vec2.run_config import FinetuneConfig


def labels_of(cfg: FinetuneConfig) -> tuple[tuple[str, ...], str]:
    """The labels to be written, and where they come from. Raises ConfigError."""
    if cfg.model.labels:
        return cfg.model.labels, "those of model.labels"
    if cfg.data.dictionary is not None:
        return read_dictionary(cfg.data.dictionary), f"those of {cfg.data.dictionary}"
    beside = [located(source, cfg.data.root).with_name("dict.ltr.txt") for source in cfg.data.train[:1]]
    found = ((read_dictionary(path), f"those of {path}") for path in beside if path.is_file())
    return next(found, (LIBRISPEECH_LABELS, "the English letters of LibriSpeech, since no dictionary is named"))


def finetuning_sets(cfg: FinetuneConfig, log: Callable[[str], None]) -> tuple[FinetuningSet, FinetuningSet | None]:
    """Utterances as batches, to train and to validate on. Raises ManifestError, LanguageError for unknown letters."""
    data, letters = cfg.data, Letters(cfg.model.labels)
    spelling = letters.spelling(
        language=data.language, unknown_letters=data.unknown_letters, normalizes=data.normalize_text
    )

    def dataset(sources: tuple[str, ...], *, training: bool) -> FinetuningSet:
        found = read_utterances(sources, data, cfg.model, training=training, spelling=spelling)
        for message in found.skipped:
            log(f"left out: {message}")
        return FinetuningSet(found.utterances, cfg, letters, training=training)

    train_set = dataset(data.train, training=True)
    validation = dataset(data.validation, training=False) if data.validation else None
    log_letters(spelling, data, log)
    return train_set, validation
