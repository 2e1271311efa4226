"""Ten minutes by an attention decoder: words that are lost, doubled or invented, beside the merging rules of others.

    python -m benchmarks.attention_long MODEL MANIFEST [--language de] [--minutes 10]

The transcripts of a language are joined to one recording, with pauses of 0.3 s and without any, and heard in stretches:
by this package; as NeMo's `transcribe` cuts and merges (windows of a fixed length that overlap by a second, joined at
the longest run of tokens that both have); and as Cohere's (cut at the quietest 0.1 s of the last seventh, joined by
spaces). All hear at most what the model does at once. Appends rows to benchmarks/results/attention_long.jsonl.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import fastconformer
from common.audio import waveform
from common.benchmark import append_row
from common.data.manifest import Utterance, read_sources
from common.recognition.cutting.tensors import padded
from common.recognition.metrics import ErrorCount, word_errors
from fastconformer.attending import AttentionRecognizer
from fastconformer.benchmark import enough

PAUSES = (0.0, 0.3)
LEFT_TOKENS, RIGHT_TOKENS = 24, 7  # that NeMo looks at for a run that both have, before and after a seam
Hearing = Callable[[AttentionRecognizer, np.ndarray, str], str]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="checkpoint with an attention decoder")
    parser.add_argument("manifest", type=Path, help="manifest of short recordings")
    parser.add_argument("--language", default="en", help="code of the language that is transcribed (default en)")
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the recording (default 10)")
    options = parser.parse_args()
    found, _ = read_sources([str(options.manifest.absolute())], root=None, training=False, advice="name another")
    spoken = [
        u for u in found if {*(dict(u.wanted).get(k) for k in ("source_lang", "target_lang"))} == {options.language}
    ]
    chosen = [spoken[i] for i in enough(spoken, 60 * options.minutes)]
    asr = fastconformer.load(options.model, device="cpu")
    assert isinstance(asr, AttentionRecognizer), "expected a model with an attention decoder"
    said = " ".join(u.text for u in chosen)
    each = asr.transcribe(spoken, source_language=options.language, times="none")
    text_of = {u.id: transcript.text for u, transcript in zip(spoken, each, strict=True)}
    rows = [("sentences alone", "-", word_errors([u.text for u in chosen], [text_of[u.id] for u in chosen]))]
    for pause in PAUSES:
        samples_N = joined(chosen, pause, asr.sample_rate)
        for way, hear in WAYS.items():
            errors = word_errors([said], [hear(asr, samples_N, options.language)])
            rows.append((way, f"{pause:g}", errors))
    for way, pause, errors in rows:
        row = {"model": options.model.parent.name, "language": options.language, "way": way, "pause": pause}
        row |= {"minutes": options.minutes, **counted(errors)}
        print(row)
        append_row("attention_long", row, device=asr.device)


def counted(errors: ErrorCount) -> dict[str, float]:
    """Errors by kind: words that were lost, that nobody said, and that are others."""
    return {
        "wer": round(errors.rate, 5), "words": errors.length, "lost": errors.deletions,
        "invented": errors.insertions, "wrong": errors.substitutions,
    }  # fmt: skip


def joined(utterances: Sequence[Utterance], pause: float, rate: int) -> np.ndarray:
    """The recordings, one after the other, with so many seconds of zeros between them."""
    parts = [waveform.read(u.audio, sample_rate=rate, **u.piece()).samples for u in utterances]
    silence_N = np.zeros(round(pause * rate), np.float32)
    return np.concatenate([piece for part_N in parts for piece in (part_N, silence_N)])


def ours(asr: AttentionRecognizer, samples_N: np.ndarray, language: str) -> str:
    """As `transcribe` hears them."""
    (transcript,) = asr.transcribe([samples_N], source_language=language)
    return transcript.text


def by_nemo(asr: AttentionRecognizer, samples_N: np.ndarray, language: str) -> str:
    """Fixed windows, merged by tokens."""
    rate, seconds = asr.sample_rate, len(samples_N) / asr.sample_rate
    longest = int(asr.chunk_seconds)
    lengths = range(math.ceil(0.75 * longest), longest + 1)
    window = max(lengths, key=lambda length: (seconds - 1) % (length - 1) or length)
    starts = range(0, max(1, len(samples_N) - rate), (window - 1) * rate)
    texts = labels(asr, [samples_N[start : start + window * rate] for start in starts], language)
    merged = texts[0]
    for own in texts[1:]:
        left, right = merged[-LEFT_TOKENS:], own[:RIGHT_TOKENS]
        length, at_left, at_right = longest_run(left, right)
        if length:
            merged = merged[: len(merged) - len(left) + at_left] + own[at_right:]
        else:
            merged = merged + own
    return asr.pieces.decode(merged).strip()


def longest_run(left: Sequence[int], right: Sequence[int]) -> tuple[int, int, int]:
    """The length of the longest run of tokens that both have, and where it begins in each."""
    best = (0, 0, 0)
    for i in range(len(left)):
        for j in range(len(right)):
            length = 0
            while i + length < len(left) and j + length < len(right) and left[i + length] == right[j + length]:
                length += 1
            best = max(best, (length, i, j), key=lambda run: run[0])
    return best


def by_cohere(asr: AttentionRecognizer, samples_N: np.ndarray, language: str) -> str:
    """Cut where it is quietest near the end of each stretch, joined by spaces."""
    parts = list(quiet_cuts(samples_N, asr.sample_rate, asr.chunk_seconds))
    texts = [asr.pieces.decode(own).strip() for own in labels(asr, parts, language)]
    return " ".join(filter(None, texts))


def quiet_cuts(samples_N: np.ndarray, rate: int, longest: float) -> Iterator[np.ndarray]:
    """Stretches that end in the quietest tenth of a second of their last seventh."""
    most, window, start = int(longest * rate), rate // 10, 0
    while len(samples_N) - start > most:
        first = start + most * 6 // 7
        energies = [np.square(samples_N[at : at + window]).sum() for at in range(first, start + most - window, window)]
        end = first + int(np.argmin(energies)) * window + window // 2
        yield samples_N[start:end]
        start = end
    yield samples_N[start:]


def labels(asr: AttentionRecognizer, parts: Sequence[np.ndarray], language: str) -> list[list[int]]:
    """The tokens of each stretch, eight at once; of the guard against loops, too."""
    found: list[list[int]] = []
    for at in range(0, len(parts), 8):
        encoded = asr.encode(*asr.features(*padded(parts[at : at + 8])))
        found += [one.labels for one in asr.decode(*encoded, prompt=asr.prompt(language), guard=True)]
    return found


WAYS: dict[str, Hearing] = {"this package": ours, "NeMo's rule": by_nemo, "Cohere's rule": by_cohere}

if __name__ == "__main__":
    main()
