"""Durations of the same words: by FastPitch's aligner, by the synthesiser, and by a recogniser's forced alignment.

A word lasts until the next one starts, so that a pause between them is in all three; the last of a clip is left out.

    python benchmarks/durations.py FASTPITCH RECOGNISER --root CORPUS [--clips 100]

CORPUS is a synthetic LJSpeech folder, whose `word_times.jsonl` has the times that espeak-ng gave with its sound.
Appends rows to benchmarks/results/fastpitch_durations.jsonl.
"""

import argparse
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import ctc
import jasper
from common import checkpoint
from common.benchmark import append_row
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
    parser.add_argument("recogniser", type=Path, help="checkpoint of a recogniser")
    parser.add_argument("--root", type=Path, required=True, help="folder of the synthetic corpus")
    parser.add_argument("--clips", type=int, default=100, help="number of clips (default 100)")
    options = parser.parse_args()
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
        row = {
            "metric": "distance_ms",
            "what": f"{one} and {other}",
            "words": len(apart_N),
            "mean": round(float(apart_N.mean()), 1),
            "p50": round(float(np.median(apart_N)), 1),
            "p90": round(float(np.percentile(apart_N, 90)), 1),
        }
        print(row)
        append_row("fastpitch_durations", row, device=torch.device("cpu"))


@torch.inference_mode()
def aligned(path: Path, root: Path, clips: int) -> Durations:
    """By the learned alignment."""
    start = read(checkpoint.load(path), path)
    cfg = replace(start.config, data=replace(start.config.data, root=root, train=(".",)))
    model = build_model(cfg).eval()
    model.load_state_dict(start.ema or start.weights)
    utterances, _ = data.read_utterances(cfg.data.train, cfg, training=False)
    dataset = data.ClipDataset(utterances[:clips], cfg, training=False)
    log_mel, text = LogMel(cfg.features).eval(), TextProcessor(cfg.text)
    seconds_per_frame = cfg.features.hop_samples / cfg.features.sample_rate
    found: Durations = {}
    for batch in data.loader(dataset, [[i] for i in range(len(dataset))]):
        targets = targets_of(batch, log_mel, cfg, model.pitch_mean, model.pitch_std)
        prediction = model(batch.tokens_BL, batch.lengths_B, targets, batch.speaker_B)
        starts_L = [0, *prediction.alignment.durations_BL[0].cumsum(0).tolist()]
        words = text.encode(dataset.utterances[batch.indices[0]].text).words
        found[batch.ids[0]] = lengths([starts_L[word.first] * seconds_per_frame for word in words])
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
