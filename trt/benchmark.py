"""Latency of exported recognisers beside eager torch: `python -m trt.benchmark configs/jasper/quartznet15x5.toml`.

    python -m trt.benchmark configs/jasper/quartznet15x5.toml --sides fp32 int8 --seconds 2 16.7
    python -m trt.benchmark configs/jasper/digits.toml --checkpoint jasper_best.pt --threads 1

Exports Jasper or QuartzNet from features on, in each precision, and times ONNX Runtime and torch in turns on the same
features: `fused` is the network as `jasper.load` runs it, `eager` the same as plain convolutions of torch. OpenVINO
takes part with --sides openvino openvino_bf16, and wav2vec 2.0, from samples on, with --wav2vec2. Weights are
random without a checkpoint; int8 is then calibrated on noise, which changes what is said but not how long it takes.
A row per length, batch size and side goes to benchmarks/results/trt_inference.jsonl; with OpenVINO, to
trt_openvino.jsonl.

Shapes: B utterances, F mel bands, T feature frames.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import onnxruntime
import torch
from torch import Tensor, nn

from common import benchmark, config
from common.benchmark import USUAL, TimingSettings
from common.devices.precision import cast_for_inference
from common.export import ExportGraph, samples_example
from common.runs.checkpoint import CheckpointError
from jasper import export
from jasper.checkpoints.reading import read_model
from jasper.config import Config
from jasper.network.fused import fuse
from jasper.network.model import Jasper
from trt.conversion import ExportError, Program, converted
from trt.facts import ModelError
from trt.quantisation.reduced import Quantisation, to_float16, to_int8
from trt.runtime import engine as engine_runtime
from trt.runtime import loading
from trt.runtime.recognizer import OnnxModel
from wav2vec2 import export as wav2vec2_export
from wav2vec2 import recognizer as wav2vec2
from wav2vec2.run_config import SAMPLE_RATE

Side = Literal["fp32", "fp16", "int8", "openvino", "openvino_bf16"]
CALIBRATION_SECONDS = 8.0
SHOWN = ("config", "seconds_of_audio", "batch", "side", "megabytes", "p50", "p99")


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(TimingSettings, Config):
    """What to measure, and the model."""

    USUAL: ClassVar = USUAL
    sides: tuple[Side, ...] = ("fp32", "int8")
    """Precisions of the exported file in ONNX Runtime; openvino, openvino_bf16: the fp32 one in OpenVINO, with the
    extra of that name."""
    seconds: tuple[float, ...] = (2.0, 16.7)
    """Lengths of the audio."""
    batch_sizes: tuple[int, ...] = (1,)
    """Utterances per call."""
    threads: int = 1
    """Threads of torch and of the runtimes."""
    engines: tuple[Path, ...] = ()
    """Engines of TensorRT that were built of the same model from features on, on a GPU; the other sides stay on the
    processor."""
    name: str = ""
    """What the rows call the model; by default the name of the TOML file or of the checkpoint."""
    wav2vec2: Path | None = None
    """Checkpoint of a fine-tuned wav2vec 2.0 to measure in place of Jasper, from samples on: `eager` are plain
    convolutions of torch, `fused` the network as wav2vec2.load runs it."""


def main(cfg: BenchmarkConfig) -> list[dict[str, Any]]:
    """Measures, appends the rows and prints them; returns them. Raises CheckpointError, ExportError and ModelError."""
    torch.set_num_threads(cfg.threads)
    rows = []
    name = "trt_openvino" if {"openvino", "openvino_bf16"} & set(cfg.sides) else "trt_inference"
    with torch.inference_mode(False), torch.no_grad():
        for row in measured(cfg):
            rows.append(benchmark.append_row(name, row, device=torch.device("cpu"), folder=cfg.results))
            about = " ".join(f"{key} {row[key]}" for key in SHOWN)
            print(f"{about} ms, {row['times_faster_than_eager']} x eager, {row['times_faster_than_fused']} x fused")
    return rows


class Subject(NamedTuple):
    """A recogniser that is measured."""

    name: str
    graph: ExportGraph
    network: nn.Module
    fused: Callable[[float], Callable[..., object]]
    """The network as it runs at home, for so many seconds."""
    inputs: Callable[[int, float], dict[str, Tensor]]
    """Noise for a batch of so many utterances, of so many seconds each."""


def measured(cfg: BenchmarkConfig) -> Iterator[dict[str, Any]]:
    """A row per length, batch size and side."""
    built = {path.stem: engine_runtime.load(path) for path in cfg.engines}
    subject = _jasper(cfg) if cfg.wav2vec2 is None else _wav2vec2(cfg.wav2vec2, cfg.name)
    program = converted(subject.graph)
    if program.weights_file:
        raise ExportError("weights of more than 2 GB are not measured here")
    files = {side: _file(program, side, subject) for side in cfg.sides}
    weights = sum(value.numel() * value.element_size() for value in subject.network.state_dict().values())
    sizes = {"eager": weights, "fused": weights} | {side: len(content) for side, content in files.items()}
    sizes |= {path.stem: path.stat().st_size for path in cfg.engines}
    runs = {side: _run(content, side, cfg.threads) for side, content in files.items()}
    about = {"config": subject.name, "threads": cfg.threads}
    about |= {"clock": cfg.clock, "onnxruntime": onnxruntime.__version__}
    if {"openvino", "openvino_bf16"} & set(cfg.sides):
        about["openvino"] = metadata.version("openvino")
    for seconds in cfg.seconds:
        fused = subject.fused(seconds)
        for batch in cfg.batch_sizes:
            tensors = subject.inputs(batch, seconds)
            arrays = {name: value.numpy() for name, value in tensors.items()}
            calls: dict[str, Callable[[], object]] = {
                "eager": partial(subject.network, *tensors.values()),
                "fused": partial(fused, *tensors.values()),
            }
            calls |= {side: partial(run, **arrays) for side, run in runs.items()}
            calls |= {name: partial(engine.run, **arrays) for name, engine in built.items()}
            timings = cfg.compared(calls, torch.device("cpu"))
            for side, times in timings.items():
                row = about | {"seconds_of_audio": seconds, "batch": batch, "side": side, **times.summary()}
                row["megabytes"] = round(sizes[side] / 1e6, 1)
                for other in ("eager", "fused", *(["fp32"] if "fp32" in timings else [])):
                    row[f"times_faster_than_{other}"] = round(benchmark.ratio(timings[other], times), 2)
                yield row


def _file(program: Program, side: Side, subject: Subject) -> bytes:
    if side == "fp16":
        return to_float16(program)
    if side != "int8":
        return program.content
    clips = [{name: value.numpy() for name, value in subject.inputs(1, CALIBRATION_SECONDS).items()}]
    return to_int8(program, clips, subject.graph.metadata, Quantisation(most_errors=float("inf"))).content


def _run(content: bytes, side: Side, threads: int) -> Callable[..., object]:
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:  # the bytes are not held beside what is made of them
        file.write(content)
        file.flush()
        if side == "openvino" or side == "openvino_bf16":
            return loading.network(Path(file.name), threads=threads, runtime=side).run
        return OnnxModel(Path(file.name), threads=threads).run


def _jasper(cfg: BenchmarkConfig) -> Subject:
    model, cfg = _model(cfg)
    per_second = cfg.features.sample_rate / cfg.features.hop_samples

    def fused(seconds: float) -> nn.Module:
        return cast_for_inference(fuse(model, frames=round(seconds * per_second)), "fp32")

    def inputs(batch: int, seconds: float) -> dict[str, Tensor]:
        n_frames, noise = round(seconds * per_second), torch.Generator().manual_seed(0)
        features_BFT = torch.randn(batch, cfg.features.mel_bins, n_frames, generator=noise)
        return {"features_BFT": features_BFT, "frames_B": torch.full((batch,), n_frames)}

    return Subject(cfg.name, export.graph(model, cfg, "features"), model, fused, inputs)


def _wav2vec2(path: Path, name: str) -> Subject:
    """The network of a checkpoint: plain, and as it runs at home."""
    recognizer = wav2vec2.load(path, device="cpu")
    graph = wav2vec2_export.graph(recognizer.model)

    def inputs(batch: int, seconds: float) -> dict[str, Tensor]:
        return samples_example([round(seconds * SAMPLE_RATE)] * batch)

    return Subject(name or path.stem, graph, graph.module, lambda seconds: recognizer.model, inputs)


def _model(cfg: BenchmarkConfig) -> tuple[Jasper, BenchmarkConfig]:
    """The model of the checkpoint, or of the configuration with random weights, and the configuration it has."""
    if cfg.checkpoint is not None:
        model, imported = read_model(cfg.checkpoint)
        own = imported.config
        return model, replace(cfg, model=own.model, features=own.features, name=cfg.name or cfg.checkpoint.stem)
    torch.manual_seed(cfg.seed)
    return Jasper(cfg.model, cfg.features.mel_bins).eval().requires_grad_(False), cfg


if __name__ == "__main__":
    with config.reported(CheckpointError, ExportError, ModelError):
        main(benchmark.command_line(BenchmarkConfig, __doc__))
