"""What GPUs should need, by count and published limits: `python -m benchmarks.gpu_model` writes docs/gpu_model.md.

Nothing is measured, and no GPU is needed. Networks run on torch's device "meta", which has shapes and no numbers: every
operation counts as a launch that reads its arguments and writes its results, and as many operations as torch's own
formulas say. Kernels of ours are counted by hand, from what they read, write and compute. Whoever has a GPU sees beside
such a page what is off: a time far above the expected one is a fault of ours, or of a library.
"""

import argparse
import functools
import warnings
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from benchmarks.decoders_cuda import PARAKEET
from common import config
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.network import AttentionDecoder
from fastconformer.attention.step import Attention, TorchStep, halved
from fastconformer.config import Config as FastConformerConfig
from fastconformer.network.encoder import FastConformer
from fastconformer.network.model import Model
from fastpitch.vocoders.networks.config import HifiganConfig
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from jasper.config import Config as JasperConfig
from jasper.network.model import Jasper
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.model import Wav2Vec2

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gpu_model.md"
LAUNCH_SECONDS = 4e-6  # of an operation from Python: an estimate, that the first GPU will correct


class Device(NamedTuple):
    """A GPU's published limits: bytes, operations on floats, and in bf16 on tensor cores, a second."""

    name: str
    bandwidth: float
    float32: float
    bfloat16: float


DEVICES = (
    Device("A100 80 GB SXM", 2.039e12, 19.5e12, 312e12),
    Device("H100 80 GB SXM", 3.35e12, 67e12, 989e12),
    Device("H200 SXM", 4.8e12, 67e12, 989e12),
    Device("L4", 0.3e12, 30.3e12, 121e12),
)


class Work(NamedTuple):
    """What is to be done in one call."""

    name: str
    launches: int
    bytes: float
    operations: float
    is_half: bool
    published: str = ""
    """What others published for the same, in ms."""

    def seconds(self, device: Device) -> tuple[float, str]:
        """The longer of two times, and which that is."""
        memory = self.bytes / device.bandwidth
        arithmetic = self.operations / (device.bfloat16 if self.is_half else device.float32)
        return max((memory, "memory"), (arithmetic, "arithmetic"))

    def row(self) -> str:
        """A line of the table."""
        cells = [self.name, str(self.launches), f"{self.bytes / 1e9:.3g}", f"{self.operations / 1e9:.3g}"]
        for device in DEVICES:
            seconds, bound = self.seconds(device)
            cells.append(f"{1e3 * seconds:.3g} ({bound})")
        return f"| {' | '.join([*cells, f'{1e3 * self.launches * LAUNCH_SECONDS:.3g}', self.published or '-'])} |"


class Counting(TorchDispatchMode):
    """Counts what operations inside read, write and compute."""

    NOTHING = ("empty", "empty_like", "empty_strided", "detach", "device")

    def __init__(self) -> None:
        super().__init__()
        self.launches, self.bytes, self.operations = 0, 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every operation."""
        kwargs = kwargs or {}
        found = function(*args, **kwargs)
        packet = function.overloadpacket
        if function.is_view or packet.__name__ in self.NOTHING:
            return found
        read = {id(x): x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        written = [x for x in tree_leaves(found) if isinstance(x, Tensor)]
        self.launches += 1
        self.bytes += sum(x.numel() * x.element_size() for x in (*read.values(), *written))
        if packet in flop_registry:
            self.operations += flop_registry[packet](*args, **kwargs, out_val=found)
        return found


def network(name: str, made: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]], published: str = "") -> Work:
    """A network's forward pass in bf16."""
    import torch._dynamo  # takes a second, and makes its tables of torch's functions before some are replaced

    with ExitStack() as stack:
        stack.enter_context(torch.device("meta"))
        # The device has no types of its own to cast to.
        stack.enter_context(mock.patch.object(torch, "is_autocast_enabled", return_value=False))
        stack.enter_context(mock.patch.object(torch, "autocast", return_value=nullcontext()))
        module, inputs = made()
        module.eval().to(torch.bfloat16)
        inputs = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs)
        with torch.no_grad(), Counting() as counts:
            module(*inputs)
    return Work(name, counts.launches, counts.bytes, counts.operations, True, published)


