"""From a torch module to ONNX, and whether both compute the same."""

import hashlib
import json
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import torch
from torch import Tensor
from torch.onnx.verification import verify_onnx_program

from common.export import ExportGraph
from common.machine import commit

MOST_BYTES = 2_000_000_000
"""Bytes of weights that one file takes at most: 2 GiB is the limit of protocol buffers, and the graph needs some."""
SMALL = 1024
"""Bytes up to which weights stay in the file of the graph in any case: sizes, axes, scales."""
PAGE = 4096
"""Weights of a file of their own begin at multiples of it, so that runtimes can map them into memory."""
OPSET = 20  # the newest that ONNX Runtime loads and TensorRT-RTX parses alike


class ExportError(ValueError):
    """A graph that cannot be converted, or does not compute what its model does."""


class Program(NamedTuple):
    """A converted graph: the bytes of its file, and torch's record of how it came about."""

    content: bytes
    source: torch.onnx.ONNXProgram
    full_precision: Sequence[str]
    """The nodes of the graph's parts that stay in float32."""
    weights_file: str = ""
    """Name of a second file, beside the first; empty where one file holds everything."""
    weights: bytes | bytearray = b""
    """What is in it."""

    def session(self, *, threads: int) -> onnxruntime.InferenceSession:
        """The graph in ONNX Runtime."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        if self.weights_file:
            options.add_external_initializers_from_files_in_memory(
                [self.weights_file], [self.weights], [len(self.weights)]
            )
        return onnxruntime.InferenceSession(self.content, options, providers=["CPUExecutionProvider"])


def converted(graph: ExportGraph, *, stem: str = "model") -> Program:
    """`graph` in ONNX, under the names of its tensors; `stem`: what the name of a second file would begin with.

    Raises ExportError.
    """
    if len({value.data_ptr() for value in graph.inputs.values()}) < len(graph.inputs):
        raise ExportError("two inputs share one tensor as their example; the exporter would take them for the same")
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph.module.eval(),
            kwargs=dict(graph.inputs),
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes={name: dict(graph.axes.get(name, {})) for name in graph.inputs},
        )
    assert program is not None
    proto = program.model_proto
    proto.producer_name, proto.producer_version = "speech-models", commit()
    for name, value in graph.metadata.items():
        proto.metadata_props.add(key=name, value=value)
    used = {name for node in proto.graph.node for name in node.input}
    for name in graph.inputs:
        if name not in used:
            raise ExportError(f"the graph does not depend on its input {name}")
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(value.numpy(), name) for name, value in graph.weights.items()
    )
    full_precision = _full_precision(proto.graph, graph.full_precision)
    if len(features := _read_outside(proto.graph, full_precision)) == 1:
        proto.metadata_props.add(key="features_tensor", value=json.dumps(features[0]))
    for node in proto.graph.node:
        del node.metadata_props[:]  # the lines of Python that it came from
    if sum(tensor.ByteSize() for tensor in proto.graph.initializer) <= MOST_BYTES:
        return Program(proto.SerializeToString(), program, full_precision)
    weights_file, weights = _moved_out(proto, stem, graph.weights.keys())
    return Program(proto.SerializeToString(), program, full_precision, weights_file, weights)


def _moved_out(proto: onnx.ModelProto, stem: str, kept: Collection[str]) -> tuple[str, bytearray]:
    """The weights of a graph, but for `kept` ones, for a file of their own, whose name has their checksum: a graph and
    the weights of another export do not meet."""
    places, content = dict[str, tuple[int, int]](), bytearray()
    moved = [t for t in proto.graph.initializer if len(t.raw_data) > SMALL and t.name not in kept]
    for tensor in moved:  # one after the other, so that memory holds no second copy of all of them
        content.extend(bytes(-len(content) % PAGE))
        places[tensor.name] = len(content), len(tensor.raw_data)
        content.extend(tensor.raw_data)
        tensor.ClearField("raw_data")
    file_name = f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.weights"
    for tensor in moved:
        offset, length = places[tensor.name]
        for key, value in {"location": file_name, "offset": offset, "length": length}.items():
            tensor.external_data.add(key=key, value=str(value))
        tensor.data_location = onnx.TensorProto.EXTERNAL
    proto.metadata_props.add(key="weights_file", value=json.dumps(file_name))
    return file_name, content


def _full_precision(graph: onnx.GraphProto, parts: Sequence[str]) -> list[str]:
    """The nodes of the parts of a module, with those that torch's optimiser put between them without a record."""
    kept = {node.name for node in graph.node if _is_of(node, parts)}
    users = {name: list[str]() for node in graph.node for name in node.input}
    for node in graph.node:
        for name in node.input:
            users[name].append(node.name)
    for node in reversed(graph.node):  # those that take its outputs come after it
        takers = [user for name in node.output for user in users.get(name, ())]
        if takers and kept.issuperset(takers):
            kept.add(node.name)
    return [node.name for node in graph.node if node.name in kept]


