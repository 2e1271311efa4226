"""Ways to fuse an n-gram in greedy decoding of a transducer, chosen on one set and tried on another: word error rates.

    OMP_NUM_THREADS=1 python benchmarks/transducer_fusion.py MODEL DEV TEST TRAIN [--noise 10 5]

MODEL: a checkpoint. DEV, TEST, TRAIN: manifests or corpus folders; the texts of TRAIN give a 4-gram of pieces. Whether
a frame has a label is the network's alone to decide; which one, by the sum of its log-probability x and, with those of
the 4-gram, g,

shallow    w g
entropy    w g, times three times the entropy of x in parts of the greatest, at most 1
unsure     w g where the best label has less than 80 %, nothing elsewhere
internal   w g - u i, with i what prediction network and joint say without the encoder (Meng et al., ILME, 2021)

Of each way those factors count that make the fewest errors on DEV, clean and with white noise so many decibels below
the speech, added up; of equal ones the first. In plain torch, label by label: some minutes.
"""

import argparse
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import ctc
import transducer
from benchmarks.transducer_beam import encoded
from common.data.manifest import Utterance, read_manifest
from common.metrics import ErrorCount, word_errors
from common.text.normalize import normalize_english
from ctc.ngram import estimate
from ctc.scorer import State
from transducer import reference
from transducer.weights import DecoderWeights

Choose = Callable[[Tensor, Tensor, Tensor], int]
"""The label by x, g and i, log-probabilities of all labels."""
MAX_SYMBOLS = 10
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
UNSURE = 0.8


def shallow(weight: float) -> Choose:
    return lambda x_V, g_V, _: int((x_V + weight * g_V).argmax())


def by_entropy(weight: float) -> Choose:
    def choose(x_V: Tensor, g_V: Tensor, _: Tensor) -> int:
        share = float(torch.special.entr(x_V.exp()).sum()) / math.log(len(x_V))
        return int((x_V + weight * min(1.0, 3 * share) * g_V).argmax())

    return choose


def where_unsure(weight: float) -> Choose:
    return lambda x_V, g_V, _: int((x_V + weight * g_V if float(x_V.max()) < math.log(UNSURE) else x_V).argmax())


def less_internal(weight: float, internal: float) -> Choose:
    return lambda x_V, g_V, i_V: int((x_V + weight * g_V - internal * i_V).argmax())


WAYS: dict[str, dict[str, Choose]] = {
    "alone": {"": lambda x_V, *_: int(x_V.argmax())},
    "shallow": {f"w {w}": shallow(w) for w in WEIGHTS},
    "entropy": {f"w {w}": by_entropy(w) for w in WEIGHTS},
    "unsure": {f"w {w}": where_unsure(w) for w in WEIGHTS},
    "internal": {
        f"w {w}, u {w * share:.2g}": less_internal(w, w * share)
        for w, share in itertools.product(WEIGHTS, (0.33, 0.67))
    },
}


class Language:
    """Log-probabilities of all labels after a history, by a 4-gram."""

    def __init__(self, labels: Sequence[str], texts: Sequence[Sequence[str]], count: int) -> None:
        options = ctc.ScorerOptions(unit="token", weight=1.0, word_bonus=0.0)
        scorer = ctc.Scorer(labels, model=estimate(texts, order=4), options=options)
        self.start = scorer.start()

        @functools.cache
        def after(state: State) -> tuple[Tensor, list[State]]:
            found = [scorer.extend(state, label) for label in range(count)]
            return torch.tensor([gain for gain, _ in found]), [state for _, state in found]

        self.after = after


@torch.no_grad()
def decode(encoded_SC: Tensor, weights: DecoderWeights, language: Language, choose: Choose) -> list[int]:
    """As `transducer.reference.greedy`, but for the choice of the label."""
    labels, nothing_C = weights.blank, torch.zeros_like(encoded_SC[0])
    prediction_H, state = reference.predict(labels, reference.start_state(weights), weights)
    history, tokens, frame, symbols = language.start, [], 0, 0
    while frame < len(encoded_SC):
        logits_W = reference.joint(encoded_SC[frame], prediction_H, weights)
        duration = weights.durations[int(logits_W[labels + 1 :].argmax())] if weights.durations else 0
        if int(logits_W[: labels + 1].argmax()) == labels:
            duration = max(1, duration)
        else:
            gains_V, after = language.after(history)
            internal_W = reference.joint(nothing_C, prediction_H, weights)
            token = choose(logits_W[:labels].log_softmax(0), gains_V, internal_W[:labels].log_softmax(0))
            tokens.append(token)
            history = after[token]
            prediction_H, state = reference.predict(token, state, weights)
            symbols += 1
            duration = max(1, duration) if symbols == MAX_SYMBOLS else duration
        if duration:
            frame, symbols = frame + duration, 0
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint of a transducer")
    parser.add_argument("dev", help="manifest or corpus folder that factors are chosen on")
    parser.add_argument("test", help="manifest or corpus folder that they are tried on")
    parser.add_argument("train", help="manifest or corpus folder whose texts the 4-gram counts")
    parser.add_argument("--noise", type=float, nargs="*", default=[10.0, 5.0], help="decibels below the speech")
    options = parser.parse_args()
    torch.set_num_threads(1)
    asr = transducer.load(options.model, device="cpu")
    weights, pieces = asr.model.decoder_weights(), asr.pieces
    texts = [normalize_english(u.text) for u in read_manifest(options.train).utterances]
    language = Language(pieces.labels, [[pieces.labels[i] for i in pieces.encode(t)] for t in texts], weights.blank)
    noises: list[float | None] = [None, *options.noise]

    def sets(path: str) -> dict[float | None, list[tuple[Tensor, str]]]:
        utterances: Sequence[Utterance] = read_manifest(path).utterances
        references = [normalize_english(u.text) for u in utterances]
        found = {}
        for noise in noises:
            ((frames_BSC, counts),) = encoded(asr, utterances, len(utterances), noise)
            found[noise] = list(zip((e[:n] for e, n in zip(frames_BSC, counts, strict=True)), references, strict=True))
        return found

    def errors(pairs: Sequence[tuple[Tensor, str]], choose: Choose) -> ErrorCount:
        found = [normalize_english(pieces.decode(decode(e_SC, weights, language, choose))) for e_SC, _ in pairs]
        return word_errors([text for _, text in pairs], found)

    dev, test = sets(options.dev), sets(options.test)
    kinds = ", ".join("clean" if noise is None else f"{noise:g} dB" for noise in noises)
    print(f"way, factors | dev: {kinds} | test", flush=True)
    for way, choices in WAYS.items():
        tried = {name: [errors(dev[n], choose) for n in noises] for name, choose in choices.items()}
        best = min(tried, key=lambda name: sum(e.rate * e.length for e in tried[name]))
        own = [errors(test[n], choices[best]) for n in noises]
        columns = [", ".join(f"{100 * e.rate:.2f} %" for e in found) for found in (tried[best], own)]
        print(f"{way} {best} | " + " | ".join(columns), flush=True)


if __name__ == "__main__":
    main()