@functools.cache
def parakeet() -> tuple[Work, Work]:
    """The two parts of a TDT of 0.6 B that write 128 x 12 s, as `benchmarks.decoders_cuda` measures them."""

    def encoder() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return FastConformer(PARAKEET.encoder, 128), (torch.empty(128, 128, 1200), torch.full((128,), 1200))

    # Evaluations of the joint that 150 frames take, to the next time that the host looks.
    steps = 16 * -(-150 // (2.3 * 16))
    one = decoder_step(128, 640, 640, 8198, ", matrices in bf16", layers=2)
    name = f"TDT 0.6 B, greedy decoding of 128 x 12 s, {steps:.0f} steps, matrices in bf16"
    whole = Work(name, int(steps * one.launches), steps * one.bytes, steps * one.operations, is_half=False)
    return network("TDT 0.6 B, encoder, 128 x 12 s", encoder, "whole: 252, 124 (H200)"), whole


def most_times_real_time(device: Device) -> int:
    """What `parakeet` leaves."""
    return round(128 * 12 / sum(work.seconds(device)[0] for work in parakeet()))


def decoder_step(batch: int, hidden: int, joint: int, classes: int, precision: str = "", layers: int = 1) -> Work:
    """A step of greedy decoding; weights are read once for eight utterances, mostly from the second cache."""
    weights = (8 * layers - 4) * hidden * hidden + hidden * joint + joint * classes
    name = f"greedy transducer, a step of B {batch}, H {hidden}, J {joint}, V {classes}{precision}"
    moved = (2 if precision else 4) * weights * -(-batch // 8)
    return Work(name, 3 + layers, moved, 2 * weights * batch, is_half=False)


def networks() -> list[Work]:
    """Those whose times NVIDIA published, at the published sizes."""

    def features(batch: int, bands: int, frames: int) -> tuple[Tensor, Tensor]:
        return torch.empty(batch, bands, frames), torch.full((batch,), frames)

    def jasper(name: str, batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
        model = config.load(JasperConfig, ROOT / "configs" / "jasper" / f"{name}.toml").model
        return Jasper(model, 64), features(batch, 64, 1670)

    def conformer() -> tuple[nn.Module, tuple[Tensor, ...]]:
        path = ROOT / "configs" / "fastconformer" / "librispeech_large.toml"
        return Model(config.load(FastConformerConfig, path).model, 80), features(16, 80, 1670)

    def wav2vec2() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return Wav2Vec2(ModelConfig()), (torch.empty(16, 104640),)

    def hifigan() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return HifiganGenerator(HifiganConfig(), 80), (torch.empty(1, 80, 560),)

    return [
        network("Jasper 10x5dr, 1 x 16.7 s", lambda: jasper("jasper10x5dr", 1), "34.4 (A100)"),
        network("Jasper 10x5dr, 16 x 16.7 s", lambda: jasper("jasper10x5dr", 16), "60.9 (A100)"),
        network("QuartzNet 15x5, 16 x 16.7 s", lambda: jasper("quartznet15x5", 16)),
        network("wav2vec 2.0 base, 16 x 6.54 s", wav2vec2, "58.8 (A100)"),
        network("FastConformer large, encoder, 16 x 16.7 s", conformer),
        network("HiFi-GAN v1, 560 frames (6.5 s)", hifigan),
        parakeet()[0],
    ]


def kernels() -> list[Work]:
    """Our own. T frames, B utterances, V classes, U labels; bytes are those that leave the caches' reach."""

    def ours(name: str, launches: int, moved: float, operations: float) -> Work:
        return Work(name, launches, moved, operations, is_half=False)

    def ctc(frames: int, batch: int, classes: int, labels: int) -> Work:
        name = f"CTC loss and gradient, T {frames}, B {batch}, V {classes}, U {labels}"
        logits, pairs = batch * frames * classes, batch * frames * (labels + 1)
        # Logits read once and the gradient written; emissions and states written and read, states twice.
        return ours(name, 6, 4 * (2 * logits + 8 * pairs), 30 * logits + 40 * pairs)

    def transducer(frames: int, batch: int, labels: int, outputs: int) -> Work:
        name = f"RNN-T loss and gradient, T {frames}, B {batch}, U {labels}, W {outputs}"
        cells = batch * frames * (labels + 1)
        # Logits read twice, the gradient written; six planes of 12 bytes written, read by the walks and the gradient.
        return ours(name, 5, 4 * 3 * cells * outputs + 12 * 6 * 3 * cells, 25 * cells * outputs + 200 * cells)

    def greedy(frames: int, batch: int, classes: int) -> Work:
        name = f"greedy CTC, T {frames}, B {batch}, V {classes}"
        return ours(name, 2, 4 * batch * frames * (2 * classes + 6), 12 * batch * frames * classes)

    return [
        ctc(835, 16, 29, 200),
        ctc(400, 32, 1025, 60),
        greedy(835, 16, 29),
        greedy(400, 32, 1025),
        transducer(209, 16, 60, 1025),
        transducer(400, 8, 120, 1025),
        decoder_step(1, 640, 640, 1030),
        decoder_step(32, 640, 640, 1030),
        decoder_step(128, 640, 640, 8198),
        decoder_step(1, 640, 640, 1030, ", matrices in bf16"),
        decoder_step(128, 640, 640, 8198, ", matrices in bf16"),
        parakeet()[1],
        attention_step(AttentionConfig(layers=8, classes=16384)),
    ]


def attention_step(cfg: AttentionConfig, tokens: int = 32, seen: int = 260) -> Work:
    """A step of an attention decoder in bf16, a token a text, each of which attends to `seen` frames and tokens."""
    with torch.device("meta"), torch.no_grad(), warnings.catch_warnings(action="ignore"):
        step = TorchStep(halved(AttentionDecoder(cfg, cfg.width, cfg.classes).eval(), "bf16"))
        numbers_N = torch.zeros(tokens, dtype=torch.int64)
        by_kernel = Attention(*(2 * [lambda layer, query_NHW: query_NHW.flatten(1)]))
        with Counting() as counts:
            step.logits(numbers_N, numbers_N, numbers_N, numbers_N, by_kernel)
    keys_values = 2 * cfg.layers * tokens * seen * cfg.width
    name = f"attention decoder in bf16, a step of {tokens} texts, {cfg.layers} x {cfg.width}, V {cfg.classes}"
    moved, launches = counts.bytes + 2 * keys_values, counts.launches + 2 * cfg.layers
    return Work(name, launches, moved, counts.operations + 2 * keys_values, is_half=True)


TEXT = """# What GPUs should need

Written by `python -m benchmarks.gpu_model`, which counts; **nothing here was measured on a GPU**. Expected is the
longer of two times: that of moving all bytes once, and that of all operations, each at the limit that the maker
publishes:

{limits}

In a network every operation counts as a launch of its own, of {launch:g} µs from Python (an estimate): where launching
alone takes longer than the expected time, only a CUDA graph or fewer operations help, whatever the GPU. Real programs
reach half to four fifths of the limits. What others published is theirs, with their own code.

## Networks, one forward pass in bf16

{networks}

## Kernels and steps of this repository, float32 where nothing is said

A step of the greedy transducer is three launches, and one for each layer of the LSTM; so is one of its beam search,
with two more where the internal language model is taken off. Every 16 steps the host looks whether all is decoded, and
nothing else waits. Steps of both greedy decoders are CUDA graphs: one launch for 16 steps of a transducer, and one for
a step of an attention decoder, once a search before has recorded it. The tests of the emulated kernels count launches,
allocations and waits, and hold them to bounds.

{kernels}

## A TDT of 0.6 B against the fastest that are published

128 recordings of 12 s, the encoder and greedy decoding, by the limits alone so many times real time at most:
{rates}.

Published of whole sets of recordings on an H200: 6,098 by NeMo, 12,353 by fast-gpu-asr with a beam of 6.
`python -m benchmarks.decoders_cuda` measures it from samples to labels; `scripts/gpu_check.sh` prints it beside these.
"""


def page() -> str:
    """The text of the page."""
    columns = ["what", "launches", "GB", "10^9 operations", *(f"{d.name}, ms" for d in DEVICES)]
    columns += ["launching alone, ms", "published, ms"]
    head = [f"| {' | '.join(columns)} |", f"| --- | {' | '.join(['--:'] * (len(columns) - 1))} |"]
    limits = (
        f"- {d.name}: {d.bandwidth / 1e9:,.0f} GB/s, {d.float32 / 1e12:g} TFLOPS in float32, "
        f"{d.bfloat16 / 1e12:g} in bf16"
        for d in DEVICES
    )
    return TEXT.format(
        limits="\n".join(limits),
        launch=1e6 * LAUNCH_SECONDS,
        networks="\n".join([*head, *(work.row() for work in networks())]),
        kernels="\n".join([*head, *(work.row() for work in kernels())]),
        rates=", ".join(f"{most_times_real_time(d):,} ({d.name})" for d in DEVICES),
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
