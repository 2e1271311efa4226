"""Engines of TensorRT: how they are built, what is written beside them, and whether one fits what is there.

One thin layer over the Python API that TensorRT and TensorRT-RTX share. Networks are strongly typed.
"""

import hashlib
import importlib
import itertools
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common.config import ConfigError
from common.files.json_text import parsed
from trt.facts import ModelError, checked, facts_in, usable, why_not_onnx

Sizes = tuple[tuple[int, float, bool], ...]

LIBRARIES = ("tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings")
RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
SYMBOLS_PER_SECOND = 16.0  # of English, in letters or phonemes and what stands between them
_SIZE = re.compile(r"(\d+)x(\d+(?:\.\d+)?)(s?)")


class EngineError(ModelError):
    """A model of which no engine can be built, or an engine that does not fit; the message says what is wrong."""


class Built(NamedTuple):
    """A serialised engine, and what it was built with and for."""

    content: bytes
    library: str
    version: str
    capabilities: tuple[str, ...]
    precision: str
    shapes: dict[str, list[list[int]]]
    """Least, most usual and greatest shape by the name of the input."""
    model_sha256: str
    metadata: dict[str, str]
    """What the model says of itself."""
    seconds: float


def build(path: Path, *, capabilities: Sequence[str], sizes: str) -> Built:
    """An engine of an exported model, in its precision. Raises EngineError, and ConfigError for sizes that are none."""
    wanted = parsed_sizes(sizes)
    content, metadata = _model(path)
    name, library = installed()
    if unknown := [one for one in capabilities if name != "tensorrt" and one not in RTX_CAPABILITIES]:
        raise EngineError(
            f"compute capability {', '.join(unknown)}: TensorRT-RTX builds for {', '.join(RTX_CAPABILITIES)}; for 9.0 "
            "(H100) and 10.0 (B200) install tensorrt on such a machine and build there"
        )
    logger = logger_of(library)
    builder = library.Builder(logger)
    network = builder.create_network(1 << int(library.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = library.OnnxParser(network, logger)
    beside = (str(path),) if "weights_file" in metadata else ()  # where its weights are looked for
    if not parser.parse(content, *beside):
        problem = " ".join(parser.get_error(0).desc().split())
        raise EngineError(f"{path}: {name} does not take this graph: {problem[:300]}")
    cfg = builder.create_builder_config()
    if name != "tensorrt":
        cfg.num_compute_capabilities = len(capabilities)
        for i, capability in enumerate(capabilities):
            value = getattr(library.ComputeCapability, f"SM{capability.replace('.', '')}")
            cfg.set_compute_capability(value, i)
    profile, shapes = builder.create_optimization_profile(), {}
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        shapes[tensor.name] = _shapes(tensor.name, list(tensor.shape), wanted, metadata)
        profile.set_shape(tensor.name, *shapes[tensor.name])
    cfg.add_optimization_profile(profile)
    start = time.perf_counter()
    engine = builder.build_serialized_network(network, cfg)
    if engine is None:
        raise EngineError(
            f"{path}: {name} builds no engine: {logger.said[-1] if logger.said else 'it does not say why'}"
        )
    return Built(
        content=bytes(engine),
        library=name,
        version=library.__version__,
        capabilities=tuple(capabilities),
        precision=json.loads(metadata.get("precision", '"fp32"')),
        shapes=shapes,
        model_sha256=hashlib.sha256(content).hexdigest(),
        metadata=metadata,
        seconds=time.perf_counter() - start,
    )


def description(built: Built) -> str:
    """The JSON beside an engine."""
    facts = {name: value for name, value in built._asdict().items() if name != "content"}
    facts["metadata"] = {key: json.loads(value) for key, value in built.metadata.items()}
    facts |= {"sha256": hashlib.sha256(built.content).hexdigest(), "bytes": len(built.content)}
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def check(path: Path, *, capability: str, library: str, version: str) -> dict[str, Any]:
    """What is beside the engine `path`, if it fits a device of this capability and this library.

    Raises EngineError for another device or version, for bytes that are not those that were written, and where the
    description is missing.
    """
    beside = path.with_suffix(path.suffix + ".json")
    try:
        content = path.read_bytes()
        facts: dict[str, Any] = parsed(beside.read_text(encoding="utf-8"))
        stated = facts["sha256"], facts["library"], facts["version"], list(map(str, facts["capabilities"]))
        facts["metadata"] = checked(facts["metadata"])
        for name, three in facts["shapes"].items():
            _check_shapes(name, three)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{path}: not an engine of trt.build with {beside.name} beside it ({error})") from None
    if hashlib.sha256(content).hexdigest() != stated[0]:
        raise EngineError(f"{path}: its checksum is not that of {beside.name}; the file is damaged or another one")
    if (library, version) != stated[1:3]:
        raise EngineError(f"{path}: built by {stated[1]} {stated[2]}, and here is {library} {version}; build it again")
    if capability not in stated[3]:
        raise EngineError(
            f"{path}: built for compute capability {', '.join(stated[3])}, and this device has {capability}; build it "
            f"with --compute-capability {capability}"
        )
    return facts


def _check_shapes(name: str, three: Any) -> None:
    """Raises ValueError for what are not the least, most usual and greatest shape of an input."""
    is_right = isinstance(three, list) and len(three) == 3 and all(isinstance(shape, list) for shape in three)
    if not is_right or len({len(shape) for shape in three}) != 1 or any(type(n) is not int for s in three for n in s):
        raise ValueError(f"shapes of {name}: {str(three)[:60]}")


def check_shape(facts: Mapping[str, Any], name: str, shape: Sequence[int]) -> None:
    """Raises EngineError for a shape of input `name` that an engine was not built for."""
    if name not in facts["shapes"] or len(facts["shapes"][name][0]) != len(shape):
        raise EngineError(f"{name} of shape {list(shape)}: the engine was built for {facts['shapes']}")
    least, _, most = facts["shapes"][name]
    if any(not low <= size <= high for low, size, high in zip(least, shape, most, strict=True)):
        raise EngineError(f"{name} of shape {list(shape)}: the engine was built for {least} to {most}")


def parsed_sizes(text: str) -> Sizes:
    """`1x2s,8x7s,16x16.7s` as three of (batch, length, whether that is seconds). Raises ConfigError."""
    found = [_SIZE.fullmatch(part.strip()) for part in text.split(",")]
    if len(found) != 3 or not all(found):
        raise ConfigError(f"profile {text!r}: expected three sizes, batch x length, such as 1x2s,8x7s,16x16.7s")
    sizes = tuple((int(size[1]), float(size[2]), bool(size[3])) for size in found if size)
    if any(low[k] > high[k] or low[k] <= 0 for low, high in itertools.pairwise(sizes) for k in (0, 1)):
        raise ConfigError(f"profile {text!r}: expected sizes above 0 that rise")
    return sizes


def _model(path: Path) -> tuple[bytes, dict[str, str]]:
    """The bytes of an exported model and what it says of itself, if an engine can be built of it."""
    import onnx  # engines are run where it need not be installed

    if problem := why_not_onnx(path):
        raise EngineError(f"{path}: {problem}")
    try:
        content = path.read_bytes()
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's own have no common class but this
        raise EngineError(f"{path}: cannot be read as an ONNX model: {' '.join(str(error).split())[:200]}") from None
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    with usable(EngineError, path):
        facts = facts_in(metadata)
    quantised = facts.get("int8")
    if facts.get("precision") == "int8" and (not isinstance(quantised, dict) or quantised.get("target") != "tensorrt"):
        raise EngineError(
            f"{path}: its 8-bit activations have no sign, for processors, which TensorRT does not take; export it with "
            "--int8_target tensorrt"
        )
    if facts.get("part") == "whole" and facts.get("family") != "fastconformer":
        raise EngineError(
            f"{path}: decides its length itself, and an engine wants it beforehand; export --part encoder and decoder"
        )
    return content, metadata


def _shapes(name: str, dims: Sequence[int], sizes: Sizes, metadata: Mapping[str, str]) -> list[list[int]]:
    """Three shapes of an input with dimensions of -1: that of the letter B in its name is the batch, others lengths."""
    letters = name.rpartition("_")[2]
    open_dims = [letter for letter, dim in zip(letters, dims, strict=True) if dim < 0]
    per_second = _per_second(name, metadata) if set(open_dims) > {"B"} else 1.0
    found = []
    for batch, length, is_seconds in sizes:
        steps = max(1, round(length * per_second if is_seconds else length))
        at = {letter: batch if letter == "B" else steps for letter in open_dims}
        found.append([at[letter] if dim < 0 else dim for letter, dim in zip(letters, dims, strict=True)])
    return found


def _per_second(name: str, metadata: Mapping[str, str]) -> float:
    """How many steps of an input are a second: samples, frames, or symbols of speech."""
    if name == "audio_BN":
        return float(json.loads(metadata["sample_rate"]))
    if name.endswith(("_BL", "_BLC")):
        return SYMBOLS_PER_SECOND
    features = json.loads(metadata.get("features", "null")) or json.loads(metadata["configuration"])["features"]
    return float(features["sample_rate"] / features["hop_samples"])


def installed() -> tuple[str, Any]:
    """TensorRT, or TensorRT-RTX: its name and its module. Raises EngineError."""
    for name in LIBRARIES:
        try:
            return name.removesuffix("_bindings"), importlib.import_module(name)
        except ImportError:
            continue
    raise EngineError("neither tensorrt nor tensorrt_rtx is installed; pip install -e '.[trt]' brings tensorrt_rtx")


def logger_of(library: Any) -> Any:
    """A logger for a library; what it said of errors is in `said`."""

    class Logger(library.ILogger):
        """Keeps what the library says of errors, in place of printing it."""

        def __init__(self) -> None:
            library.ILogger.__init__(self)
            self.said: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            """Called by the library."""
            if severity <= library.ILogger.Severity.ERROR:
                self.said.append(" ".join(message.split()))

    return Logger()
