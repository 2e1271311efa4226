"""Reference outputs of NeMo 3.0.0, and small random problems."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fastconformer.transducer.weights import DecoderWeights, LSTMLayer
from tests.data import shared

TRANSDUCERS = ("rnnt", "tdt", "tdt_ctc")


def folder() -> Path:
    """Where the reference outputs are; skips the test where they are not."""
    return shared("golden/transducer")


def arrays(name: str) -> dict[str, np.ndarray]:
    """The arrays of inputs, losses, or of a model."""
    return dict(np.load(folder() / f"{name}.npz"))


def facts(name: str) -> dict:
    """What the file of that name says about the arrays."""
    return json.loads((folder() / f"{name}.json").read_text())


def tolerance(name: str) -> float:
    """The tolerance that the reference outputs suggest for `name`."""
    return facts("meta")["suggested_tolerances"][name]


def state_dict(name: str) -> dict[str, Tensor]:
    """The weights of a NeMo checkpoint under their own names."""
    with tarfile.open(folder() / f"{name}.nemo") as archive:
        file = archive.extractfile("./model_weights.ckpt")
        assert file is not None
        return torch.load(io.BytesIO(file.read()), weights_only=True)


def decoder_weights(name: str) -> DecoderWeights:
    """Prediction network and joint of a NeMo checkpoint."""
    state = state_dict(name)
    rnn = "decoder.prediction.dec_rnn.lstm"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return DecoderWeights(
        embedding=state["decoder.prediction.embed.weight"],
        lstm=(LSTMLayer(*(state[f"{rnn}.{n}_l0"] for n in names)),),
        encoder_weight=state["joint.enc.weight"],
        encoder_bias=state["joint.enc.bias"],
        prediction_weight=state["joint.pred.weight"],
        prediction_bias=state["joint.pred.bias"],
        output_weight=state["joint.joint_net.2.weight"],
        output_bias=state["joint.joint_net.2.bias"],
        durations=(0, 1, 2, 3, 4) if name.startswith("tdt") else (),
    )


def encoded(name: str) -> tuple[Tensor, Tensor]:
    """encoded_BSC of the three utterances of a model, and their frames_B."""
    found = arrays(name)
    return torch.from_numpy(found["encoder_batch"]).mT, torch.from_numpy(found["encoder_lens"])


def random_weights(
    *, labels: int, durations: tuple[int, ...] = (), layers: int = 1, width: int = 12, seed: int = 0
) -> DecoderWeights:
    """A prediction network and joint for encoder frames of `width`."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 0.5) -> Tensor:
        return torch.randn(*shape, generator=draw) * scale

    h, j, w = 10, 14, labels + 1 + len(durations)
    layer = [LSTMLayer(normal(4 * h, h), normal(4 * h, h), normal(4 * h), normal(4 * h)) for _ in range(layers)]
    return DecoderWeights(
        normal(labels + 1, h, scale=1.0), tuple(layer), normal(j, width), normal(j), normal(j, h), normal(j),
        normal(w, j, scale=1.0), normal(w), durations,
    )  # fmt: skip
