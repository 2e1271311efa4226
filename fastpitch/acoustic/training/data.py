"""From the manifests of a configuration to batches of symbols, speech and pitch, in worker processes.

What a clip is depends on the configuration, the clip and the epoch alone: not on workers, order or ranks.

Shapes: B clips, L symbols, T frames, N samples, M mel bins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from common.data.loading import Failure, SpeechDataset, batch_loader, made_of, together
from common.data.manifest import ManifestError, Utterance, Utterances, read_sources
from common.features import LogMel
from common.files.atomic import written_whole
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.runs.seeds import mixed
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.pitch import extract_pitch
from fastpitch.front.symbols import TextProcessor

PITCH_FOLDER = "pitch"  # of a run directory, where data.pitch_dir names no other
KEPT_BYTES = 2**30  # of a data set that keeps mel frames: 8 hours of speech


class ClipError(ValueError):
    """A clip cannot be used; the message says why and names the file where there is one."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording: tokens, its samples (none where mel frames were read), and its pitch in Hz, 0 where unvoiced.

    `durations` are the frames of its symbols where they were read, [] where the aligner is to find them.
    """

    index: int
    id: str
    tokens: list[int]
    speaker: int
    frames: int
    samples_N: np.ndarray
    mel_MT: Tensor | None
    pitch_T: Tensor
    durations: list[int]


class ClipBatch(NamedTuple):
    """Clips padded with zeros to the longest, in the order they were asked for; `failures` says which are missing."""

    tokens_BL: Tensor  # int64
    lengths_B: Tensor  # int64
    audio_BN: Tensor  # float32; [B, 0] where mel frames were read
    samples_B: Tensor  # int64
    mel_BMT: Tensor  # float32; [B, M, 0] where mel frames are to be computed
    frames_B: Tensor  # int64
    pitch_BT: Tensor  # float32, Hz, 0 where unvoiced
    speaker_B: Tensor  # int64
    durations_BL: Tensor  # int64, frames; [B, 0] where the aligner is to find them
    indices: list[int]
    ids: list[str]
    failures: list[Failure]

    def to(self, device: torch.device | str) -> "ClipBatch":
        """The batch with its tensors on `device`; from pinned memory without waiting for the copy."""
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in self._fields[:9]}
        return self._replace(**moved)

    def rows(self, first: int, end: int) -> "ClipBatch":
        """Those clips alone, as far padded as the batch."""
        rows = {name: getattr(self, name)[first:end] for name in self._fields if name != "failures"}
        return ClipBatch(**rows, failures=[])


def read_utterances(sources: Iterable[str], cfg: Config, *, training: bool) -> tuple[Utterances, list[str]]:
    """The utterances of all `sources`, and one message for everything left out. Raises ManifestError.

    Durations are selected in training only.
    """
    data = cfg.data
    utterances, messages = read_sources(
        sources, root=data.root, on_error=data.on_error, training=training,
        min_seconds=data.min_seconds, max_seconds=data.max_seconds, need_text=True,
    )  # fmt: skip
    _, first = np.unique(utterances.speakers().numbers, return_index=True)
    for index in sorted(first.tolist()):  # one utterance of each speaker
        speaker_number(utterances[index], cfg)
    return utterances, messages


def speaker_number(utterance: Utterance, cfg: Config) -> int:
    """Index of the speaker's embedding: its place in data.speakers, or the manifest's number. Raises ManifestError."""
    speakers, names = cfg.model.speakers, cfg.data.speakers
    if speakers == 1:
        return 0
    if names and utterance.speaker in names:
        return names.index(utterance.speaker)
    if not names and utterance.speaker.isdecimal() and int(utterance.speaker) < speakers:
        return int(utterance.speaker)
    expected = f"one of {', '.join(names)}" if names else f"a number below {speakers}, or names in data.speakers"
    raise ManifestError(f"utterance {utterance.id}: speaker {utterance.speaker!r}; expected {expected}")


class _Sound(NamedTuple):
    """What of a clip is the same in every epoch, in the order of `Clip`: its samples, or its mel frames for them."""

    frames: int
    samples_N: np.ndarray
    mel_MT: Tensor | None
    pitch_T: Tensor | None = None


class ClipDataset(Dataset[Clip | Failure]):
    """Utterances with their symbols and pitch.

    One that `keeps_mels` gives mel frames in place of samples, and has them and the pitch from memory after the first
    epoch, of as many clips as KEPT_BYTES hold. For use in the process of a training on a CPU: a worker would keep only
    the clips that it happens to get, and a GPU computes frames faster than it receives them.
    """

    def __init__(self, utterances: Sequence[Utterance], cfg: Config, *, training: bool, keeps_mels: bool = False):
        self.utterances, self.cfg, self.training = utterances, cfg, training
        self._log_mel = LogMel(cfg.features).eval() if keeps_mels else None
        self._kept: dict[int, _Sound] = {}
        self._kept_bytes = 0
        self.on_error, self.seed = cfg.data.on_error, cfg.seed
        self.skipped: dict[int, str] = {}
        self._text = TextProcessor(cfg.text)
        self.recordings = SpeechDataset(utterances, sample_rate=cfg.features.sample_rate, seed=cfg.seed)
        self._pitch_dir = cfg.data.pitch_dir or cfg.output_dir / PITCH_FOLDER
        if cfg.data.pitch_dir is not None:
            cfg.data.pitch_dir.mkdir(parents=True, exist_ok=True)

    def __getstate__(self) -> dict[str, Any]:
        """As it reaches workers that are not forked, as from Python 3.14 on: modules of languages cannot be pickled."""
        return self.__dict__ | {"_text": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._text = TextProcessor(self.cfg.text)

    def __len__(self) -> int:
        """How many clips there are."""
        return len(self.utterances)

    def __getitem__(self, place: int | tuple[int, int]) -> Clip | Failure:
        """`item` of an (epoch, index), or of an index in epoch 0."""
        epoch, index = place if isinstance(place, tuple) else (0, place)
        return self.item(index, epoch)

    def __getitems__(self, places: Sequence[int | tuple[int, int]]) -> list[Clip | Failure]:
        """The clips of a batch: what lies in a store is asked for at once."""
        return together(self, places)

    def item(self, index: int, epoch: int) -> Clip | Failure:
        """The clip at `index` as it is read in `epoch`, or why it cannot be had."""
        return made_of(self.utterances, index, lambda utterance: self._clip(index, utterance, epoch))

    def _clip(self, index: int, utterance: Utterance, epoch: int) -> Clip | Failure:
        seed = mixed(self.cfg.seed, epoch, index) if self.training else None
        tokens = self._text.encode(utterance.text, seed=seed).tokens
        sound = self._kept.get(index) or self._sound(index, utterance)
        if isinstance(sound, Failure):
            return sound
        if sound.frames < len(tokens):
            message = f"utterance {utterance.id}: {len(tokens)} symbols but {sound.frames} frames, fewer than one each"
            return Failure(index, message, stops=False)  # nothing is wrong with it, but nothing can be learned from it
        if sound.pitch_T is None:
            pitch_T = self._pitch(index, utterance, sound.samples_N, sound.frames)
            sound = self._kept_sound(index, sound._replace(pitch_T=pitch_T))
        assert sound.pitch_T is not None
        speaker = speaker_number(utterance, self.cfg)
        frames, samples_N, mel_MT, pitch_T = sound.frames, sound.samples_N, sound.mel_MT, sound.pitch_T
        durations = self._durations(utterance, tokens, frames)
        return Clip(index, utterance.id, tokens, speaker, frames, samples_N, mel_MT, pitch_T, durations)

    def _sound(self, index: int, utterance: Utterance) -> _Sound | Failure:
        mel_MT = self._mel(utterance)
        if mel_MT is not None:
            return _Sound(mel_MT.shape[1], np.zeros(0, np.float32), mel_MT)
        item = self.recordings.item(index, 0)
        if isinstance(item, Failure):
            return item
        return _Sound(self.cfg.features.frames(len(item.samples)), item.samples, None)

    def _kept_sound(self, index: int, sound: _Sound) -> _Sound:
        """Where mel frames are kept, they replace samples: alone a clip has, to the bit, those of any batch."""
        if self._log_mel is None or sound.pitch_T is None:
            return sound
        if sound.mel_MT is None and sound.frames:
            samples_1N = torch.from_numpy(sound.samples_N)[None]
            mel_MT = self._log_mel(samples_1N, torch.tensor([len(sound.samples_N)])).features_BFT[0, :, : sound.frames]
            sound = sound._replace(samples_N=np.zeros(0, np.float32), mel_MT=mel_MT)
        size = sum(part.numel() * 4 for part in (sound.mel_MT, sound.pitch_T) if part is not None)
        if self._kept_bytes + size <= KEPT_BYTES:
            self._kept[index], self._kept_bytes = sound, self._kept_bytes + size
        return sound

    def _mel(self, utterance: Utterance) -> Tensor | None:
        if self.cfg.data.mel_dir is None:
            return None
        path = prepared_path(self.cfg.data.mel_dir, utterance)
        mel_MT = read_tensor(path)
        bins = self.cfg.features.mel_bins
        if mel_MT.ndim != 2 or mel_MT.shape[0] != bins or not mel_MT.isfinite().all():
            raise ClipError(f"{path}: {_found(mel_MT)}; expected [{bins}, frames] of finite numbers; prepare it anew")
        return mel_MT

    def _pitch(self, index: int, utterance: Utterance, samples_N: np.ndarray, frames: int) -> Tensor:
        path = prepared_path(self._pitch_dir, utterance)
        if path.is_file():
            pitch_T = read_tensor(path).flatten()
        else:
            pitch_T = torch.from_numpy(self._extracted(index, samples_N))
            if self._pitch_dir.parent.is_dir():  # a run directory that was removed is not made anew
                write_tensor(path, pitch_T)
        if abs(len(pitch_T) - frames) > 1:  # the published recipe has one more or fewer
            raise ClipError(f"{path}: pitch of {len(pitch_T)} frames for {frames} frames of sound; prepare it anew")
        if not pitch_T.isfinite().all() or (pitch_T < 0).any():
            raise ClipError(f"{path}: {_found(pitch_T)}; expected Hz, 0 where unvoiced; prepare it anew")
        return torch.nn.functional.pad(pitch_T, (0, max(0, frames - len(pitch_T))))[:frames]

    def _durations(self, utterance: Utterance, tokens: list[int], frames: int) -> list[int]:
        if self.cfg.data.durations_dir is None:
            return []
        path = prepared_path(self.cfg.data.durations_dir, utterance)
        stored_2L = read_tensor(path, made_by="fastpitch.align")
        if stored_2L.ndim != 2 or len(stored_2L) != 2 or stored_2L[0].tolist() != tokens:
            raise ClipError(f"{path}: is of other symbols than the text has now; align it anew, with these settings")
        durations = stored_2L[1].long().tolist()
        if sum(durations) != frames or min(durations) < 0:
            raise ClipError(f"{path}: durations of {sum(durations)} frames for {frames} frames of sound; align it anew")
        return durations

    def _extracted(self, index: int, samples_N: np.ndarray) -> np.ndarray:
        if not len(samples_N):
            item = self.recordings.item(index, 0)
            if isinstance(item, Failure):
                raise ClipError(item.message)
            samples_N = item.samples
        return extract_pitch(samples_N, self.cfg.pitch)


def prepared_path(folder: Path, utterance: Utterance) -> Path:
    """Where a tensor that was prepared for an utterance lies."""
    return folder / f"{utterance.id}.pt"


def read_tensor(path: Path, *, made_by: str = "fastpitch.prepare") -> Tensor:
    """A float32 tensor, of the published layout too. Raises ClipError."""
    if not path.is_file():
        raise ClipError(f"{path}: no such file; make it with python -m {made_by}")
    try:
        return checkpoint.load_tensor(path).float()
    except CheckpointError as error:
        raise ClipError(f"{error}; prepare it anew") from None


def write_tensor(path: Path, tensor: Tensor) -> None:
    """Writes it whole or not at all."""
    with written_whole(path, is_flushed=False) as file:  # by its name, torch would write that into it
        torch.save(tensor, file)


def _found(tensor: Tensor) -> str:
    flaws = f", {int((~tensor.isfinite()).sum())} of its numbers NaN or infinite"
    return f"found {list(tensor.shape)}{'' if tensor.isfinite().all() else flaws}"


def collate(results: Sequence[Clip | Failure]) -> ClipBatch:
    """Pads clips into a batch."""
    clips = [result for result in results if isinstance(result, Clip)]

    def whole(numbers: Iterable[int]) -> Tensor:
        return torch.tensor(list(numbers), dtype=torch.int64)

    def padded(rows: list[Tensor]) -> Tensor:
        return pad_sequence(rows, batch_first=True) if rows else torch.zeros(0, 0)

    mels = [clip.mel_MT.T for clip in clips if clip.mel_MT is not None]
    return ClipBatch(
        tokens_BL=padded([whole(clip.tokens) for clip in clips]).long(),
        lengths_B=whole(len(clip.tokens) for clip in clips),
        audio_BN=padded([torch.from_numpy(clip.samples_N) for clip in clips]),
        samples_B=whole(len(clip.samples_N) for clip in clips),
        mel_BMT=padded(mels).mT.contiguous() if mels else torch.zeros(len(clips), 0, 0),
        frames_B=whole(clip.frames for clip in clips),
        pitch_BT=padded([clip.pitch_T for clip in clips]),
        speaker_B=whole(clip.speaker for clip in clips),
        durations_BL=padded([whole(clip.durations) for clip in clips]).long(),
        indices=[clip.index for clip in clips],
        ids=[clip.id for clip in clips],
        failures=[result for result in results if isinstance(result, Failure)],
    )


def loader(dataset: ClipDataset, batches: Iterable[list[Any]], *, workers: int = 0) -> Iterable[ClipBatch]:
    """`batch_loader` of clips."""
    return batch_loader(dataset, batches, collate, workers=workers)
