"""Errors of a recogniser with the best path, a beam search, and a beam search with a language model.

    python benchmarks/language_model.py CHECKPOINT --root CORPUS --train train-clean --tune dev-clean \
        --test test-clean [--snr inf 10 5 0]

The language model is a word n-gram of the training texts alone; its weight and word bonus are the best of a small grid
on --tune. White noise at --snr dB makes more errors. Appends a row per decoder and noise to
benchmarks/results/ctc_language_model.jsonl.
"""

import argparse
import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import ctc
import jasper
from common import audio
from common.benchmark import append_row
from common.data.manifest import Utterance
from common.metrics import word_errors
from ctc.ngram import estimate
from jasper import data
from jasper.config import DataConfig
from jasper.recognizer import Recognizer

WEIGHTS, BONUSES = (0.3, 0.6, 1.0, 1.5), (0.0, 1.5, 3.0)


class Heard(NamedTuple):
    """What the network makes of a set of utterances: batched by padding, B utterances of S frames and V labels."""

    references: list[str]
    log_probs_BSV: Tensor
    frames_B: Tensor


def hear(asr: Recognizer, utterances: list[Utterance], snr: float) -> Heard:
    """Log-probabilities of `utterances` in white noise, `snr` dB below the power of each."""
    draw = np.random.default_rng(0)
    recordings = []
    for utterance in utterances:
        samples_N = audio.read(utterance.audio, sample_rate=asr.config.features.sample_rate).samples
        level = math.sqrt(float(np.mean(samples_N**2))) * 10 ** (-snr / 20)
        recordings.append((samples_N + level * draw.standard_normal(len(samples_N))).astype(np.float32))
    scores = [transcript.log_probs_SV for transcript in asr.transcribe(recordings, keep_log_probs=True)]
    found = [score for score in scores if score is not None]
    log_probs_BSV = torch.nn.utils.rnn.pad_sequence(found, batch_first=True)
    return Heard([u.text for u in utterances], log_probs_BSV, torch.tensor([len(score) for score in found]))


def error_rate(heard: Heard, asr: Recognizer, scorer: ctc.Scorer | None) -> float:
    """Words that beam search gets wrong, in %."""
    found = ctc.beam_search(heard.log_probs_BSV, heard.frames_B, blank=asr.vocabulary.blank, scorer=scorer)
    return rate_of(heard, asr, [hypotheses[0].labels for hypotheses in found])


def rate_of(heard: Heard, asr: Recognizer, labels: list[list[int]]) -> float:
    texts = [" ".join(asr.vocabulary.decode(row).split()) for row in labels]
    return 100 * word_errors(heard.references, texts).rate


def scorer_of(
    asr: Recognizer, model: ctc.BackoffModel, lexicon: list[str] | None, weight: float, bonus: float
) -> ctc.Scorer:
    options = ctc.ScorerOptions(weight=weight, word_bonus=bonus)
    return ctc.Scorer(asr.config.model.labels, model=model, words=lexicon, options=options)


def tuned(asr: Recognizer, model: ctc.BackoffModel, lexicon: list[str] | None, heard: Heard) -> tuple[float, float]:
    """(weight, word bonus) with the fewest errors; of equals the smallest."""
    grid = itertools.product(WEIGHTS, BONUSES)
    return min(grid, key=lambda pair: (error_rate(heard, asr, scorer_of(asr, model, lexicon, *pair)), pair))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a recogniser")
    parser.add_argument("--root", type=Path, required=True, help="folder that the manifests are in")
    parser.add_argument("--train", nargs="+", required=True, help="manifests whose texts the language model learns")
    parser.add_argument("--tune", nargs="+", required=True, help="manifests to choose weight and word bonus on")
    parser.add_argument("--test", nargs="+", required=True, help="manifests to count errors on")
    parser.add_argument(
        "--snr",
        nargs="+",
        type=float,
        default=[math.inf, 10.0, 5.0, 0.0],
        help="ratio of speech to added noise in dB; inf for no noise",
    )
    parser.add_argument("--order", type=int, default=4, help="length of the longest n-grams (default 4)")
    options = parser.parse_args()
    asr = jasper.load(options.checkpoint)
    sources = DataConfig(root=options.root)
    train, tune, test = (
        data.read_utterances(names, sources, data.spelling_of(asr.config), training=False)[0]
        for names in (options.train, options.tune, options.test)
    )
    model = estimate([utterance.text.split() for utterance in train], order=options.order)
    said = {utterance.text for utterance in train}
    known = {word for text in said for word in text.split()}
    unseen = {word for utterance in test for word in utterance.text.split()} - known
    print(
        f"{len(test)} utterances, {sum(u.text in said for u in test)} of whose texts the model learnt; "
        f"words it did not: {len(unseen)}"
    )
    for snr in options.snr:
        heard_tune, heard = hear(asr, tune, snr), hear(asr, test, snr)
        greedy = ctc.greedy(heard.log_probs_BSV, heard.frames_B, blank=asr.vocabulary.blank)
        rates = {"greedy": rate_of(heard, asr, [d.labels for d in greedy]), "beam": error_rate(heard, asr, None)}
        settings: dict[str, tuple[float, float]] = {}
        for name, lexicon in ((f"beam + {options.order}-gram", None), ("the same, its words only", sorted(known))):
            settings[name] = tuned(asr, model, lexicon, heard_tune)
            rates[name] = error_rate(heard, asr, scorer_of(asr, model, lexicon, *settings[name]))
        for name, rate in rates.items():
            print(f"snr {snr:4} dB  {name:26} {rate:6.2f} %  {settings.get(name, '')}")
            row = {
                "metric": "word_error_rate",
                "config": options.checkpoint.parent.name,
                "what": name,
                "snr_db": None if math.isinf(snr) else snr,
                "utterances": len(test),
                "order": options.order if name in settings else None,
                "weight_and_bonus": settings.get(name),
                "percent": round(rate, 2),
            }
            append_row("ctc_language_model", row, device=asr.device)


if __name__ == "__main__":
    main()
