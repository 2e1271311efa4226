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
from trt.serving.triton.pbtxt import Block, Enum, text_of, validated

REPOSITORY = Path(__file__).parents[1]
TYPES = {"tensor(float)": "TYPE_FP32", "tensor(float16)": "TYPE_FP16", "tensor(int64)": "TYPE_INT64"}
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
    told = {key: facts[key] for key in TOLD if key in facts}
    own = {"paths": list(cfg.python_paths), "bucket": bucket, "features": features, "threads": 0, "facts": told}
    own["inputs"] = [tensor["name"] for tensor in outputs]
    heard, audio = _ints("heard_B"), _floats("audio")
    cuts = {"name": "cuts_BK2", "data_type": Enum("TYPE_FP64"), "dims": [-1, 2]}
    transcript = {"name": "transcript", "data_type": Enum("TYPE_UINT8"), "dims": [-1]}
    step_inputs, step_outputs = ([_plain(tensor) for tensor in side] for side in (inputs, outputs))
    steps = [
        _python("sound", [audio], [*step_inputs, heard, cuts], cfg),
        _network(cfg, inputs, outputs),
        _python("decoder", [*step_outputs, heard, cuts], [transcript], cfg),
    ]
    models = [*steps, _ensemble(cfg, steps, audio, transcript)]
    texts = {model["name"]: text_of(model) for model in models}
    was_validated = {validated(text, name) for name, text in texts.items()} == {True}
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
    checked = "are valid" if was_validated else "were not checked: tritonclient is not installed"
    tell(f"{cfg.out}: {', '.join(texts)} in version {cfg.version}; their configurations {checked}; not run")


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
    tensor: Block = {"name": found.name, "data_type": Enum(TYPES[found.type]), "dims": dims or [1]}
    return tensor if dims else {**tensor, "reshape": {"shape": []}}


def _plain(tensor: Block) -> Block:
    """The same for a Python model, which takes one number per recording as a row of one."""
    return {key: value for key, value in tensor.items() if key != "reshape"}


def _floats(name: str) -> Block:
    return {"name": name, "data_type": Enum("TYPE_FP32"), "dims": [-1]}


def _ints(name: str) -> Block:
    return {"name": name, "data_type": Enum("TYPE_INT64"), "dims": [1]}


def _python(name: str, inputs: list[Block], outputs: list[Block], cfg: ModelRepositoryConfig) -> Block:
    return {
        "name": name,
        "backend": "python",
        "max_batch_size": cfg.max_batch,
        "input": inputs,
        "output": outputs,
        "instance_group": [{"count": 1, "kind": Enum("KIND_CPU")}],
    }


def _network(cfg: ModelRepositoryConfig, inputs: list[Block], outputs: list[Block]) -> Block:
    batching = {"dynamic_batching": {"max_queue_delay_microseconds": round(1000 * cfg.batch_delay_ms)}}
    if cfg.backend == "python":
        given = [{**_plain(tensor), "allow_ragged_batch": True} for tensor in inputs]
        return {**_python("network", given, [_plain(tensor) for tensor in outputs], cfg), **batching}
    return {
        "name": "network",
        **({"backend": "onnxruntime"} if cfg.backend == "onnx" else {"platform": "tensorrt_plan"}),
        "max_batch_size": cfg.max_batch,
        "input": inputs,
        "output": outputs,
        "instance_group": [{"count": 1, "kind": Enum(f"KIND_{cfg.kind.upper()}")}],
        **batching,
    }


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
