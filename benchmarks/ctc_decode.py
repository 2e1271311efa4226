"""Times the decoders on 64 utterances of 836 frames and 29 labels: `python benchmarks/ctc_decode.py text...`.

Two kinds of scores: "peaked", a sentence of the text per utterance, its labels on every fourth frame at most, their
logits `MARGIN` above noise of unit variance, as trained models give; "random", log-softmax of noise, the worst case of
a beam. The language model is a word 4-gram of the rest of the text.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import ctc
from ctc._interruption import EndedByTheUser
from ctc.ngram import estimate

BATCH, FRAMES, LABELS = 64, 836, " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LABELS)
MARGIN = 10.0


def peaked_logits(texts: list[str], generator: torch.Generator) -> Tensor:
    """Logits of a model that is sure of `texts`, one utterance each."""
    logits_BSV = torch.randn(len(texts), FRAMES, BLANK + 1, generator=generator)
    for logits_SV, text in zip(logits_BSV, texts, strict=True):
        frames = torch.randperm(FRAMES // 4, generator=generator)[: len(text)].sort().values * 4
        path_S = torch.full((FRAMES,), BLANK)
        path_S[frames] = torch.tensor([LABELS.index(character) for character in text])
        logits_SV[range(FRAMES), path_S] += MARGIN
    return logits_BSV


def python_collapse(log_probs_BSV: Tensor) -> list[list[tuple[int, int, int, float]]]:
    """What `ctc.greedy` returns, as one would write it in Python."""
    values_BS, best_BS = log_probs_BSV.max(-1)
    decoded = []
    for labels, log_probs in zip(best_BS.tolist(), values_BS.exp().tolist(), strict=True):
        runs, frame = [], 0
        for label, run in itertools.groupby(labels):
            end = frame + len(list(run))
            if label != BLANK:
                runs.append((label, frame, end, sum(log_probs[frame:end]) / (end - frame)))
            frame = end
        decoded.append(runs)
    return decoded


def medians(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each function, interleaved so that they meet the same machine, after one warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if repeat > 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def read_texts(paths: list[Path]) -> list[str]:
    """Lines in the alphabet of the benchmark; what else a line holds, an identifier say, is dropped."""
    words = ([w for w in line.lower().split() if set(w) <= set(LABELS)] for path in paths for line in path.open())
    return [" ".join(line) for line in words if line]


def main() -> None:
    """The command line: prints one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="+", type=Path, help="text files, one sentence per line")
    parser.add_argument("--threads", type=int, default=2, help="threads of a decoder (default 2)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison (default 5)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts = read_texts(options.text)
    spoken = [text for text in texts if 100 < len(text) < FRAMES // 4][:BATCH]
    if len(spoken) < BATCH:
        parser.error(f"text: expected {BATCH} lines of 100 to {FRAMES // 4} characters, found {len(spoken)}")
    held_out = set(spoken)
    model = estimate([text.split() for text in texts if text not in held_out], order=4)
    scorer = ctc.Scorer(LABELS, model=model)
    generator = torch.Generator().manual_seed(0)
    kinds = {
        "peaked": peaked_logits(spoken, generator).log_softmax(-1),
        "random": torch.randn(BATCH, FRAMES, BLANK + 1, generator=generator).log_softmax(-1),
    }
    targets = [[LABELS.index(character) for character in text] for text in spoken]
    for kind, log_probs_BSV in kinds.items():
        report(kind, log_probs_BSV, targets, scorer, options.repeats)


def report(kind: str, log_probs_BSV: Tensor, targets: list[list[int]], scorer: ctc.Scorer, repeats: int) -> None:
    """Prints what each decoder takes; the short ones are repeated ten times as often."""
    frames = [FRAMES] * BATCH
    short: dict[str, Callable[[], object]] = {
        "greedy": lambda: ctc.greedy(log_probs_BSV, frames, blank=BLANK),
        "greedy, its labels": lambda: [d.labels for d in ctc.greedy(log_probs_BSV, frames, blank=BLANK)],
        "greedy, all lists": lambda: [
            (d.labels, d.start_frames, d.end_frames, d.confidence)
            for d in ctc.greedy(log_probs_BSV, frames, blank=BLANK)
        ],
        "python collapse": lambda: python_collapse(log_probs_BSV),
        "align": lambda: ctc.align(log_probs_BSV, targets, frames, blank=BLANK),
    }
    long: dict[str, Callable[[], object]] = {
        "beam 100": lambda: ctc.beam_search(log_probs_BSV, frames, blank=BLANK),
        "beam 100 + 4-gram": lambda: ctc.beam_search(log_probs_BSV, frames, blank=BLANK, scorer=scorer),
    }
    seconds = medians(short, 10 * repeats) | medians(long, repeats)
    for name, value in seconds.items():
        print(f"{kind:8} {name:18} {1e3 * value:9.2f} ms  {BATCH / value:9.0f} utterances/s")
    for name in ("greedy", "greedy, its labels", "greedy, all lists"):
        print(f"{kind:8} {name:18} {seconds['python collapse'] / seconds[name]:9.1f} times as fast as the collapse")


if __name__ == "__main__":
    with EndedByTheUser():
        main()
