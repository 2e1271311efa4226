"""Writes a model repository for a full Triton server: `python -m trt.model_repository OUT --asr m.onnx`.

    python -m trt.model_repository models --asr m.onnx
    python -m trt.model_repository models --asr m.onnx --engine m.engine --backend tensorrt --version 2
    tritonserver --model-repository=models

The recogniser is an ensemble of three models: `sound`, samples to what the network takes; `network`; `decoder`, to
transcripts in JSON. Sound and decoder run in Triton's Python back end, which needs this package and what trt.run needs
(onnxruntime, numpy, soundfile, soxr, tyro) at the paths of --python_paths; of files with --input features torch too.
ONNX files of recognisers with CTC whose labels are letters, with --input samples or features.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from common import config
from common.files.atomic import write_text
from common.recognition.output.writing import tell
from trt.facts import ModelError
from trt.runtime.recognizer import NEEDED, OnnxModel
from trt.serving.triton.pbtxt import Block, Enum, python_model, tensor, text_of

REPOSITORY = Path(__file__).parents[1]
TYPES = {"tensor(float)": "FP32", "tensor(float16)": "FP16", "tensor(int64)": "INT64"}
Backend = Literal["onnx", "tensorrt", "python"]
TOLD = ("labels", "blank", "separator", "sample_rate", "seconds_per_frame", "trim_silence", "longest_pause", "pause_db")
FILES = {"onnx": "model.onnx", "tensorrt": "model.plan", "python": "model.onnx"}


@dataclass(frozen=True, kw_only=True)
class ModelRepositoryConfig:
    """Which exported recogniser is to be served, and how."""

    out: Annotated[Path, Positional, arg(metavar="OUT")]
    """Folder of the repository; a version that is there is an error, other versions stay."""
    asr: Path
    """The recogniser, an ONNX file of trt.export, with --input samples or features."""
    backend: Backend = "onnx"
    """Back end of Triton that runs the network: that for ONNX, that for TensorRT, or ONNX Runtime within the Python
    one."""
    engine: Path | None = None
    """The engine that trt.build made of the file, for the back end tensorrt."""
    version: int = 1
    """Number of the version; Triton serves the greatest."""
    max_batch: int = 32
    """Most recordings in a batch."""
    batch_delay_ms: float = 20.0
    """Longest wait of a request for others that share its batch, in milliseconds."""
    bucket_seconds: float = 1.0
    """Seconds that lengths are rounded up to a multiple of: Triton batches only tensors of equal shape."""
    kind: Literal["cpu", "gpu"] = "gpu"
    """Device of the network; with the back end python, the CPU."""
    python_paths: tuple[str, ...] = (str(REPOSITORY),)
    """Folders, where Triton runs, that hold this package, and what it needs if Triton's Python has none."""

    def __post_init__(self) -> None:
        if self.backend == "tensorrt" and self.engine is None:
            raise ValueError("backend tensorrt needs --engine, an engine of the same model that trt.build made")
        if self.backend != "tensorrt" and self.engine is not None:
            raise ValueError(f"backend {self.backend}, engine {self.engine}: an engine belongs to --backend tensorrt")
        if self.version < 1 or self.max_batch < 1 or self.batch_delay_ms < 0 or self.bucket_seconds <= 0:
            found = f"version = {self.version}, max_batch = {self.max_batch}, batch_delay_ms = {self.batch_delay_ms:g}"
            raise ValueError(
                f"{found}, bucket_seconds = {self.bucket_seconds:g}: expected a delay of 0 or more, else above 0"
            )


