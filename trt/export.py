"""Writes a checkpoint as one ONNX file: `python -m trt.export CHECKPOINT --out model.onnx`.

    python -m trt.export jasper_best.pt --out m.onnx
    python -m trt.export jasper_best.pt --out m.onnx --input features
    python -m trt.export hifigan_final.pt --out v.onnx
    python -m trt.export fastpitch_best.pt --out tts.onnx

The file computes what the checkpoint does, for any number of utterances of any length, whatever follows the shorter
ones in their rows. Before it appears it is compared with the checkpoint on ragged batches, on silence and on the
shortest utterances. Labels, rates and configuration are in its metadata.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import checkpoint, config
from common.checkpoint import CheckpointError
from common.export import ExportGraph
from common.files import written_whole
from common.recognition.writing import tell
from fastpitch import export as fastpitch_export
from fastpitch.acoustic.checkpoint_import import FORMAT as FASTPITCH
from fastpitch.speaking import synthesizer
from fastpitch.vocoders import export as vocoder_export
from fastpitch.vocoders import hifigan_import as vocoders
from fastpitch.vocoders import waveglow_import as flows
from fastpitch.vocoders.vocoder import VocoderError, load_generator
from jasper import checkpoint_import as recognizers
from jasper import export as recognizer_export
from jasper import recognizer
from trt.conversion import ExportError, converted, greatest_difference
from wav2vec2 import export as wav2vec2_export
from wav2vec2.checkpoints import loading as wav2vec2
from wav2vec2.checkpoints.checkpoint_import import FORMAT as WAV2VEC2


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Which checkpoint becomes which file."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """The model: a checkpoint of this repository or of DeepLearningExamples, or a folder of Hugging Face's."""
    out: Path
    """The ONNX file to write."""
    input: recognizer_export.Source = "samples"
    """What a recogniser takes: audio samples, or log-mel features made elsewhere."""
    part: fastpitch_export.Part = "whole"
    """Of FastPitch: all of it, or for runtimes that want its sizes beforehand the encoder, up to the frames of every
    symbol, or the decoder, from there."""
    ema: bool | None = None
    """Take the averaged weights or not; by default where there are any."""

    def __post_init__(self) -> None:
        if self.out.suffix != ".onnx":
            raise ValueError(f"out {self.out}: expected a name that ends in .onnx")


def main(cfg: ExportConfig) -> None:
    """Writes the file. Raises CheckpointError, VocoderError, OSError; ExportError where it computed something else."""
    graph = read_graph(cfg)
    program = converted(graph)
    difference = greatest_difference(program, graph)
    with written_whole(cfg.out) as file:
        file.write(program.content)
    size = len(program.content) / 1e6
    tell(
        f"{cfg.out}: {size:.1f} MB, at most {difference:.1e} from the checkpoint in {len(graph.checks) + 1} comparisons"
    )


def read_graph(cfg: ExportConfig) -> ExportGraph:
    """What the checkpoint offers for export. Raises CheckpointError and VocoderError."""
    if cfg.checkpoint.is_dir():  # of Hugging Face's transformers
        return wav2vec2_export.graph(wav2vec2.load_model(cfg.checkpoint, ema=cfg.ema))
    state = checkpoint.load(cfg.checkpoint)
    kind = state.get("format", recognizers.FORMAT)
    is_published_voice = "n_mel_channels" in state.get("config", {})
    is_vocoder = vocoders.is_checkpoint(state) or flows.is_checkpoint(state)
    del state
    if is_vocoder:
        return vocoder_export.graph(load_generator(cfg.checkpoint, ema=cfg.ema))
    if kind == WAV2VEC2:
        return wav2vec2_export.graph(wav2vec2.load_model(cfg.checkpoint, ema=cfg.ema))
    if kind == FASTPITCH or is_published_voice:
        return fastpitch_export.graph(synthesizer.load(cfg.checkpoint, device="cpu", ema=cfg.ema), cfg.part)
    if kind == recognizers.FORMAT:
        return recognizer_export.graph(*recognizer.load_model(cfg.checkpoint, ema=cfg.ema), cfg.input)
    raise CheckpointError(
        f"{cfg.checkpoint}: is of {kind}, which has no export yet; expected Jasper, QuartzNet, wav2vec 2.0, "
        "FastPitch or a vocoder"
    )


if __name__ == "__main__":
    with config.reported(CheckpointError, ExportError, VocoderError, OSError):
        main(config.parse_flags(ExportConfig, None, sys.argv[1:], description=__doc__ or ""))
