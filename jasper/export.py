"""Jasper and QuartzNet for export: from log-mel features, or from samples, to log-probabilities of labels.

Shapes: B utterances, N samples, F mel bands, T feature frames, S output frames, V labels and the blank.
"""

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

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
from common.features import LogMel
from jasper.config import Config
from jasper.network.model import ConvNorm, Jasper, JasperBlock, frame_mask
from jasper.recognizer import BLANK, CHUNK_SECONDS, blurred_frames

Source = Literal["samples", "features"]


class PlainJasper(nn.Module):
    """`Jasper` in evaluation, with the weights of `model`, masked only where a convolution looks at other frames.

    What a 1x1 convolution gives for a frame of an utterance does not depend on the padding, so that of a separable
    convolution's two masks one is enough; where nothing learns, no statistics count the padding.
    """

    def __init__(self, model: Jasper):
        super().__init__()
        self.model = model

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, Tensor]:
        """log_probs_BSV and the number of output frames of features_BFT with frames_B valid frames each."""
        x_BCT, dense_inputs = features_BFT, list[Tensor]()
        mask_B1T = frame_mask(frames_B, x_BCT.shape[2], x_BCT.dtype)
        for block in self.model.blocks:
            assert isinstance(block, JasperBlock)
            inputs = [*dense_inputs, x_BCT] if block.residual == "dense" else [x_BCT]
            dense_inputs = inputs if block.residual == "dense" else dense_inputs
            for i, layer in enumerate(block.layers):
                assert isinstance(layer, ConvNorm)
                if (layer.depthwise or layer.conv).kernel_size[0] > 1:
                    x_BCT = x_BCT * mask_B1T
                if i == 0 and block.stride > 1:
                    frames_B = block.output_frames(frames_B)
                    mask_B1T = frame_mask(frames_B, block.output_frames(x_BCT.shape[2]), x_BCT.dtype)
                x_BCT = _convolved(layer, x_BCT)
                if i == len(block.layers) - 1:
                    for residual, input_BCT in zip(block.residuals, inputs, strict=False):
                        x_BCT = x_BCT + _convolved(residual, input_BCT)  # type: ignore[arg-type]
                x_BCT = block.activation(x_BCT)
        logits_BVS = self.model.decoder(x_BCT * mask_B1T)
        return logits_BVS.mT.log_softmax(2), frames_B


def _convolved(layer: ConvNorm, x_BCT: Tensor) -> Tensor:
    return layer.norm(layer.conv(x_BCT if layer.depthwise is None else layer.depthwise(x_BCT)))


class _FromSamples(nn.Module):
    def __init__(self, model: Jasper, log_mel: LogMel):
        super().__init__()
        self.network, self.log_mel = PlainJasper(model), PlainLogMel(log_mel)

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor]:
        features_BFT, frames_B = self.log_mel(audio_BN, samples_B)
        return self.network(features_BFT, frames_B)


def graph(model: Jasper, cfg: Config, source: Source = "samples") -> ExportGraph:
    """`model`, on the CPU in evaluation mode, with or without the features of `cfg` in front of it."""
    log_mel = LogMel(cfg.features).eval()
    per_frame = cfg.features.hop_samples * model.stride

    def from_samples(audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor]:
        output = model(*log_mel(audio_BN, samples_B))
        n_frames = int(model.output_frames(torch.tensor(cfg.features.frames(audio_BN.shape[1]))))
        return output.log_probs_BSV[:, :n_frames], output.frames_B

    metadata = encoded(
        family="jasper",
        task="recognition",
        input=source,
        sample_rate=cfg.features.sample_rate,
        labels=[*cfg.model.labels, BLANK],
        blank=len(cfg.model.labels),
        separator=" ",
        samples_per_frame=per_frame,
        seconds_per_frame=per_frame / cfg.features.sample_rate,
        context_frames=model.context_frames + blurred_frames(cfg.features, per_frame),
        chunk_seconds=CHUNK_SECONDS,
        chunk_multiple=1,
        shortest_samples=1,
        trim_silence=cfg.data.trim_silence,
        longest_pause=cfg.features.longest_pause,
        pause_db=cfg.features.pause_db,
        configuration=config.to_dict(cfg),
    )
    if source == "features":
        ragged, *others = (
            features_example(cfg.features.mel_bins, frames) for frames in ((83, 52, 7), (150, 101), (1,))
        )
        return ExportGraph(
            module=PlainJasper(model),
            reference=model,
            inputs=ragged,
            axes={"features_BFT": {0: "B", 2: "T"}, "frames_B": {0: "B"}},
            outputs=("log_probs_BSV", "output_frames_B"),  # ONNX knows no two tensors of one name
            checks=(*others, ragged | {"features_BFT": torch.zeros_like(ragged["features_BFT"])}),
            tolerance=5e-5,
            metadata=metadata,
            from_audio=partial(features_of_clip, log_mel),
        )
    ragged, *others = (samples_example(samples) for samples in ((13_333, 8_011, 1_234), (24_000, 16_100), (7,), (1,)))
    return ExportGraph(
        module=_FromSamples(model, log_mel),
        reference=from_samples,
        inputs=ragged,
        axes={"audio_BN": {0: "B", 1: "N"}, "samples_B": {0: "B"}},
        outputs=("log_probs_BSV", "frames_B"),
        checks=(*others, ragged | {"audio_BN": torch.zeros_like(ragged["audio_BN"])}),
        tolerance=1e-4,
        metadata=metadata,
        full_precision=("log_mel",),
        from_audio=of_clip,
    )
