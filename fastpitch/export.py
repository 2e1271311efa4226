"""FastPitch for export: from symbols to mel spectrograms, as one graph or as two around the length that data decide.

The graphs are those of `FastPitch.infer`, but that attention is matrix products and every control a tensor. A
runtime that wants its sizes beforehand (TensorRT) takes `encoder` and `decoder` and finds between them the symbol of
every frame; all others take `whole`.

Shapes: B utterances, L symbols, T frames, C channels, M mel bins.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from common import config
from common.export import ExportGraph, encoded
from fastpitch.acoustic.aligner import symbol_of_frames
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.transformer import MaskedAttention
from fastpitch.speaking.synthesizer import Synthesizer

Part = Literal["whole", "encoder", "decoder"]
OUTPUTS = ("conditioned_BLC", "symbol_frames_BL", "spoken_pitch_BL", "spoken_energy_BL")
"""What the encoder gives: symbols with pitch and energy added, the frames of each, their pitch and their energy."""


class PlainAttention(nn.Module):
    """`MaskedAttention` in evaluation as products of matrices, with the weights of `attention`."""

    def __init__(self, attention: MaskedAttention):
        super().__init__()
        self.heads, self.query_key_value, self.out = attention.heads, attention.query_key_value, attention.out

    def forward(self, x_BTC: Tensor, inside_BT: Tensor) -> Tensor:
        """As `MaskedAttention`'s."""
        # Far below any score, so that an utterance without a symbol looks at its padding evenly, not at nothing.
        padding_B1T = (inside_BT[:, None].to(x_BTC.dtype) - 1) * 1e4
        parts = (part_BTC.chunk(self.heads, 2) for part_BTC in self.query_key_value(x_BTC).chunk(3, 2))
        mixed = []
        for query_BTC, key_BTC, value_BTC in zip(*parts, strict=True):
            scores_BTT = (query_BTC * query_BTC.shape[2] ** -0.5) @ key_BTC.mT
            mixed.append((scores_BTT + padding_B1T).softmax(2) @ value_BTC)
        return self.out(torch.cat(mixed, 2))


