"""Attention decoders of published sizes with random weights against transformers' `generate`, on the CPU:

    python benchmarks/attention.py --size canary-1b-v2 --batches 1 8 --beams 1 4 --mixed 32

One thread; the sides take turns, and medians are compared. The encoder's frames are given; no side may end a text
before its length. Where NeMo is installed, as `transducer_nemo.py` says, its greedy search is a side of single
recordings.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch

from common import config
from common.lengths import inside
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
    mixed: int = 0
    """Recordings of 2 to 20 seconds that are decoded at once besides, with 3.6 tokens a second; 0 for none."""
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
    rivals = {"transformers": _transformers(layers, classes), "NeMo": _nemo(layers, classes)}
    print(f"{cfg.size}, {cfg.frames} frames, {cfg.tokens} tokens, one thread of {processor_name()}")
    cases = [(f"batch {n}", [cfg.frames] * n, [cfg.tokens] * n, beam) for n in cfg.batches for beam in cfg.beams]
    if cfg.mixed:
        seconds = np.linspace(2, 20, cfg.mixed)[np.random.default_rng(0).permutation(cfg.mixed)]
        cases.append((f"{cfg.mixed} of 2 to 20 s", (seconds * 12.5).astype(int).tolist(),
                      (seconds * 3.6).astype(int).tolist(), 1))  # fmt: skip
    for name, frames, tokens, beam in cases:
        heard = [torch.randn(count, 1024) for count in frames]
        sides: dict[str, Callable[[], Any]] = {
            kind: partial(_ours, own, heard, tokens, beam) for kind, own in steps.items()
        }
        for rival, decode_by in rivals.items():
            if decode_by is not None and (rival != "NeMo" or (beam == 1 and len(frames) == 1)):
                sides[rival] = partial(decode_by, heard, tokens, beam)
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(cfg.repeats + 1):
            for side, run in sides.items():
                start = time.perf_counter()
                run()
                times[side].append(time.perf_counter() - start)
        medians = {side: median(own[1:]) / max(tokens) * 1e3 for side, own in times.items()}
        told = []
        for side, ms in medians.items():
            ratios = [f"{medians[rival] / ms:.2f}x {rival}" for rival in rivals if side in KINDS and rival in medians]
            told.append(f"{side} {ms:.1f} ms" + (f" ({', '.join(ratios)})" if ratios else ""))
        print(f"{name}, beam {beam}: {', '.join(told)} a token")
    return 0


def _ours(steps: Steps, heard: Sequence[torch.Tensor], tokens: Sequence[int], beam: int) -> None:
    allowed_V = np.ones(len(steps.decoder.bias), bool)
    allowed_V[END] = False
    with torch.inference_mode():
        wishes = [Wish(prompt=PROMPT, limit=count, allowed_V=allowed_V, end=END) for count in tokens]
        decode(
            steps(),
            [(wish, steps.hear(one)) for wish, one in zip(wishes, heard, strict=True)],
            SearchOptions(beam=beam),
        )


Rival = Callable[[Sequence[torch.Tensor], Sequence[int], int], Any]


def _transformers(layers: int, classes: int) -> Rival | None:
    """Greedy decoding or a beam search by transformers; None where there is none with Canary."""
    try:
        from transformers import CanaryConfig, CanaryForConditionalGeneration
        from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderModelOutput
    except ImportError:
        print("transformers with Canary is not here")
        return None
    encoder = {"model_type": "parakeet_encoder", "num_hidden_layers": 1, "hidden_size": 1024, "num_mel_bins": 128}
    decoder = {"num_hidden_layers": layers, "vocab_size": classes}
    described = CanaryConfig(encoder_config=encoder, decoder_config=decoder, vocab_size=classes)
    model = CanaryForConditionalGeneration(described).eval()

    def generate(heard: Sequence[torch.Tensor], tokens: Sequence[int], beam: int) -> Any:
        encoded_BSC = torch.nn.utils.rnn.pad_sequence(list(heard), batch_first=True)
        frames_B = torch.tensor([len(one) for one in heard])
        with torch.inference_mode():
            return model.generate(
                encoder_outputs=ParakeetEncoderModelOutput(
                    last_hidden_state=encoded_BSC, attention_mask=inside(frames_B, encoded_BSC.shape[1])
                ),
                decoder_input_ids=torch.tensor([PROMPT] * len(heard)),
                max_new_tokens=max(tokens),  # rows that have ended are computed until the last one has
                min_new_tokens=max(tokens),
                num_beams=beam,
                do_sample=False,
            )

    return generate


def _nemo(layers: int, classes: int) -> Rival | None:
    """Greedy decoding by NeMo; None where it is not installed."""
    try:
        from nemo.collections.asr.modules.transformer.transformer import (  # type: ignore[import-not-found]
            TransformerDecoderNM,
        )
        from nemo.collections.asr.modules.transformer.transformer_generators import (  # type: ignore[import-not-found]
            GreedySequenceGenerator,
        )
        from nemo.collections.asr.parts.submodules.token_classifier import (  # type: ignore[import-not-found]
            TokenClassifier,
        )
    except ImportError:
        return None
    network = TransformerDecoderNM(
        vocab_size=classes, hidden_size=1024, num_layers=layers, inner_size=4096, num_attention_heads=8,
        max_sequence_length=1024, num_token_types=0, pre_ln=True, pre_ln_final_layer_norm=True,
    ).eval()  # fmt: skip
    head = TokenClassifier(1024, classes).eval()
    generator = GreedySequenceGenerator(
        network.embedding, network.decoder, head, pad=0, bos=1, eos=-1, max_delta_length=-1
    )

    def generate(heard: Sequence[torch.Tensor], tokens: Sequence[int], _beam: int) -> Any:
        generator.max_seq_length = len(PROMPT) + max(tokens)
        encoded_BSC = torch.stack(list(heard))
        found, *_ = generator(torch.tensor([PROMPT] * len(heard)), encoded_BSC, torch.ones(encoded_BSC.shape[:2]))
        assert found.shape[1] == generator.max_seq_length
        return found

    return generate


if __name__ == "__main__":
    with config.reported():
        sys.exit(main(config.parse_flags(AttentionBenchmarkConfig, None, sys.argv[1:], description=__doc__ or "")))