def _read_outside(graph: onnx.GraphProto, nodes: Sequence[str]) -> list[str]:
    """The tensors in float32 that these nodes give to others."""
    kept, single = set(nodes), onnx.TensorProto.FLOAT
    floats = {value.name for value in graph.value_info if value.type.tensor_type.elem_type == single}
    read = {name for node in graph.node if node.name not in kept for name in node.input}
    made = [name for node in graph.node if node.name in kept for name in node.output]
    return [name for name in made if name in read & floats]


def _is_of(node: onnx.NodeProto, parts: Sequence[str]) -> bool:
    """Whether a node comes from one of the parts of a module, by the record that torch keeps."""
    scopes = [entry.value for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"]
    return any(repr(part) in scope or f"'{part}." in scope for part in parts for scope in scopes)


def greatest_difference(program: Program, graph: ExportGraph) -> float:
    """How far the outputs are from those of the model, over all its checks. Raises ExportError beyond the tolerance."""
    greatest = 0.0
    for inputs, name, ours, theirs in comparisons(program.session(threads=torch.get_num_threads()), graph):
        distance = difference(ours, theirs)
        if not distance <= graph.tolerance:
            shapes = ", ".join(f"{key} {list(value.shape)}" for key, value in inputs.items())
            raise ExportError(
                f"{name} differs by {distance:.1e} from the model's for {shapes}; expected at most "
                f"{graph.tolerance:.0e}; {_first_difference(program, inputs, graph.tolerance)}"
            )
        greatest = max(greatest, distance)
    return greatest


def comparisons(
    session: onnxruntime.InferenceSession, graph: ExportGraph
) -> Iterator[tuple[Mapping[str, Tensor], str, np.ndarray, np.ndarray]]:
    """Inputs, the name of an output, what a session gives for it and what the model does, over all checks."""
    for inputs in (graph.inputs, *graph.checks):
        found = session.run(list(graph.outputs), {name: value.numpy() for name, value in inputs.items()})
        with torch.no_grad():
            expected = graph.reference(**inputs)
        for name, ours, theirs in zip(graph.outputs, found, expected, strict=True):
            yield inputs, name, ours, theirs.numpy()


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The greatest, or infinity for other shapes and for what is not finite."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found.astype(np.float64) - expected).max(initial=0.0))


def _first_difference(program: Program, inputs: Mapping[str, Tensor], tolerance: float) -> str:
    """Where the graph leaves the module it was traced from."""
    with _quiet(), torch.no_grad():
        inner = verify_onnx_program(program.source, kwargs=dict(inputs), compare_intermediates=True)
        outputs = verify_onnx_program(program.source, kwargs=dict(inputs))
    wrong = next((step.name for step in (*inner, *outputs) if not step.max_abs_diff <= tolerance), None)
    return f"the first value that differs is {wrong}" if wrong else "the plain module that was traced differs already"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on its own workings."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(torch|onnx|onnxscript|onnx_ir|copyreg)(\.|$)")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
