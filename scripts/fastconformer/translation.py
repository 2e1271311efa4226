"""Builds a corpus of synthetic English and German speech, trains an attention decoder on it that transcribes both and
translates English into German, and scores it on sentences and voices that it never heard: error rates, BLEU, chrF,
texts in a wrong language, loops, and how far the times of words are from the true ones.

An interrupted run goes on where it stopped; a finished one is scored again.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from common import config
from common.data.synthetic import SyntheticConfig, build_translations

# What needs torch is imported where it is used: every process that speaks the corpus imports this file.
CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "fastconformer"
CORPUS = {
    "full": SyntheticConfig(train_utterances=8000, dev_utterances=100, test_utterances=400),
    "toy": SyntheticConfig(train_utterances=24, dev_utterances=8, test_utterances=8),
}
TRAINING = {"full": "translation.toml", "toy": "translation_toy.toml"}


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What scripts/fastconformer/translation.sh does."""

    size: Literal["full", "toy"] = "full"
    """Size of the model and the corpus. full: 8,000 recordings, 8 epochs; toy: the same steps in seconds."""
    data_dir: Path = Path("data")
    """Folder of corpora; this one gets a folder in it."""
    run_dir: Path = Path("runs")
    """Folder of runs; this one gets a folder in it."""
    only: Literal["all", "corpus", "scores"] = "all"
    """Part that is done. corpus: the corpus alone; scores: those of the best checkpoint so far."""


def main(cfg: Translation) -> int:
    """Does it all; returns the exit status."""
    name = "translation" if cfg.size == "full" else "translation-toy"
    corpus = build_translations(cfg.data_dir / name, CORPUS[cfg.size])
    print(f"{corpus}: English and German speech, with German translations of the English")
    if cfg.only == "corpus":
        return 0
    from fastconformer import evaluation, train
    from fastconformer.config import Config

    run = config.load(Config, CONFIGS / TRAINING[cfg.size])
    run = replace(run, output_dir=cfg.run_dir / name, data=replace(run.data, root=corpus))
    if cfg.only == "all" and train.main(run).epoch < run.epochs:
        print("stopped; the same command goes on from there")
        return 130
    best = run.output_dir / "fastconformer_best.pt"
    options = evaluation.EvaluationConfig(
        model=best, manifests=(corpus / "test.jsonl",), hypotheses=run.output_dir / "test_hypotheses.jsonl", workers=0
    )
    status = evaluation.main(options)
    print_word_times(best, corpus)
    print("\nThe decoder in int8")
    in_int8 = run.output_dir / "test_hypotheses_int8.jsonl"
    evaluation.main(replace(options, decoder_precision="int8", hypotheses=in_int8))
    print_agreement(run.output_dir / "test_hypotheses.jsonl", in_int8)
    print(f"model {best}; to use it: python -m fastconformer.inference {best} AUDIO... --target_language de")
    return status


def print_agreement(one: Path, other: Path) -> None:
    """How many words of two files of hypotheses are the same."""
    from common.recognition.metrics import word_errors

    texts = [[json.loads(line)["hypothesis"] for line in path.read_text("utf-8").splitlines()] for path in (one, other)]
    errors = word_errors(*texts)
    print(f"words as in fp32: {1 - errors.rate:.2%} of {errors.length}\n")


def print_word_times(model: Path, corpus: Path) -> None:
    """How far the starts and ends of words that are right are from those of espeak-ng, by the model's CTC head."""
    import numpy as np

    import fastconformer
    from common.data.manifest import read_manifest

    lines = (corpus / "test.word_times.jsonl").read_text(encoding="utf-8").splitlines()
    known = {row["id"]: row["words"] for row in map(json.loads, lines)}
    spoken = [u for u in read_manifest(corpus / "test.jsonl").utterances if u.id in known]
    distances, words = [], 0
    for utterance, found in zip(spoken, fastconformer.load(model).stream(spoken), strict=True):
        true = known[utterance.id]
        words += len(true)
        if [word.text for word in found.words] == [text for text, _, _ in true]:
            for word, (_, start, end) in zip(found.words, true, strict=True):
                distances += [abs(word.start - start), abs(word.end - end)]
    if distances:
        median, most = np.percentile(np.array(distances) * 1000, [50, 90])
        told = f"median {median:.0f} ms, 90 % within {most:.0f} ms"
        print(f"starts and ends of words: {told}, of {len(distances) // 2} words of {words}, in texts without errors")


if __name__ == "__main__":
    from common.runs.checkpoint import CheckpointError

    with config.reported(FileExistsError, CheckpointError):
        sys.exit(main(config.parse_flags(Translation, None, sys.argv[1:], description=__doc__ or "")))
