"""Who takes part in a comparison of `wav2vec2.benchmark`: forward passes, and whole optimiser steps as in training.

Shapes: B utterances, N samples, S frames, M masked frames, K distractors.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor, nn

from common.audio import waveform
from common.config import ConfigError
from common.data.loading import SpeechItem
from common.devices.precision import DTYPES, autocast, cast_for_inference, grad_scaler
from common.text.vocabulary import is_special
from common.training.optimizers import build_optimizer
from wav2vec2.benchmark.config import BenchmarkConfig
from wav2vec2.checkpoints import huggingface
from wav2vec2.contrastive.masking import MaskedTargets
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.corpus.batches import FinetuningBatch, FinetuningSet, PretrainingBatch, PretrainingSet, on_device
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, Letters
from wav2vec2.losses import ctc_logits, ctc_losses, gumbel_noise, pretraining_loss
from wav2vec2.network.config import ModelConfig
from wav2vec2.network.model import Wav2Vec2, Wav2Vec2ForCTC
from wav2vec2.run_config import SAMPLE_RATE, DataConfig, FinetuneConfig, PretrainConfig

LETTERS_PER_SECOND = 15  # of LibriSpeech


class Side(NamedTuple):
    """What is timed, and the tensors that it keeps from call to call."""

    call: Callable[[], object]
    kept: Callable[[], Iterable[Tensor]] = tuple
    hourglass: str = ""


Sides = dict[str, Side]


def inference(cfg: BenchmarkConfig, batch_size: int, device: torch.device) -> Sides:
    """Representations of a batch: ours, with hourglasses, and those of `transformers`."""
    audio_BN, dtype = speech(cfg, batch_size).to(device), DTYPES[cfg.precision]
    sides: Sides = {}
    for name, config in _architectures(cfg).items():
        with device:
            model: nn.Module = Wav2Vec2(config, cfg.learning)
        cast_for_inference(model, cfg.precision)
        sides[name] = Side(partial(_infer, model, audio_BN), partial(_weights, model), config.hourglass)
    if _is_compared(cfg):
        with device:
            theirs = _theirs("Wav2Vec2Model", cfg)
        cast_for_inference(theirs, cfg.precision)
        sides["transformers"] = Side(
            partial(_infer, theirs, audio_BN.to(dtype)), partial(_weights, theirs)
        )  # it casts none
    return sides


def _weights(model: nn.Module) -> Iterable[Tensor]:
    """Packed ones too, which are no parameters any more."""
    return model.state_dict().values()


@torch.inference_mode()
def _infer(model: nn.Module, audio_BN: Tensor) -> object:
    return model(audio_BN)


def pretraining(cfg: BenchmarkConfig, batch_size: int, device: torch.device) -> Sides:
    """Forward pass, loss, backward pass and optimiser, with the same masks and distractors on all sides."""
    cfg = replace(cfg, learning=replace(cfg.learning, layer_drop=0.0))  # it would take other layers out on each side
    run = PretrainConfig(
        model=cfg.model, learning=cfg.learning, mask=cfg.mask, objective=cfg.objective, temperature=cfg.temperature,
        data=DataConfig(max_tokens=round(cfg.seconds * SAMPLE_RATE)), precision=cfg.precision, seed=cfg.seed,
    )  # fmt: skip
    batch = on_device(PretrainingSet([], run).assemble(_parts(cfg, batch_size), []), device)
    sides: Sides = {}
    for name, config in _architectures(cfg).items():
        with device:
            model = Wav2Vec2ForPretraining(config, cfg.learning).train()
        loss = partial(_pretraining_loss, replace(run, model=config), model, batch)
        sides[name] = _step(model, loss, run, device, config.hourglass)
    if _is_compared(cfg):
        with device:
            theirs = _theirs("Wav2Vec2ForPreTraining", cfg).train()
        theirs.set_gumbel_temperature(cfg.temperature.start)  # type: ignore[operator]
        sides["transformers"] = _step(theirs, _their_loss(theirs, batch, cfg), run, device)
    return sides


def finetuning(cfg: BenchmarkConfig, batch_size: int, device: torch.device) -> Sides:
    """The same of fine-tuning, with the masks and dropouts that it has by default; ours and with hourglasses."""
    run = FinetuneConfig(data=DataConfig(workers=0), precision=cfg.precision, seed=cfg.seed)
    run = replace(run, learning=replace(run.learning, layer_drop=0.0))
    sides: Sides = {}
    for name, architecture in _architectures(cfg).items():
        config = replace(architecture, labels=cfg.model.labels or LIBRISPEECH_LABELS)
        own = replace(run, model=config)
        found = FinetuningSet([], own, Letters(config.labels), training=True)
        letters = [i for i, label in enumerate(config.labels) if not is_special(label)]
        batch = on_device(found.assemble(_parts(cfg, batch_size, letters), []), device)
        with device:
            model = Wav2Vec2ForCTC(config, own.learning).train()
        loss = partial(_finetuning_loss, own, model, batch)
        sides[name] = _step(model, loss, own, device, config.hourglass)
    return sides


def speech(cfg: BenchmarkConfig, utterances: int) -> Tensor:
    """audio_BN of recordings that are long enough, or of noise. Raises ConfigError."""
    n_samples = round(cfg.seconds * SAMPLE_RATE)
    if cfg.audio is None:
        return 0.1 * torch.randn(utterances, n_samples, generator=torch.Generator().manual_seed(cfg.seed))
    clips: list[Tensor] = []
    for path in sorted(p for p in cfg.audio.rglob("*") if p.suffix in (".flac", ".wav")):
        samples = waveform.read(path, sample_rate=SAMPLE_RATE).samples
        if len(samples) >= n_samples:
            clips.append(torch.from_numpy(samples[:n_samples]))
        if len(clips) == utterances:
            return torch.stack(clips)
    raise ConfigError(f"{cfg.audio}: {len(clips)} recordings of {cfg.seconds:g} s; expected {utterances}")


def _architectures(cfg: BenchmarkConfig) -> dict[str, ModelConfig]:
    """The architectures of our sides, by name. Raises ConfigError."""
    if cfg.model.shortening is not None:
        return {"ours": cfg.model}
    found = {"ours": cfg.model} if "ours" in cfg.sides else {}
    for text in cfg.hourglass if "hourglass" in cfg.sides else ():
        try:
            config = replace(cfg.model, hourglass=text)
        except ValueError as error:
            raise ConfigError(f"{error}; leave hourglass out of sides, or give another one") from None
        assert config.shortening is not None
        found["hourglass" if len(cfg.hourglass) == 1 else f"hourglass {config.shortening.factor}"] = config
    return found


def _is_compared(cfg: BenchmarkConfig) -> bool:
    return "transformers" in cfg.sides and cfg.model.shortening is None


def _parts(cfg: BenchmarkConfig, batch_size: int, letters: Sequence[int] = ()) -> list[tuple[int, list[SpeechItem]]]:
    """cfg.concat_batches sub-batches with their seeds, each utterance with labels out of `letters`."""
    rows_BN = speech(cfg, batch_size * cfg.concat_batches).numpy()
    random = Random(cfg.seed)
    count = round(cfg.seconds * LETTERS_PER_SECOND) if letters else 0
    items = [SpeechItem(i, str(i), row_N, random.choices(letters, k=count)) for i, row_N in enumerate(rows_BN)]
    starts = range(0, len(items), batch_size)
    return [(cfg.seed + start, items[start : start + batch_size]) for start in starts]


def _pretraining_loss(cfg: PretrainConfig, model: nn.Module, batch: PretrainingBatch) -> Tensor:
    noise_QGV = gumbel_noise(cfg.model, batch)
    return pretraining_loss(cfg, model, batch, update=0, seed=cfg.seed, noise_QGV=noise_QGV).total / batch.n_targets


def _finetuning_loss(cfg: FinetuneConfig, model: nn.Module, batch: FinetuningBatch) -> Tensor:
    output = ctc_logits(cfg, model, batch, seed=cfg.seed, freeze_encoder=cfg.freeze_updates > 0)
    return ctc_losses(cfg, output, batch).sum() / batch.n_targets


def _their_loss(model: nn.Module, batch: PretrainingBatch, cfg: BenchmarkConfig) -> Callable[[], Tensor]:
    device = batch.audio_BN.device
    masks = {
        "mask_time_indices": torch.cat([part.mask_BS for part in batch.targets]),
        "sampled_negative_indices": _negatives(batch.targets).to(device),
    }

    def loss() -> Tensor:
        with autocast(device, cfg.precision):
            return model(batch.audio_BN, **masks).loss / batch.n_targets

    return loss


def _step(
    model: nn.Module,
    loss_of: Callable[[], Tensor],
    run: PretrainConfig | FinetuneConfig,
    device: torch.device,
    hourglass: str = "",
) -> Side:
    """A step of Adam as a run takes it, loss scale and clipping included."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer, scaler = build_optimizer(trained, run.optim), grad_scaler(device, run.precision)

    def step() -> None:
        scaler.scale(loss_of()).backward()
        if run.clip_norm:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(trained, run.clip_norm, foreach=True)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def kept() -> Iterable[Tensor]:
        yield from model.parameters()
        for state in optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))

    return Side(step, kept, hourglass)


