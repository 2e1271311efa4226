"""What the tests of batches and of sources share: the letters, and both kinds of training sets."""

from dataclasses import replace

from wav2vec2.corpus.batches import FinetuningSet, PretrainingSet
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, Letters
from wav2vec2.corpus.sources import read_utterances

LETTERS = Letters(LIBRISPEECH_LABELS)


def pretraining_set(cfg):
    return PretrainingSet(read_utterances(("train",), cfg.data, cfg.model, training=True).utterances, cfg)


def finetuning_set(cfg, *, training=True):
    found = read_utterances(("train",), cfg.data, cfg.model, training=training, spelling=LETTERS.spelling())
    cfg = replace(cfg, model=replace(cfg.model, labels=LIBRISPEECH_LABELS))
    return FinetuningSet(found.utterances, cfg, LETTERS, training=training)
