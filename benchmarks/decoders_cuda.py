"""Decoders on a GPU: graphs beside single launches, halves beside float32.

    python -m benchmarks.decoders_cuda

A TDT head of the published size decodes 12 s of 1, 32 and 128 utterances greedily, and one also with a 3-gram of random
pieces; an attention decoder of canary-1b-v2's size writes 50 tokens of 32 texts, over 16.7 s each, in a search. A TDT
of 0.6 B (Parakeet's sizes) goes from samples to labels, 128 times 12 s: NeMo and fast-gpu-asr publish such rates. All
weights are random; the sides take turns. Appends rows to benchmarks/results/decoders_cuda.jsonl. docs/gpu_model.md says
what steps should need.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

import ctc
from benchmarks.transducer_heads import calibrate, random_frames, random_heads
from common.benchmark import append_row, compare, ratio
from common.devices.precision import Precision
from common.features import NEMO
from common.text.pieces import Pieces
from ctc.ngram import estimate
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.network import AttentionDecoder
from fastconformer.attention.search import AttentionMemory, Result, SearchOptions, Wish, decode
from fastconformer.attention.step import Steps, TorchStep
from fastconformer.config import EncoderConfig, ModelConfig
from fastconformer.network.model import Model
from fastconformer.recognizer import Recognizer
from fastconformer.transducer.beam import BeamSearch, TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder, DecoderOptions
from fastconformer.transducer.weights import DecoderWeights

PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "fp16")
PARAKEET = ModelConfig(
    encoder=EncoderConfig(width=1024, layers=24, biases=False), ctc=False, pieces=8192, prediction_layers=2
)
"""Parakeet-TDT-0.6b-v3."""
Sides = dict[str, Callable[[], Any]]


def main() -> None:
    """Prints a row for each batch and precision, and appends them."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if not torch.cuda.is_available():
        sys.exit(f"error: this torch ({torch.__version__}) sees no CUDA device")
    device = torch.device("cuda")
    for row in rows(device, batches=(1, 32, 128), attention=AttentionConfig(layers=8, classes=16384)):
        print(row)
        append_row("decoders_cuda", row, device=device)


def rows(
    device: torch.device,
    batches: tuple[int, ...],
    attention: AttentionConfig,
    parakeet: tuple[ModelConfig, int, int] = (PARAKEET, 128, 12),
) -> Iterator[dict[str, object]]:
    """What is measured, a row each. `parakeet`: a model, recordings, and seconds of each."""
    weights = random_heads(has_durations=True)
    weights.output_bias[weights.blank] = 3.0
    moved = on_device(weights, device)
    for precision in PRECISIONS:
        for batch in batches:
            for scorer in (None, some_scorer(weights.blank)) if batch == batches[0] else (None,):
                what = {"what": f"greedy TDT{', 3-gram' if scorer else ''}", "precision": precision, "batch": batch}
                yield timed(what, greedy_sides(moved, batch, precision, scorer), device)
        if precision != "fp32":
            yield from whole(device, precision, *parakeet)
        what = {"what": "50 tokens of attention", "precision": precision, "batch": 32}
        yield timed(what, search_sides(attention, precision, device), device)


def greedy_sides(weights: DecoderWeights, batch: int, precision: Precision, scorer: ctc.Scorer | None) -> Sides:
    """The same utterances by replayed graphs and by launches."""
    encoded_BSC, frames_B = random_frames(weights, batch, 150)
    encoded_BSC = encoded_BSC.to(weights.embedding.device)
    sides: Sides = {}
    for name in ("graphs", "launches"):
        decoder = Decoder(weights, DecoderOptions(precision=precision))
        if decoder.on_device is not None and name == "launches":
            decoder.on_device.records = False
        sides[name] = lambda decoder=decoder: decoder(encoded_BSC, frames_B, scorers=scorer)
    return sides