def _theirs(architecture: str, cfg: BenchmarkConfig) -> nn.Module:
    """The same model of `transformers`, with random weights. Raises ConfigError where it is not installed."""
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            "transformers is not installed, and this compares with it: pip install transformers, "
            "or name other sides: --sides ours hourglass"
        ) from None
    learning = cfg.learning
    options = {
        "hidden_dropout": learning.dropout,
        "attention_dropout": learning.attention_dropout,
        "activation_dropout": learning.activation_dropout,
        "feat_proj_dropout": learning.input_dropout,
        "feat_quantizer_dropout": learning.feature_dropout,
        "layerdrop": learning.layer_drop,
        "num_negatives": cfg.objective.distractors,
        "diversity_loss_weight": cfg.objective.diversity,
    }
    about = transformers.Wav2Vec2Config(**(huggingface.described(cfg.model, architecture) | options))
    return getattr(transformers, architecture)(about)


def _negatives(parts: Sequence[MaskedTargets]) -> Tensor:
    """Distractors as transformers numbers them: by frame of the whole batch, for every frame."""
    masks_BS = torch.cat([part.mask_BS for part in parts])
    negatives_BSK = torch.zeros(*masks_BS.shape, parts[0].distractors_BMK.shape[2], dtype=torch.long)
    rows = [row for part in parts for row in zip(part.positions_BM.cpu(), part.distractors_BMK.cpu(), strict=True)]
    for b, (positions_M, distractors_MK) in enumerate(rows):
        negatives_BSK[b, positions_M] = b * masks_BS.shape[1] + positions_M[distractors_MK]
    return negatives_BSK
