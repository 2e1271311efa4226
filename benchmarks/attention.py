"""Attention decoders of published sizes with random weights against transformers' `generate`, on the CPU:

    python benchmarks/attention.py --size canary-1b-v2 --batches 1 8

One thread; the sides take turns, and medians are compared. The encoder's frames are given; every text has the same
length, for no side may end.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch

from common import config
from common.machine import processor_name
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.host_step import KINDS
from fastconformer.attention.network import AttentionDecoder
from fastconformer.attention.search import SearchOptions, Wish, decode
from fastconformer.attention.step import Steps

SIZES = {"canary-180m-flash": (4, 5248), "canary-1b-v2": (8, 16384)}  # layers and classes; all else is alike
PROMPT = list(range(3, 12))
END = 2


@dataclass(frozen=True, kw_only=True)
class AttentionBenchmarkConfig:
    """What is timed."""

    size: str = "canary-180m-flash"
    """Published model whose decoder's sizes are taken: canary-180m-flash or canary-1b-v2."""
    batches: tuple[int, ...] = (1, 8)
    """Recordings that are decoded at once."""
    beams: tuple[int, ...] = (1,)
    """Sequences that are kept."""
    frames: int = 125
    """Encoder frames of each recording, of 80 ms."""
    tokens: int = 24
    """Tokens of each text."""
    repeats: int = 5
    """Turns of every side."""

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ValueError(f"size = {self.size!r}: expected {' or '.join(SIZES)}")


def main(cfg: AttentionBenchmarkConfig) -> int:
    """Prints the time of a token, and transformers' in parts of ours; returns the exit status."""
    torch.set_num_threads(1)
    layers, classes = SIZES[cfg.size]
    torch.manual_seed(0)
    network = AttentionDecoder(AttentionConfig(layers=layers), 1024, classes).eval()
    steps = {precision: Steps(network, precision) for precision in KINDS}
    theirs = _transformers(layers, classes)
    print(f"{cfg.size}, {cfg.frames} frames, {cfg.tokens} tokens, one thread of {processor_name()}")
    for batch in cfg.batches:
        encoded_BSC = torch.randn(batch, cfg.frames, 1024)
        for beam in cfg.beams:
            sides: dict[str, Callable[[], Any]] = {
                precision: lambda own=own, beam=beam, frames=encoded_BSC: _ours(own, frames, cfg.tokens, beam)
                for precision, own in steps.items()
            }
            if theirs is not None:
                sides["transformers"] = lambda beam=beam, frames=encoded_BSC: theirs(frames, cfg.tokens, beam)
            times: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(cfg.repeats + 1):
                for name, side in sides.items():
                    start = time.perf_counter()
                    side()
                    times[name].append(time.perf_counter() - start)
            medians = {name: median(own[1:]) / cfg.tokens * 1e3 for name, own in times.items()}
            anchor = medians.get("transformers")
            told = [
                f"{name} {ms:.1f} ms" + (f" ({anchor / ms:.2f}x)" if anchor and name in KINDS else "")
                for name, ms in medians.items()
            ]
            print(f"batch {batch}, beam {beam}: {', '.join(told)} a token")
    return 0


def _ours(steps: Steps, encoded_BSC: torch.Tensor, tokens: int, beam: int) -> None:
    allowed_V = np.ones(len(steps.decoder.bias), bool)
    allowed_V[END] = False
    with torch.inference_mode():
        wish = Wish(prompt=PROMPT, limit=tokens, allowed_V=allowed_V, end=END)
        decode(steps(), [(wish, steps.hear(encoded_SC)) for encoded_SC in encoded_BSC], SearchOptions(beam=beam))


def _transformers(layers: int, classes: int) -> Callable[[torch.Tensor, int, int], Any] | None:
    """Greedy decoding or a beam search by transformers; None where there is none with Canary."""
    try:
        from transformers import CanaryConfig, CanaryForConditionalGeneration
        from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderModelOutput
    except ImportError:
        print("transformers with Canary is not here: ours alone")
        return None
    encoder = {"model_type": "parakeet_encoder", "num_hidden_layers": 1, "hidden_size": 1024, "num_mel_bins": 128}
    decoder = {"num_hidden_layers": layers, "vocab_size": classes}
    described = CanaryConfig(encoder_config=encoder, decoder_config=decoder, vocab_size=classes)
    model = CanaryForConditionalGeneration(described).eval()

    def generate(encoded_BSC: torch.Tensor, tokens: int, beam: int) -> Any:
        with torch.inference_mode():
            return model.generate(
                encoder_outputs=ParakeetEncoderModelOutput(
                    last_hidden_state=encoded_BSC, attention_mask=torch.ones(encoded_BSC.shape[:2], dtype=torch.bool)
                ),
                decoder_input_ids=torch.tensor([PROMPT] * len(encoded_BSC)),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                num_beams=beam,
                do_sample=False,
            )

    return generate


if __name__ == "__main__":
    with config.reported():
        sys.exit(main(config.parse_flags(AttentionBenchmarkConfig, None, sys.argv[1:], description=__doc__ or "")))
