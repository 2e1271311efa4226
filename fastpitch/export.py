"""FastPitch for export: from symbols to mel spectrograms, as one graph or as two around the length that data decide.

The graphs are plain: attention is matrix products, and what is predicted is replaced and edited by tensors alone. A
runtime that wants its sizes beforehand (TensorRT) takes `encoder` and `decoder` and finds between them the symbol of
every frame; all others take `whole`.

Shapes: B utterances, L symbols, T frames, C channels, M mel bins.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common import config
from common.export import ExportGraph, encoded
from common.lengths import inside
from fastpitch.acoustic.aligner import symbol_of_frames
from fastpitch.acoustic.harmonics import contour
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.transformer import MaskedAttention, Transformer, positions
from fastpitch.speaking.synthesizer import Synthesizer

Part = Literal["whole", "encoder", "decoder"]


class Symbols(NamedTuple):
    """Encoded symbols with pitch and energy added, the frames of each, and the pitch and energy that they have."""

    conditioned_BLC: Tensor
    symbol_frames_BL: Tensor
    spoken_pitch_BL: Tensor
    spoken_energy_BL: Tensor


class PlainTransformer(nn.Module):
    """`Transformer` in evaluation, with the weights of `transformer`."""

    def __init__(self, transformer: Transformer):
        super().__init__()
        self.layers = transformer.layers

    def forward(self, x_BTC: Tensor, inside_BT: Tensor) -> Tensor:
        """x_BTC, whatever it holds in its padding, to as many outputs, zero in their padding."""
        mask_BT1 = inside_BT[:, :, None].to(x_BTC.dtype)
        x_BTC = (x_BTC + positions(x_BTC.shape[1], x_BTC.shape[2], x_BTC.device)) * mask_BT1
        # Far below any score, so that an utterance without a symbol looks at its padding evenly, not at nothing.
        padding_B1T = (mask_BT1.mT - 1) * 1e4
        for layer in self.layers:
            attended_BTC = _attended(layer.attention, x_BTC, padding_B1T)  # type: ignore[arg-type]
            x_BTC = layer.attention_norm(x_BTC + attended_BTC) * mask_BT1  # type: ignore[operator]
            wide_BTC = F.relu(layer.widen(x_BTC)) * mask_BT1  # type: ignore[operator]
            x_BTC = layer.convolution_norm(x_BTC + layer.narrow(wide_BTC)) * mask_BT1  # type: ignore[operator]
        return x_BTC


def _attended(attention: MaskedAttention, x_BTC: Tensor, padding_B1T: Tensor) -> Tensor:
    parts = (part_BTC.chunk(attention.heads, 2) for part_BTC in attention.query_key_value(x_BTC).chunk(3, 2))
    mixed = []
    for query_BTC, key_BTC, value_BTC in zip(*parts, strict=True):
        scores_BTT = (query_BTC * query_BTC.shape[2] ** -0.5) @ key_BTC.mT
        mixed.append((scores_BTT + padding_B1T).softmax(2) @ value_BTC)
    return attention.out(torch.cat(mixed, 2))


class SymbolEncoder(nn.Module):
    """What is said of each symbol, and in how many frames."""

    def __init__(self, model: FastPitch):
        super().__init__()
        self.model, self.encoder = model, PlainTransformer(model.encoder)

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
        speaker_B: Tensor | None = None,
    ) -> Symbols:
        """As `FastPitch.infer`, with a value for every symbol; durations, pitch and energy that are NaN are predicted.

        Energy is for models that have it, the speaker for those of several.
        """
        model = self.model
        is_symbol_BL = inside(lengths_B, tokens_BL.shape[1])
        inside_BL = is_symbol_BL.to(pace_BL.dtype)
        inside_BL1 = inside_BL[:, :, None]
        voice_B1C = _voice(model, speaker_B)
        x_BLC = self.encoder(model.symbols(tokens_BL) * inside_BL1 + voice_B1C, is_symbol_BL)
        if model.config.speaker_conditions == "all":
            x_BLC = (x_BLC + voice_B1C) * inside_BL1
        predicted_BL = model.duration(x_BLC, inside_BL1).exp() - 1
        predicted_BL = predicted_BL.clamp(min=0).clamp(max=model.config.max_duration)  # both at once do not convert
        frames_BL = (_given_or(durations_BL, predicted_BL) * inside_BL / pace_BL + 0.5).long()
        said_BL = _given_or(pitch_BL, model.pitch(x_BLC, inside_BL1)) * pitch_scale_BL + pitch_shift_BL
        said_BL = said_BL * inside_BL
        x_BLC = x_BLC + model.pitch_embedding(said_BL[:, :, None])
        if model.energy is None or model.energy_embedding is None:
            return Symbols(x_BLC, frames_BL, said_BL, torch.zeros_like(said_BL))
        assert energy_BL is not None
        loud_BL = _given_or(energy_BL, model.energy(x_BLC, inside_BL1)) * energy_scale_BL + energy_shift_BL
        loud_BL = loud_BL * inside_BL
        return Symbols(x_BLC + model.energy_embedding(loud_BL[:, :, None]), frames_BL, said_BL, loud_BL)


class FrameDecoder(nn.Module):
    """The mel frames of symbols, where the symbol of every frame is known."""

    def __init__(self, model: FastPitch):
        super().__init__()
        self.model, self.decoder = model, PlainTransformer(model.decoder)

    def forward(
        self,
        conditioned_BLC: Tensor,
        symbol_BT: Tensor,
        frames_B: Tensor,
        speaker_B: Tensor | None = None,
        symbol_frames_BL: Tensor | None = None,
        spoken_pitch_BL: Tensor | None = None,
    ) -> tuple[Tensor]:
        """mel_BMT, zero in its padding, of the symbols that frames are of: symbol_BT, any in the padding.

        Frames and pitch of symbols are for models that draw harmonics.
        """
        x_BTC = conditioned_BLC.gather(1, symbol_BT[:, :, None].expand(-1, -1, conditioned_BLC.shape[2]))
        if self.model.config.speaker_conditions == "all":
            x_BTC = x_BTC + _voice(self.model, speaker_B)
        is_frame_BT = inside(frames_B, symbol_BT.shape[1])
        hidden_BTC = self.decoder(x_BTC, is_frame_BT)
        hertz_BT = None
        if self.model.harmonics is not None:
            assert symbol_frames_BL is not None
            assert spoken_pitch_BL is not None
            pitch_BT = contour(spoken_pitch_BL, symbol_frames_BL, symbol_BT)
            hertz_BT = self.model.hertz(pitch_BT, 0 if speaker_B is None else speaker_B)
        return (self.model.spoken(self.model.projected(hidden_BTC, is_frame_BT, hertz_BT)).mT,)


class Whole(nn.Module):
    """Encoder and decoder, and between them the symbol of every frame."""

    def __init__(self, model: FastPitch):
        super().__init__()
        self.encoder, self.decoder = SymbolEncoder(model), FrameDecoder(model)

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
        speaker_B: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """mel_BMT, frames_B, and of every symbol its frames, pitch and energy; arguments as of `SymbolEncoder`."""
        edits = pace_BL, durations_BL, pitch_BL, pitch_scale_BL, pitch_shift_BL
        energy = energy_BL, energy_scale_BL, energy_shift_BL
        symbols = self.encoder(tokens_BL, lengths_B, *edits, *energy, speaker_B)
        ends_BL = symbols.symbol_frames_BL.cumsum(1)
        frames_B = ends_BL[:, -1]
        longest = frames_B.max().clamp(min=1).item()  # the one size that only the data know
        torch._check(longest >= 1)
        frame_T1 = torch.arange(longest, device=ends_BL.device)[:, None]
        symbol_BT = (ends_BL[:, None] <= frame_T1).long().sum(2).clamp(max=tokens_BL.shape[1] - 1)
        (mel_BMT,) = self.decoder(
            symbols.conditioned_BLC, symbol_BT, frames_B, speaker_B, symbols.symbol_frames_BL, symbols.spoken_pitch_BL
        )
        return mel_BMT, frames_B, *symbols[1:]


def graph(tts: Synthesizer, part: Part = "whole") -> ExportGraph:
    """`tts`, on the CPU in float32, or a part of it."""
    model, encoder = tts.model.eval(), SymbolEncoder(tts.model)
    examples = [_example(model, lengths) for lengths in ((17, 11, 1), (40, 23), (1,), (5, 5, 5, 2))]

    def whole(
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
        said = model.infer(
            tokens_BL, lengths_B, pace_BL, speaker_B, durations_BL, pitch_BL, energy_BL,
            pitch_scale=pitch_scale_BL, pitch_shift=pitch_shift_BL,
            energy_scale=energy_scale_BL, energy_shift=energy_shift_BL,
        )  # fmt: skip
        return said.mel_BMT, said.frames_B, said.symbol_frames_BT, said.pitch_BT, said.energy_BT

    def of_symbols(**inputs: Tensor) -> tuple[Tensor, ...]:
        return encoder(**inputs).conditioned_BLC, *whole(**inputs)[2:]

    def of_frames(
        conditioned_BLC: Tensor,
        symbol_BT: Tensor,
        frames_B: Tensor,
        speaker_B: Tensor | int = 0,
        symbol_frames_BL: Tensor | None = None,
        spoken_pitch_BL: Tensor | None = None,
    ) -> tuple[Tensor]:
        voice_B1C, hertz_BT = model.voice(speaker_B, len(frames_B)), None
        if symbol_frames_BL is not None and spoken_pitch_BL is not None:
            hertz_BT = model.hertz(contour(spoken_pitch_BL, symbol_frames_BL, symbol_BT), speaker_B)
        return (model.spoken(model.decoded(conditioned_BLC, symbol_BT, frames_B, voice_B1C, hertz_BT)).mT,)

    of_each = {name: {0: "B", 1: "L"} if name.endswith("_BL") else {0: "B"} for name in examples[0]}
    if part == "decoder":
        examples = [_decoder_example(encoder, example) for example in examples]
        of_each = {name: {0: "B"} for name in examples[0]}
        of_each |= {"conditioned_BLC": {0: "B", 1: "L"}, "symbol_BT": {0: "B", 1: "T"}}
        of_each |= {name: {0: "B", 1: "L"} for name in examples[0] if name.endswith("_BL")}
    parts: dict[Part, tuple[nn.Module, Callable[..., Sequence[Tensor]], tuple[str, ...]]] = {
        "whole": (Whole(model), whole, ("mel_BMT", "frames_B", *Symbols._fields[1:])),
        "encoder": (encoder, of_symbols, Symbols._fields),
        "decoder": (FrameDecoder(model), of_frames, ("mel_BMT",)),
    }
    module, reference, outputs = parts[part]
    return ExportGraph(
        module=module,
        reference=reference,
        inputs=examples[0],
        axes=of_each,
        outputs=outputs,
        checks=examples[1:],
        tolerance=5e-5,
        metadata=_metadata(tts, part),
        full_precision=("encoder",),  # durations are whole frames: rounded otherwise, all that follows is shifted
    )


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
def _decoder_example(encoder: SymbolEncoder, example: Mapping[str, Tensor]) -> dict[str, Tensor]:
    conditioned_BLC, counts_BL, pitch_BL, _ = encoder(**example)
    frames_B = counts_BL.sum(1)
    symbol_BT = symbol_of_frames(counts_BL, int(frames_B.max()) + 1)
    inputs = {"conditioned_BLC": conditioned_BLC, "symbol_BT": symbol_BT, "frames_B": frames_B}
    has = encoder.model.config
    if has.speakers > 1 and (has.harmonics or has.speaker_conditions == "all"):
        inputs["speaker_B"] = example["speaker_B"]
    if has.harmonics:
        inputs |= {"symbol_frames_BL": counts_BL, "spoken_pitch_BL": pitch_BL}
    return inputs


def _voice(model: FastPitch, speaker_B: Tensor | None) -> Tensor | float:
    """[B, 1, C] the embedding of the speakers; 0 where there is only one."""
    if model.speakers is None or speaker_B is None:
        return 0.0
    return model.config.speaker_weight * model.speakers(speaker_B)[:, None]


def _given_or(given_BL: Tensor, predicted_BL: Tensor) -> Tensor:
    return torch.where(given_BL.isnan(), predicted_BL, given_BL)
