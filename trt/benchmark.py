"""Latency of exported recognisers beside eager torch: `python -m trt.benchmark configs/jasper/quartznet15x5.toml`.

    python -m trt.benchmark configs/jasper/quartznet15x5.toml --sides fp32 int8 --seconds 2 16.7
    python -m trt.benchmark configs/jasper/digits.toml --checkpoint jasper_best.pt --threads 1

Exports Jasper or QuartzNet from features on, in each precision, and times ONNX Runtime and torch in turns on the same
features: `fused` is the network as `jasper.load` runs it, `eager` the same as plain convolutions of torch. Weights are
random without a checkpoint; int8 is then calibrated on noise, which changes what is said but not how long it takes.
A row per length, batch size and side goes to benchmarks/results/trt_inference.jsonl.

Shapes: B utterances, F mel bands, T feature frames.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
import torch

from common import benchmark, config
from common.benchmark import RESULTS
from common.checkpoint import CheckpointError
from common.logging import processor_flags
from common.precision import cast_for_inference
from jasper import export
from jasper.config import Config
from jasper.fused import fuse
from jasper.model import Jasper
from jasper.recognizer import load_model
from trt import engine_runtime
from trt.conversion import ExportError, Program, converted
from trt.depthwise.library import register
from trt.reduction import Quantisation, to_float16, to_int8
from trt.runtime import ModelError

Side = Literal["fp32", "fp16", "int8"]
CALIBRATION_FRAMES = 200
SHOWN = ("config", "seconds_of_audio", "batch", "side", "megabytes", "p50", "p99")


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(Config):
    """What to measure, and the model."""

    sides: tuple[Side, ...] = ("fp32", "int8")
    """Precisions of the exported file."""
    seconds: tuple[float, ...] = (2.0, 16.7)
    """Lengths of the audio."""
    batch_sizes: tuple[int, ...] = (1,)
    """Utterances per call."""
    threads: int = 1
    """Threads of torch and of ONNX Runtime."""
    repeats: int = 20
    """Calls that are timed."""
    warmup: int = 3
    """Calls before them that are not."""
    processor_time: bool = False
    """Whether the time of the processor is taken, for a machine that others use too, or that of the clock."""
    engines: tuple[Path, ...] = ()
    """Engines of TensorRT that were built of the same model from features on, on a GPU; the other sides stay on the
    processor."""
    name: str = ""
    """What the rows call the model; by default the name of the TOML file or of the checkpoint."""
    results: Path = RESULTS
    """Folder of the file that rows are appended to."""


def main(cfg: BenchmarkConfig) -> list[dict[str, Any]]:
    """Measures, appends the rows and prints them; returns them. Raises CheckpointError, ExportError and ModelError."""
    torch.set_num_threads(cfg.threads)
    rows = []
    with torch.inference_mode(False), torch.no_grad():
        for row in measured(cfg):
            rows.append(benchmark.append_row("trt_inference", row, device=torch.device("cpu"), folder=cfg.results))
            about = " ".join(f"{key} {row[key]}" for key in SHOWN)
            print(f"{about} ms, {row['times_faster_than_eager']} x eager, {row['times_faster_than_fused']} x fused")
    return rows


def measured(cfg: BenchmarkConfig) -> Iterator[dict[str, Any]]:
    """A row per length, batch size and side."""
    built = {path.stem: engine_runtime.load(path) for path in cfg.engines}
    model, cfg = _model(cfg)
    per_second = cfg.features.sample_rate / cfg.features.hop_samples
    program = converted(export.graph(model, cfg, "features"))
    files = {side: _file(program, side, model, cfg) for side in cfg.sides}
    weights = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    sizes = {"eager": weights, "fused": weights} | {side: len(content) for side, content in files.items()}
    sizes |= {path.stem: path.stat().st_size for path in cfg.engines}
    sessions = {side: _session(content, cfg.threads) for side, content in files.items()}
    clock = time.process_time if cfg.processor_time else time.perf_counter
    about = {"config": cfg.name, "threads": cfg.threads, "processor_flags": processor_flags()}
    about |= {"clock": "processor" if cfg.processor_time else "wall", "onnxruntime": onnxruntime.__version__}
    for seconds in cfg.seconds:
        n_frames = round(seconds * per_second)
        fused = cast_for_inference(fuse(model, frames=n_frames), "fp32")
        for batch in cfg.batch_sizes:
            noise = torch.Generator().manual_seed(0)
            features_BFT = torch.randn(batch, cfg.features.mel_bins, n_frames, generator=noise)
            frames_B = torch.full((batch,), n_frames)
            inputs = {"features_BFT": features_BFT.numpy(), "frames_B": frames_B.numpy()}
            calls: dict[str, Callable[[], object]] = {
                "eager": partial(model, features_BFT, frames_B),
                "fused": partial(fused, features_BFT, frames_B),
            }
            calls |= {side: partial(session.run, None, inputs) for side, session in sessions.items()}
            calls |= {name: partial(engine.run, **inputs) for name, engine in built.items()}
            timings = benchmark.compare(
                calls, device=torch.device("cpu"), warmup=cfg.warmup, repeats=cfg.repeats, clock=clock
            )
            for side, times in timings.items():
                row = about | {"seconds_of_audio": seconds, "batch": batch, "side": side, **times.summary()}
                row["megabytes"] = round(sizes[side] / 1e6, 1)
                for other in ("eager", "fused"):
                    row[f"times_faster_than_{other}"] = round(benchmark.ratio(timings[other], times), 2)
                yield row


def _file(program: Program, side: Side, model: Jasper, cfg: BenchmarkConfig) -> bytes:
    if side == "fp32":
        return program.content
    if side == "fp16":
        return to_float16(program)
    random = np.random.default_rng(0)
    shape = 1, cfg.features.mel_bins, CALIBRATION_FRAMES
    clips = [
        {"features_BFT": random.standard_normal(shape).astype(np.float32), "frames_B": np.array([CALIBRATION_FRAMES])}
        for _ in range(4)
    ]
    graph = export.graph(model, cfg, "features")
    return to_int8(program, clips, graph.metadata, Quantisation(most_errors=float("inf"))).content


def _session(content: bytes, threads: int) -> onnxruntime.InferenceSession:
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:  # the bytes are not held beside what is made of them
        file.write(content)
        file.flush()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        register(options, content, threads=threads)
        return onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])


def _model(cfg: BenchmarkConfig) -> tuple[Jasper, BenchmarkConfig]:
    """The model of the checkpoint, or of the configuration with random weights, and the configuration it has."""
    if cfg.checkpoint is not None:
        model, own = load_model(cfg.checkpoint)
        return model, replace(cfg, model=own.model, features=own.features, name=cfg.name or cfg.checkpoint.stem)
    torch.manual_seed(cfg.seed)
    return Jasper(cfg.model, cfg.features.mel_bins).eval().requires_grad_(False), cfg


def _command_line(arguments: list[str]) -> BenchmarkConfig:
    cfg = config.command_line(BenchmarkConfig, arguments, description=__doc__ or "")
    files = [Path(argument).stem for argument in arguments if argument.endswith(".toml")]
    return replace(cfg, name=cfg.name or (files[-1] if files else ""))


if __name__ == "__main__":
    with config.reported(CheckpointError, ExportError, ModelError):
        main(_command_line(sys.argv[1:]))
