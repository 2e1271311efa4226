"""Writes a checkpoint as one ONNX file: `python -m trt.export CHECKPOINT --out model.onnx`.

    python -m trt.export jasper_best.pt --out m.onnx
    python -m trt.export jasper_best.pt --out m.onnx --input features
    python -m trt.export jasper_best.pt --out m.onnx --decode greedy --precision int8 --calibration recordings/
    python -m trt.export hifigan_final.pt --out v.onnx
    python -m trt.export fastpitch_best.pt --out tts.onnx
    python -m trt.export nvidia/parakeet-tdt_ctc-110m --out p.onnx

The file computes what the checkpoint does, for any number of utterances of any length, whatever follows the shorter
ones in their rows. Before it appears it is compared with the checkpoint on ragged batches, on silence and on the
shortest utterances. Labels, rates and configuration are in its metadata.
"""

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import numpy as np
import torch
from tyro.conf import Positional, arg

from common.export import ExportGraph, encoded, with_greedy
from common.files.atomic import check_writable, written_whole
from common.recognition.output.writing import tell
from common.recognition.sources.inputs import find_recordings
from common.recognition.sources.recordings import Recording, read_ahead
from fastconformer import export as fastconformer_export
from fastconformer.checkpoints.reading import read_model
from fastpitch import export as fastpitch_export
from fastpitch.speaking import synthesizer
from fastpitch.vocoders import export as vocoder_export
from fastpitch.vocoders.vocoder import load_generator
from jasper import export as recognizer_export
from jasper.checkpoints import reading as jasper
from trt.conversion import ExportError, converted, greatest_difference
from trt.export import families
from trt.facts import INTERFACE, facts_in, keeper_of
from trt.quantisation.reduced import Clip, Quantisation, Target, checked, noisy, to_float16, to_int8
from trt.runtime.prompted import KEYS_VALUES, prompted_texts
from wav2vec2 import export as wav2vec2_export
from wav2vec2.checkpoints import loading as wav2vec2

