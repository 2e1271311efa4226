"""Voices before judges from outside, in one table and one run: recordings, Griffin-Lim, WORLD, and ours.

    pip install -r requirements-judges.txt
    python benchmarks/voices.py LJSpeech-1.1 --clips test.txt --vocoder light=vocoder.pt [--vocoder v3=v3.pt …]
    python benchmarks/voices.py LJSpeech-1.1 --texts unseen.txt --fastpitch fastpitch.pt --vocoder light=vocoder.pt

Copy synthesis: `--clips` are said again from their mel spectrograms. Speech: FastPitch and the first vocoder say the
texts of `--texts`, of which the reader's recordings are judged too. File lists are `wavs/a.wav|text`, relative to the
folder. Judges (benchmarks/judges.py) whose package is not there are left out by name. The likeness is that to twenty
other recordings. --voice names whose corpus it is, if it is not that of ljspeech-mini. Times are the processor's, one
thread. Intervals, and how much more is misheard of one side than of another, are of clips drawn anew from these.
Appends rows to benchmarks/results/voices.jsonl.
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import fastpitch
from benchmarks import judges
from benchmarks.judges import JUDGES, Judge, JudgedClip
from common import config
from common.audio import waveform
from common.benchmark import append_row
from common.data.manifest import ManifestError, Utterance, read_sources
from common.features import TTS, LogMel
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.training.griffin_lim import griffin_lim
from fastpitch.speaking import sound
from fastpitch.vocoders.vocoder import Vocoder, VocoderError

READER_CLIPS = 20
COPY, SPEECH = "copy synthesis", "speech"
Say = Callable[[JudgedClip], np.ndarray]  # what a side makes of a recording, or of its text


class Verdicts(NamedTuple):
    """A side, and what the judges say of it."""

    side: str
    row: dict[str, float | int | str]


def main(arguments: Sequence[str] | None = None) -> list[Verdicts]:
    """The command line; also returns what it printed."""
    options = parser().parse_args(arguments)
    if options.clips is None and options.texts is None:
        parser().error("nothing to judge: expected --clips, --texts or both")
    torch.set_num_threads(1)
    asked = [judge for judge in JUDGES if not options.judges or judge.name in options.judges]
    found, missing = judges.available(asked)
    for message in missing:
        print(message, file=sys.stderr)
    vocoders = dict(pair.split("=", 1) if "=" in pair else (Path(pair).stem, pair) for pair in options.vocoder)
    if len(vocoders) < len(options.vocoder):
        parser().error("--vocoder: two of the same name, so that one would hide the other; expected NAME=CHECKPOINT")
    heard = [*lines(options.root, options.clips), *lines(options.root, options.texts)]
    reader = others(options.root, heard)
    verdicts = []
    parts: list[tuple[str, Path, dict[str, Say]]] = []
    if options.clips is not None:
        parts.append((COPY, options.clips, copy_sides(vocoders)))
    if options.texts is not None:
        parts.append((SPEECH, options.texts, speech_sides(options.fastpitch, vocoders)))
    for part, source, sides in parts:
        named = f"{part}, {options.voice}" if options.voice else part
        clips = recordings(lines(options.root, source))
        spoken: dict[str, SynthesizedClips] = {}
        for side, say in sides.items():
            if not options.sides or side in options.sides:
                spoken[side] = said(say, clips)
                verdicts.append(judged(named, side, spoken[side], found, reader))
        if any(judge.name == "wer_percent" for judge in found):
            compared(spoken)
    return verdicts


def parser() -> argparse.ArgumentParser:
    """Flags and help."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("root", type=Path, help="folder of the corpus, with wavs/")
    made.add_argument("--clips", type=Path, help="file list of recordings for copy synthesis")
    made.add_argument("--texts", type=Path, help="file list of what FastPitch has not seen")
    made.add_argument(
        "--vocoder", action="append", default=[], help="NAME=CHECKPOINT, or a voice's name; several are several sides"
    )
    made.add_argument("--sides", nargs="*", help="sides that are judged (default: all)")
    made.add_argument(
        "--judges", nargs="*", choices=[judge.name for judge in JUDGES], help="judges that are asked (default: all)"
    )
    made.add_argument("--voice", default="", help="name of the voice in the table (default: none, ljspeech-mini's)")
    made.add_argument("--fastpitch", help="checkpoint of FastPitch, or a voice's name")
    return made


class SynthesizedClips(NamedTuple):
    """Clips of a side, and the seconds of processor time that they took."""

    clips: list[JudgedClip]
    seconds: float


