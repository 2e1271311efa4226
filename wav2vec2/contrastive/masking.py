"""Which frames and channels are hidden, and which frames are distractors: pure functions of a seed, on the host.

Made in the workers that load the data, so that the device never waits for them (Baevski et al. 2020, section 3).

Shapes: B utterances, S frames, D width of the Transformer, M masked frames of each utterance, K distractors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from common.config import check_not_negative, check_positive

FEWEST_SPANS = 2  # of frames, in every utterance


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """Parts of the features that are hidden from the Transformer in training. Spans may overlap."""

    time_prob: float = 0.65
    """Share of the frames that spans would hide if they did not overlap."""
    time_length: int = 10
    """Frames of a hidden span."""
    channel_prob: float = 0.0
    """Share of the channels that spans would hide, in all frames of an utterance, if they did not overlap."""
    channel_length: int = 10
    """Channels of a hidden span."""
    equal_counts: bool = False
    """Equal numbers of hidden frames, and of hidden channels, in all utterances of a sub-batch: those of the one that
    hides the fewest, while others show some again, at random. As published; frames in pre-training always have it."""

    def __post_init__(self) -> None:
        check_not_negative(self, "time_prob", "channel_prob")
        check_positive(self, "time_length", "channel_length")


class MaskedTargets(NamedTuple):
    """What is to be predicted in a batch: the same number of frames in every utterance."""

    mask_BS: Tensor
    """bool: the frames that are hidden."""
    positions_BM: Tensor
    """int64: where they are, ascending."""
    distractors_BMK: Tensor
    """int64 from 0 to M - 1: other masked frames of the same utterance, for each of them."""


def draw_targets(frames: Sequence[int], cfg: MaskConfig, *, distractors: int, seed: int) -> MaskedTargets:
    """Masked frames of utterances of `frames` frames, and `distractors` for each. Raises ValueError.

    Utterances of which more is masked show some of it again, at random, so that all have the same number.
    """
    generator = torch.Generator().manual_seed(seed)
    mask_BS = _spans(frames, cfg.time_prob, cfg.time_length, FEWEST_SPANS, generator)
    positions_BM = _thinned(mask_BS, generator)
    n_masked = positions_BM.shape[1]
    if n_masked < 2:
        raise ValueError(
            f"an utterance of {min(frames, default=0)} frames has {n_masked} masked ones; expected 2 at least, "
            "to tell one from another: leave out shorter utterances"
        )
    mask_BS = _true_at(positions_BM, mask_BS.shape[1])
    others_BMK = torch.randint(n_masked - 1, (len(frames), n_masked, distractors), generator=generator)
    others_BMK += others_BMK >= torch.arange(n_masked)[:, None]
    return MaskedTargets(mask_BS, positions_BM, others_BMK)


def draw_time_mask(frames: Sequence[int], cfg: MaskConfig, *, seed: int) -> Tensor:
    """mask_BS of the frames that are hidden; with cfg.equal_counts the same number in every utterance."""
    generator = torch.Generator().manual_seed(seed)
    mask_BS = _spans(frames, cfg.time_prob, cfg.time_length, FEWEST_SPANS, generator)
    return _with_equal_counts(mask_BS, generator) if cfg.equal_counts else mask_BS


def draw_channel_mask(utterances: int, width: int, cfg: MaskConfig, *, seed: int) -> Tensor | None:
    """mask_BD of the channels that are hidden, as many as `draw_time_mask` says; None if none are to be."""
    if not cfg.channel_prob:
        return None
    generator = torch.Generator().manual_seed(seed)
    mask_BD = _spans([width] * utterances, cfg.channel_prob, cfg.channel_length, 0, generator)
    return _with_equal_counts(mask_BD, generator) if cfg.equal_counts else mask_BD


def joined(masks: Iterable[Tensor | None]) -> Tensor | None:
    """The rows of all `masks` that there are, [B, S] each, filled up with false to the longest S; None of none."""
    found = [mask_BS for mask_BS in masks if mask_BS is not None]
    longest = max((mask_BS.shape[1] for mask_BS in found), default=0)
    padded = [torch.nn.functional.pad(mask_BS, (0, longest - mask_BS.shape[1])) for mask_BS in found]
    return torch.cat(padded) if padded else None


def _with_equal_counts(mask_BS: Tensor, generator: torch.Generator) -> Tensor:
    """The mask with as many true in every row as in the row that has the fewest."""
    return _true_at(_thinned(mask_BS, generator), mask_BS.shape[1])


def _thinned(mask_BS: Tensor, generator: torch.Generator) -> Tensor:
    """positions_BM, ascending: M of each row that are true, at random, where M is the least number of a row."""
    n_masked = int(mask_BS.sum(1).min()) if len(mask_BS) else 0
    keys_BS = torch.rand(mask_BS.shape, generator=generator).masked_fill(~mask_BS, 2.0)
    return keys_BS.argsort(1)[:, :n_masked].sort(1).values


def _true_at(positions_BM: Tensor, size: int) -> Tensor:
    """[B, size], true at the positions alone."""
    mask_BS = torch.zeros(len(positions_BM), size, dtype=torch.bool)
    return mask_BS.scatter_(1, positions_BM, torch.tensor(True).expand_as(positions_BM))


def _spans(sizes: Sequence[int], prob: float, length: int, fewest: int, generator: torch.Generator) -> Tensor:
    """[B, longest]: true in spans of `length` from different starts; nothing beyond the sizes.

    There are `prob` size / length spans, rounded up or down at random. Starts are so far from the end that spans fit
    in, unless there are too few such starts.
    """
    size_B = torch.tensor(sizes)
    positions_S = torch.arange(max(sizes, default=0))
    n_spans_B = (prob * size_B / length + torch.rand(len(sizes), generator=generator)).long().clamp(min=fewest)
    n_starts_B = torch.maximum(size_B - length, n_spans_B + 1).minimum(size_B)
    keys_BS = torch.rand(len(sizes), len(positions_S), generator=generator)
    order_BS = keys_BS.masked_fill(positions_S >= n_starts_B[:, None], 2.0).argsort(1)
    is_taken_BS = positions_S < torch.minimum(n_spans_B, n_starts_B)[:, None]
    begun_BS = torch.zeros(keys_BS.shape, dtype=torch.long).scatter_(1, order_BS, is_taken_BS.long()).cumsum(1)
    ended_BS = torch.nn.functional.pad(begun_BS, (length, 0))[:, : len(positions_S)]
    return (begun_BS > ended_BS) & (positions_S < size_B[:, None])
