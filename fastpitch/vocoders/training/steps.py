"""What the training of every vocoder does before its loop and within a step."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from common import checkpoint
from common.data.batching import bucketed_batches
from common.data.manifest import read_sources
from common.distributed import World
from common.logging import RunLogger
from common.training import TrainingError, bad_batch, write_run_files
from fastpitch.vocoders.config import TrainingConfig
from fastpitch.vocoders.networks.weight_norm import unfolded
from fastpitch.vocoders.training.data import SegmentBatch, SegmentDataset


def taken(network: nn.Module, weights: Mapping[str, Tensor], path: Path) -> list[str]:
    """Gives `network` the weights of the file at `path`, normalised or not; what is to be told of it."""
    told = checkpoint.load_matching(network, unfolded(weights, network))
    return [f"{path}: {message}" for message in told] or [f"{path}: taken"]


def open_clips(sources: Iterable[str], cfg: TrainingConfig, log: RunLogger, *, training: bool) -> SegmentDataset:
    """The clips of all `sources`; tells which are left out. Raises ManifestError."""
    data = cfg.data
    utterances, told = read_sources(sources, root=data.root, on_error=data.on_error, training=training)
    for message in told:
        log.event(f"left out: {message}")
    return SegmentDataset(utterances, cfg.data, cfg.features, seed=cfg.seed)


def epoch_batches(clips: SegmentDataset, cfg: TrainingConfig, epoch: int, world: World) -> list[list[int]]:
    """This process's share of the batches of an epoch, as indices of segments. Raises BatchingError."""
    return bucketed_batches(
        [0.0] * len(clips),  # segments are of one length
        batch_size=cfg.batch_size, seed=cfg.seed, epoch=epoch, ranks=world.size, rank=world.rank,
    )  # fmt: skip


def describe_run(
    cfg: TrainingConfig, parameters: str, clips: SegmentDataset, steps_per_epoch: int, world: World, log: RunLogger
) -> None:
    """Into the files of the run directory, and in a line."""
    write_run_files(cfg, world, log)
    hours = sum(utterance.seconds for utterance in clips.utterances) / 3600
    log.event(f"{parameters}; {len(clips.utterances)} clips, {hours:.2f} h; {steps_per_epoch} steps an epoch")


def n_parameters(network: nn.Module) -> int:
    """Numbers that are trained."""
    return sum(parameter.numel() for parameter in network.parameters())


def apply_gradients(optimizer: Optimizer, scaler: GradScaler, network: nn.Module, *, clip_norm: float) -> None:
    """A step of `network`, whose gradient is not longer than `clip_norm` (0: any), and is gone afterwards."""
    if clip_norm:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(network.parameters(), clip_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)


def bad_segments(problem: str, step: int, batch: SegmentBatch, folder: Path, world: World) -> TrainingError:
    """Saves the batch of `step`; the error that says so. `problem`: which number is what."""
    failures = [failure.message for failure in batch.failures]
    kept = {"step": step, **batch._asdict(), "failures": failures}
    return bad_batch(f"{problem} at step {step}", batch.ids, kept, folder, world)
