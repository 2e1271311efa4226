"""Errors of a recogniser with each step of decoding, and what each step costs.

    python benchmarks/language_model.py CHECKPOINT --root CORPUS --train train-clean --tune dev-clean \\
        --test test-clean --causal FOLDER [--snr inf 10 5 0]

The steps: the best path; a beam search; the same with a word n-gram of the training texts alone, also with its words
as the only ones; the best --n_best texts of these in the order of a causal language model. Weights and bonuses are
those with the fewest errors on --tune: of the n-gram by a small grid, of the causal model as `rescoring.tune` finds
them. --causal is a folder of transformers. White noise at --snr dB makes more errors. Appends a row per step and
noise to benchmarks/results/ctc_language_model.jsonl; costs are processor time on one thread.
"""

import argparse
import itertools
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import ctc
import jasper
from common.audio import waveform
from common.benchmark import append_row
from common.data.manifest import Utterance
from common.recognition.metrics import word_errors
from common.recognition.rescoring import Candidate, CausalModel, order_of, with_log_probs
from common.recognition.rescoring import tune as tune_rescoring
from ctc.ngram import estimate
from jasper import data
from jasper.config import DataConfig
from jasper.recognizer import Recognizer

WEIGHTS, BONUSES = (0.3, 0.6, 1.0, 1.5), (0.0, 1.5, 3.0)
BEAM = ctc.BeamOptions.beam
METRIC = "errors and cost of a step"
BEFORE = {"2.": "1.", "3.": "2.", "4.": "3.", "5.": "3.", "6.": "5."}
"""The step that each adds one thing to."""


class Emissions(NamedTuple):
    """What the network makes of a set of utterances: batched by padding, B utterances of S frames and V labels."""

    references: list[str]
    log_probs_BSV: Tensor
    frames_B: Tensor
    milliseconds: float
    """Processor time of reading, features and network, per utterance."""


class Lists(NamedTuple):
    """The best texts of every utterance, best first, and the processor time of finding them, per utterance."""

    candidates: list[list[Candidate]]
    milliseconds: float

    def rate(self, references: list[str]) -> float:
        """Words that the first of each gets wrong, in %."""
        return 100 * word_errors(references, [own[0].text if own else "" for own in self.candidates]).rate


def hear(asr: Recognizer, utterances: list[Utterance], snr: float) -> Emissions:
    """Log-probabilities of `utterances` in white noise, `snr` dB below the power of each."""
    draw = np.random.default_rng(0)
    recordings = []
    for utterance in utterances:
        samples_N = waveform.read(utterance.audio, sample_rate=asr.config.features.sample_rate).samples
        level = math.sqrt(float(np.mean(samples_N**2))) * 10 ** (-snr / 20)
        recordings.append((samples_N + level * draw.standard_normal(len(samples_N))).astype(np.float32))
    start = time.process_time()
    scores = [transcript.log_probs_SV for transcript in asr.transcribe(recordings, keep_log_probs=True)]
    milliseconds = 1000 * (time.process_time() - start) / len(utterances)
    found = [torch.from_numpy(score) for score in scores if score is not None]
    log_probs_BSV = torch.nn.utils.rnn.pad_sequence(found, batch_first=True)
    frames_B = torch.tensor([len(score) for score in found])
    return Emissions([u.text for u in utterances], log_probs_BSV, frames_B, milliseconds)


def best_paths(heard: Emissions, asr: Recognizer) -> Lists:
    """The text of the best path of every utterance."""
    start = time.process_time()
    found = ctc.greedy(heard.log_probs_BSV, heard.frames_B, blank=asr.vocabulary.blank)
    texts = [_text(asr, decoded.labels) for decoded in found]
    return Lists([[Candidate(text, 0.0)] for text in texts], _since(start, heard))


def searched(heard: Emissions, asr: Recognizer, scorer: ctc.Scorer | None, *, n_best: int = 1) -> Lists:
    """Up to `n_best` texts of every utterance that a beam search finds."""
    start = time.process_time()
    options = ctc.BeamOptions(beam=BEAM, n_best=n_best)
    found = ctc.beam_search(
        heard.log_probs_BSV, heard.frames_B, blank=asr.vocabulary.blank, scorer=scorer, options=options
    )
    lists = []
    for hypotheses in found:
        by_text: dict[str, Candidate] = {}
        for hypothesis in hypotheses:
            text = _text(asr, hypothesis.labels)
            by_text.setdefault(text, Candidate(text, hypothesis.score))
        lists.append(list(by_text.values()))
    return Lists(lists, _since(start, heard))


def rescored(lists: Lists, model: CausalModel, weight: float, word_bonus: float) -> Lists:
    """The same texts in the order of the causal model; with the time of their search."""
    start = time.process_time()
    scored = with_log_probs(lists.candidates, model)
    ordered = [[own[place] for place in order_of(own, weight, word_bonus)] for own in scored]
    return Lists(ordered, lists.milliseconds + 1000 * (time.process_time() - start) / len(ordered))


