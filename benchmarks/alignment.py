"""Distances of the word starts that ctc.align finds from those of the synthesiser.

    python benchmarks/alignment.py CHECKPOINT --root CORPUS [--subset test-clean]

CORPUS is a synthetic corpus, whose `<subset>.word_times.jsonl` has the times that espeak-ng gave with its sound.
Appends rows to benchmarks/results/ctc_alignment.jsonl.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ctc
import jasper
from common.benchmark import append_row
from common.data.manifest import Utterance
from common.recognition.output.transcripts import Transcript
from jasper import data
from jasper.config import DataConfig
from jasper.recognizer import Recognizer


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a recogniser")
    parser.add_argument("--root", type=Path, required=True, help="folder of the synthetic corpus")
    parser.add_argument("--subset", default="test-clean", help="subset of the corpus (default test-clean)")
    options = parser.parse_args()
    asr = jasper.load(options.checkpoint)
    sources = DataConfig(root=options.root)
    utterances, _ = data.read_utterances([options.subset], sources, data.spelling_of(asr.config), training=False)
    with (options.root / f"{options.subset}.word_times.jsonl").open(encoding="utf-8") as file:
        spoken = {row["id"]: row["words"] for row in map(json.loads, file)}
    errors: dict[str, list[float]] = {}
    for utterance, heard in zip(utterances, asr.transcribe(utterances, keep_log_probs=True), strict=True):
        for what, error in distances(asr, utterance, heard, spoken[utterance.id]):
            errors.setdefault(what, []).append(error)
    for what, values in errors.items():
        late_N = np.array(values)
        row = {
            "metric": "distance_ms",
            "config": options.checkpoint.parent.name,
            "what": what,
            "words": len(late_N),
            "ms_per_frame": round(1e3 * asr.samples_per_frame / asr.config.features.sample_rate, 2),
            "late_by": round(float(np.median(late_N)), 1),
            "p50": round(float(np.median(np.abs(late_N))), 1),
            "p90": round(float(np.percentile(np.abs(late_N), 90)), 1),
        }
        print(row)
        append_row("ctc_alignment", row, device=asr.device)


def distances(
    asr: Recognizer, utterance: Utterance, heard: Transcript, spoken: list[tuple[str, float, float]]
) -> Iterator[tuple[str, float]]:
    """(what, ms that it is found late) of every word.

    Frame f is centred at f times the length of a frame, for the windows of the features and the strides of the network
    are centred: it starts half a frame before.
    """
    assert heard.log_probs_SV is not None
    labels = asr.vocabulary.encode(utterance.text)
    log_probs_BSV = heard.log_probs_SV[None]
    (alignment,) = ctc.align(log_probs_BSV, [labels], [log_probs_BSV.shape[1]], blank=asr.vocabulary.blank)
    (boundary,) = asr.vocabulary.encode(" ")
    words = ctc.word_spans(labels, alignment, boundary=boundary)
    first = 0
    for (text, start, end), word in zip(spoken, words, strict=True):
        peak = alignment.start_frames[first]
        for what, frame, seconds in (
            ("peak of the first label", peak + 0.5, start),
            ("word start", word.start_frame, start),
            ("word end", word.end_frame, end),
        ):
            found = heard.time_of(frame - 0.5)
            yield what, 1e3 * (found - seconds)
        first += len(text) + 1


if __name__ == "__main__":
    main()
