"""Label-looping in plain torch, as published: the other side of the decoder's measurements, and no option for users.

An outer loop over labels evaluates the prediction network for the whole batch; an inner loop over frames evaluates the
joint until every utterance has found its next label or its end. Source: Bataev et al., Label-Looping: Highly Efficient
Decoding for Transducers, 2024 (arXiv 2406.06220), algorithms for RNN-T and TDT.

Shapes: B utterances, S encoder frames, C encoder width, N labels, H prediction network, J joint, W outputs.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer.weights import DecoderWeights

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class LabelLooping:
    """Greedy decoding of a batch. The LSTM is `torch.lstm_cell`: on a CPU `nn.LSTM` takes ten times as long a step."""

    def __init__(self, weights: DecoderWeights) -> None:
        self.weights = weights
        self.activation = ACTIVATIONS[weights.activation]
        self.durations = torch.tensor(weights.durations or (0,), device=weights.embedding.device)

    @torch.no_grad()
    def __call__(self, encoded_BSC: Tensor, frames_B: Tensor, *, max_symbols: int = 10) -> list[DecodedLabels]:
        """Labels, frames, durations and confidence of every utterance."""
        weights, blank = self.weights, self.weights.blank
        batch, frames, _ = encoded_BSC.shape
        rows = torch.arange(batch, device=encoded_BSC.device)
        encoded_BSJ = F.linear(encoded_BSC, weights.encoder_weight, weights.encoder_bias)
        found = torch.zeros(3, batch, frames * max_symbols + 1, dtype=torch.int64, device=encoded_BSC.device)
        confidences_BN = torch.zeros(found.shape[1:], device=encoded_BSC.device)
        counts_B = torch.zeros_like(frames_B)
        last_frame_B, symbols_B = torch.full_like(frames_B, -1), torch.zeros_like(frames_B)
        time_B = torch.zeros_like(frames_B)
        active_B = time_B < frames_B
        zeros = encoded_BSJ.new_zeros(2 * len(weights.lstm), batch, weights.embedding.shape[1])
        prediction_BJ, state = self._predict(torch.full_like(frames_B, blank), zeros)
        while bool(active_B.any()):
            token_B, duration_B, confidence_B = self._joint(encoded_BSJ, rows, time_B, frames_B, prediction_BJ)
            label_time_B = time_B
            is_blank_B = token_B == blank
            time_B = time_B + self._moves(is_blank_B, duration_B) * active_B
            found_active_B = active_B
            active_B = time_B < frames_B
            searching_B = active_B & is_blank_B
            while bool(searching_B.any()):
                label_time_B = torch.where(searching_B, time_B, label_time_B)
                more_B, more_duration_B, more_confidence_B = self._joint(
                    encoded_BSJ, rows, time_B, frames_B, prediction_BJ
                )
                token_B = torch.where(searching_B, more_B, token_B)
                duration_B = torch.where(searching_B, more_duration_B, duration_B)
                confidence_B = torch.where(searching_B, more_confidence_B, confidence_B)
                is_blank_B = token_B == blank
                time_B = time_B + self._moves(is_blank_B, duration_B) * searching_B
                active_B = time_B < frames_B
                searching_B = active_B & is_blank_B
            is_found_B = found_active_B & (token_B != blank)
            column_B1 = torch.where(is_found_B, counts_B, found.shape[2] - 1)[:, None]
            for values_BN, value_B in zip(found, (token_B, label_time_B, duration_B), strict=True):
                values_BN.scatter_(1, column_B1, value_B[:, None])
            confidences_BN.scatter_(1, column_B1, confidence_B[:, None])
            counts_B = counts_B + is_found_B
            after_BJ, after = self._predict(token_B, state)
            keep_B1 = is_found_B[:, None]
            prediction_BJ = torch.where(keep_B1, after_BJ, prediction_BJ)
            state = torch.where(keep_B1, after, state)
            symbols_B = torch.where(is_found_B & (label_time_B == last_frame_B), symbols_B + 1, 1)
            last_frame_B = torch.where(is_found_B, label_time_B, last_frame_B)
            is_stuck_B = is_found_B & (symbols_B >= max_symbols) & (time_B == last_frame_B)
            time_B = time_B + is_stuck_B
            active_B = time_B < frames_B
        return _lists(found, confidences_BN, counts_B, bool(weights.durations))

    def _moves(self, is_blank_B: Tensor, duration_B: Tensor) -> Tensor:
        return torch.where(is_blank_B, duration_B.clamp(min=1), duration_B)

    def _joint(
        self, encoded_BSJ: Tensor, rows: Tensor, time_B: Tensor, frames_B: Tensor, prediction_BJ: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        weights = self.weights
        frame_BJ = encoded_BSJ[rows, torch.minimum(time_B, frames_B - 1).clamp(min=0)]
        logits_BW = F.linear(self.activation(frame_BJ + prediction_BJ), weights.output_weight, weights.output_bias)
        scores_BV = logits_BW[:, : weights.blank + 1]
        score_B, token_B = scores_BV.max(1)
        duration_B = torch.zeros_like(token_B)
        if weights.durations:
            duration_B = self.durations[logits_BW[:, weights.blank + 1 :].argmax(1)]
        return token_B, duration_B, score_B

    def _predict(self, token_B: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """`state`: hidden and cell of every layer, [2 layers, B, H]."""
        x_BH, after = self.weights.embedding[token_B], []
        for layer, (hidden_BH, cell_BH) in zip(self.weights.lstm, state.view(-1, 2, *state.shape[1:]), strict=True):
            x_BH, cell_BH = torch.lstm_cell(x_BH, (hidden_BH, cell_BH), *layer)
            after += [x_BH, cell_BH]
        prediction_BJ = F.linear(x_BH, self.weights.prediction_weight, self.weights.prediction_bias)
        return prediction_BJ, torch.stack(after)


def _lists(found: Tensor, confidences_BN: Tensor, counts_B: Tensor, has_durations: bool) -> list[DecodedLabels]:
    tokens_BN, frames_BN, durations_BN = found.cpu()
    confidences_BN = confidences_BN.cpu()
    return [
        DecodedLabels(
            tokens_BN[n, :count].tolist(),
            frames_BN[n, :count].tolist(),
            durations_BN[n, :count].tolist() if has_durations else None,
            confidences_BN[n, :count].tolist(),
        )
        for n, count in enumerate(counts_B.tolist())
    ]
