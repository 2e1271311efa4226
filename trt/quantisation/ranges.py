"""Ranges of 8-bit activations whose squared error on clips is the least: wide enough for most, narrow enough for a fine
step (as Banner et al. 2019, arXiv:1810.05723, but searched on histograms).

They are written as the cache of ranges that `onnxruntime.quantization.quantize_static` reads.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

BINS = 2048
SKIPPED = 3  # of so many values one is looked at
TRIED = np.linspace(0.2, 1.0, 33)  # parts of the greatest and the least value at which a range may end
STEPS = 255

Clip = Mapping[str, np.ndarray]


def quiet_session(content: bytes, *, joins: bool = True) -> onnxruntime.InferenceSession:
    """A graph in ONNX Runtime, on one thread. Unless it `joins` operations, what is between them can be asked for."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if not joins:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def write_ranges(
    path: Path, content: bytes, operations: Sequence[str], clips: Sequence[Clip], *, is_symmetric: bool
) -> None:
    """The ranges of the tensors that such operations of a graph take and give. `is_symmetric`: around 0."""
    model = onnx.load_model_from_string(content)
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in operations]
    names = sorted({name for node in nodes for name in (*node.input, *node.output)} - constants)
    inputs = {value.name for value in model.graph.input}
    known = inputs | {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    session = quiet_session(model.SerializeToString())
    asked = [name for name in names if name not in inputs]

    def values(clip: Clip) -> dict[str, np.ndarray]:
        found = dict(zip(asked, session.run(asked, dict(clip)), strict=True))
        found |= {name: clip[name] for name in names if name in inputs}
        return {name: value.ravel()[::SKIPPED] for name, value in found.items() if value.dtype == np.float32}

    ends: dict[str, tuple[float, float]] = {}
    for clip in clips:
        for name, x in values(clip).items():
            low, high = ends.get(name, (0.0, 0.0))
            ends[name] = min(low, float(x.min(initial=0.0))), max(high, float(x.max(initial=0.0)))
    counts = {name: np.zeros(BINS) for name in ends}
    for clip in clips:
        for name, x in values(clip).items():
            counts[name] += np.histogram(x, BINS, ends[name])[0] if ends[name][0] < ends[name][1] else 0
    chosen = {name: best_range(counts[name], *ends[name], is_symmetric=is_symmetric) for name in ends}
    data = {name: {"CLS": "TensorData", "lowest": low, "highest": high} for name, (low, high) in chosen.items()}
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    found = {"CLS": "TensorsData", "data": data, "calibration_method": method, "smooth_quant": False}
    path.write_text(json.dumps(found), encoding="utf-8")


def best_range(counts_K: np.ndarray, low: float, high: float, *, is_symmetric: bool = False) -> tuple[float, float]:
    """The least and greatest value in 8 bits of a tensor with a histogram from `low` to `high`, which 0 lies between.

    What lies beyond is cut off, what lies inside is off by a step's even distribution.
    """
    if not low < high:
        return low, high
    edges_K = np.linspace(low, high, len(counts_K) + 1)
    centre_K = (edges_K[1:] + edges_K[:-1]) / 2
    greatest = max(-low, high)
    pairs = [(-greatest * part, greatest * part) for part in TRIED] if is_symmetric else []
    pairs = pairs or [(low * less, high * part) for less in (TRIED if low < 0 else [1.0]) for part in TRIED]

    def error(pair: tuple[float, float]) -> float:
        beyond_K = np.maximum(np.maximum(centre_K - pair[1], pair[0] - centre_K), 0.0)
        inside = counts_K[beyond_K == 0].sum()
        return float((counts_K * beyond_K**2).sum() + inside * ((pair[1] - pair[0]) / STEPS) ** 2 / 12)

    return min(pairs, key=error)
