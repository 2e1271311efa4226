"""The greedy decoder in plain torch, for devices without a kernel: the same steps for all rows, masked where done.

Nothing depends on data but the end, which is looked for now and then, so that a device rarely waits for its host.
Shapes: B utterances, S encoder frames, N labels of the longest result, H prediction network, J joint, V labels.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fastconformer.transducer.weights import DecoderWeights

STEPS_AT_ONCE = 16
"""After so many steps the host looks whether all are done."""
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class PlainDecoderState(NamedTuple):
    """Where every utterance is: after so many labels, at this frame, with so many labels on it."""

    hidden_LBH: Tensor
    cell_LBH: Tensor
    prediction_BJ: Tensor
    frame_B: Tensor
    symbols_B: Tensor


class Results(NamedTuple):
    """What was found: each utterance fills the first `counts_B` of its row. The last column is for what is not."""

    tokens_BN: Tensor
    frames_BN: Tensor
    durations_BN: Tensor
    confidences_BN: Tensor
    entropies_BN: Tensor
    counts_B: Tensor


def start_state(weights: DecoderWeights, batch: int) -> PlainDecoderState:
    """Before the first label, which a blank stands for."""
    hidden = weights.embedding.shape[1]
    zeros_LBH = weights.embedding.new_zeros(len(weights.lstm), batch, hidden)
    nothing_B = torch.zeros(batch, dtype=torch.int64, device=weights.embedding.device)
    state = PlainDecoderState(
        zeros_LBH, zeros_LBH, zeros_LBH.new_zeros(batch, len(weights.encoder_weight)), nothing_B, nothing_B
    )
    return predict(weights, state, torch.full_like(nothing_B, weights.blank))


def predict(weights: DecoderWeights, state: PlainDecoderState, token_B: Tensor) -> PlainDecoderState:
    """The state after one more label in every row."""
    x_BH = weights.embedding[token_B]
    hidden, cell = [], []
    for layer, hidden_BH, cell_BH in zip(weights.lstm, state.hidden_LBH, state.cell_LBH, strict=True):
        gates = F.linear(x_BH, layer.input_weight, layer.input_bias)
        gates = gates + F.linear(hidden_BH, layer.hidden_weight, layer.hidden_bias)
        enter, forget, candidate, leave = gates.chunk(4, dim=1)
        cell.append(forget.sigmoid() * cell_BH + enter.sigmoid() * candidate.tanh())
        x_BH = leave.sigmoid() * cell[-1].tanh()
        hidden.append(x_BH)
    prediction_BJ = F.linear(x_BH, weights.prediction_weight, weights.prediction_bias)
    return state._replace(hidden_LBH=torch.stack(hidden), cell_LBH=torch.stack(cell), prediction_BJ=prediction_BJ)


def decode_in_torch(
    weights: DecoderWeights, encoded_BSC: Tensor, frames_B: Tensor, state: PlainDecoderState, *, max_symbols: int
) -> tuple[Results, PlainDecoderState]:
    """Decodes a batch; `state.frame_B` counts from the first frame given, and comes back past the last."""
    batch, frames, _ = encoded_BSC.shape
    encoded_BSJ = F.linear(encoded_BSC, weights.encoder_weight, weights.encoder_bias)
    tokens_BN = torch.zeros(batch, frames * max_symbols + 1, dtype=torch.int64, device=encoded_BSC.device)
    whole = (tokens_BN, torch.zeros_like(tokens_BN), torch.zeros_like(tokens_BN))
    results = Results(*whole, tokens_BN.float(), torch.zeros_like(tokens_BN.float()), torch.zeros_like(frames_B))
    steps_D = torch.tensor(
        weights.durations, dtype=torch.int64, device=encoded_BSC.device
    )  # once: the host waits for it
    for step in range(frames * (max_symbols + 1)):
        if step % STEPS_AT_ONCE == 0 and not bool((state.frame_B < frames_B).any()):
            break
        state = _step(weights, steps_D, encoded_BSJ, frames_B, state, results, max_symbols)
    return results, state


def _step(
    weights: DecoderWeights,
    steps_D: Tensor,
    encoded_BSJ: Tensor,
    frames_B: Tensor,
    state: PlainDecoderState,
    results: Results,
    max_symbols: int,
) -> PlainDecoderState:
    is_active_B = state.frame_B < frames_B
    rows = torch.arange(len(frames_B), device=frames_B.device)
    frame_BJ = encoded_BSJ[rows, state.frame_B.clamp(max=encoded_BSJ.shape[1] - 1)]
    joint_BJ = ACTIVATIONS[weights.activation](frame_BJ + state.prediction_BJ)
    logits_BW = F.linear(joint_BJ, weights.output_weight, weights.output_bias)
    scores_BV = logits_BW[:, : weights.blank + 1]
    token_B = scores_BV.argmax(1)
    is_label_B = is_active_B & (token_B != weights.blank)
    duration_B = torch.zeros_like(token_B)
    if weights.durations:
        duration_B = steps_D[logits_BW[:, weights.blank + 1 :].argmax(1)]
    log_probs_BV = scores_BV.float().log_softmax(1)
    confidence_B = log_probs_BV.exp().gather(1, token_B[:, None])[:, 0]
    entropy_B = torch.special.entr(log_probs_BV.exp()).sum(1)
    column_B1 = torch.where(is_label_B, results.counts_B, results.tokens_BN.shape[1] - 1)[:, None]
    values = (token_B, state.frame_B, duration_B, confidence_B, entropy_B)
    for values_BN, value_B in zip(results[:5], values, strict=True):
        values_BN.scatter_(1, column_B1, value_B[:, None])
    results.counts_B.add_(is_label_B)

    symbols_B = state.symbols_B + is_label_B
    must_move_B = ~is_label_B | (symbols_B >= max_symbols)
    moved_B = torch.where(is_active_B, torch.where(must_move_B, duration_B.clamp(min=1), duration_B), 0)
    after = predict(weights, state, token_B)
    return PlainDecoderState(
        torch.where(is_label_B[:, None], after.hidden_LBH, state.hidden_LBH),
        torch.where(is_label_B[:, None], after.cell_LBH, state.cell_LBH),
        torch.where(is_label_B[:, None], after.prediction_BJ, state.prediction_BJ),
        state.frame_B + moved_B,
        torch.where(moved_B > 0, 0, symbols_B),
    )
