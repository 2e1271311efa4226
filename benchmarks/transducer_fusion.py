"""Factors of a language model and of the internal one in decoding by a transducer, chosen on one set, tried on another.

    OMP_NUM_THREADS=1 python benchmarks/transducer_fusion.py MODEL DEV TEST TRAIN [--noise 10 5] [--beams 0 4]

MODEL: a checkpoint. DEV, TEST, TRAIN: manifests or corpus folders; the texts of TRAIN give a 4-gram of pieces. Of each
beam (0: greedily) the words that are wrong on DEV and on TEST, clean and with white noise so many decibels below the
speech: alone, with the 4-gram alone at every weight, and with the internal language model taken off, of which the
weight is a share of the other's. A star marks the fewest errors on DEV, added up; of equal ones the first.
"""

import argparse
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import ctc
import transducer
from benchmarks.transducer_beam import encoded
from common.data.manifest import read_manifest
from common.metrics import word_errors
from common.text.normalize import normalize_english
from ctc.ngram import estimate
from transducer.beam import BeamOptions, BeamSearch
from transducer.decoder import Decoder
from transducer.weights import DecoderWeights

WEIGHTS, SHARES = (0.1, 0.2, 0.3, 0.4, ctc.ScorerOptions.weight, 0.6, 0.8), (0.0, 1 / 3, 2 / 3)

Decode = Callable[[Tensor, Sequence[int]], list[list[int]]]
"""Pieces of every utterance of encoder frames."""
Set = tuple[Tensor, list[int], list[str]]
"""Encoder frames, how many belong to each utterance, and what was said."""


def ways(weights: DecoderWeights, labels: Sequence[str], model: ctc.BackoffModel, beam: int) -> dict[str, Decode]:
    """Every choice of factors, by its name."""

    def way(weight: float, internal: float) -> Decode:
        options = ctc.ScorerOptions(unit="token", weight=weight, word_bonus=0.0)
        scorer = ctc.Scorer(labels, model=model, options=options) if weight else None
        if beam:
            search = BeamSearch(weights, BeamOptions(beam=beam, internal_weight=internal))
            return lambda frames, counts: [
                own[0].decoded.tokens if own else [] for own in search(frames, counts, scorers=scorer)
            ]
        greedy = Decoder(weights)
        return lambda frames, counts: [
            one.tokens for one in greedy(frames, counts, scorers=scorer, internal_weight=internal)
        ]

    pairs = [(weight, weight * share) for weight in WEIGHTS for share in SHARES]
    return {"alone": way(0, 0), **{f"weight {w:g}, internal {u:.3f}": way(w, u) for w, u in pairs}}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint of a transducer")
    parser.add_argument("dev", help="manifest or corpus folder that factors are chosen on")
    parser.add_argument("test", help="manifest or corpus folder that they are tried on")
    parser.add_argument("train", help="manifest or corpus folder whose texts the 4-gram counts")
    parser.add_argument("--noise", type=float, nargs="*", default=[10.0, 5.0], help="decibels below the speech")
    parser.add_argument("--beams", type=int, nargs="*", default=[0, 4], help="label sequences kept; 0: greedily")
    options = parser.parse_args()
    torch.set_num_threads(1)
    asr = transducer.load(options.model, device="cpu")
    weights, pieces = asr.model.decoder_weights(), asr.pieces
    texts = [normalize_english(u.text) for u in read_manifest(options.train).utterances]
    model = estimate([[pieces.labels[i] for i in pieces.encode(t)] for t in texts], order=4)
    noises: list[float | None] = [None, *options.noise]

    def sets(path: str) -> list[Set]:
        utterances = read_manifest(path).utterances
        said = [normalize_english(u.text) for u in utterances]
        return [(*encoded(asr, utterances, len(utterances), noise)[0], said) for noise in noises]

    def errors(decode: Decode, tried: Set) -> int:
        frames, counts, said = tried
        return word_errors(said, [normalize_english(pieces.decode(tokens)) for tokens in decode(frames, counts)]).errors

    dev, test = sets(options.dev), sets(options.test)
    kinds = ", ".join("clean" if noise is None else f"{noise:g} dB" for noise in noises)
    words = [sum(len(text.split()) for text in said) for _, _, said in (dev[0], test[0])]
    print(f"beam, factors | of {words[0]} words of dev: {kinds} | of {words[1]} of test")
    for beam in options.beams:
        found = {
            name: ([errors(decode, one) for one in dev], [errors(decode, one) for one in test])
            for name, decode in ways(weights, pieces.labels, model, beam).items()
        }
        best = min(found, key=lambda name: sum(found[name][0]))
        for name, (of_dev, of_test) in found.items():
            columns = [", ".join(map(str, own)) for own in (of_dev, of_test)]
            print(f"{beam}, {name} | {columns[0]} | {columns[1]}{' *' if name == best else ''}", flush=True)


if __name__ == "__main__":
    main()
