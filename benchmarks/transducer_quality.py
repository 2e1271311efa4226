"""Word error rates of a transducer by head and precision, and distances of its word times from the synthesiser's.

    python benchmarks/transducer_quality.py CHECKPOINT --root CORPUS [--subset test-clean]

CORPUS is a synthetic corpus, whose `<subset>.word_times.jsonl` has the times that espeak-ng gave with its sound. Times
are of utterances whose words are all right; a lateness that all words have is taken off. Appends rows to
benchmarks/results/transducer_quality.jsonl.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import transducer
from common.benchmark import append_row
from common.data import corpora
from common.metrics import word_errors
from common.precision import Precision
from common.recognition.transcripts import Transcript
from common.text.normalize import normalize_english
from transducer.recognizer import Head

PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")
HEADS: tuple[Head, ...] = ("transducer", "ctc")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a transducer with a CTC head")
    parser.add_argument("--root", type=Path, required=True, help="folder of the synthetic corpus")
    parser.add_argument("--subset", default="test-clean", help="subset of the corpus (default test-clean)")
    options = parser.parse_args()
    utterances, _ = corpora.read_utterances(
        [options.subset], root=options.root, on_error="stop", purpose="evaluate", advice="name another subset"
    )
    with (options.root / f"{options.subset}.word_times.jsonl").open(encoding="utf-8") as file:
        spoken = {row["id"]: row["words"] for row in map(json.loads, file)}
    references = [normalize_english(utterance.text) for utterance in utterances]
    name = options.checkpoint.parent.name
    for head in HEADS:
        for precision in PRECISIONS:
            asr = transducer.load(options.checkpoint, device="cpu", precision=precision, head=head)
            heard = asr.transcribe(utterances)
            errors = word_errors(references, [normalize_english(transcript.text) for transcript in heard])
            row = {"metric": "wer", "config": name, "head": head, "precision": precision, "wer": round(errors.rate, 5)}
            print(row := row | {"errors": errors.errors, "words": errors.length})
            append_row("transducer_quality", row, device=asr.device)
            if precision == "fp32":
                late_of = {"word start": 0, "word end": 1}
                late_N2 = lateness(heard, [spoken[utterance.id] for utterance in utterances])
                for what, column in late_of.items():
                    row = {
                        "metric": "times",
                        "config": name,
                        "head": head,
                        "what": what,
                        **distances(late_N2[:, column]),
                    }
                    print(row := row | {"ms_per_frame": round(1e3 * asr.seconds_per_frame, 2)})
                    append_row("transducer_quality", row, device=asr.device)


def lateness(heard: Sequence[Transcript], spoken: Sequence[Sequence[tuple[str, float, float]]]) -> np.ndarray:
    """[words, 2]: how many ms start and end of every word are late, of transcripts whose words are those spoken."""
    late = [
        (1e3 * (word.start - start), 1e3 * (word.end - end))
        for transcript, words in zip(heard, spoken, strict=True)
        if [word.text for word in transcript.words] == [text for text, _, _ in words]
        for word, (_, start, end) in zip(transcript.words, words, strict=True)
    ]
    return np.array(late).reshape(-1, 2)


def distances(late_N: np.ndarray) -> dict[str, float]:
    """The median lateness, and the distances that are left without it."""
    if not len(late_N):
        raise SystemExit("error: not one utterance has all its words right")
    late_by = float(np.median(late_N))
    left_N = np.abs(late_N - late_by)
    p50, p90 = (round(float(np.percentile(left_N, p)), 1) for p in (50, 90))
    return {"words": len(late_N), "late_by": round(late_by, 1), "p50": p50, "p90": p90}


if __name__ == "__main__":
    main()
