"""Exported graphs in fewer bits: float16, or int8 calibrated on real clips.

int8 is static: weights per channel in 8 bits with a sign, activations in 8 without, in ranges that clips give
(QuantizeLinear and DequantizeLinear around operations that every runtime joins). The last layer, which gives the scores
of labels, and sums of layers are computed in float32, and so are the small ones among the layers that are summed up.
What loses too much besides stays in it too, layer by layer, until the words of the clips are those of float32.

Shapes: S output frames, V labels.
"""

import contextlib
import io
import json
import logging
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

from common.export import ExportGraph, encoded
from common.recognition.decoding import CTCDecoder
from common.recognition.metrics import word_errors
from trt.conversion import ExportError, Program, comparisons, difference
from trt.quantisation.ranges import quiet_session, write_ranges

REDUCED = ["Conv", "Add", "Mul", "Relu", "MatMul"]
LAYERS = ("Conv", "MatMul")
RANGES = "ranges.json"
MOST_ERRORS = 0.01  # of the words of float32 on the clips
MOST_SUMMED = 0.1  # of all weights, in convolutions of one tap that sums add up
CALIBRATED = 32  # clips whose ranges are taken; all count for the words
LOST = 0.02  # of the greatest value, in float16
LISTENED = 4  # clips on which layers are compared

Clip = Mapping[str, np.ndarray]
Target = Literal["processors", "tensorrt"]


@dataclass(frozen=True, kw_only=True)
class Quantisation:
    """How a graph becomes int8."""

    target: Target = "processors"
    """processors: activations without sign, which VNNI multiplies; tensorrt: with sign, around 0, as engines want."""
    most_errors: float = MOST_ERRORS
    """Part of the words that float32 finds in the clips that may differ."""


def noisy(samples_N: np.ndarray, decibels: float, seed: int) -> np.ndarray:
    """float32 [N] with white noise of that distance below the samples; as they are at infinity."""
    if np.isinf(decibels) or not len(samples_N):
        return samples_N
    loudness = float(np.sqrt(np.square(samples_N, dtype=np.float64).mean())) * 10 ** (-decibels / 20)
    noise_N = np.random.default_rng(seed).standard_normal(len(samples_N)) * loudness
    return (samples_N + noise_N).astype(np.float32)


ENGINES = {"ActivationSymmetric": True, "WeightSymmetric": True, "QuantizeBias": False, "DedicatedQDQPair": True}
"""What TensorRT takes: no zero points, no biases in 32-bit integers."""


class Reduced(NamedTuple):
    """A graph in 8 bits: the bytes of its file, the layers left in float32, words of all clips, those that differ."""

    content: bytes
    layers: int
    excluded: list[str]
    words: int
    errors: int


