"""What training shows in TensorBoard of some validation clips: alignment, pitch and sound.

Shapes: B clips, L symbols, T frames, M mel bins, N samples.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from common.features import LogMel
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.model import FastPitch, Prediction
from fastpitch.acoustic.training.data import ClipBatch
from fastpitch.acoustic.training.griffin_lim import griffin_lim
from fastpitch.acoustic.training.objective import targets_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PHASE = "samples"  # folder of the events


class Samples:
    """Writes the same clips at every validation."""

    def __init__(self, folder: Path, cfg: Config, batch: ClipBatch, device: torch.device):
        from torch.utils.tensorboard import SummaryWriter

        from fastpitch.vocoders.vocoder import load_vocoder

        self.cfg, self.batch, self.device = cfg, batch.to(device), device
        self.vocoder = load_vocoder(cfg.vocoder, device=str(device)) if cfg.vocoder is not None else None
        if self.vocoder is not None:
            self.vocoder.require(cfg.features, "the model in training")
        self._writer: Any = SummaryWriter(str(folder / PHASE))
        self._recordings_written = False

    @torch.no_grad()
    def write(self, model: FastPitch, log_mel: LogMel, step: int) -> None:
        """Plots and sound of `model`, in evaluation mode, at `step`."""
        batch, said = self.batch, model.infer(self.batch.tokens_BL, self.batch.lengths_B, speaker=self.batch.speaker_B)
        targets = targets_of(batch, log_mel, self.cfg, model.pitch_mean, model.pitch_std)
        prediction = model(batch.tokens_BL, batch.lengths_B, targets, batch.speaker_B)
        for b, name in enumerate(batch.ids):
            length, frames = int(batch.lengths_B[b]), int(batch.frames_B[b])
            self._writer.add_figure(f"alignment/{name}", alignment_figure(prediction, b, length, frames), step)
            self._writer.add_figure(f"pitch/{name}", pitch_figure(prediction, b, length), step)
            audio_N = self._sound(said.mel_BMT[b : b + 1, :, : int(said.frames_B[b])])
            self._add_sound(f"spoken/{name}", audio_N, step)
            if not self._recordings_written and batch.audio_BN.shape[1]:
                self._add_sound(f"recorded/{name}", batch.audio_BN[b, : int(batch.samples_B[b])], step)
        self._recordings_written = True
        self._writer.flush()

    def close(self) -> None:
        """Ends the event file."""
        self._writer.close()

    def _sound(self, mel_1MT: Tensor) -> Tensor:
        if mel_1MT.shape[2] < 2:
            return torch.zeros(self.cfg.features.hop_samples)
        if self.vocoder is not None:
            return self.vocoder(mel_1MT)[0]
        return griffin_lim(mel_1MT, self.cfg.features)[0]

    def _add_sound(self, name: str, audio_N: Tensor, step: int) -> None:
        loud_1N = audio_N[None].float().cpu().clamp(-1, 1)
        self._writer.add_audio(name, loud_1N, step, sample_rate=self.cfg.features.sample_rate)


def alignment_figure(prediction: Prediction, b: int, length: int, frames: int) -> "Figure":
    """The probability of symbols at frames, and over it the alignment that is used."""
    from matplotlib.figure import Figure

    alignment = prediction.alignment
    probability_LT = alignment.log_probs_BTL[b, :frames, :length].float().exp().mT.cpu().numpy()
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.imshow(probability_LT, origin="lower", aspect="auto", interpolation="nearest", vmin=0, vmax=1)
    axes.plot(alignment.symbol_BT[b, :frames].cpu().numpy(), color="white", linewidth=0.7)
    axes.set_xlabel("frame")
    axes.set_ylabel("symbol")
    return figure


def pitch_figure(prediction: Prediction, b: int, length: int) -> "Figure":
    """Pitch of the symbols, recorded and predicted, in deviations from the mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.5), layout="constrained")
    axes = figure.subplots()
    for name, pitch_BL in (("recorded", prediction.pitch_target_BL), ("predicted", prediction.pitch_BL)):
        axes.plot(pitch_BL[b, :length].float().cpu().numpy(), label=name)
    axes.set_xlabel("symbol")
    axes.set_ylabel("deviations")
    axes.legend()
    return figure