@torch.inference_mode()
def whole(
    device: torch.device, precision: Precision, cfg: ModelConfig, batch: int, seconds: int
) -> Iterator[dict[str, object]]:
    """Rows of `batch` recordings from samples to labels, greedily and with the beam that is published.

    Frames of a random encoder are all alike, so that its head would write nothing, or without end: decoded are others,
    of the same number and width, with a head that emits as often as a trained one does.
    """
    torch.manual_seed(0)
    with device:
        model = Model(cfg, 128)
    pieces = Pieces([f"<{i}>" for i in range(cfg.pieces)])
    asr = Recognizer(model, replace(NEMO, mel_bins=128), pieces, device=device, precision=precision)
    sizes = {"hidden": cfg.prediction_width, "joint": cfg.joint_width, "layers": cfg.prediction_layers}
    weights = random_heads(has_durations=True, encoder=cfg.encoder.width, labels=cfg.pieces, **sizes)
    audio_BN, samples_B = (
        0.1 * torch.randn(batch, seconds * asr.sample_rate),
        torch.full((batch,), seconds * asr.sample_rate),
    )
    if device.type == "cuda":
        audio_BN = audio_BN.pin_memory()
    frames = asr.encode(*asr.features(audio_BN[:1], samples_B[:1])).frames_B.item()
    encoded_BSC, _ = random_frames(weights, batch, int(frames))
    counts_B = torch.full((batch,), encoded_BSC.shape[1])
    calibrate(weights, encoded_BSC[:1], counts_B[:1], rounds=6)
    decoder, encoded_BSC = (
        Decoder(on_device(weights, device), DecoderOptions(precision=precision)),
        encoded_BSC.to(device),
    )

    search = BeamSearch(weights, TransducerBeamOptions(beam=6), device=decoder.on_device)
    for name, own in (("greedy", decoder), ("beam of 6", search)):

        def once(own: Callable[..., Any] = own) -> None:
            asr.encode(*asr.features(audio_BN, samples_B))
            own(encoded_BSC, counts_B)

        took = compare({name: once}, device=device, warmup=2, repeats=7)[name].percentile(50)
        what = {"what": f"TDT 0.6 B, {name}, samples to labels", "precision": precision, "batch": batch}
        row = {**what, "seconds_of_audio": seconds, "ms": round(1e3 * took, 3)}
        yield {**row, "times_real_time": round(batch * seconds / took)}


def search_sides(cfg: AttentionConfig, precision: Precision, device: torch.device, texts: int = 32) -> Sides:
    """Searches of `texts` texts, as a recogniser does them one after the other, by replayed graphs and by launches."""
    torch.manual_seed(0)
    network = AttentionDecoder(cfg, cfg.width, cfg.classes).eval().to(device)
    allowed = torch.arange(cfg.classes).numpy() > 0  # nothing ends a text
    sides: Sides = {}
    for name in ("graphs", "launches"):
        with torch.inference_mode():
            steps = Steps(network, on_device=precision)
            heard = [steps.hear(torch.randn(209, cfg.width, device=device)) for _ in range(texts)]
        with steps.lent() as step:
            if isinstance(step, TorchStep) and name == "launches":
                step.forget_graphs()
        wishes = [(Wish(prompt=[7], limit=50, allowed_V=allowed, end=0), one) for one in heard]
        sides[name] = lambda steps=steps, wishes=wishes: searched(steps, wishes)
    return sides


@torch.inference_mode()
def searched(steps: Steps, wishes: list[tuple[Wish, AttentionMemory]]) -> list[Result]:
    """The texts of a step that is lent."""
    with steps.lent() as step:
        return decode(step, wishes, SearchOptions())


def timed(row: dict[str, object], sides: Sides, device: torch.device) -> dict[str, object]:
    """`row` with the median of both sides, in ms, and how many times as fast graphs are."""
    times = compare(sides, device=device, warmup=2, repeats=7)
    own = {f"{name}_ms": round(1e3 * each.percentile(50), 3) for name, each in times.items()}
    return {**row, **own, "times_faster_than_launches": round(ratio(times["launches"], times["graphs"]), 3)}


def some_scorer(labels: int) -> ctc.Scorer:
    """A 3-gram of random pieces."""
    pieces = [f"<{i}>" for i in range(labels)]
    drawn = torch.randint(labels, (2000, 20), generator=torch.Generator().manual_seed(0)).tolist()
    model = estimate([[pieces[i] for i in row] for row in drawn], order=3)
    return ctc.Scorer(pieces, model=model, options=ctc.ScorerOptions(unit="token", weight=0.3))


def on_device(weights: DecoderWeights, device: torch.device) -> DecoderWeights:
    """The same weights there."""
    lstm = tuple(type(layer)(*(part.to(device) for part in layer)) for layer in weights.lstm)
    own = {name: part.to(device) for name, part in weights._asdict().items() if isinstance(part, torch.Tensor)}
    return weights._replace(lstm=lstm, **own)


if __name__ == "__main__":
    main()
