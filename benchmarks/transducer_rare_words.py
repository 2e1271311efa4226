"""Sentences with rare names and other rare words: errors greedily and with a language model, over draws of noise.

    OMP_NUM_THREADS=1 python benchmarks/transducer_rare_words.py MODEL TRAIN SET... [--noise 10 5] [--seeds 5]

MODEL: a checkpoint. TRAIN: a manifest or corpus folder whose texts the 4-gram of pieces counts. SET: those that are
decoded, all of them together. Rare words occur in these texts --rare times at most. Of every draw of white noise the
sentences that have one are decoded greedily, with the 4-gram in place of the internal language model, with their rare
words as phrases, and with a beam of 4. A row has how many of their words are wrong, how many of the rare words are not
found, and of all draws how many sentences have fewer errors than greedily and how many have more. Rows go to
benchmarks/results/transducer_rare_words.jsonl.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

import ctc
import transducer
from benchmarks.transducer_beam import encoded, side
from common.benchmark import append_row
from common.data.manifest import read_manifest
from common.metrics import word_errors
from common.recognition.decoding import DecodingOptions
from common.text.normalize import normalize_english
from ctc.ngram import estimate
from transducer.searching import INTERNAL_SHARE

CPU = torch.device("cpu")
BATCH = 32


def errors_of(reference: str, hypothesis: str) -> int:
    return word_errors([reference], [hypothesis]).errors


def missing_of(words: Sequence[str], hypothesis: str) -> int:
    """How many of `words` are not in the hypothesis, as often as they are said."""
    return sum((Counter(words) - Counter(hypothesis.split())).values())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint of a transducer")
    parser.add_argument("train", help="manifest or corpus folder whose texts are known")
    parser.add_argument("sets", nargs="+", help="manifests or corpus folders that are decoded")
    parser.add_argument("--noise", type=float, nargs="*", default=[10.0, 5.0], help="decibels below the speech")
    parser.add_argument("--seeds", type=int, default=5, help="draws of every noise")
    parser.add_argument("--rare", type=int, default=50, help="occurrences in the texts of a rare word, at most")
    parser.add_argument("--weight", type=float, default=DecodingOptions.weight, help="weight of the language model")
    parser.add_argument(
        "--internal_weight", type=float, help="weight of the internal language model (a third of --weight)"
    )
    parser.add_argument("--boost", type=float, default=5.0, help="boost of a phrase")
    options = parser.parse_args()
    torch.set_num_threads(1)
    asr = transducer.load(options.model, device="cpu")
    texts = [normalize_english(u.text) for u in read_manifest(options.train).utterances]
    counts = Counter(word for text in texts for word in text.split())
    everything = [u for path in options.sets for u in read_manifest(path).utterances]
    utterances, references, rare = [], [], []
    for utterance in everything:
        text = normalize_english(utterance.text)
        if words := [word for word in text.split() if counts[word] <= options.rare]:
            utterances.append(utterance)
            references.append(text)
            rare.append(words)
    internal = INTERNAL_SHARE * options.weight if options.internal_weight is None else options.internal_weight
    for noise in (None, *options.noise):
        wrong: dict[str, list[int]] = {}
        missing: dict[str, int] = {}
        draws = 1 if noise is None else options.seeds
        for seed in range(draws):
            batches = encoded(asr, utterances, BATCH, noise, seed=seed)
            with tempfile.TemporaryDirectory() as folder:
                arpa = Path(folder) / "pieces.arpa"
                pieces = [[asr.pieces.labels[i] for i in asr.pieces.encode(t)] for t in texts]
                ctc.write_arpa(arpa, estimate(pieces, order=4))
                model = {"language_model": arpa, "weight": options.weight, "internal_weight": internal}
                ways: dict[str, dict] = {
                    "greedy": {},
                    "greedy, 4-gram": model,
                    "greedy, phrases": {"hot_word_boost": options.boost},
                    "greedy, 4-gram, phrases": {"hot_word_boost": options.boost, **model},
                    "beam 4": {"beam": 4},
                    "beam 4, 4-gram": {"beam": 4, **model},
                }
                for name, chosen in ways.items():
                    found = side(asr, batches, BATCH, DecodingOptions(**chosen), rare if "phrases" in name else None)()
                    said = [normalize_english(one.text) for one in found]
                    wrong.setdefault(name, []).extend(map(errors_of, references, said))
                    missing[name] = missing.get(name, 0) + sum(map(missing_of, rare, said))
        for name, own in wrong.items():
            pairs = list(zip(own, wrong["greedy"], strict=True))
            row: dict[str, object] = {
                "precision": "fp32",
                "decoding": name,
                "audio": "clean" if noise is None else f"noise at {noise:g} dB",
                "draws": draws,
                "sentences": len(utterances),
                "rare": options.rare,
                "weight": options.weight,
                "internal_weight": round(internal, 3),
                "words": draws * sum(len(text.split()) for text in references),
                "words_wrong": sum(own),
                "wer": round(100 * sum(own) / (draws * sum(len(text.split()) for text in references)), 2),
                "rare_words": draws * sum(map(len, rare)),
                "rare_words_missing": missing[name],
                "better": sum(a < b for a, b in pairs),
                "worse": sum(a > b for a, b in pairs),
            }
            print(append_row("transducer_rare_words", row, device=CPU), flush=True)


if __name__ == "__main__":
    main()
