"""An encoder and its heads: prediction network and joint of a transducer, an attention decoder, and CTC.

Shapes: B utterances, F mel bins, T feature frames, S encoder frames, C encoder width, U labels (one more positions),
H prediction network, J joint, V labels and blank, W = V and one output per duration.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.training.layers.dropout import dropout
from fastconformer.attention.network import AttentionDecoder
from fastconformer.config import ModelConfig
from fastconformer.network.encoder import EncodedFrames, FastConformer
from fastconformer.transducer.weights import DecoderWeights, LSTMLayer


class Model(nn.Module):
    """FastConformer with its heads; `prediction`, `joint`, `attention` and `ctc` are None where not wanted."""

    def __init__(self, cfg: ModelConfig, mel_bins: int):
        super().__init__()
        self.cfg = cfg
        self.encoder = FastConformer(cfg.encoder, mel_bins)
        has_transducer = cfg.transducer != "none"
        self.prediction = PredictionNetwork(cfg) if has_transducer else None
        self.joint = Joint(cfg) if has_transducer else None
        has_attention = cfg.attention.layers > 0
        self.attention = AttentionDecoder(cfg.attention, cfg.encoder.width, cfg.pieces) if has_attention else None
        width = cfg.attention.width if has_attention else cfg.encoder.width
        self.ctc = nn.Linear(width, cfg.pieces + 1) if cfg.ctc else None

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> EncodedFrames:
        """What the heads start from: encoder frames of features with frames_B valid frames each.

        Where there is an attention decoder of another width, they are projected to it.
        """
        encoded = self.encoder(features_BFT, frames_B)
        if self.attention is None or self.attention.project is None:
            return encoded
        project = self.attention.project
        return encoded._replace(encoded_BSC=project(encoded.encoded_BSC.to(project.weight.dtype)))

    def decoder_weights(self) -> DecoderWeights:
        """Prediction network and joint as a decoder takes them. The model must have them."""
        assert self.prediction is not None
        assert self.joint is not None
        rnn, joint = self.prediction.rnn, self.joint
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        layers = [[cast("Tensor", getattr(rnn, f"{n}_l{i}")) for n in names] for i in range(rnn.num_layers)]
        return DecoderWeights(
            embedding=self.prediction.embedding.weight,
            lstm=tuple(LSTMLayer(*layer) for layer in layers),
            encoder_weight=joint.encoder.weight,
            encoder_bias=joint.encoder.bias,
            prediction_weight=joint.prediction.weight,
            prediction_bias=joint.prediction.bias,
            output_weight=joint.output.weight,
            output_bias=joint.output.bias,
            durations=self.cfg.jumps,
            activation=self.cfg.joint_activation,
        )


class PredictionNetwork(nn.Module):
    """An LSTM over the labels so far; blank, whose embedding starts as zero, stands before the first."""

    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.dropout = cfg.head_dropout
        self.embedding = nn.Embedding(cfg.pieces + 1, cfg.prediction_width, padding_idx=cfg.pieces)
        between = cfg.head_dropout if cfg.prediction_layers > 1 else 0.0
        width, layers = cfg.prediction_width, cfg.prediction_layers
        self.rnn = nn.LSTM(width, width, layers, batch_first=True, dropout=between)

    def forward(self, targets_BU: Tensor) -> Tensor:
        """[B, U + 1, H]: what the labels before each position say."""
        tokens_BU = F.pad(targets_BU, (1, 0), value=self.embedding.num_embeddings - 1)
        hidden_BUH, _ = self.rnn(self.embedding(tokens_BU))
        return dropout(hidden_BUH, self.dropout, self.training)


class Joint(nn.Module):
    """Logits of labels, blank and durations from the sum of a projected frame and a projected label position."""

    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.dropout = cfg.head_dropout
        self.activation = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[cfg.joint_activation]
        self.encoder = nn.Linear(cfg.encoder.width, cfg.joint_width)
        self.prediction = nn.Linear(cfg.prediction_width, cfg.joint_width)
        self.output = nn.Linear(cfg.joint_width, cfg.pieces + 1 + len(cfg.jumps))

    def forward(self, encoded_BSC: Tensor, prediction_BUH: Tensor) -> Tensor:
        """logits_BSUW of every pair of a frame and a label position."""
        sum_BSUJ = self.encoder(encoded_BSC)[:, :, None] + self.prediction(prediction_BUH)[:, None]
        return self.output(dropout(self.activation(sum_BSUJ), self.dropout, self.training))
