"""FastPitch 1.1 (Łańcucki 2021, arXiv:2006.06873, with the learned alignment of its second version).

An encoder over symbols, predictors of their duration, pitch and energy, and a decoder over frames, for which every
symbol is repeated as often as it has frames. Nothing is generated step by step.

Legend: B utterances, L symbols, T frames, C channels, M mel bins. In the names of the public interface, tokens_BT,
durations_BT, pitch_BT and energy_BT have a column per symbol, mel_BMT one per frame. What an utterance gets does not
depend on what it is batched with.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from common.convolution.linear import Linear
from common.convolution.winograd import WinogradConvolution
from common.lengths import inside
from fastpitch.acoustic.aligner import Aligner, SoftAlignment, given_alignment, mean_over_symbols, symbol_of_frames
from fastpitch.acoustic.config import DEVIATION_HZ, MEAN_HZ, ModelConfig
from fastpitch.acoustic.harmonics import Harmonics, contour
from fastpitch.acoustic.refiner import Outline, Refiner
from fastpitch.acoustic.transformer import Predictor, Transformer


class Spectrogram(NamedTuple):
    """What `FastPitch.infer` makes of a batch of texts.

    mel_BMT: log-mel, zero in the padding. frames_B: int64, how many frames each utterance has. durations_BT: in frames
    at pace 1, not rounded. pitch_BT: deviations from the speaker's mean. energy_BT: log(1 + energy), zeros of a model
    without. symbol_frames_BT: int64, the frames each symbol got; their sum is frames_B.
    """

    mel_BMT: Tensor
    frames_B: Tensor
    durations_BT: Tensor
    pitch_BT: Tensor
    energy_BT: Tensor
    symbol_frames_BT: Tensor


LEARNED = torch.zeros(0, 0, dtype=torch.int64)  # durations that the aligner is to find


class SpeechTargets(NamedTuple):
    """Recorded speech: mel_BMT and, per frame, normalised pitch_BT and energy_BT, zero in the padding.

    durations_BL: the frames of each symbol where they are known, [B, 0] where the aligner is to find them.
    """

    mel_BMT: Tensor
    frames_B: Tensor
    pitch_BT: Tensor
    energy_BT: Tensor
    durations_BL: Tensor = LEARNED


class Prediction(NamedTuple):
    """What training compares: predictions, the alignment, and what recorded pitch and energy are per symbol.

    Of a model with a refiner, mel_BTM is without it; refiner_losses_BT: its error; refined_BTK: the lowest bins as they
    are spoken, unless it is in training.
    """

    mel_BTM: Tensor
    log_durations_BL: Tensor
    pitch_BL: Tensor
    energy_BL: Tensor | None
    alignment: SoftAlignment
    pitch_target_BL: Tensor
    energy_target_BL: Tensor | None
    refiner_losses_BT: Tensor | None = None
    refined_BTK: Tensor | None = None


class MelFrames(NamedTuple):
    """Frames as the decoder predicts them, zero in the padding, and what a refiner, if there is one, sees of them."""

    mel_BTM: Tensor
    outline: Outline | None = None


class ConditionedSymbols(NamedTuple):
    """Encoded symbols x_BLC with pitch and energy added, what these are, and the durations predicted for them."""

    x_BLC: Tensor
    log_durations_BL: Tensor
    predicted_pitch_BL: Tensor
    pitch_BL: Tensor
    predicted_energy_BL: Tensor | None
    energy_BL: Tensor | None


class SaidSymbols(NamedTuple):
    """Symbols as they are said: encoded with pitch and energy added, their durations at pace 1, and the frames (int64),
    pitch and energy that they have."""

    conditioned_BLC: Tensor
    durations_BL: Tensor
    symbol_frames_BL: Tensor
    pitch_BL: Tensor
    energy_BL: Tensor


class FastPitch(nn.Module):
    """Mel spectrograms of symbols."""

    pitch_mean: Tensor
    pitch_std: Tensor
    pitch_range: Tensor
    """[speakers, 2] in Hz, lowest and highest pitch that was heard in training."""
    symbols_learned: Tensor
    """[S] bool, whether a symbol was in a text of the training."""

    def __init__(self, config: ModelConfig, *, n_symbols: int, mel_bins: int):
        super().__init__()
        self.config = config
        channels = config.channels
        self.symbols = nn.Embedding(n_symbols, channels, padding_idx=0)
        self.speakers = nn.Embedding(config.speakers, channels) if config.speakers > 1 else None
        self.encoder = Transformer(channels, config.encoder)
        self.duration = Predictor(channels, config.duration)
        self.pitch = Predictor(channels, config.pitch)
        self.pitch_embedding = WinogradConvolution(1, channels, config.pitch_kernel)
        self.energy = Predictor(channels, config.energy) if config.uses_energy else None
        self.energy_embedding = WinogradConvolution(1, channels, config.energy_kernel) if config.uses_energy else None
        self.decoder = Transformer(channels, config.decoder)
        self.projection = Linear(channels, mel_bins)
        self.harmonics = Harmonics(channels, mel_bins) if config.harmonics else None
        self.refiner = Refiner(config.refiner, mel_bins) if config.refiner.layers else None
        self.aligner = Aligner(channels, mel_bins, config.aligner_channels) if config.aligner else None
        self.register_buffer("pitch_mean", torch.full((config.speakers,), MEAN_HZ))
        self.register_buffer("pitch_std", torch.full((config.speakers,), DEVIATION_HZ))
        self.register_buffer("pitch_range", usual_range(self.pitch_mean, self.pitch_std))
        self.register_buffer("symbols_learned", torch.zeros(n_symbols, dtype=torch.bool))

    def forward(self, tokens_BL: Tensor, lengths_B: Tensor, targets: SpeechTargets, speaker_B: Tensor) -> Prediction:
        """Predictions for training, conditioned on recorded pitch, energy and durations, learned ones or given ones.

        Raises ValueError where durations are neither given nor found, for want of an aligner.
        """
        voice_B1C = self.voice(speaker_B, len(tokens_BL))
        is_symbol_BL = inside(lengths_B, tokens_BL.shape[1])
        symbols_BLC = self.symbols(tokens_BL) * is_symbol_BL[:, :, None]
        if targets.durations_BL.numel():
            alignment = given_alignment(targets.durations_BL, targets.mel_BMT.shape[2])
        elif self.aligner is None:
            raise ValueError("FastPitch: no durations, and a model without an aligner; expected one or the other")
        else:
            alignment = self.aligner(symbols_BLC, lengths_B, targets.mel_BMT, targets.frames_B)
        pitch_BL = mean_over_symbols(targets.pitch_BT, alignment.durations_BL)
        energy_BL = mean_over_symbols(targets.energy_BT, alignment.durations_BL).log1p()
        spoken = self._spoken(
            symbols_BLC,
            is_symbol_BL,
            voice_B1C,
            pitch=lambda _: pitch_BL.to(symbols_BLC.dtype),
            energy=lambda _: energy_BL.to(symbols_BLC.dtype),
        )
        hertz_BT = self.hertz(targets.pitch_BT, speaker_B) if self.harmonics is not None else None
        frames = self.decoded(spoken.x_BLC, alignment.symbol_BT, targets.frames_B, voice_B1C, hertz_BT)
        refiner_losses_BT = refined_BTK = None
        if self.refiner is not None and frames.outline is not None:
            refiner_losses_BT = self.refiner.losses(targets.mel_BMT.mT, frames.outline)
            refined_BTK = None if self.refiner.training else self.lowest(frames)
        has_energy = self.energy is not None
        return Prediction(
            frames.mel_BTM,
            spoken.log_durations_BL,
            spoken.predicted_pitch_BL,
            spoken.predicted_energy_BL,
            alignment,
            pitch_BL,
            energy_BL if has_energy else None,
            refiner_losses_BT,
            refined_BTK,
        )

    @torch.inference_mode()
    def infer(
        self,
        tokens_BT: Tensor,
        lengths_B: Tensor,
        pace: float | Tensor = 1.0,
        speaker: int | Tensor = 0,
        durations_BT: Tensor | None = None,
        pitch_BT: Tensor | None = None,
        energy_BT: Tensor | None = None,
        *,
        pitch_scale: float | Tensor = 1.0,
        pitch_shift: float | Tensor = 0.0,
        energy_scale: float | Tensor = 1.0,
        energy_shift: float | Tensor = 0.0,
    ) -> Spectrogram:
        """The speech of tokens_BT (int64, of which lengths_B in each row count).

        pace, scales and shifts: a number, or a tensor with one per utterance, [B], or per symbol, [B, T]. pace 2 is
        twice as fast. durations_BT (frames at pace 1), pitch_BT (in deviations, see `Spectrogram`) and energy_BT
        replace what would be predicted, except where they are NaN. Then pitch becomes scale * pitch + shift, and energy
        likewise. speaker: a number for all, or [B]. Raises ValueError.
        """
        self._check(tokens_BT, lengths_B, speaker, durations_BT, pitch_BT, energy_BT)
        is_plain = all(not isinstance(own, Tensor) and own == of for own, of in ((energy_scale, 1), (energy_shift, 0)))
        if self.energy is None and not (energy_BT is None and is_plain):
            raise ValueError("FastPitch: energy given to a model that has none (model.uses_energy = false)")
        if not isinstance(pace, Tensor) and not pace > 0:
            raise ValueError(f"FastPitch: pace {pace:g}; expected a number above 0, 1 for unchanged")
        symbols = self.said_symbols(
            tokens_BT, lengths_B, pace, durations_BT, pitch_BT, pitch_scale, pitch_shift,
            energy_BT, energy_scale, energy_shift, speaker,
        )  # fmt: skip
        counts_BL = symbols.symbol_frames_BL
        frames_B = counts_BL.sum(1)
        longest = max(1, int(frames_B.max()))  # a text may have no frames at all
        symbol_BT = symbol_of_frames(counts_BL, longest)
        mel_BTM = self.said_frames(symbols.conditioned_BLC, symbol_BT, frames_B, speaker, counts_BL, symbols.pitch_BL)
        return Spectrogram(mel_BTM.mT, frames_B, symbols.durations_BL, symbols.pitch_BL, symbols.energy_BL, counts_BL)

    def said_symbols(
        self,
        tokens_BL: Tensor,
        lengths_B: Tensor,
        pace: float | Tensor,
        durations_BL: Tensor | None,
        pitch_BL: Tensor | None,
        pitch_scale: float | Tensor,
        pitch_shift: float | Tensor,
        energy_BL: Tensor | None,
        energy_scale: float | Tensor,
        energy_shift: float | Tensor,
        speaker: int | Tensor,
    ) -> SaidSymbols:
        """The first half of `infer`, up to how many frames every symbol has; all of it can be exported."""
        is_symbol_BL = inside(lengths_B, tokens_BL.shape[1])

        def edited(given_BL: Tensor | None, scale: float | Tensor, shift: float | Tensor) -> Callable[[Tensor], Tensor]:
            def edit(predicted_BL: Tensor) -> Tensor:
                value_BL = _given_or(given_BL, predicted_BL)
                return value_BL * _per_symbol(scale, value_BL) + _per_symbol(shift, value_BL)

            return edit

        spoken = self._spoken(
            self.symbols(tokens_BL) * is_symbol_BL[:, :, None],
            is_symbol_BL,
            self.voice(speaker, len(tokens_BL)),
            pitch=edited(pitch_BL, pitch_scale, pitch_shift),
            energy=edited(energy_BL, energy_scale, energy_shift),
        )
        predicted_BL = spoken.log_durations_BL.float().exp() - 1
        predicted_BL = predicted_BL.clamp(min=0).clamp(max=self.config.max_duration)  # both at once do not convert
        durations_BL = _given_or(durations_BL, predicted_BL) * is_symbol_BL
        counts_BL = rounded_frames(durations_BL, pace)
        energy_BL = torch.zeros_like(durations_BL) if spoken.energy_BL is None else spoken.energy_BL
        return SaidSymbols(spoken.x_BLC, durations_BL, counts_BL, spoken.pitch_BL, energy_BL)

    def said_frames(
        self,
        conditioned_BLC: Tensor,
        symbol_BT: Tensor,
        frames_B: Tensor,
        speaker: int | Tensor,
        symbol_frames_BL: Tensor | None,
        pitch_BL: Tensor | None,
    ) -> Tensor:
        """The second half of `infer`: mel_BTM, zero in its padding, of the symbols that frames are of.

        `symbol_BT` may be any symbol in the padding; frames and pitch of symbols are for models that draw harmonics.
        """
        voice_B1C, hertz_BT = self.voice(speaker, len(conditioned_BLC)), None
        if self.harmonics is not None:
            assert symbol_frames_BL is not None
            assert pitch_BL is not None
            hertz_BT = self.hertz(contour(pitch_BL.float(), symbol_frames_BL, symbol_BT), speaker)
        return self.spoken(self.decoded(conditioned_BLC, symbol_BT, frames_B, voice_B1C, hertz_BT))

    def _spoken(
        self,
        symbols_BLC: Tensor,
        is_symbol_BL: Tensor,
        voice_B1C: Tensor | None,
        *,
        pitch: Callable[[Tensor], Tensor],
        energy: Callable[[Tensor], Tensor],
    ) -> ConditionedSymbols:
        """`pitch` and `energy` say, of what is predicted, what the frames are conditioned on."""
        mask_BL1 = is_symbol_BL[:, :, None].to(symbols_BLC.dtype)
        x_BLC = self.encoder(symbols_BLC if voice_B1C is None else symbols_BLC + voice_B1C, is_symbol_BL)
        if voice_B1C is not None and self.config.speaker_conditions == "all":
            x_BLC = (x_BLC + voice_B1C) * mask_BL1
        log_durations_BL = self.duration(x_BLC, mask_BL1)
        predicted_pitch_BL = self.pitch(x_BLC, mask_BL1)
        pitch_BL = pitch(predicted_pitch_BL) * is_symbol_BL
        x_BLC = x_BLC + self.pitch_embedding(pitch_BL[:, :, None].to(x_BLC.dtype))
        if self.energy is None or self.energy_embedding is None:
            return ConditionedSymbols(x_BLC, log_durations_BL, predicted_pitch_BL, pitch_BL, None, None)
        predicted_energy_BL = self.energy(x_BLC, mask_BL1)
        energy_BL = energy(predicted_energy_BL) * is_symbol_BL
        x_BLC = x_BLC + self.energy_embedding(energy_BL[:, :, None].to(x_BLC.dtype))
        return ConditionedSymbols(x_BLC, log_durations_BL, predicted_pitch_BL, pitch_BL, predicted_energy_BL, energy_BL)

    def decoded(
        self,
        x_BLC: Tensor,
        symbol_BT: Tensor,
        frames_B: Tensor,
        voice_B1C: Tensor | None,
        hertz_BT: Tensor | None = None,
    ) -> MelFrames:
        """Frames of which each is of the symbol that symbol_BT says; zero in the padding.

        `hertz_BT`: the pitch of each frame, of a model that draws harmonics.
        """
        is_frame_BT = inside(frames_B, symbol_BT.shape[1])
        x_BTC = x_BLC.gather(1, symbol_BT[:, :, None].expand(-1, -1, x_BLC.shape[2]))
        if voice_B1C is not None and self.config.speaker_conditions == "all":
            x_BTC = x_BTC + voice_B1C
        hidden_BTC = self.decoder(x_BTC, is_frame_BT)
        mel_BTM = self.projection(hidden_BTC)
        keep_BT1 = is_frame_BT[:, :, None].to(mel_BTM.dtype)
        if self.harmonics is None or hertz_BT is None:
            return MelFrames(mel_BTM * keep_BT1)
        depth_BTM, comb_BTM = self.harmonics.depth(hidden_BTC), self.harmonics.comb(hertz_BT).to(hidden_BTC.dtype)
        mel_BTM = (mel_BTM + self.harmonics.drawn(depth_BTM) * comb_BTM) * keep_BT1
        if self.refiner is None:
            return MelFrames(mel_BTM)
        return MelFrames(mel_BTM, self.refiner.outline(mel_BTM, depth_BTM, comb_BTM, keep_BT1))

    def spoken(self, frames: MelFrames) -> Tensor:
        """[B, T, M] frames as they are spoken; zero in the padding."""
        return refined(frames.mel_BTM, self.lowest(frames))

    def lowest(self, frames: MelFrames) -> Tensor | None:
        """[B, T, K] the lowest bins as they are spoken, of a model with a refiner; zero in the padding."""
        if self.refiner is None or frames.outline is None:
            return None
        refined_BTK, share = self.refiner(frames.outline), self.config.refiner.share
        if share == 1:
            return refined_BTK
        decoded_BTK = frames.mel_BTM[..., : refined_BTK.shape[2]]
        return decoded_BTK + share * (refined_BTK - decoded_BTK)

    def hertz(self, pitch_BT: Tensor, speaker: int | Tensor) -> Tensor:
        """Pitch in Hz of deviations from the speakers' means."""
        speaker_B = torch.as_tensor(speaker, device=pitch_BT.device).expand(len(pitch_BT))
        return pitch_BT * self.pitch_std[speaker_B][:, None] + self.pitch_mean[speaker_B][:, None]

    @torch.no_grad()
    def note_symbols(self) -> None:
        """Notes the symbols that the gradient of a step reaches."""
        if (gradient_SC := self.symbols.weight.grad) is not None:
            self.symbols_learned |= (gradient_SC != 0).any(1)

    def voice(self, speaker: int | Tensor, batch: int) -> Tensor | None:
        """[B, 1, C] the embedding of the speakers; None where there is only one."""
        if self.speakers is None:
            return None
        speaker_B = torch.as_tensor(speaker, device=self.speakers.weight.device).expand(batch)
        return self.config.speaker_weight * self.speakers(speaker_B)[:, None]

    def _check(self, tokens_BT: Tensor, lengths_B: Tensor, speaker: int | Tensor, *given: Tensor | None) -> None:
        if tokens_BT.ndim != 2 or lengths_B.shape != tokens_BT.shape[:1] or not tokens_BT.numel():
            raise ValueError(
                f"FastPitch: tokens of shape {tuple(tokens_BT.shape)} and lengths of shape {tuple(lengths_B.shape)}; "
                "expected [utterances, symbols], not empty, and [utterances]"
            )
        for name, values_BT in zip(("durations_BT", "pitch_BT", "energy_BT"), given, strict=True):
            if values_BT is not None and values_BT.shape != tokens_BT.shape:
                raise ValueError(
                    f"FastPitch: {name} of shape {tuple(values_BT.shape)} for tokens of {tuple(tokens_BT.shape)}; "
                    "expected a value for every symbol"
                )
        if isinstance(speaker, int) and not 0 <= speaker < self.config.speakers:
            raise ValueError(f"FastPitch: speaker {speaker}; this model has 0 to {self.config.speakers - 1}")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        # Statistics of pitch move with the module but are never rounded to half precision.
        exact = {name: getattr(self, name).float() for name in ("pitch_mean", "pitch_std", "pitch_range")}
        super()._apply(fn, recurse)
        for name, values in exact.items():
            setattr(self, name, values.to(getattr(self, name).device))
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        statistics = [state_dict[prefix + name] for name in ("pitch_mean", "pitch_std") if prefix + name in state_dict]
        if len(statistics) == 2:  # published checkpoints, and ours of before, do not have the range
            state_dict.setdefault(f"{prefix}pitch_range", usual_range(statistics[0], statistics[1]))
        if (symbols_SC := state_dict.get(f"{prefix}symbols.weight")) is not None:
            state_dict.setdefault(f"{prefix}symbols_learned", torch.ones(len(symbols_SC), dtype=torch.bool))
        super()._load_from_state_dict(state_dict, prefix, *args)