def scorer_of(
    asr: Recognizer, model: ctc.BackoffModel, lexicon: list[str] | None, weight: float, bonus: float
) -> ctc.Scorer:
    options = ctc.ScorerOptions(weight=weight, word_bonus=bonus)
    return ctc.Scorer(asr.config.model.labels, model=model, words=lexicon, options=options)


def tuned(asr: Recognizer, model: ctc.BackoffModel, lexicon: list[str] | None, heard: Emissions) -> tuple[float, float]:
    """(weight, word bonus) with the fewest errors; of equals the smallest."""

    def errors(pair: tuple[float, float]) -> float:
        return searched(heard, asr, scorer_of(asr, model, lexicon, *pair)).rate(heard.references)

    return min(itertools.product(WEIGHTS, BONUSES), key=lambda pair: (errors(pair), pair))


def _text(asr: Recognizer, labels: list[int]) -> str:
    return " ".join(asr.vocabulary.decode(labels).split())


def _since(start: float, heard: Emissions) -> float:
    return 1000 * (time.process_time() - start) / len(heard.references)


def steps(
    asr: Recognizer, causal: CausalModel, texts: list[str], tune: Emissions, test: Emissions, *, order: int, n_best: int
) -> dict[str, tuple[Lists, dict[str, Any]]]:
    """What each step of decoding makes of `test`, and the weights that `tune` gave it."""
    model = estimate([text.split() for text in texts], order=order)
    words = sorted({word for text in texts for word in text.split()})
    found: dict[str, tuple[Lists, dict[str, Any]]] = {
        "1. best path": (best_paths(test, asr), {}),
        "2. beam search": (searched(test, asr, None), {}),
    }
    sides: dict[str, tuple[str, list[str] | None]] = {
        f"3. beam search, {order}-gram": (f"4. beam search, {order}-gram, rescored", None),
        f"5. beam search, {order}-gram, its words only": (
            f"6. beam search, {order}-gram, its words only, rescored",
            words,
        ),
    }
    for name, (again, lexicon) in sides.items():
        weight, bonus = tuned(asr, model, lexicon, tune)
        scorer = scorer_of(asr, model, lexicon, weight, bonus)
        found[name] = searched(test, asr, scorer), {"weight": weight, "word_bonus": bonus}
        learnt = with_log_probs(searched(tune, asr, scorer, n_best=n_best).candidates, causal)
        best = tune_rescoring(learnt, tune.references)
        lists = rescored(searched(test, asr, scorer, n_best=n_best), causal, best.weight, best.word_bonus)
        found[again] = lists, {"weight": best.weight, "word_bonus": best.word_bonus}
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a recogniser")
    parser.add_argument("--root", type=Path, required=True, help="folder that the manifests are in")
    parser.add_argument("--train", nargs="+", required=True, help="manifests whose texts the language models learn")
    parser.add_argument("--tune", nargs="+", required=True, help="manifests to choose weights and word bonuses on")
    parser.add_argument("--test", nargs="+", required=True, help="manifests to count errors on")
    parser.add_argument("--causal", type=Path, required=True, help="folder of a causal language model of transformers")
    parser.add_argument(
        "--snr",
        nargs="+",
        type=float,
        default=[math.inf, 10.0, 5.0, 0.0],
        help="ratio of speech to added noise in dB; inf for no noise",
    )
    parser.add_argument("--order", type=int, default=4, help="length of the longest n-grams (default 4)")
    parser.add_argument("--n_best", type=int, default=50, help="texts of each utterance that are rescored (default 50)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    asr = jasper.load(options.checkpoint)
    sources = DataConfig(root=options.root)
    train, tune, test = (
        data.read_utterances(names, sources, data.spelling_of(asr.config), training=False)[0]
        for names in (options.train, options.tune, options.test)
    )
    texts = [utterance.text for utterance in train]
    said = set(texts)
    unseen = {word for u in test for word in u.text.split()} - {word for text in texts for word in text.split()}
    print(
        f"{len(test)} utterances, {sum(u.text in said for u in test)} of whose texts the models learnt; "
        f"words they did not: {len(unseen)}"
    )
    causal = CausalModel(options.causal)
    for snr in options.snr:
        heard_tune, heard = hear(asr, tune, snr), hear(asr, test, snr)
        noise, rates = "none" if math.isinf(snr) else f"{snr:g} dB", dict[str, float]()
        for name, (lists, weights) in steps(
            asr, causal, texts, heard_tune, heard, order=options.order, n_best=options.n_best
        ).items():
            number = name.partition(" ")[0]
            rates[number] = lists.rate(heard.references)
            row = {
                "metric": METRIC,
                "config": options.checkpoint.parent.name,
                "step": name,
                "noise": noise,
                "utterances": len(test),
                "beam": BEAM,
                "n_best": options.n_best,
                "weights": weights,
                "percent": round(rates[number], 2),
                "fewer_points": round(rates[BEFORE.get(number, number)] - rates[number], 2),
                "network_ms": round(heard.milliseconds, 2),
                "decoding_ms": round(lists.milliseconds, 3),
            }
            print(f"noise {noise:6} {name:50} {row['percent']:6.2f} %  {row['decoding_ms']:8.2f} ms  {weights or ''}")
            append_row("ctc_language_model", row, device=asr.device)


if __name__ == "__main__":
    main()