def main(cfg: ModelRepositoryConfig) -> None:
    """Writes the repository. Raises ModelError and OSError."""
    network = OnnxModel(cfg.asr)
    facts = network.facts
    if NEEDED - facts.keys() or facts.get("decode") == "greedy":
        raise ModelError(f"{cfg.asr}: {_what_it_is(network)}; expected one whose decoder is the best path of letters")
    if cfg.engine is not None and not cfg.engine.is_file():
        raise ModelError(f"{cfg.engine}: no such file; expected the engine that trt.build made of {cfg.asr}")
    inputs, outputs = (
        [_tensor(one) for one in side] for side in (network.session.get_inputs(), network.session.get_outputs())
    )
    features = facts["configuration"]["features"] if facts.get("input") == "features" else None
    hop = features["hop_samples"] if features else 1
    bucket = max(1, round(cfg.bucket_seconds * facts["sample_rate"] / hop))
    known = {key: facts[key] for key in TOLD if key in facts}
    own = {"paths": list(cfg.python_paths), "bucket": bucket, "features": features, "threads": 0, "facts": known}
    own["inputs"] = [one["name"] for one in outputs]
    audio, transcript = tensor("audio", "FP32", -1), tensor("transcript", "UINT8", -1)
    told = [tensor("heard_B", "INT64", 1), tensor("cuts_BK2", "FP64", -1, 2)]
    step_inputs, step_outputs = ([_plain(one) for one in side] for side in (inputs, outputs))
    steps = [
        python_model("sound", [audio], [*step_inputs, *told], most=cfg.max_batch),
        _network(cfg, inputs, outputs),
        python_model("decoder", [*step_outputs, *told], [transcript], most=cfg.max_batch),
    ]
    models = [*steps, _ensemble(cfg, steps, audio, transcript)]
    texts = {model["name"]: text_of(model) for model in models}
    versions = {name: cfg.out / name / str(cfg.version) for name in texts}
    if there := [version for version in versions.values() if version.exists()]:
        raise ModelError(f"{there[0]}: is there already; take another --version or folder")
    for name, text in texts.items():
        version = versions[name]
        version.mkdir(parents=True)
        write_text(cfg.out / name / "config.pbtxt", text)
        if name in ("sound", "decoder") or (name == "network" and cfg.backend == "python"):
            shutil.copy2(Path(__file__).parent / "serving" / "triton" / "model.py", version / "model.py")
            write_text(version / "paths.json", json.dumps({"step": name, **own}, ensure_ascii=False))
        if name == "network":
            shutil.copy2(cfg.engine or cfg.asr, version / FILES[cfg.backend])
            if cfg.engine is None and (beside := network.facts.get("weights_file")):
                shutil.copy2(cfg.asr.with_name(beside), version / beside)
    tell(f"{cfg.out}: {', '.join(texts)} in version {cfg.version}; not run")


def _what_it_is(network: OnnxModel) -> str:
    """A file that the steps of an ensemble cannot decode."""
    if network.facts.get("family") == "fastconformer":
        return "is a FastConformer, which trt.serve serves"
    if network.facts.get("decode") == "greedy":
        return "decodes itself"
    return f"takes {', '.join(network.inputs)}"


def _tensor(found: Any) -> Block:
    """An input or output of the ONNX file, without its first dimension, the batch's."""
    dims = [size if isinstance(size, int) else -1 for size in found.shape[1:]]
    return tensor(found.name, TYPES[found.type], *(dims or [1]), **({} if dims else {"reshape": {"shape": []}}))


def _plain(given: Block) -> Block:
    """The same for a Python model, which takes one number per recording as a row of one."""
    return {key: value for key, value in given.items() if key != "reshape"}


def _network(cfg: ModelRepositoryConfig, inputs: list[Block], outputs: list[Block]) -> Block:
    most, delay_ms = cfg.max_batch, cfg.batch_delay_ms
    if cfg.backend == "python":
        given = [{**_plain(one), "allow_ragged_batch": True} for one in inputs]
        return python_model("network", given, [_plain(one) for one in outputs], most=most, delay_ms=delay_ms)
    found = python_model("network", inputs, outputs, most=most, delay_ms=delay_ms)
    del found["backend"]
    found |= {"backend": "onnxruntime"} if cfg.backend == "onnx" else {"platform": "tensorrt_plan"}
    return {**found, "instance_group": [{"count": 1, "kind": Enum(f"KIND_{cfg.kind.upper()}")}]}


def _ensemble(cfg: ModelRepositoryConfig, steps: list[Block], audio: Block, transcript: Block) -> Block:
    """The steps one after the other: tensors of one name are one tensor."""
    return {
        "name": "recognizer",
        "platform": "ensemble",
        "max_batch_size": cfg.max_batch,
        "input": [audio],
        "output": [transcript],
        "ensemble_scheduling": {
            "step": [
                {
                    "model_name": step["name"],
                    "model_version": -1,
                    "input_map": [{"key": one["name"], "value": one["name"]} for one in step["input"]],
                    "output_map": [{"key": one["name"], "value": one["name"]} for one in step["output"]],
                }
                for step in steps
            ]
        },
    }


if __name__ == "__main__":
    config.run(main, ModelRepositoryConfig, __doc__, ModelError, ValueError, OSError)
