"""From the manifests of a configuration to utterances, pieces, and batches of audio and targets."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from common.data import corpora
from common.data.loading import AudioBatch, SpeechDataset
from common.data.manifest import Utterance
from common.text.language import Spelling
from common.text.pieces import Pieces
from ctc.reference import frames_needed
from transducer.config import Config, DataConfig


def spelling_of(data: DataConfig) -> Callable[[str], str]:
    """What writes transcripts as pieces are cut from them."""
    if not data.normalize_text:
        return _stripped
    return Spelling(None, language=data.language, unknown_letters=data.unknown_letters)


def read_utterances(
    cfg: Config, *, training: bool, spelling: Callable[[str], str]
) -> tuple[list[Utterance], list[str]]:
    """The utterances to train or validate on, texts as `spelling` writes them, and a message for all left out.

    Durations and speakers are selected in training only. Raises ManifestError.
    """
    data = cfg.data
    utterances, messages = corpora.read_utterances(
        data.train if training else data.validation,
        root=data.root,
        on_error=data.on_error,
        purpose="train" if training else "evaluate",
        advice=f"name manifests with {'--data.train' if training else '--data.validation'}",
        speakers=data.speakers if training else (),
        min_seconds=data.min_seconds if training else 0.0,
        max_seconds=data.max_seconds if training else math.inf,
    )
    return [replace(u, text=spelling(u.text)) for u in utterances], messages


def _stripped(text: str) -> str:
    return " ".join(text.split())


def speech_dataset(
    utterances: Sequence[Utterance], cfg: Config, pieces: Pieces | None, *, training: bool
) -> SpeechDataset:
    """Audio of `utterances`, and their targets where there are `pieces`; other speeds in training only."""
    return SpeechDataset(
        utterances,
        encode=pieces.encode if pieces is not None else None,
        sample_rate=cfg.features.sample_rate,
        speed=cfg.data.speed if training else None,
        seed=cfg.seed,
        on_error=cfg.data.on_error,
    )


def unfit(batch: AudioBatch, frames_B: Tensor, *, has_transducer: bool) -> dict[int, int]:
    """Rows of `batch` that cannot be learned from `frames_B` encoder frames, and how many their targets need.

    A transducer emits any number of labels at one frame; CTC needs one for each, and one between two equal ones.
    """
    least_B = torch.ones_like(frames_B)
    needed_B = least_B if has_transducer else frames_needed(batch.targets_BU, batch.target_lengths_B).clamp(min=1)
    return {row: int(needed_B[row]) for row in torch.nonzero(needed_B > frames_B).flatten().tolist()}
