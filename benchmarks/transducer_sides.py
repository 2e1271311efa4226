"""What the losses are measured on, and the other sides: anti-diagonals in plain torch, and the joint unfused.

Shapes: B utterances, T frames, U positions, L = U - 1 labels, J joint, V labels and blank, W outputs.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from common.audio import waveform
from common.data.manifest import read_manifest
from common.text.normalize import normalize_english
from fastconformer.recognizer import load
from fastconformer.transducer import reference
from fastconformer.transducer.weights import arrays_of, on_host


class LossProblem(NamedTuple):
    """Random logits of utterances of equal length, blank last, and their targets."""

    logits_BTUW: Tensor
    targets_BL: Tensor
    frames_B: Tensor
    labels_B: Tensor


def loss_problem(batch: int, frames: int, labels: int, outputs: int, classes: int) -> LossProblem:
    """Normal logits that want a gradient. `outputs`: classes, then durations."""
    random = torch.Generator().manual_seed(0)
    logits_BTUW = torch.randn(batch, frames, labels + 1, outputs, generator=random).requires_grad_()
    targets_BL = torch.randint(0, classes - 1, (batch, labels), generator=random)
    return LossProblem(logits_BTUW, targets_BL, torch.full((batch,), frames), torch.full((batch,), labels))


def antidiagonals(logits_BTUV: Tensor, targets_BL: Tensor) -> Tensor:
    """The sum of RNN-T losses of utterances of equal length, blank last: float32, the gradient by autograd."""
    _, frames, positions, _ = logits_BTUV.shape
    sums_BTU = logits_BTUV.logsumexp(3)
    blank_BTU = logits_BTUV[..., -1] - sums_BTU
    index = targets_BL[:, None, :, None].expand(-1, frames, -1, -1)
    label_BTL = logits_BTUV[:, :, :-1].gather(3, index)[..., 0] - sums_BTU[:, :, :-1]
    alpha_BN = blank_BTU.new_zeros(len(targets_BL), 1)
    for n in range(1, frames + positions - 1):  # positions low to high of the cells (n - u, u)
        low, high = max(0, n - frames + 1), min(n, positions - 1)
        before = max(0, n - frames)
        u = torch.arange(low, high + 1)
        by_blank = u[u < n]  # those with a frame before
        by_label = u[u > 0]
        from_blank_BN = alpha_BN[:, by_blank - before] + blank_BTU[:, n - 1 - by_blank, by_blank]
        from_label_BN = alpha_BN[:, by_label - 1 - before] + label_BTL[:, n - by_label, by_label - 1]
        from_blank_BN = F.pad(from_blank_BN, (0, len(u) - len(by_blank)), value=-torch.inf)
        from_label_BN = F.pad(from_label_BN, (len(u) - len(by_label), 0), value=-torch.inf)
        alpha_BN = torch.logaddexp(from_blank_BN, from_label_BN)
    return -(alpha_BN[:, -1] + blank_BTU[:, -1, -1]).sum()


class JointProblem(NamedTuple):
    """A joint, what goes into it, and targets; in these lattices label u is due at frame T u / U, more or less."""

    encoded_BTJ: Tensor
    predicted_BUJ: Tensor
    weight_VJ: Tensor
    bias_V: Tensor
    targets_BL: Tensor
    frames_B: Tensor
    labels_B: Tensor

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All that has a gradient."""
        return self[:4]


def joint_problem(batch: int, frames: int, labels: int, joint: int, classes: int, sharpness: float) -> JointProblem:
    """Random but for two units, one of which is as large as a label is overdue, the other as it is early."""
    random = torch.Generator().manual_seed(0)
    encoded_BTJ = torch.randn(batch, frames, joint, generator=random)
    predicted_BUJ = torch.randn(batch, labels + 1, joint, generator=random)
    weight_VJ = torch.randn(classes, joint, generator=random) / joint**0.5
    time_T, due_U = torch.arange(frames) / 1.0, torch.arange(labels + 1) * frames / (labels + 1)
    weight_VJ[:, :2] = 0
    weight_VJ[-1, :2] = torch.tensor([-1.0, 1.0])
    for unit, sign in ((0, sharpness), (1, -sharpness)):
        encoded_BTJ[:, :, unit], predicted_BUJ[:, :, unit] = sign * time_T, -sign * due_U
    tensors = (encoded_BTJ, predicted_BUJ, weight_VJ, torch.zeros(classes))
    for x in tensors:
        x.requires_grad_()
    targets_BL = torch.randint(0, classes - 1, (batch, labels), generator=random)
    lengths = (torch.full((batch,), frames), torch.full((batch,), labels))
    return JointProblem(*tensors, targets_BL, *lengths)


def unfused_logits(problem: JointProblem) -> Tensor:
    """logits_BTUV, all of them."""
    encoded_BTJ, predicted_BUJ, weight_VJ, bias_V = problem.inputs
    return F.linear(torch.relu(encoded_BTJ[:, :, None] + predicted_BUJ[:, None]), weight_VJ, bias_V)


def trained_problems(path: str, manifest: str, count: int) -> tuple[list[JointProblem], tuple[int, ...]]:
    """What a trained model's joint has of the `count` longest utterances of a manifest, and its durations.

    Raises ValueError for a model that has no durations, or another activation than ReLU.
    """
    asr = load(path, device="cpu")
    weights, pieces = on_host(asr.model.decoder_weights()), asr.pieces
    arrays = arrays_of(weights)
    if not weights.durations or weights.activation != "relu":
        raise ValueError(f"{path}: expected a model of TDT with ReLU in the joint")
    longest = sorted(read_manifest(manifest).utterances, key=lambda utterance: -utterance.seconds)[:count]
    problems = []
    for utterance in longest:
        sound = waveform.read(utterance.audio, sample_rate=asr.feature_config.sample_rate, **utterance.piece()).samples
        samples_BN = torch.from_numpy(sound)[None]
        encoded_BSC, frames_B = asr.encode(*asr.features(samples_BN, torch.tensor([samples_BN.shape[1]])))
        labels = pieces.encode(normalize_english(utterance.text))
        output_H, state = reference.predict(weights.blank, reference.start_state(arrays), arrays)
        outputs = [output_H]
        for label in labels:
            output_H, state = reference.predict(label, state, arrays)
            outputs.append(output_H)
        tensors = (
            F.linear(encoded_BSC, weights.encoder_weight, weights.encoder_bias),
            F.linear(torch.from_numpy(np.stack(outputs))[None], weights.prediction_weight, weights.prediction_bias),
            weights.output_weight,
            weights.output_bias,
        )
        encoded_BTJ, predicted_BUJ, weight_WJ, bias_W = (x.detach().clone().requires_grad_() for x in tensors)
        lengths = (torch.tensor(frames_B.tolist()), torch.tensor([len(labels)]))
        problems.append(JointProblem(encoded_BTJ, predicted_BUJ, weight_WJ, bias_W, torch.tensor([labels]), *lengths))
    return problems, weights.durations