Part = Literal["whole", "encoder", "decoder", "prediction", "joint"]
WHOLE = ("whole",)
PARTS = {"fastpitch": get_args(fastpitch_export.Part), "fastconformer": get_args(fastconformer_export.Part)}


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Which checkpoint becomes which file."""

    checkpoint: Annotated[Path, Positional, arg(metavar="CHECKPOINT")]
    """Model: a checkpoint of this repository, of DeepLearningExamples or Fairseq, a .nemo archive, a folder of
    transformers, or a name of the hub."""
    out: Path
    """ONNX file to write."""
    input: recognizer_export.Source = "samples"
    """Input of a recogniser: audio samples, or log-mel features made elsewhere."""
    part: Part = "whole"
    """Part of the model: the whole, or one for runtimes that do the rest themselves. FastPitch has an encoder, up to
    the frames of every symbol, and a decoder, from there; transducers an encoder, a prediction network and a joint."""
    head: fastconformer_export.Head = "auto"
    """Head of hybrid FastConformers: transducer or ctc; by default the transducer."""
    decode: Literal["log_probs", "greedy"] = "log_probs"
    """Output of a recogniser: log-probabilities of labels, or the labels themselves, by the best path of CTC, with
    their frames and confidences."""
    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    """Arithmetic of the network; features stay fp32. int8, of recognisers, needs --calibration."""
    calibration: tuple[Path, ...] = ()
    """Recordings that int8 is fitted to and judged by: files, folders, manifests. A few dozen seconds are enough."""
    calibration_clips: int = 100
    """Number of recordings that are used, at most; the ranges of values come from the first 32."""
    calibration_noise_db: tuple[float, ...] = ()
    """Signal to noise ratios, in decibels, at which recordings are heard with white noise too, in turns with clean
    ones: for audio that is noisier than the recordings."""
    int8_target: Target = "processors"
    """Target of int8: processors and ONNX Runtime, or engines of TensorRT, whose activations have a sign."""
    ema: bool | None = None
    """Whether averaged weights are used; by default where there are any."""

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
    check_writable(cfg.out)
    graph = read_graph(cfg)
    heard, clips = read_clips(cfg, graph)
    program = converted(graph, stem=cfg.out.stem)
    if program.weights_file and cfg.precision != "fp32":
        raise ExportError(f"{cfg.checkpoint}: its weights are more than 2 GB, which are exported in fp32 alone")
    difference = greatest_difference(program, graph)
    content, reduced = program.content, ""
    if cfg.precision == "fp16":
        content = to_float16(program)
        reduced = f"; fp16 at most {checked(content, graph, cfg.precision):.1e} of the greatest value from it"
    elif cfg.precision == "int8":
        how = Quantisation(target=cfg.int8_target)
        texts = None if "blank" in graph.metadata else partial(prompted_texts, heard)
        found = to_int8(program, clips, graph.metadata, how, texts)
        content = found.content
        checked(content, graph, cfg.precision)
        left = f"; in float32 stay {', '.join(found.excluded)}" if found.excluded else ""
        words = f"{found.words - found.errors} of the {found.words} words of {len(clips)} clips are those of float32"
        reduced = f"; int8: {found.layers - len(found.excluded)} of {found.layers} layers, {words}{left}"
    if program.weights_file:
        with written_whole(cfg.out.with_name(program.weights_file)) as file:
            file.write(program.weights)
    with written_whole(cfg.out) as file:
        file.write(content)
    beside = f", of which the weights in {program.weights_file}" if program.weights_file else ""
    size = (len(content) + len(program.weights)) / 1e6
    comparisons = f"at most {difference:.1e} from the checkpoint in {len(graph.checks) + 1} comparisons"
    tell(f"{cfg.out}: {size:.1f} MB{beside}, {comparisons}{reduced}")


def read_clips(cfg: ExportConfig, graph: ExportGraph) -> tuple[list[Recording], list[Clip]]:
    """The recordings that int8 is calibrated with, and as inputs of a graph, all of one length. Raises ExportError."""
    if not cfg.calibration:
        return [], []
    is_prompted = KEYS_VALUES in graph.outputs and cfg.input == "samples"
    if graph.from_audio is None or not ("blank" in graph.metadata or is_prompted):
        expected = "recognisers with CTC and whole ones with an attention decoder"
        raise ExportError(f"{cfg.checkpoint}: precision int8 is for {expected}; take fp16 or fp32")
    rate = json.loads(graph.metadata["sample_rate"])
    items, problems = find_recordings(cfg.calibration)
    for problem in problems:
        tell(problem)
    sources, keep = [item.source for item in items[: cfg.calibration_clips]], keeper_of(facts_in(graph.metadata))
    recordings = read_ahead(sources, rate, keep=keep, on_error="stop")
    heard = [recording for recording in recordings if len(recording.samples_N)]
    if not heard:
        raise ExportError(f"{', '.join(map(str, cfg.calibration))}: no recording in which anything can be heard")
    # Ranges by percentiles are right for clips of one length alone: the shorter ones are said more than once.
    length = sorted(len(recording.samples_N) for recording in heard)[len(heard) // 2]
    levels = (math.inf, *cfg.calibration_noise_db)
    said = [np.resize(recording.samples_N[:], length) for recording in heard]
    said = [noisy(samples_N, levels[i % len(levels)], i) for i, samples_N in enumerate(said)]
    inputs = (graph.from_audio(torch.from_numpy(samples_N)) for samples_N in said)
    return heard, [{name: value.numpy() for name, value in clip.items()} for clip in inputs]


def read_graph(cfg: ExportConfig) -> ExportGraph:
    """What the checkpoint offers for export, decoded as `cfg` says. Raises CheckpointError and ExportError."""
    graph = _offered(cfg)
    graph = graph._replace(metadata={**graph.metadata, **encoded(interface=INTERFACE)})
    if cfg.decode == "log_probs":
        return graph
    if "blank" not in graph.metadata:
        raise ExportError(f"{cfg.checkpoint}: decode {cfg.decode} is for recognisers with CTC")
    return with_greedy(graph)


def _offered(cfg: ExportConfig) -> ExportGraph:
    if cfg.checkpoint.suffix == ".onnx":
        raise ExportError(f"{cfg.checkpoint}: is an ONNX file already; expected the checkpoint that it was made of")
    path, family = families.located(cfg.checkpoint)
    if cfg.input == "features" and family not in ("jasper", "fastconformer"):
        raise ExportError(
            f"{cfg.checkpoint}: input features is for Jasper, QuartzNet and FastConformers; it is a {family}"
        )
    if cfg.head != "auto" and family != "fastconformer":
        raise ExportError(f"{cfg.checkpoint}: head {cfg.head} is for hybrid FastConformers; it is a {family}")
    if cfg.part not in PARTS.get(family, WHOLE):
        known = ", ".join(PARTS.get(family, WHOLE))
        raise ExportError(f"{cfg.checkpoint}: part = {cfg.part}: expected {known} of a {family}")
    match family:
        case "vocoder":
            return vocoder_export.graph(load_generator(path, ema=cfg.ema))
        case "wav2vec2":
            return wav2vec2_export.graph(wav2vec2.load_model(path, ema=cfg.ema))
        case "fastpitch":
            voice = synthesizer.load(path, device="cpu", ema=cfg.ema)
            return fastpitch_export.graph(voice, cast("fastpitch_export.Part", cfg.part))
        case "fastconformer":
            model, imported = read_model(path, ema=cfg.ema)
            part = cast("fastconformer_export.Part", cfg.part)
            return fastconformer_export.graph(
                model, imported.features, imported.pieces, part=part, source=cfg.input, head=cfg.head
            )
        case "jasper":
            network, found = jasper.read_model(path, ema=cfg.ema)
            return recognizer_export.graph(network, found.config, cfg.input)
