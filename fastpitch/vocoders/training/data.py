"""From manifests to batches of equally long segments of clips, with the mel spectrograms of fine-tuning if wanted.

A segment is a function of the settings, its index and the epoch alone. It comes with as much audio on either side as
its frames reach into, so that its mel spectrogram is a piece of the clip's.

Shapes: B segments, M mel bins, T frames of a segment, N samples with their surroundings.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from common.audio import waveform
from common.data.loading import Failure, batch_loader, made_of, together
from common.data.manifest import Utterance
from common.features import LogMel, LogMelConfig
from common.runs import checkpoint
from fastpitch.vocoders.config import DataConfig


@dataclass(frozen=True, slots=True)
class ClipSegment:
    """A piece of a clip: float32 samples [N] and, in fine-tuning, its mel spectrogram [M, T]."""

    index: int
    id: str
    samples: np.ndarray
    mel_MT: np.ndarray | None


class SegmentBatch(NamedTuple):
    """Segments of one length; `failures` tells of clips in whose place another one was taken."""

    audio_BN: Tensor
    mel_BMT: Tensor | None
    ids: list[str]
    failures: list[Failure]

    def to(self, device: torch.device) -> "SegmentBatch":
        """The batch with its tensors on `device`; from pinned memory without waiting for the copy."""
        mel_BMT = None if self.mel_BMT is None else self.mel_BMT.to(device, non_blocking=True)
        return self._replace(audio_BN=self.audio_BN.to(device, non_blocking=True), mel_BMT=mel_BMT)


class Replaced(NamedTuple):
    """Why a segment cannot be had, and the one that is taken in its place."""

    failure: Failure
    segment: ClipSegment


class GeneratorInput(NamedTuple):
    """What a generator is given, [B, M, T], and what it should say, [B, T hop]."""

    mel_BMT: Tensor
    audio_BN: Tensor


def heard(batch: SegmentBatch, log_mel: LogMel) -> GeneratorInput:
    """Mel spectrograms, computed or given, and the audio they are of."""
    margin = _margin(log_mel.cfg)
    samples_B = torch.full((len(batch.audio_BN),), batch.audio_BN.shape[1], device=batch.audio_BN.device)
    mel_BMT = batch.mel_BMT
    if mel_BMT is None:
        edge = margin // log_mel.cfg.hop_samples
        frames = (batch.audio_BN.shape[1] - 2 * margin) // log_mel.cfg.hop_samples
        mel_BMT = log_mel(batch.audio_BN, samples_B).features_BFT[:, :, edge : edge + frames]
    return GeneratorInput(mel_BMT, batch.audio_BN[:, margin:-margin])


def micro_batches(batch: GeneratorInput, count: int) -> list[GeneratorInput]:
    """The batch in `count` parts that are as equal as they can be."""
    return [GeneratorInput(*part) for part in zip(*(tensor.chunk(count) for tensor in batch), strict=True)]


def share(part: GeneratorInput, parts: Sequence[GeneratorInput]) -> float:
    """How much of the batch a micro-batch is."""
    return len(part.audio_BN) / sum(len(each.audio_BN) for each in parts)


class SegmentDataset(Dataset[ClipSegment | Replaced | Failure]):
    """Random segments of clips, `data.segments_per_clip` of each; the next clip stands in for one that is skipped."""

    def __init__(self, utterances: Sequence[Utterance], data: DataConfig, features: LogMelConfig, *, seed: int):
        self.utterances, self.data, self.features, self.seed = utterances, data, features, seed
        self.on_error = data.on_error
        self.skipped: dict[int, str] = {}

    def __len__(self) -> int:
        """Segments of an epoch."""
        return len(self.utterances) * self.data.segments_per_clip

    def __getitem__(self, place: int | tuple[int, int]) -> ClipSegment | Replaced | Failure:
        """The segment of an (epoch, index), or of an index in epoch 0; where it is skipped, that of the next clip."""
        epoch, index = place if isinstance(place, tuple) else (0, place)
        found = self.item(index, epoch)
        if isinstance(found, ClipSegment) or found.stops or self.on_error == "stop":
            return found
        for step in range(1, len(self)):
            if isinstance(other := self.item((index + step) % len(self), epoch), ClipSegment):
                return Replaced(found, other)
        return Failure(index, f"not one clip can be read: {found.message}", stops=True)

    def __getitems__(self, places: Sequence[int | tuple[int, int]]) -> list[ClipSegment | Replaced | Failure]:
        """The segments of a batch: what lies in a store is asked for at once."""
        return together(self, places)

    def item(self, index: int, epoch: int) -> ClipSegment | Failure:
        """Segment `index` in `epoch`, or why it cannot be had."""
        random = np.random.default_rng((self.seed, epoch, index))
        row = index % len(self.utterances)
        found = made_of(self.utterances, row, lambda utterance: self._cut(index, utterance, random))
        return replace(found, index=index)

    def clip(self, index: int) -> ClipSegment | Failure:
        """The whole of clip `index`: its samples without surroundings, and the mel spectrogram of fine-tuning."""

        def whole(utterance: Utterance) -> ClipSegment:
            return ClipSegment(index, utterance.id, self._read(utterance), self._given_mel(utterance))

        return made_of(self.utterances, index, whole)

    def _cut(self, index: int, utterance: Utterance, random: np.random.Generator) -> ClipSegment:
        hop, wanted = self.features.hop_samples, self.data.segment_frames
        samples, mel_MT = self._read(utterance), self._given_mel(utterance)
        samples = np.pad(samples, (0, max(0, wanted * hop - len(samples))))
        start = int(random.integers(len(samples) // hop - wanted, endpoint=True))
        margin = _margin(self.features)
        surrounded = np.pad(samples, margin, mode="reflect")  # as at the ends of the whole clip
        cut = surrounded[start * hop : (start + wanted) * hop + 2 * margin]
        return ClipSegment(index, utterance.id, cut, None if mel_MT is None else self._piece(mel_MT, start))

    def _piece(self, mel_MT: np.ndarray, start: int) -> np.ndarray:
        piece_MT = mel_MT[:, start : start + self.data.segment_frames]
        missing = self.data.segment_frames - piece_MT.shape[1]
        return np.pad(piece_MT, ((0, 0), (0, missing)), constant_values=np.log(self.features.log_floor))

    def _read(self, utterance: Utterance) -> np.ndarray:
        samples = waveform.read(utterance.audio, sample_rate=self.features.sample_rate, **utterance.piece()).samples
        peak = np.abs(samples).max()
        if self.data.peak and self.data.mels is None and peak > 0:
            samples = samples * (self.data.peak / peak)
        return samples

    def _given_mel(self, utterance: Utterance) -> np.ndarray | None:
        if self.data.mels is None:
            return None
        return read_mel(self.data.mels / utterance.id, self.features, seconds=utterance.seconds)


def read_mel(stem: Path, features: LogMelConfig, *, seconds: float) -> np.ndarray:
    """The mel spectrogram [M, T] in `stem`.npy or .pt, of a clip of `seconds`. Raises AudioError."""
    found = [path for path in (stem.with_name(f"{stem.name}{suffix}") for suffix in (".npy", ".pt")) if path.is_file()]
    if not found:
        raise waveform.AudioError(f"{stem}.npy: no such mel spectrogram, nor {stem.name}.pt")
    try:
        loaded = np.load(found[0]) if found[0].suffix == ".npy" else checkpoint.load_tensor(found[0]).float().numpy()
        mel = np.asarray(loaded, dtype=np.float32)
    except (EOFError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise waveform.AudioError(f"{found[0]}: cannot be read as a mel spectrogram: {error}") from None
    expected = features.frames(round(seconds * features.sample_rate))
    if mel.ndim != 2 or mel.shape[0] != features.mel_bins or abs(mel.shape[1] - expected) > 1:
        raise waveform.AudioError(
            f"{found[0]}: mel spectrogram of shape {mel.shape}; expected [{features.mel_bins}, {expected}], "
            f"the frames of {seconds:.2f} s"
        )
    return mel


def loader(dataset: SegmentDataset, batches: Iterable[list[Any]], *, workers: int = 0) -> Iterable[SegmentBatch]:
    """`batch_loader` of segments."""
    return batch_loader(dataset, batches, collate, workers=workers)


def collate(results: Sequence[ClipSegment | Replaced | Failure]) -> SegmentBatch:
    """A batch of segments, as many as `results` unless a failure ends the run."""
    segments, failures = [], []
    for result in results:
        if isinstance(result, Failure):
            return SegmentBatch(torch.zeros(0, 0), None, [], [result])
        if isinstance(result, Replaced):
            failures.append(result.failure)
            result = result.segment
        segments.append(result)
    mels = [torch.from_numpy(s.mel_MT) for s in segments if s.mel_MT is not None]
    return SegmentBatch(
        audio_BN=torch.stack([torch.from_numpy(segment.samples) for segment in segments]),
        mel_BMT=torch.stack(mels) if mels else None,
        ids=[segment.id for segment in segments],
        failures=failures,
    )


def _margin(features: LogMelConfig) -> int:
    """Samples before and after a segment that its frames reach into, in whole hops."""
    return -(-features.n_fft // (2 * features.hop_samples)) * features.hop_samples
