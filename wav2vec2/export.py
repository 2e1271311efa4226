"""wav2vec 2.0 and its kin for others: as a Hugging Face folder, in Fairseq's format, and as a graph for ONNX.

    python -m wav2vec2.export wav2vec2_best.pt folder/                  # for transformers
    python -m wav2vec2.export wav2vec2_best.pt out/model.pt --to fairseq

The graph goes from samples to log-probabilities of labels; `python -m trt.export` writes it.

The extractor is here a stack of plain convolutions over the batch, and the positions are one grouped convolution: the
network's own are faster on what torch runs, but no other runtime has their operations.

Shapes: B utterances, N samples, C channels of the extractor, L frames of a layer, S output frames, D width of the
model, V labels.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tyro.conf import Positional, arg

from common import config
from common.export import ExportGraph, encoded, of_clip, samples_example
from common.lengths import inside
from common.published.model_folder import folder_of
from common.runs.checkpoint import CheckpointError
from common.text.vocabulary import is_special
from wav2vec2.checkpoints import fairseq, huggingface, reading
from wav2vec2.checkpoints.loading import Model
from wav2vec2.corpus.letters import Letters, read_dictionary
from wav2vec2.network.config import ACTIVATIONS
from wav2vec2.network.extractor import ConvLayerNorm, FirstLayer, n_frames
from wav2vec2.network.model import Wav2Vec2ForCTC, normalized, without_padding
from wav2vec2.network.positions import PositionalConv, StackedPositions
from wav2vec2.network.transformer import zero_padding
from wav2vec2.recognizer import CHUNK_SECONDS, STRIDE_SECONDS
from wav2vec2.run_config import SAMPLE_RATE


class PlainLayer(nn.Module):
    """A convolution of the extractor, its normalisation and activation."""

    def __init__(self, layer: FirstLayer | ConvLayerNorm):
        super().__init__()
        self.weight_OIK, self.bias, self.norm, self.stride = layer.weight.mT, layer.bias, layer.norm, layer.stride
        self.activation = ACTIVATIONS[layer.activation]

    def forward(self, x_BCL: Tensor, frames_B: Tensor) -> Tensor:
        """x_BCL -> the layer's output, frames_B of whose frames belong to each utterance."""
        x_BCL = F.conv1d(x_BCL, self.weight_OIK, self.bias, self.stride)
        if isinstance(self.norm, nn.LayerNorm):
            x_BCL = self.norm(x_BCL.mT).mT
        elif self.norm is not None:
            mask_B1L = inside(frames_B, x_BCL.shape[2])[:, None]
            count_B11 = frames_B.clamp(min=1)[:, None, None].to(x_BCL.dtype)
            centred_BCL = x_BCL - torch.where(mask_B1L, x_BCL, 0.0).sum(2, keepdim=True) / count_B11
            variance_BC1 = torch.where(mask_B1L, centred_BCL, 0.0).square().sum(2, keepdim=True) / count_B11
            x_BCL = centred_BCL * (variance_BC1 + self.norm.eps).rsqrt() * self.norm.weight[:, None]
            x_BCL = x_BCL + self.norm.bias[:, None]
        return self.activation(x_BCL)