def to_float16(program: Program) -> bytes:
    """The graph in float16 but for its parts in full precision; inputs and outputs stay.

    Where float32 and float16 meet stands a Cast: what is heard by a part in full precision was never rounded.
    """
    model = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(program.content))
    graph, kept = model.graph, set(program.full_precision)
    kept |= of_places(graph)
    read = {name for node in graph.node for name in node.input}
    single = {value.name for value in (*graph.input, *graph.value_info, *graph.output) if _is_float(value)}
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    rounded = {name for node in graph.node if node.name not in kept for name in node.output if name in single}
    outputs = {value.name for value in graph.output}
    nodes: list[onnx.NodeProto] = []
    halves: dict[str, onnx.TensorProto] = {}
    casts: set[str] = set()

    def cast(name: str, kind: str, to: int) -> str:
        if f"{name}_{kind}" not in casts:
            casts.add(f"{name}_{kind}")
            nodes.append(onnx.helper.make_node("Cast", [name], [f"{name}_{kind}"], f"{name}_to_{kind}", to=to))
        return f"{name}_{kind}"

    def half(name: str) -> str:
        if name in constants:
            values = np.clip(numpy_helper.to_array(constants[name]), -65504, 65504).astype(np.float16)
            halves[name] = numpy_helper.from_array(values, f"{name}_half")
            return f"{name}_half"
        if name in rounded:
            return f"{name}_half" if name in outputs else name
        return cast(name, "half", onnx.TensorProto.FLOAT16) if name in single else name

    for node in graph.node:
        if node.name in kept:
            given = [cast(name, "single", onnx.TensorProto.FLOAT) if name in rounded else name for name in node.input]
            node.input[:] = given
        else:
            node.input[:] = [half(name) for name in node.input]
            node.output[:] = [f"{name}_half" if name in rounded & outputs else name for name in node.output]
            for attribute in node.attribute:
                _halve(node, attribute)
        nodes.append(node)
        for name in {output.removesuffix("_half") for output in node.output} & rounded & outputs:
            to = onnx.TensorProto.FLOAT
            nodes.append(onnx.helper.make_node("Cast", [f"{name}_half"], [name], f"{name}_to_single", to=to))
    used = {name for node in nodes for name in node.input}
    remaining = [tensor for tensor in graph.initializer if tensor.name in used or tensor.name not in read]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*remaining, *halves.values()])
    return _stated(model, precision="fp16").SerializeToString()


def of_places(graph: onnx.GraphProto) -> set[str]:
    """Nodes that compute with numbers of places alone, up to their products with weights: float16 cannot count them."""
    heard = {value.name for value in graph.input if _is_float(value)}
    counted: set[str] = set()
    nodes = set()
    for node in graph.node:
        if heard & set(node.input) and node.op_type not in ("Shape", "Range"):
            heard |= set(node.output)
        elif node.op_type == "Range" or (counted & set(node.input) and node.op_type != "MatMul"):
            counted |= set(node.output)
            nodes.add(node.name)
    # Where they begin: sizes, cast to floating point.
    wanted = {name for node in graph.node if node.name in nodes for name in node.input}
    return nodes | {node.name for node in graph.node if node.op_type == "Cast" and wanted & set(node.output)}


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT)


def _halve(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    """What an attribute says of types, in float16."""
    if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
        attribute.i = onnx.TensorProto.FLOAT16
    elif attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == onnx.TensorProto.FLOAT:
        values = numpy_helper.to_array(attribute.t)
        attribute.t.CopyFrom(numpy_helper.from_array(values.astype(np.float16)))


def to_int8(
    program: Program,
    clips: Sequence[Clip],
    metadata: Mapping[str, str],
    how: Quantisation | None = None,
    texts: Callable[[bytes], list[str]] | None = None,
) -> Reduced:
    """The graph of a recogniser in int8. Raises ExportError where no exclusion of layers keeps the words.

    `texts`: what a file of some bytes writes, by which it is judged; else the labels of CTC of the clips, which
    `metadata` describes.
    """
    how, texts = how or Quantisation(), texts or (lambda content: _texts(content, clips, metadata))
    model = onnx.load_model_from_string(program.content)
    read = {name for node in model.graph.node for name in node.input}
    beside = [tensor for tensor in model.graph.initializer if tensor.name not in read]  # of a decoder: they stay
    every = [n.name for n in model.graph.node if n.op_type in LAYERS and n.name not in program.full_precision]
    chosen = {*_last_layers(model.graph), *_summed(model.graph)} & {*every}
    kept = [*program.full_precision, *_of_sums(model.graph), *chosen]
    layers = [name for name in every if name not in chosen]
    expected = texts(program.content)
    excluded: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "float.onnx").write_bytes(program.content)
        heard, is_symmetric = clips[:CALIBRATED], how.target == "tensorrt"
        write_ranges(work / RANGES, program.content, REDUCED, heard, is_symmetric=is_symmetric)
        while True:
            content = _quantized(work, clips, [*kept, *excluded], how)
            content = _whole(content, beside)
            found = texts(content)
            count = word_errors(expected, found)
            if count.rate <= how.most_errors:
                break
            if len(excluded) > len(layers) // 2:
                left = len(chosen) + len(excluded)
                raise ExportError(
                    f"int8: {count.errors} of {count.length} words of the clips differ from those of float32 even with "
                    f"{left} of {len(every)} layers in float32; calibrate with more clips, or take fp16"
                )
            if not excluded:
                by_noise = _by_noise(program.content, content, layers, clips[:LISTENED])
            excluded = by_noise[: max(1, 2 * len(excluded))]
    excluded = [name for name in every if name in {*chosen, *excluded}]
    stated: dict[str, object] = {"layers": len(every), "excluded": excluded, "clips": len(clips), "target": how.target}
    stated |= {"words": count.length, "differing_words": count.errors}
    finished = _stated(onnx.load_model_from_string(content), precision="int8", int8=stated)
    return Reduced(finished.SerializeToString(), len(every), excluded, count.length, count.errors)


