"""Checkpoints of this repository: weights, their moving average, configuration and pieces in one file."""

import base64
import binascii
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import config
from common.features import LogMelConfig
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError, own_description
from common.text.pieces import Pieces, read_pieces
from common.text.vocabulary import VocabularyError
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.pieces import PromptedPieces, of_parts
from fastconformer.checkpoints.imported import TrainedModel
from fastconformer.config import ModelConfig

FORMAT = "fastconformer"  # what our checkpoints say they are


def read(path: Path, *, ema: bool | None = None) -> TrainedModel:
    """The model in a checkpoint of a training run. Raises CheckpointError."""
    state = checkpoint.load(path)
    if state.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: not a FastConformer checkpoint of this repository; {checkpoint.contents(state)}"
        )
    checkpoint.check_averaged(ema, state.get("ema"), path)
    with own_description(path, VocabularyError):
        settings = state["config"]
        model = _as_trained(config.build(ModelConfig, settings["model"], str(path)), settings)
        learned = tuple(map(str, state.get("directions", model.attention.directions)))
        model = replace(model, attention=replace(model.attention, directions=learned))
        pieces = decoded_pieces(state["pieces"], model.pieces)
        features = config.build(LogMelConfig, settings["features"], str(path))
        weights = state["ema"] if state.get("ema") is not None and ema is not False else state["weights"]
    if pieces.blank != model.pieces:
        raise CheckpointError(f"{path}: {model.pieces} pieces by its description, {pieces.blank} in its tokenizer")
    first = model.encoder.right_frames
    lookaheads = sorted(settings.get("lookaheads", ()), key=lambda frames: (frames != first, -frames))
    return TrainedModel(weights, model, features, pieces, tuple(lookaheads))


def _as_trained(model: ModelConfig, settings: dict[str, Any]) -> ModelConfig:
    """A model that hears no longer stretches than it, or the one that its training started from, has learned from.

    Those without an attention decoder hear any length.
    """
    if not model.attention.layers:
        return model
    data, goes_on = settings["data"], settings.get("checkpoint") and settings.get("from_checkpoint") == "architecture"
    join, longest = data.get("join", {}), data.get("max_seconds", math.inf)
    if join.get("probability"):
        longest = max(longest, join["max_seconds"])
    known = model.attention.longest_seconds
    longest = max(known, min(longest, AttentionConfig.longest_seconds)) if goes_on else min(known, longest)
    return replace(model, attention=replace(model.attention, longest_seconds=longest))


def encoded_pieces(pieces: Pieces) -> Any:
    """What cuts texts into pieces as text, as a checkpoint holds it; of several tokenizers a list of them."""
    if not isinstance(pieces, PromptedPieces):
        return base64.b64encode(pieces.model).decode("ascii")
    parts = [(name, encoded_pieces(part) if part.model else list(part.labels)) for name, part in pieces.parts]
    return {"parts": parts, "writes": pieces.writes}


def decoded_pieces(known: Any, count: int) -> Pieces:
    """The `count` pieces that `encoded_pieces` made text of. Raises VocabularyError."""
    try:
        if not isinstance(known, dict):
            return read_pieces(base64.b64decode(known, validate=True), count)
        parts = [(str(name), _part(part)) for name, part in known["parts"]]
        return of_parts(parts, known["writes"] and tuple(known["writes"]))
    except (TypeError, KeyError, ValueError, binascii.Error) as error:
        if isinstance(error, VocabularyError):
            raise
        raise VocabularyError("no SentencePiece model") from None


def _part(known: Any) -> Pieces:
    if isinstance(known, str):
        return read_pieces(base64.b64decode(known, validate=True))
    return Pieces(tuple(map(str, known)), unknown=frozenset({0}))
