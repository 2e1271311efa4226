"""Prediction network and joint of the sizes of published models, with random weights that emit as often as they do.

Rates are those of Parakeet-TDT-0.6b-v2 on 27:50 of speech (whisper.cpp pull request 4017): 7,762 tokens and 9,088
evaluations of the joint for 20,875 frames, 1.4 % of the tokens of duration 0. RNN-T: the same tokens, and a blank for
every frame.
"""

import torch
from torch import Tensor

from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.weights import Activation, DecoderWeights, LSTMLayer

TOKENS_PER_FRAME = 7762 / 20875
LABELS_PER_EVALUATION = 7762 / 9088
DURATION_SHARES = {0: 0.014, 1: 0.25, 2: 0.34, 3: 0.21, 4: 0.186}
"""Shares of the durations among all evaluations; an evaluation moves on by 2.30 frames in the mean, as Parakeet's."""


def random_heads(
    *,
    has_durations: bool,
    encoder: int = 512,
    hidden: int = 640,
    joint: int = 640,
    labels: int = 1024,
    layers: int = 1,
    activation: Activation = "relu",
    seed: int = 0,
) -> DecoderWeights:
    """Random weights, without biases of the outputs: see `calibrate`."""
    random = torch.Generator().manual_seed(seed)
    durations = tuple(DURATION_SHARES) if has_durations else ()

    def normal(*shape: int, scale: float) -> Tensor:
        return scale * torch.randn(*shape, generator=random)

    embedding = normal(labels + 1, hidden, scale=1.0)
    embedding[labels] = 0
    lstm = tuple(
        LSTMLayer(
            normal(4 * hidden, hidden, scale=hidden**-0.5),
            normal(4 * hidden, hidden, scale=hidden**-0.5),
            normal(4 * hidden, scale=0.1),
            normal(4 * hidden, scale=0.1),
        )
        for _ in range(layers)
    )
    return DecoderWeights(
        embedding,
        lstm,
        normal(joint, encoder, scale=encoder**-0.5),
        normal(joint, scale=0.1),
        normal(joint, hidden, scale=2 * hidden**-0.5),
        normal(joint, scale=0.1),
        normal(labels + 1 + len(durations), joint, scale=2 * joint**-0.5),
        torch.zeros(labels + 1 + len(durations)),
        durations,
        activation,
    )


def random_frames(weights: DecoderWeights, batch: int, frames: int, *, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Encoder frames [B, S, C], and how many of them each utterance has: the first all, others down to two thirds."""
    random = torch.Generator().manual_seed(seed)
    encoded_BSC = torch.randn(batch, frames, weights.encoder_weight.shape[1], generator=random)
    frames_B = torch.randint(2 * frames // 3, frames + 1, (batch,), generator=random)
    frames_B[0] = frames
    return encoded_BSC, frames_B


def calibrate(weights: DecoderWeights, encoded_BSC: Tensor, frames_B: Tensor, *, rounds: int = 40) -> None:
    """Moves the biases of blank and durations until what `rates` says of these frames is near to what it is of speech.

    Of all rounds the best counts: the network is chaotic, and does not get nearer with every one.
    """
    wanted = LABELS_PER_EVALUATION if weights.durations else TOKENS_PER_FRAME / (1 + TOKENS_PER_FRAME)
    best, least, pace = weights.output_bias.clone(), float("inf"), 1.0
    for _ in range(rounds):
        labels, shares = rates(weights, encoded_BSC, frames_B)
        steps = [_logit(labels) - _logit(wanted)]
        if weights.durations:
            steps += [_logit(p) - _logit(share) for p, share in zip(DURATION_SHARES.values(), shares, strict=True)]
        if sum(map(abs, steps)) < least:
            best, least = weights.output_bias.clone(), sum(map(abs, steps))
        weights.output_bias[weights.blank :] += pace * torch.tensor(steps)
        pace *= 0.95
    weights.output_bias.copy_(best)


def rates(weights: DecoderWeights, encoded_BSC: Tensor, frames_B: Tensor) -> tuple[float, list[float]]:
    """Labels per evaluation of the joint, and the share of every duration among labels."""
    found = Decoder(weights)(encoded_BSC, frames_B)
    labels = sum(len(one.tokens) for one in found)
    if not weights.durations:
        return labels / (labels + int(frames_B.sum())), []
    durations = torch.tensor([d for one in found for d in one.durations or []])
    shares = [(durations == d).double().mean().item() for d in weights.durations]
    jumped = sum(sum(one.durations or []) for one in found)
    mean = max(jumped / max(labels, 1), 1e-3)
    blanks = max(int(frames_B.sum()) - jumped, 0) / mean
    return labels / max(labels + blanks, 1), shares


def _logit(p: float) -> float:
    p = min(max(p, 1e-4), 1 - 1e-4)
    return float(torch.tensor(p / (1 - p)).log())
