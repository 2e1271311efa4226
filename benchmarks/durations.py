"""Durations of the same words: by FastPitch's aligner, by the synthesiser, and by a recogniser's forced alignment.

A word lasts until the next one starts, so that a pause between them is in all three; the last of a clip is left out.

    python benchmarks/durations.py FASTPITCH RECOGNISER --root CORPUS [--clips 100]
    python benchmarks/durations.py FASTPITCH pocketsphinx --root LJSpeech-1.1 --list train.txt [--clips 100]

CORPUS is a synthetic LJSpeech folder, whose `word_times.jsonl` has the times that espeak-ng gave with its sound. Of
real recordings nobody knows the times: there the aligner stands beside the forced alignment of pocketsphinx, whose
model of English has heard many people (`pip install pocketsphinx`), of the clips in a file list whose words it knows.
Appends rows to benchmarks/results/fastpitch_durations.jsonl.
"""

import argparse
import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import ctc
import jasper
from benchmarks import judges
from benchmarks.judges import Clip
from common import audio, checkpoint
from common.benchmark import append_row
from common.data.manifest import read_sources
from common.features import LogMel
from fastpitch.acoustic import data
from fastpitch.acoustic.checkpoint_import import read
from fastpitch.acoustic.objective import targets_of
from fastpitch.acoustic.run import build_model
from fastpitch.front.symbols import TextProcessor
from jasper.recognizer import Recognizer

Durations = dict[str, list[float]]  # seconds of every word of every clip, by the clip's id
SIDES = ("aligner", "espeak-ng", "recogniser")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fastpitch", type=Path, help="checkpoint of FastPitch")
    parser.add_argument("recogniser", type=Path, help="checkpoint of a recogniser, or the word pocketsphinx")
    parser.add_argument("--root", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--list", default="", help="file list of recordings, for pocketsphinx")
    parser.add_argument("--clips", type=int, default=100, help="number of clips (default 100)")
    options = parser.parse_args()
    if str(options.recogniser) == "pocketsphinx":
        if not options.list:
            parser.error("--list: expected a file list of recordings, for pocketsphinx")
        for what, apart_N in recorded(options.fastpitch, options.root, options.list, options.clips).items():
            report(what, apart_N, source=str(Path(options.list).stem))
        return
    with (options.root / "word_times.jsonl").open(encoding="utf-8") as file:
        clips = [json.loads(line) for line in itertools.islice(file, options.clips)]
    spoken = {clip["id"]: lengths([start for _, start, _ in clip["words"]]) for clip in clips}
    words = {clip["id"]: [word for word, _, _ in clip["words"]] for clip in clips}
    found = (
        aligned(options.fastpitch, options.root, len(clips)),
        spoken,
        recognised(jasper.load(options.recogniser), options.root, words),
    )
    for (one, a), (other, b) in itertools.combinations(zip(SIDES, found, strict=True), 2):
        apart_N = np.concatenate([np.abs(np.subtract(a[clip], b[clip])) for clip in words]) * 1e3
        report(f"{one} and {other}", apart_N)


def report(what: str, apart_N: np.ndarray, **more: object) -> None:
    """A row of distances in ms."""
    row = {
        "metric": "distance_ms",
        "what": what,
        **more,
        "words": len(apart_N),
        "mean": round(float(apart_N.mean()), 1),
        "p50": round(float(np.median(apart_N)), 1),
        "p90": round(float(np.percentile(apart_N, 90)), 1),
    }
    print(row)
    append_row("fastpitch_durations", row, device=torch.device("cpu"))


def recorded(path: Path, root: Path, source: str, clips: int) -> dict[str, np.ndarray]:
    """Distances in ms of the aligner and pocketsphinx: of durations of words, and of their starts."""
    source = str(Path(source).absolute())
    utterances = read_sources([source], root=root, training=False).utterances[:clips]
    starts = aligned_starts(path, root, clips, source)
    durations, places, left_out = [], [], 0
    for each in utterances:
        words, seconds = starts[each.id]
        samples = audio.read(each.audio, sample_rate=judges.RATE).samples
        forced = judges.word_starts(Clip(samples, judges.RATE), [judges.plain_words(word) for word in words])
        if forced is None:
            left_out += 1
            continue
        places.append(np.abs(np.subtract(seconds, forced)) * 1e3)
        durations.append(np.abs(np.subtract(lengths(seconds), lengths(forced))) * 1e3)
    if not places:
        sys.exit(f"{source}: pocketsphinx could align not one of {len(utterances)} clips")
    print(f"{len(places)} clips; {left_out} have words that pocketsphinx does not know, or other words than their text")
    return {
        "aligner and pocketsphinx": np.concatenate(durations),
        "aligner and pocketsphinx: word starts": np.concatenate(places),
    }


def aligned(path: Path, root: Path, clips: int) -> Durations:
    """By the learned alignment."""
    return {clip: lengths(seconds) for clip, (_, seconds) in aligned_starts(path, root, clips).items()}


@torch.inference_mode()
def aligned_starts(path: Path, root: Path, clips: int, source: str = ".") -> dict[str, tuple[list[str], list[float]]]:
    """Words and where they start, in seconds, of every clip, by the learned alignment."""
    start = read(checkpoint.load(path), path)
    cfg = replace(start.config, data=replace(start.config.data, root=root, train=(source,)))
    model = build_model(cfg).eval()
    model.load_state_dict(start.ema or start.weights)
    utterances, _ = data.read_utterances(cfg.data.train, cfg, training=False)
    dataset = data.ClipDataset(utterances[:clips], cfg, training=False)
    log_mel, text = LogMel(cfg.features).eval(), TextProcessor(cfg.text)
    seconds_per_frame = cfg.features.hop_samples / cfg.features.sample_rate
    found = {}
    for batch in data.loader(dataset, [[i] for i in range(len(dataset))]):
        targets = targets_of(batch, log_mel, cfg, model.pitch_mean, model.pitch_std)
        prediction = model(batch.tokens_BL, batch.lengths_B, targets, batch.speaker_B)
        starts_L = [0, *prediction.alignment.durations_BL[0].cumsum(0).tolist()]
        words = text.encode(dataset.utterances[batch.indices[0]].text).words
        starts = [starts_L[word.first] * seconds_per_frame for word in words]
        found[batch.ids[0]] = ([word.text for word in words], starts)
    return found


def recognised(asr: Recognizer, root: Path, words: dict[str, list[str]]) -> Durations:
    """By the Viterbi alignment of the recogniser's log-probabilities with the true words."""
    heard = asr.transcribe([root / "wavs" / f"{clip}.wav" for clip in words], keep_log_probs=True)
    (boundary,) = asr.vocabulary.encode(" ")
    found: Durations = {}
    for (clip, said), transcript in zip(words.items(), heard, strict=True):
        assert transcript.log_probs_SV is not None
        labels, log_probs_BSV = asr.vocabulary.encode(" ".join(said)), transcript.log_probs_SV[None]
        (alignment,) = ctc.align(log_probs_BSV, [labels], [log_probs_BSV.shape[1]], blank=asr.vocabulary.blank)
        spans = ctc.word_spans(labels, alignment, boundary=boundary)
        found[clip] = lengths([span.start_frame * transcript.seconds_per_frame for span in spans])
    return found


def lengths(starts: list[float]) -> list[float]:
    """From each start to the next."""
    return [after - start for start, after in itertools.pairwise(starts)]


if __name__ == "__main__":
    main()