def copy_sides(vocoders: dict[str, str]) -> dict[str, Say]:
    """What says recordings again, by name; WORLD where pyworld is there."""
    log_mel = LogMel(TTS).eval()

    def mel(clip: JudgedClip) -> Tensor:
        samples_N = torch.from_numpy(clip.samples_N)
        return log_mel(samples_N[None], torch.tensor([len(samples_N)])).features_BFT

    def by(vocoder: Vocoder) -> Say:
        vocoder.require(TTS)
        return lambda clip: vocoder(mel(clip))[0].numpy()

    sides: dict[str, Say] = {
        "recordings": lambda clip: clip.samples_N,
        "Griffin-Lim": lambda clip: griffin_lim(mel(clip), TTS, iterations=60)[0].numpy(),
    }
    if judges.is_there("pyworld"):
        sides["WORLD"] = judges.world
    else:
        print(f"WORLD is left out: pyworld not installed; {judges.INSTALL}", file=sys.stderr)
    for name, path in vocoders.items():
        sides[name] = by(fastpitch.load_vocoder(path, device="cpu"))
    return sides


def speech_sides(path: str | None, vocoders: dict[str, str]) -> dict[str, Say]:
    """The reader, and FastPitch with the first of the vocoders, if both are named."""
    sides: dict[str, Say] = {"recordings": lambda clip: clip.samples_N}
    if path is not None:
        if not vocoders:
            raise CheckpointError("--fastpitch: expected a --vocoder too, which speaks for it")
        name, vocoder_path = next(iter(vocoders.items()))
        tts, vocoder = fastpitch.load(path, device="cpu"), fastpitch.load_vocoder(vocoder_path, device="cpu")
        sides[f"FastPitch + {name}"] = lambda clip: tts.synthesize(clip.text, vocoder=vocoder).samples
    return sides


def said(say: Say, clips: Sequence[JudgedClip]) -> SynthesizedClips:
    """All `clips` by one side, in 16 bits as files have them, with the recordings as reference."""
    start, made = time.process_time(), []
    for clip in clips:
        made.append(say(clip))
    took = time.process_time() - start
    rounded = [sound.to_int16(samples_N).astype(np.float32) / 2**15 for samples_N in made]
    pairs = zip(rounded, clips, strict=True)
    return SynthesizedClips(
        [JudgedClip(samples_N, clip.rate, clip.text, clip.samples_N) for samples_N, clip in pairs], took
    )


def judged(
    part: str, side: str, spoken: SynthesizedClips, found: Sequence[Judge], reader: Sequence[JudgedClip]
) -> Verdicts:
    """A row: all judges' verdicts, those that need the recording in copy synthesis alone."""
    seconds = sum(len(clip.samples_N) / clip.rate for clip in spoken.clips)
    row: dict[str, float | int | str] = {"part": part, "side": side, "clips": len(spoken.clips)}
    row["seconds_of_audio"] = round(seconds, 1)
    for judge in found:
        if part.startswith(COPY) or not judge.needs_reference:
            verdict = judge.judge(spoken.clips, reader)
            if not math.isnan(verdict):  # of clips without silences there is no hum in them
                row[judge.name] = round(verdict, 3)
    if side != "recordings":
        row["times_real_time"] = round(seconds / max(spoken.seconds, 1e-9), 1)
    print(row, flush=True)
    append_row("voices", row, device=torch.device("cpu"))
    return Verdicts(side, row)


def compared(spoken: dict[str, SynthesizedClips]) -> None:
    """Prints how many more words are misheard of each side than of each other."""
    for (one, ours), (other, theirs) in itertools.combinations(reversed(spoken.items()), 2):
        more, low, high = judges.wer_difference(ours.clips, theirs.clips)
        print(f"misheard of {one} less {other}: {more:+.1f} % of the words (95 % interval {low:+.1f} to {high:+.1f})")


def lines(root: Path, path: Path | None) -> list[Utterance]:
    """What a file list names; nothing for None."""
    return [] if path is None else read_sources([str(path.absolute())], root=root, training=False).utterances


def recordings(utterances: Sequence[Utterance]) -> list[JudgedClip]:
    """The recordings at the rate of mel spectrograms."""
    rate = TTS.sample_rate
    return [JudgedClip(waveform.read(each.audio, sample_rate=rate).samples, rate, each.text) for each in utterances]


def others(root: Path, heard: Sequence[Utterance]) -> list[JudgedClip]:
    """Recordings below `root` that nobody is judged on, taken evenly."""
    names = {Path(str(each.audio)).name for each in heard}
    paths = [path for path in sorted((root / "wavs").glob("*.wav")) if path.name not in names]
    chosen = paths[:: max(1, len(paths) // READER_CLIPS)][:READER_CLIPS]
    return [JudgedClip(waveform.read(path, sample_rate=TTS.sample_rate).samples, TTS.sample_rate) for path in chosen]


if __name__ == "__main__":
    with config.reported(CheckpointError, ManifestError, VocoderError):
        main()
