"""The training commands, each with a toy run that takes a second or so: for tests of what all of them promise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import fastconformer.train
import fastpitch.train
import fastpitch.vocoders.train
import jasper.train
import wav2vec2.finetune
import wav2vec2.pretrain
from common.data.manifest import read_sources
from common.data.shards.writing import write
from common.data.variation.joining import JoinConfig
from fastconformer.config import LossConfig
from fastpitch.acoustic.config import AdversaryConfig
from fastpitch.vocoders.vocoder import load_vocoder
from tests.fastconformer import runs as transducer_runs
from tests.fastpitch import runs as fastpitch_runs
from tests.fastpitch.vocoders import corpus as vocoder_runs
from tests.jasper import runs as jasper_runs
from tests.wav2vec2 import runs as wav2vec2_runs


@dataclass(frozen=True, kw_only=True)
class Command:
    """A training command; its toy has 2 epochs of 3 steps, validates and saves after each, and has an average.

    That of Jasper writes TensorBoard events, as trainings do by default; the others go without to be fast.
    """

    name: str
    """As its checkpoints are called."""
    module: Any
    """Has `main`, `validate` and the Run or functions that `main` uses."""
    corpus: Callable[[Path], Path]
    """Writes the toy's data into a folder that does not exist."""
    config: Callable[..., Any]
    """The toy's configuration of (corpus, output_dir, **changes)."""
    score: str
    """What the best checkpoint is chosen by, as its validations log it."""
    logs: tuple[str, ...]
    """More that each step logs, in training, and each validation likewise of the weights and of their average."""
    load: Callable[..., Any]
    """Makes of a checkpoint what uses the model."""
    others: tuple[tuple[Callable[[Any], Any], str], ...] = ()
    """Changes that make another model, each with how it is refused."""
    evaluates_by: str = "evaluate"
    """The function of `module` that computes a validation."""
    id: str = ""
    """As its tests are called; default: `name`."""


def _model(cfg: Any, **changes: Any) -> Any:
    return replace(cfg, model=replace(cfg.model, **changes))


COMMANDS = [
    Command(
        name="jasper",
        score="wer",
        logs=("train_loss", "dev_wer"),
        load=jasper.load,
        others=((lambda c: _model(c, blocks=c.model.blocks[:-1]), "model.blocks .* -> "),),
        module=jasper.train,
        corpus=jasper_runs.write_corpus,
        config=partial(jasper_runs.toy_config, tensorboard=True),
    ),
    Command(
        name="fastpitch",
        score="mel_loss",
        logs=(
            *(f"train_{part}_loss" for part in ("mel", "duration_predictor", "pitch", "energy", "attn", "kl")),
            *("train_kl_weight", "train_dur_error", "train_attn_entropy", "train_lrate", "train_took", "dev_mel_loss"),
        ),
        load=fastpitch.load,
        others=(
            (lambda c: _model(c, uses_energy=False), "model.uses_energy True -> False"),
            (
                lambda c: replace(c, text=replace(c.text, symbol_set="espeak_1")),
                "text.symbol_set english_basic -> espeak",
            ),
        ),
        module=fastpitch.train,
        corpus=fastpitch_runs.write_corpus,
        config=fastpitch_runs.toy_config,
    ),
    Command(
        name="fastconformer",
        score="wer",
        logs=("train_transducer", "train_ctc", "dev_wer", "dev_wer_ctc"),
        load=fastconformer.load,
        others=((lambda c: _model(c, encoder=replace(c.model.encoder, kernel=7)), "model.encoder.kernel 5 -> 7"),),
        module=fastconformer.train,
        corpus=jasper_runs.write_corpus,
        config=transducer_runs.toy_config,
    ),
    Command(
        id="attention",
        name="fastconformer",
        score="wer",
        logs=("train_attention", "train_ctc", "dev_wer", "dev_wer_ctc", "dev_bleu"),
        load=fastconformer.load,
        others=((lambda c: _model(c, attention=replace(c.model.attention, heads=4)), "model.attention.heads 2 -> 4"),),
        module=fastconformer.train,
        corpus=transducer_runs.write_translations,
        config=transducer_runs.translation_config,
    ),
    Command(
        name="hifigan",
        score="mel",
        logs=(
            *(f"train_{part}_loss" for part in ("mel", "stft", "feature", "adversarial", "discriminator")),
            *("dev_mel", "dev_lsd_db"),
        ),
        load=load_vocoder,
        others=((lambda c: replace(c, generator="istft"), "generator hifigan -> istft"),),
        module=fastpitch.vocoders.train,
        corpus=vocoder_runs.write_corpus,
        config=vocoder_runs.hifigan_config,
        evaluates_by="evaluation",
    ),
    Command(
        name="waveglow",
        score="loss",
        logs=("train_loss", "dev_loss"),
        load=load_vocoder,
        others=((lambda c: _model(c, channels=16), "model.channels .* -> 16"),),
        module=fastpitch.vocoders.train,
        corpus=vocoder_runs.write_corpus,
        config=vocoder_runs.waveglow_config,
        evaluates_by="evaluation",
    ),
    Command(
        id="pretrain",
        name="wav2vec2",
        score="loss",
        logs=("train_loss", "dev_loss", "dev_accuracy", "dev_code_perplexity"),
        load=wav2vec2.load,
        others=(
            (lambda c: _model(c, ffn_dim=48), "model.ffn_dim 32 -> 48"),
            (lambda c: _model(c, heads=4), "model.heads 2 -> 4"),  # whose weights have the same shapes
        ),
        module=wav2vec2.pretrain,
        corpus=wav2vec2_runs.write_three_batches,
        config=wav2vec2_runs.pretrain_in_epochs,
    ),
    Command(
        id="finetune",
        name="wav2vec2",
        score="wer",
        logs=("train_loss", "dev_loss", "dev_wer"),
        load=wav2vec2.load,
        module=wav2vec2.finetune,
        corpus=wav2vec2_runs.write_three_batches,
        config=wav2vec2_runs.finetune_in_epochs,
    ),
]