class PlainPositions(nn.Module):
    """The positional convolution with its taps folded, and its activation."""

    def __init__(self, positions: PositionalConv):
        super().__init__()
        self.weight_DEK, self.bias = positions.weight(), positions.bias
        self.groups, self.kernel = positions.groups, positions.kernel
        self.activation = ACTIVATIONS[positions.activation]

    def forward(self, x_BSD: Tensor) -> Tensor:
        """x_BSD -> the same shape."""
        padded_BDS = F.pad(x_BSD.mT, (self.kernel // 2, (self.kernel - 1) // 2))
        return self.activation(F.conv1d(padded_BDS, self.weight_DEK, self.bias, groups=self.groups)).mT


class PlainWav2Vec2(nn.Module):
    """`Wav2Vec2ForCTC` in evaluation, with the weights of `model`."""

    def __init__(self, model: Wav2Vec2ForCTC):
        super().__init__()
        network = model.wav2vec2
        self.config, self.head = network.config, model.head
        self.layers = nn.ModuleList(PlainLayer(layer) for layer in network.extractor.layers)  # type: ignore[arg-type]
        self.norm, self.projection, self.encoder = network.norm, network.projection, network.encoder
        positions = network.encoder.positions
        self.positions = PlainPositions(positions) if isinstance(positions, PositionalConv) else positions

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor]:
        """log_probs_BSV and frames_B of audio at 16 kHz, samples_B valid samples each."""
        cfg = self.config
        audio_BN = without_padding(audio_BN, samples_B)
        if cfg.normalize_audio:
            audio_BN = normalized(audio_BN, samples_B, cfg.audio_epsilon)
        if cfg.extractor_norm == "group":  # an offset has no effect, and would cost digits
            mean_B1 = audio_BN.sum(1, keepdim=True) / samples_B.clamp(min=1)[:, None]
            audio_BN = without_padding(audio_BN - mean_B1, samples_B)
        x_BCL, frames_B = audio_BN[:, None], samples_B
        for layer, shape in zip(self.layers, cfg.conv_layers, strict=True):
            frames_B = n_frames(frames_B, (shape,))
            x_BCL = layer(x_BCL, frames_B)
        x_BSD = self.projection(self.norm(x_BCL.mT))
        mask_BS = inside(frames_B, x_BSD.shape[1])
        x_BSD = zero_padding(x_BSD, mask_BS)
        stacked = isinstance(self.positions, StackedPositions)
        x_BSD = x_BSD + (self.positions(x_BSD, mask_BS.unsqueeze(2)) if stacked else self.positions(x_BSD))
        x_BSD = zero_padding(self.encoder.contextual(x_BSD, mask_BS), mask_BS)
        return self.head(x_BSD).log_softmax(2), frames_B


def graph(model: Model) -> ExportGraph:
    """`model`, on the CPU. Raises CheckpointError where it has no CTC head, or labels without names."""
    if not isinstance(model, Wav2Vec2ForCTC):
        raise CheckpointError("the model is pre-trained only and has no CTC head: fine-tune it first")
    cfg = model.eval().wav2vec2.config
    if all(map(is_special, cfg.labels)):
        raise CheckpointError(f"the checkpoint does not say what its {len(cfg.labels)} labels are")

    def reference(audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor]:
        output = model(audio_BN, samples_B)
        return output.logits_BSV.log_softmax(2), n_frames(samples_B, cfg.conv_layers)

    shortest, hop = cfg.shortest_audio, cfg.samples_per_frame
    lengths = ((16_000, 9_137, 4_000), (23_456, 16_007), (shortest,))
    ragged, *others = (samples_example(samples, offset=0.02) for samples in lengths)
    return ExportGraph(
        module=PlainWav2Vec2(model),
        reference=reference,
        inputs=ragged,
        axes={"audio_BN": {0: "B", 1: "N"}, "samples_B": {0: "B"}},
        outputs=("log_probs_BSV", "frames_B"),
        checks=(*others, ragged | {"audio_BN": torch.zeros_like(ragged["audio_BN"])}),
        tolerance=5e-5,
        metadata=encoded(
            family="wav2vec2",
            task="recognition",
            input="samples",
            sample_rate=SAMPLE_RATE,
            labels=list(cfg.labels),
            blank=cfg.blank,
            separator=Letters(cfg.labels).separator,
            samples_per_frame=hop,
            seconds_per_frame=hop / SAMPLE_RATE,
            shortest_samples=shortest,
            chunk_seconds=CHUNK_SECONDS,
            chunk_multiple=cfg.shortening.factor if cfg.shortening else 1,
            context_frames=round(STRIDE_SECONDS * SAMPLE_RATE / hop),
            trim_silence=False,
            configuration=config.to_dict(cfg),
        ),
        from_audio=of_clip,
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointExportConfig:
    """A model, the format that it is written in, and where to."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository, Fairseq or DeepLearningExamples, a Hugging Face folder or hub name."""
    output: Annotated[Path, Positional, arg(metavar="OUTPUT")]
    """Folder to write (Hugging Face), or a .pt file (Fairseq), which gets dict.ltr.txt beside it."""
    to: Literal["huggingface", "fairseq"] = "huggingface"
    """Format that is written: a folder of Hugging Face's transformers, or Fairseq's .pt."""
    labels: Path | None = None
    """Fairseq's dict.ltr.txt, for a checkpoint that does not name its labels."""
    ema: bool | None = None
    """Whether averaged weights are written; by default where there are any."""
    target_lang: str = ""
    """Language of a Hugging Face model with adapters (MMS)."""


def main(cfg: CheckpointExportConfig) -> None:
    """Writes the model as `cfg` says. Raises CheckpointError and ConfigError."""
    read = folder_of(cfg.checkpoint) or cfg.checkpoint
    if cfg.output.exists() and read.exists() and read.samefile(cfg.output):
        raise config.ConfigError(f"{cfg.output}: cannot be written to: it is read; name another output")
    labels = read_dictionary(cfg.labels) if cfg.labels is not None else ()
    imported = reading.read(cfg.checkpoint, labels=labels, ema=cfg.ema, target_lang=cfg.target_lang)
    own, theirs = imported.config.audio_epsilon, huggingface.AUDIO_EPSILON if cfg.to == "huggingface" else 1e-5
    if cfg.to == "huggingface":
        huggingface.export(cfg.output, imported.weights, imported.config)
    elif cfg.output.suffix != ".pt":
        raise config.ConfigError(f"{cfg.output}: expected the name of a .pt file for Fairseq's format")
    else:
        fairseq.export(cfg.output, imported.weights, imported.config)
    for line in imported.assumed:
        print(line, file=sys.stderr)
    if imported.config.normalize_audio and own != theirs:
        print(
            f"note: the audio's variance gets {own:g} here and {theirs:g} there: quiet recordings (rms below 0.01) "
            "give other scores there",
            file=sys.stderr,
        )
    print(f"{cfg.output}: {imported.kind} model, {len(imported.config.labels)} labels")


if __name__ == "__main__":
    config.run(main, CheckpointExportConfig, __doc__, CheckpointError, OSError)
