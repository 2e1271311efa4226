"""Writes a checkpoint as one ONNX file: `python -m trt.export CHECKPOINT --out model.onnx`.

    python -m trt.export jasper_best.pt --out m.onnx
    python -m trt.export jasper_best.pt --out m.onnx --input features
    python -m trt.export jasper_best.pt --out m.onnx --decode greedy --precision int8 --calibration recordings/
    python -m trt.export hifigan_final.pt --out v.onnx
    python -m trt.export fastpitch_best.pt --out tts.onnx

The file computes what the checkpoint does, for any number of utterances of any length, whatever follows the shorter
ones in their rows. Before it appears it is compared with the checkpoint on ragged batches, on silence and on the
shortest utterances. Labels, rates and configuration are in its metadata.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from tyro.conf import Positional, arg

from common import checkpoint, config
from common.audio import AudioError
from common.checkpoint import CheckpointError
from common.export import ExportGraph, with_greedy
from common.files import written_whole
from common.recognition.inputs import find_recordings
from common.recognition.recordings import read_ahead, read_heard
from common.recognition.writing import tell
from fastpitch import export as fastpitch_export
from fastpitch.acoustic.checkpoint_import import FORMAT as FASTPITCH
from fastpitch.speaking import synthesizer
from fastpitch.vocoders import export as vocoder_export
from fastpitch.vocoders import hifigan_import as vocoders
from fastpitch.vocoders import waveglow_import as flows
from fastpitch.vocoders.vocoder import load_generator
from jasper import checkpoint_import as recognizers
from jasper import export as recognizer_export
from jasper import recognizer
from trt.conversion import ExportError, converted, greatest_difference
from trt.reduction import Clip, checked, to_float16, to_int8
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
    decode: Literal["log_probs", "greedy"] = "log_probs"
    """What a recogniser gives: log-probabilities of labels, or the labels themselves, by the best path of CTC, with
    their frames and confidences."""
    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    """Arithmetic of the network; features stay fp32. int8, of recognisers, needs --calibration."""
    calibration: tuple[Path, ...] = ()
    """Recordings that int8 is fitted to and judged by: files, folders, manifests. A few dozen seconds are enough."""
    calibration_clips: int = 100
    """Recordings that are taken at most; the ranges of values come from the first 32."""
    ema: bool | None = None
    """Take the averaged weights or not; by default where there are any."""

    def __post_init__(self) -> None:
        if self.out.suffix != ".onnx":
            raise ValueError(f"out {self.out}: expected a name that ends in .onnx")
        if (self.precision == "int8") != bool(self.calibration):
            expected = "recordings with --calibration" if self.precision == "int8" else "it with --precision int8 only"
            raise ValueError(
                f"precision {self.precision}, {len(self.calibration)} calibration inputs: expected {expected}"
            )


def main(cfg: ExportConfig) -> None:
    """Writes the file. Raises CheckpointError, AudioError, OSError; ExportError where it computed something else."""
    graph = read_graph(cfg)
    clips = read_clips(cfg, graph)
    program = converted(graph)
    difference = greatest_difference(program, graph)
    content, reduced = program.content, ""
    if cfg.precision == "fp16":
        content = to_float16(program)
        reduced = f"; fp16 at most {checked(content, graph, cfg.precision):.1e} of the greatest value from it"
    elif cfg.precision == "int8":
        found = to_int8(program, clips, graph.metadata)
        content = found.content
        checked(content, graph, cfg.precision)
        left = f"; in float32 stay {', '.join(found.excluded)}" if found.excluded else ""
        words = f"{found.words - found.errors} of the {found.words} words of {len(clips)} clips are those of float32"
        reduced = f"; int8: {found.layers - len(found.excluded)} of {found.layers} layers, {words}{left}"
    with written_whole(cfg.out) as file:
        file.write(content)
    size = len(content) / 1e6
    comparisons = f"at most {difference:.1e} from the checkpoint in {len(graph.checks) + 1} comparisons"
    tell(f"{cfg.out}: {size:.1f} MB, {comparisons}{reduced}")


def read_clips(cfg: ExportConfig, graph: ExportGraph) -> list[Clip]:
    """The recordings that int8 is calibrated with, all of one length, as inputs of the graph. Raises ExportError."""
    if not cfg.calibration:
        return []
    if graph.from_audio is None:
        raise ExportError(f"{cfg.checkpoint}: precision int8 is for recognisers; take fp16 or fp32")
    rate = json.loads(graph.metadata["sample_rate"])
    items, problems = find_recordings(cfg.calibration)
    for problem in problems:
        tell(problem)
    sources = [item.source for item in items[: cfg.calibration_clips]]
    recordings = read_ahead(sources, lambda source: read_heard(source, rate, trim=False), on_error="stop")
    heard = [recording.samples_N[:] for recording in recordings if len(recording.samples_N)]
    if not heard:
        raise ExportError(f"{', '.join(map(str, cfg.calibration))}: no recording in which anything can be heard")
    # Ranges by percentiles are right for clips of one length alone: the shorter ones are said more than once.
    length = sorted(map(len, heard))[len(heard) // 2]
    inputs = (graph.from_audio(torch.from_numpy(np.resize(samples_N, length))) for samples_N in heard)
    return [{name: value.numpy() for name, value in clip.items()} for clip in inputs]


def read_graph(cfg: ExportConfig) -> ExportGraph:
    """What the checkpoint offers for export, decoded as `cfg` says. Raises CheckpointError and ExportError."""
    graph = _offered(cfg)
    if cfg.decode == "log_probs":
        return graph
    if "blank" not in graph.metadata:
        raise ExportError(f"{cfg.checkpoint}: decode {cfg.decode} is for recognisers with CTC")
    return with_greedy(graph)


def _offered(cfg: ExportConfig) -> ExportGraph:
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
    with config.reported(CheckpointError, ExportError, AudioError, OSError):
        main(config.parse_flags(ExportConfig, None, sys.argv[1:], description=__doc__ or ""))