def usual_range(mean_S: Tensor, deviation_S: Tensor) -> Tensor:
    """[S, 2] where nearly all of the pitch of speakers lies, of which only mean and deviation are known."""
    return torch.stack([mean_S - 2 * deviation_S, mean_S + 2 * deviation_S], 1)


def rounded_frames(durations_BL: Tensor, pace: float | Tensor = 1.0) -> Tensor:
    """[B, L] int64: frames that symbols of these durations get at this pace, halves rounded up."""
    return (durations_BL.float() / _per_symbol(pace, durations_BL) + 0.5).long()


def refined(mel_BTM: Tensor, refined_BTK: Tensor | None) -> Tensor:
    """Predicted frames with the lowest bins that a refiner predicts, if there is one, in place of theirs."""
    return mel_BTM if refined_BTK is None else torch.cat([refined_BTK, mel_BTM[..., refined_BTK.shape[2] :]], 2)


def _per_symbol(value: float | Tensor, like_BL: Tensor) -> float | Tensor:
    """A number, or a tensor of [B] or [B, L], so that it broadcasts to [B, L]."""
    if not isinstance(value, Tensor) or value.ndim != 1:
        return value if not isinstance(value, Tensor) else value.to(like_BL.device)
    return value.to(like_BL.device)[:, None]


def _given_or(given_BL: Tensor | None, predicted_BL: Tensor) -> Tensor:
    if given_BL is None:
        return predicted_BL
    given_BL = given_BL.to(predicted_BL)
    return torch.where(given_BL.isnan(), predicted_BL, given_BL)
