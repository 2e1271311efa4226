"""How well a vocoder says again what it hears in recordings: objective distances, and samples for TensorBoard.

Shapes: B utterances, M mel bins, T frames, N samples.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from common.data.batching import evaluation_batches
from common.data.loading import Failure, LoadingError
from common.devices.distributed import World
from common.devices.precision import Precision, autocast
from common.features import LogMel
from fastpitch.vocoders.training.data import GeneratorInput, SegmentDataset, heard, loader
from fastpitch.vocoders.training.objective import log_spectral_distance, mel_loss


class VocoderEvaluation(NamedTuple):
    """Means over clips of the mean absolute log-mel difference (full band) and of the log-spectral distance."""

    mel: float
    lsd_db: float


class Resynthesis(NamedTuple):
    """A recording and what the vocoder makes of its mel spectrogram, both [1, N]."""

    id: str
    audio_1N: Tensor
    fake_1N: Tensor


def evaluate(
    generator: nn.Module, log_mel: LogMel, full_mel: LogMel, clips: SegmentDataset, world: World, precision: Precision
) -> VocoderEvaluation:
    """Over all clips, shared among the processes. `log_mel` is what the generator hears, `full_mel` what is compared.

    Raises LoadingError if a clip cannot be read and the data set says stop, or if none can be read.
    """
    mine = range(world.rank, len(clips.utterances), world.size)
    totals_3 = torch.zeros(3, dtype=torch.float64, device=world.device)
    for said in resynthesized(generator, log_mel, clips, mine, world, precision):
        mel = mel_loss(full_mel, said.audio_1N, said.fake_1N)
        lsd = log_spectral_distance(said.audio_1N, said.fake_1N).mean()
        totals_3 += torch.stack([mel, lsd, torch.ones_like(mel)]).double()
    mel_sum, lsd_sum, count = world.sum(totals_3).tolist()
    if not count:
        raise LoadingError(f"not one clip can be read: {next(iter(clips.skipped.values()))}")
    return VocoderEvaluation(mel_sum / count, lsd_sum / count)


@torch.no_grad()
def flow_evaluation(
    network: nn.Module,
    loss_of: Callable[[GeneratorInput], Tensor],
    log_mel: LogMel,
    clips: SegmentDataset,
    world: World,
    batch_size: int,
) -> float:
    """Mean of `loss_of` segments, the same one of every clip each time, over all processes."""
    network.eval()
    batches = evaluation_batches([0.0] * len(clips), batch_size=batch_size, ranks=world.size, rank=world.rank)
    total_2 = torch.zeros(2, dtype=torch.float64, device=world.device)
    for batch in loader(clips, batches, workers=clips.data.workers):
        loss = loss_of(heard(batch.to(world.device), log_mel))
        total_2 += torch.stack([loss * len(batch.ids), torch.full_like(loss, len(batch.ids))])
    loss_sum, count = world.sum(total_2).tolist()
    return loss_sum / count


@torch.no_grad()
def resynthesized(
    generator: nn.Module, log_mel: LogMel, clips: SegmentDataset, which: range, world: World, precision: Precision
) -> Iterator[Resynthesis]:
    """Each of the clips said again from its mel spectrogram, or from the one given for fine-tuning."""
    was_training = generator.training
    generator.eval()
    for index in which:
        clip = clips.clip(index)
        if isinstance(clip, Failure):
            if clip.stops or clips.data.on_error == "stop":
                raise LoadingError(clip.message)
            clips.skipped[index] = clip.message
            continue
        audio_1N = torch.from_numpy(clip.samples)[None].to(world.device)
        samples_B = torch.tensor([audio_1N.shape[1]], device=world.device)
        mel_BMT = log_mel(audio_1N, samples_B).features_BFT
        if clip.mel_MT is not None:
            mel_BMT = torch.from_numpy(clip.mel_MT)[None].to(world.device)
        with autocast(world.device, precision):
            fake_1N = generator(mel_BMT).float()
        common = min(audio_1N.shape[1], fake_1N.shape[1])
        yield Resynthesis(clip.id, audio_1N[:, :common], fake_1N[:, :common])
    generator.train(was_training)


def show_samples(folder: Path, said: Iterator[Resynthesis], log_mel: LogMel, *, step: int) -> None:
    """Sounds and mel spectrograms into TensorBoard events of `folder`; the recordings at the first time only."""
    from torch.utils.tensorboard import SummaryWriter

    rate = log_mel.cfg.sample_rate
    with SummaryWriter(str(folder)) as writer:
        for clip in said:
            for kind, audio_1N in (("said", clip.fake_1N), ("recorded", clip.audio_1N)):
                writer.add_audio(f"{clip.id}/{kind}", audio_1N[0].clamp(-1, 1).cpu(), step, sample_rate=rate)
                writer.add_image(f"{clip.id}/{kind}", _picture(audio_1N, log_mel), step)


def _picture(audio_1N: Tensor, log_mel: LogMel) -> Tensor:
    """The mel spectrogram as a grey image [1, M, T], low frequencies at the bottom."""
    mel_MT = log_mel(audio_1N, torch.tensor([audio_1N.shape[1]], device=audio_1N.device)).features_BFT[0].cpu()
    return ((mel_MT - mel_MT.min()) / (mel_MT.max() - mel_MT.min()).clamp(min=1e-5)).flip(0)[None]
