"""Word error rates of a transducer by head and precision, and distances of its word times from the synthesiser's.

    python benchmarks/transducer_quality.py CHECKPOINT --root CORPUS [--subset test-clean] [--noise 15 10]

CORPUS is a synthetic corpus, whose `<subset>.word_times.jsonl` has the times that espeak-ng gave with its sound. Times
are of utterances whose words are all right; a lateness that all words have is taken off. With --noise instead: the
utterances as they are and with white noise so many decibels below them, all errors added up, and the words that a
precision writes otherwise than fp32 does, right or wrong, which says more than two error rates of few errors. Appends
rows to benchmarks/results/transducer_quality.jsonl.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

import fastconformer
from benchmarks.transducer_beam import with_noise
from common.audio import waveform
from common.benchmark import append_row
from common.data.manifest import Utterance, read_sources
from common.devices.precision import Precision
from common.recognition.metrics import word_errors
from common.recognition.output.transcripts import Transcript
from common.text.normalize import normalize_english
from fastconformer.recognizer import Head

PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")
HEADS: tuple[Head, ...] = ("transducer", "ctc")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a transducer with a CTC head")
    parser.add_argument("--root", type=Path, required=True, help="folder of the synthetic corpus")
    parser.add_argument("--subset", default="test-clean", help="subset of the corpus (default test-clean)")
    parser.add_argument("--noise", type=float, nargs="+", help="decibels of white noise below the speech")
    options = parser.parse_args()
    utterances, _ = read_sources([options.subset], root=options.root, training=False, advice="name another subset")
    if options.noise:
        compare_precisions(options.checkpoint, utterances, [None, *options.noise])
        return
    with (options.root / f"{options.subset}.word_times.jsonl").open(encoding="utf-8") as file:
        spoken = {row["id"]: row["words"] for row in map(json.loads, file)}
    references = [normalize_english(utterance.text) for utterance in utterances]
    name = options.checkpoint.parent.name
    for head in HEADS:
        for precision in PRECISIONS:
            asr = fastconformer.load(options.checkpoint, device="cpu", precision=precision, head=head)
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


def compare_precisions(checkpoint: Path, utterances: Sequence[Utterance], noises: Sequence[float | None]) -> None:
    """A row for every head and precision: errors, and words that are not those of fp32."""
    references = [normalize_english(utterance.text) for utterance in utterances] * len(noises)
    full: dict[Head, list[str]] = {}
    for precision in PRECISIONS:
        asr = fastconformer.load(checkpoint, device="cpu", precision=precision)
        sounds = noisy(utterances, noises, asr.feature_config.sample_rate)
        for head, texts in written(asr, sounds).items():
            errors = word_errors(references, texts)
            other = word_errors(full.setdefault(head, texts), texts)
            row = {"metric": "precision", "config": checkpoint.parent.name, "head": head, "precision": precision}
            row |= {"audio": ", ".join("clean" if noise is None else f"{noise:g} dB" for noise in noises)}
            row |= {"wer": round(errors.rate, 5), "errors": errors.errors, "words": errors.length}
            print(row := row | {"other_words": other.errors})
            append_row("transducer_quality", row, device=asr.device)


def noisy(utterances: Sequence[Utterance], noises: Sequence[float | None], rate: int) -> list[torch.Tensor]:
    """All utterances with the first noise, then all with the second, and so on."""
    random = torch.Generator().manual_seed(0)
    clean = [torch.from_numpy(waveform.read(u.audio, sample_rate=rate, **u.piece()).samples) for u in utterances]
    return [with_noise(samples_N, noise, random) for noise in noises for samples_N in clean]


def written(asr: fastconformer.Recognizer, sounds: Sequence[torch.Tensor], batch: int = 8) -> dict[Head, list[str]]:
    """Texts by head, greedily, of frames that are encoded once for both."""
    found: dict[Head, dict[int, str]] = {head: {} for head in HEADS}
    by_length = sorted(range(len(sounds)), key=lambda i: len(sounds[i]))
    for start in range(0, len(sounds), batch):
        chosen = by_length[start : start + batch]
        samples_B = torch.tensor([len(sounds[i]) for i in chosen])
        encoded = asr.encode(*asr.features(pad_sequence([sounds[i] for i in chosen], True), samples_B))
        for head, texts in found.items():
            heard = asr.decode(encoded.encoded_BSC, encoded.frames_B, head=head)
            texts.update((i, normalize_english(h.text)) for i, h in zip(chosen, heard, strict=True))
    return {head: [texts[i] for i in range(len(sounds))] for head, texts in found.items()}


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