def _richer(id: str, called: str, change: Callable[[Any], Any]) -> Command:
    """The toy `called` so with more that its checkpoints have to hold."""
    command = next(command for command in COMMANDS if called == (command.id or command.name))
    return replace(command, id=id, config=lambda *given, **changes: change(command.config(*given, **changes)))


DROPOUT = {"dropout": 0.1, "layer_drop": 0.3, "input_dropout": 0.1}


def _accumulating(precision: str, **dropout: float) -> Callable[[Any], Any]:
    """Of wav2vec 2.0: two batches an update, every kind of random number, and the scale of fp16."""
    return lambda cfg: replace(
        cfg,
        precision=precision,
        update_freq=2,
        learning=replace(cfg.learning, **DROPOUT, **dropout),
        mask=replace(cfg.mask, channel_prob=0.2, channel_length=2),
        data=replace(cfg.data, validation=()),
    )


RICHER = [
    _richer(
        "fastpitch of letters and phonemes",
        "fastpitch",
        lambda cfg: replace(cfg, text=replace(cfg.text, p_arpabet=0.5, cleaners="english_cleaners_v2")),
    ),
    _richer(
        "fastpitch with an adversary",
        "fastpitch",
        lambda cfg: replace(cfg, adversary=AdversaryConfig(weight=1.0, frames=16, channels=4)),
    ),
    _richer(
        "hifigan whose discriminators begin later",
        "hifigan",
        lambda cfg: replace(cfg, loss=replace(cfg.loss, adversarial_from=2)),
    ),
    _richer(
        "fastconformer whose utterances are joined",
        "fastconformer",
        lambda cfg: replace(cfg, data=replace(cfg.data, join=JoinConfig(probability=0.7, gain_db=3.0))),
    ),
    _richer(
        "fastconformer of several lookaheads",
        "fastconformer",
        lambda cfg: replace(
            _model(cfg, encoder=replace(cfg.model.encoder, attention="chunked", left_frames=4, right_frames=3)),
            lookaheads=(0, 1, 3),
        ),
    ),
    _richer(
        "fastconformer in bf16 whose transducer learns later",
        "fastconformer",
        lambda cfg: replace(cfg, precision="bf16", loss=LossConfig(ctc_epochs=1, omega=0.5)),
    ),
    _richer(
        "attention with joined recordings, dropout and all of the loss",
        "attention",
        lambda cfg: replace(
            _model(cfg, attention=replace(cfg.model.attention, dropout=0.1)),
            data=replace(cfg.data, join=JoinConfig(probability=0.7)),
            loss=LossConfig(smoothing=0.1, learns_prompt=True),
        ),
    ),
    *(
        _richer(f"{called} in {precision}", called, _accumulating(precision, **dropout))
        for called, dropout in (("pretrain", {"feature_dropout": 0.1}), ("finetune", {"final_dropout": 0.1}))
        for precision in ("fp32", "bf16", "fp16")
    ),
]
"""For stopping and resuming alone."""


def from_shards(cfg: Any, out: Path, output_dir: Path) -> Any:
    """The configuration of a run from shards of the recordings of another."""
    named = {}
    for purpose in ("train", "validation"):
        sources = getattr(cfg.data, purpose)
        listed = [f"{name}.tsv" if (cfg.data.root / f"{name}.tsv").is_file() else name for name in sources]
        found = read_sources(listed, root=cfg.data.root, training=False)
        write(found.utterances, out / purpose, shard_bytes=1 << 16)
        named[purpose] = (str(out / purpose),)
    return replace(cfg, output_dir=output_dir, data=replace(cfg.data, root=None, **named))