class SymbolEncoder(nn.Module):
    """What is said of each symbol, and in how many frames."""

    def __init__(self, model: FastPitch):
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What OUTPUTS names; `inputs` as of `FastPitch.said_symbols`."""
        said = self.model.said_symbols(*inputs)
        return said.conditioned_BLC, said.symbol_frames_BL, said.pitch_BL, said.energy_BL


class FrameDecoder(nn.Module):
    """The mel frames of symbols, where the symbol of every frame is known."""

    def __init__(self, model: FastPitch):
        super().__init__()
        self.model = model

    def forward(
        self,
        conditioned_BLC: Tensor,
        symbol_BT: Tensor,
        frames_B: Tensor,
        speaker_B: Tensor | int = 0,
        symbol_frames_BL: Tensor | None = None,
        spoken_pitch_BL: Tensor | None = None,
    ) -> tuple[Tensor]:
        """mel_BMT; arguments as of `FastPitch.said_frames`."""
        frames = conditioned_BLC, symbol_BT, frames_B, speaker_B, symbol_frames_BL, spoken_pitch_BL
        return (self.model.said_frames(*frames).mT,)


class Speech(nn.Module):
    """The encoder and, if there is one, the decoder, and between them the symbol of every frame."""

    def __init__(self, encoder: SymbolEncoder, decoder: FrameDecoder | None):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(
        self,
        tokens_BL: Tensor,
        lengths_B: Tensor,
        pace_BL: Tensor,
        durations_BL: Tensor,
        pitch_BL: Tensor,
        pitch_scale_BL: Tensor,
        pitch_shift_BL: Tensor,
        energy_BL: Tensor | None = None,
        energy_scale_BL: Tensor | float = 1.0,
        energy_shift_BL: Tensor | float = 0.0,
        speaker_B: Tensor | int = 0,
    ) -> tuple[Tensor, ...]:
        """What OUTPUTS names, or mel_BMT, frames_B, and of every symbol its frames, pitch and energy.

        Arguments are as of `FastPitch.infer`, with a value for every symbol; durations, pitch and energy that are NaN
        are predicted. Energy is for models that have it, the speaker for those of several.
        """
        edits = pace_BL, durations_BL, pitch_BL, pitch_scale_BL, pitch_shift_BL
        energy = energy_BL, energy_scale_BL, energy_shift_BL
        symbols = self.encoder(tokens_BL, lengths_B, *edits, *energy, speaker_B)
        if self.decoder is None:
            return symbols
        conditioned_BLC, counts_BL, spoken_pitch_BL, _ = symbols
        ends_BL = counts_BL.cumsum(1)
        frames_B = ends_BL[:, -1]
        longest = frames_B.max().clamp(min=1).item()  # the one size that only the data know
        torch._check(longest >= 1)
        frame_T1 = torch.arange(longest, device=ends_BL.device)[:, None]
        symbol_BT = (ends_BL[:, None] <= frame_T1).long().sum(2).clamp(max=tokens_BL.shape[1] - 1)
        (mel_BMT,) = self.decoder(conditioned_BLC, symbol_BT, frames_B, speaker_B, counts_BL, spoken_pitch_BL)
        return mel_BMT, frames_B, *symbols[1:]


def graph(tts: Synthesizer, part: Part = "whole") -> ExportGraph:
    """`tts`, on the CPU in float32, or a part of it."""
    model = tts.model.eval()
    examples = [_example(model, lengths) for lengths in ((17, 11, 1), (40, 23), (1,), (5, 5, 5, 2))]
    if part == "decoder":
        examples = [_decoder_example(model, example) for example in examples]
    axes = {"B": {0: "B"}, "BL": {0: "B", 1: "L"}, "BLC": {0: "B", 1: "L"}, "BT": {0: "B", 1: "T"}}
    return ExportGraph(
        module=_module(part, lambda: _plain(model)),
        reference=_module(part, lambda: model) if part != "whole" else partial(_inferred, model),
        inputs=examples[0],
        axes={name: axes[name.rpartition("_")[2]] for name in examples[0]},
        outputs={"whole": ("mel_BMT", "frames_B", *OUTPUTS[1:]), "encoder": OUTPUTS, "decoder": ("mel_BMT",)}[part],
        checks=examples[1:],
        tolerance=5e-5,
        metadata=_metadata(tts, part),
        full_precision=("encoder",),  # durations are whole frames: rounded otherwise, all that follows is shifted
    )


def _module(part: Part, model: Callable[[], FastPitch]) -> nn.Module:
    if part == "decoder":
        return FrameDecoder(model())
    return Speech(SymbolEncoder(model()), FrameDecoder(model()) if part == "whole" else None)


def _plain(model: FastPitch) -> FastPitch:
    """A copy whose attention is plain: one for each part, whose nodes are told apart by their scopes."""
    own = copy.deepcopy(model)
    for transformer in (own.encoder, own.decoder):
        for layer in transformer.layers:
            layer.attention = PlainAttention(layer.attention)  # type: ignore[arg-type]
    return own


def _inferred(model: FastPitch, *, speaker_B: Tensor | int = 0, **inputs: Tensor) -> tuple[Tensor, ...]:
    """What the model itself says of the inputs of `Speech`."""
    names = {"tokens": "tokens_BT", "durations": "durations_BT", "pitch": "pitch_BT", "energy": "energy_BT"}
    given = {name.removesuffix("_BL"): value for name, value in inputs.items()}
    said = model.infer(speaker=speaker_B, **{names.get(name, name): value for name, value in given.items()})
    return said.mel_BMT, said.frames_B, said.symbol_frames_BT, said.pitch_BT, said.energy_BT


def _metadata(tts: Synthesizer, part: Part) -> dict[str, str]:
    model, features = tts.model, tts.features
    return encoded(
        family="fastpitch",
        task="synthesis",
        part=part,
        sample_rate=features.sample_rate,
        hop_samples=features.hop_samples,
        features=config.to_dict(features),
        text=config.to_dict(tts.text.config),
        symbols=tts.text.symbols,
        learned=list(tts.text.learned),
        voices=[list(voice) for voice in tts.voices()],
        configuration=config.to_dict(model.config),
    )


def _example(model: FastPitch, lengths: Sequence[int]) -> dict[str, Tensor]:
    """Random symbols with every control away from its default; of durations, pitch and energy some are given."""
    noise = torch.Generator().manual_seed(sum(lengths))
    shape = len(lengths), max(lengths)

    def between(least: float, most: float) -> Tensor:
        return least + (most - least) * torch.rand(shape, generator=noise)

    def some(values_BL: Tensor) -> Tensor:
        return values_BL.where(between(0, 1) < 0.3, torch.nan)

    inputs = {
        "tokens_BL": torch.randint(1, model.symbols.num_embeddings, shape, generator=noise),
        "lengths_B": torch.tensor(lengths),
        "pace_BL": between(0.6, 1.7),
        "durations_BL": some(between(0, 9).round()),
        "pitch_BL": some(between(-2, 2)),
        "pitch_scale_BL": between(-1, 2),
        "pitch_shift_BL": between(-1, 1),
    }
    if model.config.uses_energy:
        inputs |= {"energy_BL": some(between(0, 3)), "energy_scale_BL": between(0.5, 2)}
        inputs |= {"energy_shift_BL": between(-1, 1)}
    if model.config.speakers > 1:
        inputs["speaker_B"] = torch.randint(model.config.speakers, shape[:1], generator=noise)
    return inputs


@torch.no_grad()
def _decoder_example(model: FastPitch, example: Mapping[str, Tensor]) -> dict[str, Tensor]:
    conditioned_BLC, counts_BL, pitch_BL, _ = Speech(SymbolEncoder(model), None)(**example)
    frames_B = counts_BL.sum(1)
    symbol_BT = symbol_of_frames(counts_BL, int(frames_B.max()) + 1)
    inputs = {"conditioned_BLC": conditioned_BLC, "symbol_BT": symbol_BT, "frames_B": frames_B}
    has = model.config
    if has.speakers > 1 and (has.harmonics or has.speaker_conditions == "all"):
        inputs["speaker_B"] = example["speaker_B"]
    if has.harmonics:
        inputs |= {"symbol_frames_BL": counts_BL, "spoken_pitch_BL": pitch_BL}
    return inputs