def _of_sums(graph: onnx.GraphProto) -> list[str]:
    """Nodes that add what layers give, and those that cut off what is below 0 of it.

    Every sum that is rounded to 8 bits adds noise, and none of them costs what a layer does.
    """
    constants = {tensor.name for tensor in graph.initializer}
    sums = [node for node in graph.node if node.op_type == "Add" and not constants & set(node.input)]
    given = {node.output[0] for node in sums}
    return [node.name for node in (*sums, *(n for n in graph.node if n.op_type == "Relu" and n.input[0] in given))]


def _summed(graph: onnx.GraphProto) -> list[str]:
    """Convolutions of one tap that give what sums add up, as of dense residuals, where they are a small part of all.

    What each of them gives is rounded over a range as wide as that of the whole sum.
    """
    sizes = {tensor.name: tensor.dims for tensor in graph.initializer}
    added = {
        name for node in graph.node if node.op_type == "Add" and not sizes.keys() & {*node.input} for name in node.input
    }
    taken: dict[str, int] = {}
    total = 0
    for node in graph.node:
        if node.op_type not in LAYERS or node.input[1] not in sizes:
            continue
        shape = sizes[node.input[1]]
        total += math.prod(shape)
        if node.op_type == "Conv" and node.output[0] in added and math.prod(shape[2:]) == 1:
            taken[node.name] = math.prod(shape)
    return list(taken) if sum(taken.values()) <= MOST_SUMMED * total else []


def _last_layers(graph: onnx.GraphProto) -> list[str]:
    """Layers from which the outputs are reached without another one; none where there are no others."""
    makers = {name: node for node in graph.node for name in node.output}
    reached, waiting = dict[str, onnx.NodeProto](), [value.name for value in graph.output]
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or node.name in reached:
            continue
        reached[node.name] = node
        waiting += [] if node.op_type in LAYERS else node.input
    last = [name for name, node in reached.items() if node.op_type in LAYERS]
    return last if len(last) < sum(node.op_type in LAYERS for node in graph.node) else []


def checked(content: bytes, graph: ExportGraph, precision: str) -> float:
    """The greatest difference of a reduced graph from its model, in parts of the output's greatest magnitude.

    Raises ExportError for values that are not finite and shapes that differ, and beyond LOST for float16.
    """
    greatest = 0.0
    for _, name, ours, theirs in comparisons(quiet_session(content), graph):
        if not np.isfinite(distance := difference(ours, theirs)):
            raise ExportError(f"{name} has the shape {ours.shape} and NaN or infinity in {precision}; take fp32")
        greatest = max(greatest, distance / max(1.0, float(np.abs(theirs).max(initial=0.0))))
    if precision == "fp16" and greatest > LOST and json.loads(graph.metadata.get("decode", "null")) is None:
        raise ExportError(f"the graph differs by {greatest:.1%} of its greatest value in {precision}; take fp32")
    return greatest


