"""A trained model in use: audio in, representations and logits out.

Shapes: B utterances, N samples, S frames, C width of the representation, V labels.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from common import distributed
from common.audio import AudioError
from common.checkpoint import CheckpointError
from common.precision import Precision, cast_for_inference, float32_math
from wav2vec2 import checkpoint_import, naming
from wav2vec2.checkpoint_import import Imported
from wav2vec2.config import LearningConfig
from wav2vec2.extractor import n_frames
from wav2vec2.model import Wav2Vec2, Wav2Vec2ForCTC
from wav2vec2.pretraining import Wav2Vec2ForPretraining

Model = Wav2Vec2ForPretraining | Wav2Vec2ForCTC | Wav2Vec2


class Encoded(NamedTuple):
    """Representations x_BSC, and frames_B, how many of the S frames each utterance has; 0 beyond them."""

    x_BSC: Tensor
    frames_B: Tensor


class Scored(NamedTuple):
    """Logits of the labels, and frames_B, how many of the S frames each utterance has."""

    logits_BSV: Tensor
    frames_B: Tensor


class Recognizer:
    """A model on a device, in a precision, ready for use."""

    def __init__(self, model: Model, *, device: torch.device | str = "cpu", precision: Precision = "fp32"):
        self.device, self.precision = torch.device(device), precision
        self.model = cast_for_inference(model.to(self.device), precision)
        self.backbone = model if isinstance(model, Wav2Vec2) else model.wav2vec2
        self.config = self.backbone.config

    def encode(self, audio_BN: Tensor, samples_B: Tensor, *, layers: int | None = None) -> Encoded:
        """Representations of audio_BN, float32 at 16 kHz, with samples_B valid samples each.

        With `layers` they are the output of that Transformer layer (0: its input). Raises AudioError where an
        utterance is too short for a frame or holds what is no number.
        """
        samples_B, is_padded = self._checked(audio_BN, samples_B)
        if layers is not None and not 0 <= layers <= self.config.layers:
            raise ValueError(f"layers = {layers}: expected 0 to {self.config.layers}, or None for the whole model")
        with torch.inference_mode(), float32_math(self.precision):
            context = self.backbone(audio_BN.to(self.device), samples_B if is_padded else None, layers=layers)
        return Encoded(context.x_BSD, n_frames(samples_B, self.config.conv_layers))

    def logits(self, audio_BN: Tensor, samples_B: Tensor) -> Scored:
        """Logits of the labels for audio as `encode` takes it. Raises AudioError; CheckpointError without a head."""
        if not isinstance(self.model, Wav2Vec2ForCTC):
            raise CheckpointError("the model is pre-trained only and has no CTC head: fine-tune it first")
        samples_B, is_padded = self._checked(audio_BN, samples_B)
        with torch.inference_mode(), float32_math(self.precision):
            output = self.model(audio_BN.to(self.device), samples_B if is_padded else None)
        return Scored(output.logits_BSV, n_frames(samples_B, self.config.conv_layers))

    def _checked(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, bool]:
        """samples_B on the device, and whether any of them is less than N."""
        samples = samples_B.tolist()
        if not audio_BN.is_floating_point():
            raise AudioError(f"audio of {audio_BN.dtype}: expected floating-point samples from -1 to 1")
        if audio_BN.ndim != 2 or len(samples) != len(audio_BN) or max(samples, default=0) > audio_BN.shape[1]:
            raise AudioError(
                f"audio of shape {tuple(audio_BN.shape)} with {samples} samples: expected [B, N] and B numbers up to N"
            )
        if min(samples, default=0) < self.config.shortest_audio:
            raise AudioError(
                f"an utterance has {min(samples, default=0)} samples; the model needs {self.config.shortest_audio} "
                "for its first frame"
            )
        for row, (audio_N, n_samples) in enumerate(zip(audio_BN, samples, strict=True)):
            if not audio_N[:n_samples].isfinite().all():
                raise AudioError(f"utterance {row} of the batch has samples that are not finite")
        return samples_B.to(self.device), min(samples) < audio_BN.shape[1]


def load(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Precision = "fp32",
    labels: tuple[str, ...] = (),
    ema: bool | None = None,
) -> Recognizer:
    """The model saved at `path`: a checkpoint of this repository, Fairseq or DeepLearningExamples, or a Hugging Face
    folder. `labels` and `ema` as for checkpoint_import.read. Raises CheckpointError."""
    chosen = distributed.pick_device(device)
    return Recognizer(load_model(Path(path), labels=labels, ema=ema), device=chosen, precision=precision)


def load_model(
    path: Path, *, labels: tuple[str, ...] = (), ema: bool | None = None, learning: LearningConfig | None = None
) -> Model:
    """The bare model saved at `path`, on the CPU; as `load` otherwise."""
    return build(checkpoint_import.read(path, labels=labels, ema=ema), path, learning)


def for_finetuning(
    path: Path, labels: tuple[str, ...], *, blank: int = 0, learning: LearningConfig | None = None
) -> Wav2Vec2ForCTC:
    """The pre-trained network saved at `path` with a new CTC head that writes `labels`. Raises CheckpointError."""
    imported = checkpoint_import.read(path, labels=labels)
    model = Wav2Vec2ForCTC(replace(imported.config, labels=labels, blank=blank), learning)
    prefix = naming.BACKBONE
    weights = {name.removeprefix(prefix): w for name, w in imported.weights.items() if name.startswith(prefix)}
    _fill(model.wav2vec2, weights, path)
    return model


def build(imported: Imported, path: Path, learning: LearningConfig | None = None) -> Model:
    """The model that `imported` holds; `path` is for messages. Raises CheckpointError."""
    weights = imported.weights
    with torch.device("meta"):  # the weights come from the file: do not initialise others first
        if imported.kind == "backbone":
            model: Model = Wav2Vec2(imported.config, learning)
            weights = {name.removeprefix(naming.BACKBONE): tensor for name, tensor in weights.items()}
        else:
            whole = Wav2Vec2ForCTC if imported.kind == "ctc" else Wav2Vec2ForPretraining
            model = whole(imported.config, learning)
    _fill(model, weights, path)
    return model


def _fill(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        raise CheckpointError(f"{path}: does not fit its description: {problem[:300]}") from None
