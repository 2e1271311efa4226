"""Models with the weights of a checkpoint of any origin: as it was saved, or with a new head for fine-tuning."""

from dataclasses import replace
from pathlib import Path

from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from wav2vec2.checkpoints import naming, reading
from wav2vec2.checkpoints.imported import DescribedWeights
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.network.config import LearningConfig
from wav2vec2.network.model import Wav2Vec2, Wav2Vec2ForCTC

Model = Wav2Vec2ForPretraining | Wav2Vec2ForCTC | Wav2Vec2
NETWORKS: dict[str, type[Model]] = {
    "pretraining": Wav2Vec2ForPretraining, "ctc": Wav2Vec2ForCTC, "backbone": Wav2Vec2,
}  # fmt: skip


def load_model(
    path: Path, *, labels: tuple[str, ...] = (), ema: bool | None = None, learning: LearningConfig | None = None
) -> Model:
    """The bare model saved at `path`, on the CPU in evaluation mode; `labels` and `ema` as for reading.read.

    Raises CheckpointError.
    """
    return build(reading.read(path, labels=labels, ema=ema), path, learning)


def for_finetuning(
    path: Path, labels: tuple[str, ...], *, blank: int = 0, learning: LearningConfig | None = None
) -> Wav2Vec2ForCTC:
    """The pre-trained network saved at `path` with a new CTC head that writes `labels`. Raises CheckpointError."""
    imported = reading.read(path, head=False)
    model = Wav2Vec2ForCTC(replace(imported.config, labels=labels, blank=blank), learning)
    prefix = naming.BACKBONE
    weights = {name.removeprefix(prefix): w for name, w in imported.weights.items() if name.startswith(prefix)}
    with checkpoint.usable(path):
        checkpoint.fill(model.wav2vec2, weights, path)
    return model


def build(imported: DescribedWeights, path: Path, learning: LearningConfig | None = None) -> Model:
    """The model that `imported` holds; `path` is for messages. Raises CheckpointError."""
    weights, labels = imported.weights, imported.config.labels
    if imported.kind == "ctc" and len(weights["head.weight"]) != len(labels):
        raise CheckpointError(
            f"{path}: writes {len(weights['head.weight'])} labels, and {len(labels)} are named (with the special ones)"
        )
    if imported.kind == "backbone":
        weights = {name.removeprefix(naming.BACKBONE): tensor for name, tensor in weights.items()}
    network: type[Model] = NETWORKS[imported.kind]
    return checkpoint.made(lambda: network(imported.config, learning), weights, path)