class _Clips(CalibrationDataReader):
    def __init__(self, clips: Sequence[Clip]):
        self.remaining = iter(clips)

    def get_next(self) -> Clip | None:
        return next(self.remaining, None)


def _quantized(work: Path, clips: Sequence[Clip], kept: list[str], how: Quantisation) -> bytes:
    """The graph in `work` in 8 bits but for some nodes; the ranges are found once and kept beside it."""
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it advises what has been done already
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it shows its progress there
            quantize_static(
                work / "float.onnx",
                work / "int8.onnx",
                _Clips(clips[:CALIBRATED]),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8 if how.target == "processors" else QuantType.QInt8,
                weight_type=QuantType.QInt8,
                op_types_to_quantize=REDUCED,
                nodes_to_exclude=kept,
                calibration_cache_path=work / RANGES,
                extra_options={"MatMulConstBOnly": True} | (ENGINES if how.target == "tensorrt" else {}),
            )
    finally:
        logging.getLogger().setLevel(before)
    return (work / "int8.onnx").read_bytes()


def _by_noise(exact: bytes, reduced: bytes, layers: Sequence[str], clips: Sequence[Clip]) -> list[str]:
    """The layers, first the one that adds most noise, relative to its signal, to that of the layer before."""
    values = {}
    for name, content in (("exact", exact), ("reduced", reduced)):
        model = onnx.load_model_from_string(content)
        outputs = {node.name: node.output[0] for node in model.graph.node if node.name in layers}
        known = {output.name for output in model.graph.output}
        model.graph.output.extend(
            onnx.ValueInfoProto(name=tensor) for tensor in outputs.values() if tensor not in known
        )
        session = quiet_session(model.SerializeToString(), joins=False)
        values[name] = [dict(zip(outputs, session.run(list(outputs.values()), clip), strict=True)) for clip in clips]
    added, before = {}, 0.0
    for layer in layers:
        pairs = [(one[layer], other[layer]) for one, other in zip(values["exact"], values["reduced"], strict=True)]
        signal = sum(float(np.square(one, dtype=np.float64).sum()) for one, _ in pairs)
        noise = sum(float(np.square(one - other, dtype=np.float64).sum()) for one, other in pairs) / max(signal, 1e-30)
        added[layer], before = noise - before, noise
    return sorted(layers, key=lambda layer: -added[layer])


def _whole(content: bytes, beside: Sequence[onnx.TensorProto]) -> bytes:
    """A file with these weights besides, without what tools say of it that is not JSON."""
    model = onnx.load_model_from_string(content)
    own = [entry for entry in model.metadata_props if not entry.key.startswith("onnx.")]
    del model.metadata_props[:]
    model.metadata_props.extend(own)
    there = {tensor.name for tensor in model.graph.initializer}
    model.graph.initializer.extend(tensor for tensor in beside if tensor.name not in there)
    return model.SerializeToString()


def _texts(content: bytes, clips: Sequence[Clip], metadata: Mapping[str, str]) -> list[str]:
    """What a graph of CTC says of the clips."""
    session = quiet_session(content)
    labels, blank, separator = (json.loads(metadata[key]) for key in ("labels", "blank", "separator"))
    decoder, texts = CTCDecoder(labels, blank=blank, separator=separator), []
    for clip in clips:
        first, second, *runs = session.run(None, clip)
        if runs:  # the graph has decoded
            said = "".join(labels[label] for label in first[0, : second[0]])
        else:
            said = "".join(letter.text for letter in decoder(first[0, : second[0]])[0].letters)
        texts.append(" ".join(said.replace(separator, " ").split()) if separator else said)
    return texts


def _stated(model: onnx.ModelProto, **facts: object) -> onnx.ModelProto:
    for key, value in encoded(**facts).items():
        model.metadata_props.add(key=key, value=value)
    return model
