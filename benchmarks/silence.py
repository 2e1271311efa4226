"""Words wrong of recordings with silence in them: zeros or noise before, after, around or between the words.

    python -m benchmarks.silence runs/quickstart/jasper_best.pt --root data/quickstart/LibriSpeech
    python -m benchmarks.silence runs/digits/jasper_best.pt --root data/digits --data test.jsonl
    python -m benchmarks.silence runs/quickstart_transducer/fastconformer_best.pt --root … --by session

Models are what the server takes: checkpoints of any recogniser and files of trt.export. Silence stands between words
where the corpus says where they end, as the synthetic one does. Prints a table, in points above the recordings as they
are, and appends a row of it to benchmarks/results/silence.jsonl.
"""

import argparse
import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from common.audio import waveform
from common.benchmark import append_row
from common.data.manifest import Utterance, read_sources
from common.recognition.metrics import word_errors
from common.recognition.transcripts import Transcript
from trt.serving.live import Captions
from trt.serving.models import Ears, load_ears

Place = Literal["before", "after", "both", "between"]
By = Literal["recording", "session", "captions"]
SECONDS: dict[Place, tuple[float, ...]] = {
    "before": (0.05, 0.25, 1.0, 5.0), "after": (0.05, 0.25, 1.0, 5.0), "both": (0.25, 2.0, 5.0), "between": (0.25, 1.0),
}  # fmt: skip
LEVELS = (None, -100.0, -80.0, -60.0)  # decibels of full scale; None: zeros


def with_silence(
    samples_N: np.ndarray, word_ends: Sequence[int], place: Place, seconds: float, level: float | None, rate: int, *,
    random: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Samples with so much silence before, after, on both sides, or after each word but the last."""

    def silence() -> np.ndarray:
        deviation = 0.0 if level is None else 10 ** (level / 20)
        return (deviation * random.standard_normal(round(seconds * rate))).astype(np.float32)

    parts = np.split(samples_N, word_ends[:-1]) if place == "between" else [samples_N]
    pieces = [silence()] if place in ("before", "both") else []
    for part_N in parts:
        pieces += [part_N, silence()]
    return np.concatenate(pieces if place in ("after", "both") else pieces[:-1])


def heard_by(by: By, ears: Ears) -> Callable[[list[np.ndarray]], list[str]]:
    """What makes texts of samples: whole, as a stream of tenths of seconds, or as live captions."""
    step = ears.sample_rate // 10

    def streamed(samples_N: np.ndarray) -> str:
        session = ears.asr.session()
        updates = [session.feed(samples_N[first : first + step]) for first in range(0, len(samples_N), step)]
        return " ".join(filter(None, (update.text for update in [*updates, session.finish()])))

    async def captioned(samples_N: np.ndarray) -> str:
        async def hear(heard_N: np.ndarray) -> Transcript:
            return ears.transcribe([heard_N])[0]

        captions = Captions(hear, ears.sample_rate, keep=ears.keep)
        await captions.add(samples_N)
        await captions.end()
        return " ".join(word.text for word in captions.words)

    if by == "recording":
        return lambda sounds: [transcript.text for transcript in ears.transcribe(sounds)]
    if by == "session":
        return lambda sounds: list(map(streamed, sounds))
    return lambda sounds: [asyncio.run(captioned(samples_N)) for samples_N in sounds]


def measured(
    hear: Callable[[list[np.ndarray]], list[str]],
    utterances: Sequence[Utterance],
    rate: int,
    levels: Sequence[float | None],
) -> dict[str, float]:
    """Percent of words wrong, by what is put where, "as they are" first."""
    clean = [waveform.read(u.audio, sample_rate=rate, **u.piece()).samples for u in utterances]
    ends = [[round(end * rate) for end in u.word_ends] for u in utterances]
    references = [re.sub(r"[^\w' ]", "", u.text.lower()) for u in utterances]
    found = {"as they are": 100 * word_errors(references, hear(clean)).rate}
    for place, lengths in SECONDS.items():
        if place == "between" and not all(ends):
            continue
        for level in levels:
            for seconds in lengths:
                random = np.random.default_rng(0)
                sounds = [
                    with_silence(*each, place, seconds, level, rate, random=random)
                    for each in zip(clean, ends, strict=True)
                ]
                name = f"{'zeros' if level is None else f'{level:g} dB'} {place}, {seconds:g} s"
                found[name] = round(100 * word_errors(references, hear(sounds)).rate, 2)
                print(f"{name:28}{found[name]:7.2f} {found[name] - found['as they are']:+.2f}", flush=True)
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="checkpoint of a recogniser, or a file of trt.export")
    parser.add_argument("--root", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--data", default="test-clean", help="subset or manifest in it (default test-clean)")
    parser.add_argument("--clips", type=int, default=200, help="number of clips (default 200)")
    parser.add_argument(
        "--by", choices=("recording", "session", "captions"), default="recording", help="way of hearing"
    )
    parser.add_argument("--zeros", action="store_true", help="zeros alone, no noise")
    options = parser.parse_args()
    torch.set_num_threads(1)
    utterances, _ = read_sources([options.data], root=options.root, training=False, advice="name another subset")
    utterances = utterances[:: max(1, len(utterances) // options.clips)][: options.clips]
    ears = load_ears(options.model, threads=1, device="cpu")
    levels = LEVELS[:1] if options.zeros else LEVELS
    found = measured(heard_by(options.by, ears), utterances, ears.sample_rate, levels)
    print(f"as they are {found['as they are']:.2f} %; most above it {max(found.values()) - found['as they are']:+.2f}")
    row = {"model": str(options.model.parent.name), "file": options.model.suffix, "by": options.by}
    append_row("silence", row | {"clips": len(utterances), "words_wrong": found}, device=torch.device("cpu"))


if __name__ == "__main__":
    main()
