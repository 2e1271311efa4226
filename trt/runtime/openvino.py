"""An exported recogniser in OpenVINO, in the place of ONNX Runtime: in float32, or bfloat16 on processors that have it.

OpenVINO prepares code for every shape of its inputs. Audio is therefore padded to one of few lengths, which the masks
of the graph leave without effect.

Shapes: B utterances, N samples.
"""

import threading
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ctc import native
from trt.facts import ModelError, facts_in, told, usable, why_not_onnx

Precision = Literal["fp32", "bf16"]
STEPS = 16
"""Lengths of audio between one power of two and the next, so that at most a sixteenth is padding."""


class _Part(NamedTuple):
    """A graph that is ready to run, and the names of what it takes and gives."""

    compiled: Any
    takes: list[str]
    gives: list[str]

    def run(self, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = self.compiled([tensors[name] for name in self.takes])
        return dict(zip(self.gives, found.values(), strict=True))


class OpenVinoModel:
    """A file of `trt.export` in OpenVINO: arrays in by name, arrays out by name, and the facts that it states."""

    def __init__(self, path: Path, *, threads: int = 0, precision: Precision = "fp32"):
        """`threads`: of the network, 0 for one per core. `precision`: of the network; features stay in float32.

        Raises ModelError: without OpenVINO, for bf16 on a processor that has none, and for files in fewer bits.
        """
        if problem := why_not_onnx(path):
            raise ModelError(f"{path}: {problem}")
        try:
            import openvino
        except ImportError as error:
            raise ModelError(
                f"{path}: runtime openvino needs the package of that name ({error}): pip install -e '.[openvino]'"
            ) from None
        core = openvino.Core()
        if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise ModelError(f"{path}: precision bf16: this processor has no instructions for it; take fp32")
        with told(path, "cannot be loaded"):
            graph = core.read_model(path)
            stated = graph.get_rt_info("framework").value if graph.has_rt_info("framework") else {}
        with usable(ModelError, path):
            self.facts: dict[str, Any] = facts_in(stated)
        bits = self.facts.get("precision", "fp32")
        if bits != "fp32":
            raise ModelError(f"{path}: is in {bits}; OpenVINO takes files in fp32, and ONNX Runtime this one")
        self.path = path
        self.inputs = [tensor.any_name for tensor in graph.inputs]
        self.outputs = [tensor.any_name for tensor in graph.outputs]
        settings = {"INFERENCE_NUM_THREADS": threads or native.threads(), "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}

        def part(graph: Any, precision: str) -> _Part:
            hint = "bf16" if precision == "bf16" else "f32"
            compiled = core.compile_model(graph, "CPU", settings | {"INFERENCE_PRECISION_HINT": hint})
            names = ([tensor.any_name for tensor in tensors] for tensors in (compiled.inputs, compiled.outputs))
            return _Part(compiled, *names)

        features = self.facts.get("features_tensor")
        hears = self.facts.get("input") == "samples" and self.facts.get("family") != "wav2vec2"  # by way of features
        if precision == "bf16" and features is None and hears:
            raise ModelError(f"{path}: does not say where its features end, which stay in fp32; export it again")
        with told(path, "cannot be loaded"):
            if precision == "fp32" or features is None:
                self._parts = [part(graph, precision)]
            else:
                before, after = _split(openvino, graph, core.read_model(path), features)
                self._parts = [part(before, "fp32"), part(after, "bf16")]
        self._turn = threading.Lock()

    def run(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name; those with a dimension of frames may have more of them than ONNX Runtime gives, which
        belong to no utterance. Raises ModelError where the graph does not compute them."""
        tensors = dict(inputs)
        if "audio_BN" in tensors:
            tensors["audio_BN"] = _padded(tensors["audio_BN"])
        with self._turn, told(self.path, "does not run"):
            for part in self._parts:
                tensors |= part.run(tensors)
        return {name: tensors[name] for name in self.outputs}


def _padded(audio_BN: np.ndarray) -> np.ndarray:
    samples = audio_BN.shape[1]
    step = max(1, (1 << samples.bit_length()) // (2 * STEPS))
    return np.pad(audio_BN, ((0, 0), (0, -samples % step)))


def _split(openvino: Any, before: Any, after: Any, name: str) -> tuple[Any, Any]:
    """Two graphs of two copies of one: what gives the tensor `name`, and what takes it in its place."""
    made, replaced = (
        next(tensor for node in graph.get_ops() for tensor in node.outputs() if name in tensor.names)
        for graph in (before, after)
    )
    given = openvino.op.Parameter(replaced.element_type, replaced.partial_shape)
    given.output(0).set_names({name})
    for place in replaced.get_target_inputs():
        place.replace_source_output(given.output(0))
    replaced.set_names(set())
    return (
        openvino.Model([made], before.get_parameters(), "features"),
        openvino.Model(after.get_results(), [given, *after.get_parameters()], "network"),
    )
