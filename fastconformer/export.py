"""FastConformer and its heads for export: from samples or features to encoder frames, or with CTC to log-probabilities.

The decoder of a transducer is no graph: what a frame says depends on the labels before it. A whole file has the encoder
as its graph and beside it the weights that a decoder computes with (`fastconformer.transducer.decoder`). Runtimes
that bring a decoder of their own take three graphs: `encoder`, `prediction`, one label of many utterances further, and
`joint`. Of an attention decoder (`fastconformer.attention.host_step`) the graph gives the keys and values that its
layers make of the frames, so that nothing computes them again, and with a CTC head log-probabilities besides.

Shapes: B utterances, N samples, F mel bins, T feature frames, S encoder frames, C encoder width, Z layers of LSTM or of
an attention decoder, H prediction network or attention heads, D width of a head, J joint, V pieces and the blank, W = V
and one output per duration.
"""

from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common import config
from common.export import (
    ExportGraph,
    PlainLogMel,
    encoded,
    features_example,
    features_of_clip,
    of_clip,
    samples_example,
)
from common.features import LogMel, LogMelConfig
from common.lengths import inside
from common.runs.checkpoint import CheckpointError
from common.text.pieces import SPACE, Pieces
from fastconformer.attention.pieces import PromptedPieces
from fastconformer.attention.step import keys_values
from fastconformer.hearing.long_audio import ChunkOptions, attention_step
from fastconformer.network.encoder import ConformerBlock
from fastconformer.network.fused import fuse
from fastconformer.network.model import Model
from fastconformer.transducer.loss.joint_tiles import ACTIVATIONS
from fastconformer.transducer.weights import DecoderWeights, named, on_host

Part = Literal["whole", "encoder", "prediction", "joint"]
Source = Literal["samples", "features"]
Head = Literal["auto", "transducer", "ctc", "attention"]
BLANK = "<blank>"
PREFIX = "decoder."
"""Before the names of the weights that a decoder computes with."""


class _Frames(nn.Module):
    """Encoder frames, 0 beyond those of each utterance, or what the head that decodes makes of them."""

    def __init__(self, model: Model, head: str):
        super().__init__()
        self.encoder, self.ctc = model.encoder, None if head == "transducer" else model.ctc
        self.attention = model.attention if head == "attention" else None

    def of(self, features_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, ...]:
        """encoded_BSC, log_probs_BSV or keys_values_BZ2HSD, and how many of each utterance's S frames are its own; with
        attention and CTC log_probs_BSV besides."""
        encoded_BSC, frames_B = self.encoder(features_BFT, frames_B)
        encoded_BSC = encoded_BSC * inside(frames_B, encoded_BSC.shape[1])[:, :, None].to(encoded_BSC.dtype)
        if self.attention is None:
            return encoded_BSC if self.ctc is None else self.ctc(encoded_BSC).log_softmax(-1), frames_B
        if self.attention.project is not None:
            encoded_BSC = self.attention.project(encoded_BSC)
        found = (keys_values(self.attention, encoded_BSC), frames_B)
        return found if self.ctc is None else (*found, self.ctc(encoded_BSC).log_softmax(-1))


class FromFeatures(_Frames):
    """An encoder, and of its heads what belongs into a graph."""

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, ...]:
        """As `of`."""
        return self.of(features_BFT, frames_B)


class FromSamples(_Frames):
    """The same from samples on."""

    def __init__(self, model: Model, head: str, log_mel: LogMel):
        super().__init__(model, head)
        self.log_mel = PlainLogMel(log_mel)

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, ...]:
        """As `of`, of audio with samples_B valid samples each."""
        return self.of(*self.log_mel(audio_BN, samples_B))


