"""Words wrong of recordings with silence in them: zeros or noise before, after, around or between the words.

    python -m benchmarks.silence runs/quickstart/jasper_best.pt --root data/quickstart/LibriSpeech
    python -m benchmarks.silence runs/digits/jasper_best.pt --root data/digits --data test.jsonl
    python -m benchmarks.silence runs/quickstart_transducer/fastconformer_best.pt --root … --by session
    python -m benchmarks.silence runs/quickstart/jasper_best.pt --root … --by server
    python -m benchmarks.silence jasper.onnx --against runs/quickstart/jasper_best.pt --root … --only zeros

Models are what the server takes: checkpoints of any recogniser and files of trt.export. Silence stands between words
where the corpus says where they end, as the synthetic one does. Prints a table, in points above the recordings as they
are, with the number of texts unlike those of the whole recordings, and appends a row of it to
benchmarks/results/silence.jsonl.
"""

import argparse
import asyncio
import contextlib
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile
import torch

from benchmarks.serving_soak import running
from common.audio import waveform
from common.benchmark import append_row
from common.data.manifest import Utterance, read_sources
from common.recognition.metrics import word_errors
from common.recognition.output.transcripts import Transcript
from trt.client.asking import Server
from trt.serving.models import Ears, load_ears
from trt.serving.streams.live import Captions

Place = Literal["before", "after", "both", "between"]
By = Literal["recording", "session", "captions"]
Hear = Callable[[list[np.ndarray]], list[str]]
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


def heard_by(by: By, ears: Ears) -> Hear:
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
        found = [await captions.add(samples_N), await captions.end()]
        return " ".join(word.text for each in found if each is not None for word in each.words)

    if by == "recording":
        return lambda sounds: [transcript.text for transcript in ears.transcribe(sounds)]
    if by == "session":
        return lambda sounds: list(map(streamed, sounds))
    return lambda sounds: [asyncio.run(captioned(samples_N)) for samples_N in sounds]


def heard_over_http(url: str, sample_rate: int) -> Hear:
    """What asks a server for the texts of samples at that rate."""
    server = Server(url)

    def answered(samples_N: np.ndarray) -> str:
        file = io.BytesIO()
        soundfile.write(file, samples_N, sample_rate, format="WAV", subtype="FLOAT")
        return server.transcribe(file.getvalue(), "a.wav", style="text").removesuffix("\n")

    return lambda sounds: list(map(answered, sounds))


def measured(
    hear: Hear, utterances: Sequence[Utterance], rate: int, only: str, against: Hear | None
) -> tuple[dict[str, float], dict[str, int]]:
    """Percent of words wrong, by what is put where, "as they are" first, and the number of texts unlike `against`."""
    clean = [waveform.read(u.audio, sample_rate=rate, **u.piece()).samples for u in utterances]
    ends = [[round(end * rate) for end in u.word_ends] for u in utterances]
    references = [re.sub(r"[^\w' ]", "", u.text.lower()) for u in utterances]
    found: dict[str, float] = {}
    unlike: dict[str, int] = {}

    def row(name: str, sounds: list[np.ndarray]) -> None:
        texts = hear(sounds)
        found[name] = round(100 * word_errors(references, texts).rate, 2)
        told = f"{name:28}{found[name]:7.2f} {found[name] - found['as they are']:+.2f}"
        if against is not None:
            unlike[name] = sum(map(str.__ne__, texts, against(sounds)))
            told += f"  {unlike[name]} of {len(texts)} texts unlike"
        print(told, flush=True)

    row("as they are", clean)
    wanted = [(place, level, seconds) for place in SECONDS for level in LEVELS for seconds in SECONDS[place]]
    for place, level, seconds in wanted:
        name = f"{'zeros' if level is None else f'{level:g} dB'} {place}, {seconds:g} s"
        if re.search(only, name) and (place != "between" or all(ends)):
            random = np.random.default_rng(0)
            each = zip(clean, ends, strict=True)
            row(name, [with_silence(*one, place, seconds, level, rate, random=random) for one in each])
    return found, unlike


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="checkpoint of a recogniser, or a file of trt.export")
    parser.add_argument("--root", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--data", default="test-clean", help="subset or manifest in it (default test-clean)")
    parser.add_argument("--clips", type=int, default=200, help="number of clips (default 200)")
    parser.add_argument(
        "--by", choices=("recording", "session", "captions", "server"), default="recording", help="way of hearing"
    )
    parser.add_argument("--against", type=Path, help="model whose texts should be the same (default: with --by, MODEL)")
    parser.add_argument("--only", default="", help="pattern of the rows wanted, such as zeros or between (default all)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    utterances, _ = read_sources([options.data], root=options.root, training=False, advice="name another subset")
    utterances = utterances[:: max(1, len(utterances) // options.clips)][: options.clips]
    ears = load_ears(options.model, threads=1, device="cpu")
    against = None
    if options.against or options.by != "recording":
        against = heard_by("recording", load_ears(options.against or options.model, threads=1, device="cpu"))
    with contextlib.ExitStack() as stack:
        if options.by == "server":
            server = stack.enter_context(running("--asr", str(options.model), "--threads", "1"))
            hear = heard_over_http(server.url, ears.sample_rate)
        else:
            hear = heard_by(options.by, ears)
        found, unlike = measured(hear, utterances, ears.sample_rate, options.only, against)
    print(f"as they are {found['as they are']:.2f} %; most above it {max(found.values()) - found['as they are']:+.2f}")
    row = {"model": str(options.model.parent.name), "file": options.model.suffix, "by": options.by}
    row |= {"clips": len(utterances), "words_wrong": found, "texts_unlike": unlike}
    append_row("silence", row, device=torch.device("cpu"))


if __name__ == "__main__":
    main()