class NextPrediction(nn.Module):
    """The prediction network, one label further: the formulas of an LSTM, which every runtime has."""

    def __init__(self, weights: DecoderWeights):
        super().__init__()
        self.embedding = weights.embedding
        self.layers = weights.lstm
        self.weight, self.bias = weights.prediction_weight, weights.prediction_bias

    def forward(self, tokens_B: Tensor, hidden_ZBH: Tensor, cell_ZBH: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """prediction_BJ after one more label of each row, and the state after it; blank stands before the first."""
        x_BH = F.embedding(tokens_B, self.embedding)
        hidden, cell = [], []
        for z, layer in enumerate(self.layers):
            gates = F.linear(x_BH, layer.input_weight, layer.input_bias)
            gates = gates + F.linear(hidden_ZBH[z], layer.hidden_weight, layer.hidden_bias)
            enter, forget, candidate, leave = gates.chunk(4, dim=1)
            cell.append(forget.sigmoid() * cell_ZBH[z] + enter.sigmoid() * candidate.tanh())
            x_BH = leave.sigmoid() * cell[-1].tanh()
            hidden.append(x_BH)
        return F.linear(x_BH, self.weight, self.bias), torch.stack(hidden), torch.stack(cell)


class FrameJoint(nn.Module):
    """The joint of one frame and one prediction in every row."""

    def __init__(self, weights: DecoderWeights):
        super().__init__()
        self.activation = ACTIVATIONS[weights.activation]
        self.encoder_weight, self.encoder_bias = weights.encoder_weight, weights.encoder_bias
        self.output_weight, self.output_bias = weights.output_weight, weights.output_bias

    def forward(self, encoded_BC: Tensor, prediction_BJ: Tensor) -> Tensor:
        """logits_BW of labels, blank and, of TDT, durations."""
        encoded_BJ = F.linear(encoded_BC, self.encoder_weight, self.encoder_bias)
        return F.linear(self.activation(encoded_BJ + prediction_BJ), self.output_weight, self.output_bias)


def graph(
    model: Model,
    features: LogMelConfig,
    pieces: Pieces,
    *,
    part: Part = "whole",
    source: Source = "samples",
    head: Head = "auto",
) -> ExportGraph:
    """`model`, on the CPU in evaluation mode, or a part of it. Raises CheckpointError for a head that it has not."""
    has = {"attention": model.attention, "transducer": model.prediction, "ctc": model.ctc}
    if head == "auto":
        head = next((cast("Head", name) for name, own in has.items() if own is not None), head)
    if has.get(head) is None:
        raise CheckpointError(f"head = {head}: this model has no such head")
    if part in ("prediction", "joint") and head != "transducer":
        named = "CTC" if head == "ctc" else "attention"
        raise CheckpointError(f"part = {part}: {named} has none; expected whole or encoder")
    if head == "ctc" and model.attention is not None:
        told = "this model's CTC head finds times of words; expected attention, whose file has it, too"
        raise CheckpointError(f"head = ctc: {told}")
    about = _about(model, features, pieces, part=part, source=source, head=head)
    if part in ("prediction", "joint"):
        weights = on_host(model.decoder_weights())
        return _prediction(model, weights, about) if part == "prediction" else _joint(model, weights, about)
    return _encoder(model, features, about, whole=part == "whole", source=source, head=head)


def _about(
    model: Model, features: LogMelConfig, pieces: Pieces, *, part: Part, source: Source, head: Head
) -> dict[str, str]:
    per_frame = features.hop_samples * model.cfg.encoder.subsampling
    chunks = ChunkOptions()
    ours = encoded(
        family="fastconformer",
        task="recognition",
        part=part,
        head=head,
        input=source,
        sample_rate=features.sample_rate,
        labels=[*pieces.labels, *([] if head == "attention" else [BLANK])],
        separator=SPACE,
        pieces={"unknown": sorted(pieces.unknown), "control": sorted(pieces.control)},
        samples_per_frame=per_frame,
        seconds_per_frame=per_frame / features.sample_rate,
        chunk_seconds=chunks.chunk_seconds,
        attention_step=attention_step(model.encoder.cfg),
        longest_pause=features.longest_pause,
        pause_db=features.pause_db,
        features=config.to_dict(features),
        configuration=config.to_dict(model.cfg),
    )
    if head == "ctc":
        return ours | encoded(blank=pieces.blank)
    if isinstance(pieces, PromptedPieces):
        return ours | encoded(tokenizer=pieces.described(), languages=pieces.languages)
    return ours | encoded(
        label_blank=pieces.blank, durations=list(model.cfg.jumps), activation=model.cfg.joint_activation
    )


def _encoder(
    model: Model, features: LogMelConfig, about: dict[str, str], *, whole: bool, source: Source, head: Head
) -> ExportGraph:
    log_mel = LogMel(features).eval()
    plain = fuse(model)
    for block in plain.encoder.blocks:  # what is kept between calls is no part of a graph
        assert isinstance(block, ConformerBlock)
        block.attention.keeps_positions = False
    outputs = {
        "ctc": ("log_probs_BSV", "output_frames_B"),
        "transducer": ("encoded_BSC", "output_frames_B"),
        "attention": ("keys_values_BZ2HSD", "output_frames_B", *(("log_probs_BSV",) if model.ctc is not None else ())),
    }[head]
    extra: dict[str, Tensor] = {}
    if whole and head == "transducer":
        extra = named(on_host(model.decoder_weights()))
    if whole and head == "attention" and model.attention is not None:
        extra = model.attention.step_weights()
    weights = {f"{PREFIX}{name}": value for name, value in extra.items()}
    reference = FromFeatures(model, head)

    def from_samples(audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, ...]:
        found, frames_B, *others = reference(*log_mel(audio_BN, samples_B))
        n_frames = model.encoder.output_frames(int(features.frames(audio_BN.shape[1])))
        own = found[..., :n_frames, :] if head == "attention" else found[:, :n_frames]
        return own, frames_B, *(log_probs_BSV[:, :n_frames] for log_probs_BSV in others)

    if source == "features":
        ragged, *others = (features_example(features.mel_bins, frames) for frames in ((83, 52, 7), (150, 101), (1,)))
        return ExportGraph(
            module=FromFeatures(plain, head),
            reference=reference,
            inputs=ragged,
            axes={"features_BFT": {0: "B", 2: "T"}, "frames_B": {0: "B"}},
            outputs=outputs,
            checks=(*others, ragged | {"features_BFT": torch.zeros_like(ragged["features_BFT"])}),
            tolerance=5e-5,
            metadata=about,
            weights=weights,
            from_audio=partial(features_of_clip, log_mel),
        )
    hop = features.hop_samples
    lengths = ((83 * hop + 57, 52 * hop + 1, 7 * hop), (150 * hop, 101 * hop + 3), (hop,))
    ragged, *others = map(samples_example, lengths)
    return ExportGraph(
        module=FromSamples(plain, head, log_mel),
        reference=from_samples,
        inputs=ragged,
        axes={"audio_BN": {0: "B", 1: "N"}, "samples_B": {0: "B"}},
        outputs=outputs,
        checks=(*others, ragged | {"audio_BN": torch.zeros_like(ragged["audio_BN"])}),
        tolerance=1e-4,
        metadata=about,
        full_precision=("log_mel",),
        weights=weights,
        from_audio=of_clip,
    )


def _prediction(model: Model, weights: DecoderWeights, about: dict[str, str]) -> ExportGraph:
    rnn = cast("nn.LSTM", model.prediction.rnn)  # type: ignore[union-attr]

    def reference(tokens_B: Tensor, hidden_ZBH: Tensor, cell_ZBH: Tensor) -> tuple[Tensor, ...]:
        x_BUH = F.embedding(tokens_B, weights.embedding)[:, None]
        found_BUH, (hidden, cell) = rnn(x_BUH, (hidden_ZBH, cell_ZBH))
        return F.linear(found_BUH[:, 0], weights.prediction_weight, weights.prediction_bias), hidden, cell

    def example(batch: int) -> dict[str, Tensor]:
        draw = torch.Generator().manual_seed(batch)
        state = torch.randn(2, rnn.num_layers, batch, rnn.hidden_size, generator=draw)
        tokens_B = torch.arange(batch) * 7 % len(weights.embedding)
        return {"tokens_B": tokens_B, "hidden_ZBH": state[0], "cell_ZBH": state[1].clone()}

    start = {name: torch.zeros_like(value) for name, value in example(2).items()}
    start["tokens_B"] = torch.full((2,), weights.blank)
    return ExportGraph(
        module=NextPrediction(weights),
        reference=reference,
        inputs=example(3),
        axes={"tokens_B": {0: "B"}, "hidden_ZBH": {1: "B"}, "cell_ZBH": {1: "B"}},
        outputs=("prediction_BJ", "next_hidden_ZBH", "next_cell_ZBH"),
        checks=(example(1), example(5), start),
        tolerance=1e-5,
        metadata=about,
    )


def _joint(model: Model, weights: DecoderWeights, about: dict[str, str]) -> ExportGraph:
    def reference(encoded_BC: Tensor, prediction_BJ: Tensor) -> tuple[Tensor]:
        joint = model.joint
        assert joint is not None
        sum_BJ = joint.encoder(encoded_BC) + prediction_BJ
        return (joint.output(joint.activation(sum_BJ)),)

    def example(batch: int) -> dict[str, Tensor]:
        draw = torch.Generator().manual_seed(batch)
        joint, width = weights.encoder_weight.shape
        return {
            "encoded_BC": torch.randn(batch, width, generator=draw),
            "prediction_BJ": torch.randn(batch, joint, generator=draw),
        }

    return ExportGraph(
        module=FrameJoint(weights),
        reference=reference,
        inputs=example(3),
        axes={"encoded_BC": {0: "B"}, "prediction_BJ": {0: "B"}},
        outputs=("logits_BW",),
        checks=(example(1), example(5)),
        tolerance=5e-5,
        metadata=about,
    )
