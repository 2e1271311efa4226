import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from common.export import ExportGraph, encoded
from trt.conversion import ExportError, converted
from trt.quantisation.ranges import best_range
from trt.quantisation.reduced import Quantisation, checked, noisy, of_places, to_float16, to_int8

METADATA = encoded(labels=["a", "b", "c", " ", "<blank>"], blank=4, separator=" ")


class Small(nn.Module):
    """Four channels say which label a frame has, and one is noise that is loud inside where `is_hard`."""

    def __init__(self, is_hard: bool = False):
        super().__init__()
        self.exact, self.first, self.second, self.third, self.last = (nn.Conv1d(5, 5, 1) for _ in range(5))
        with torch.no_grad():
            for conv in (self.exact, self.first, self.second, self.third, self.last):
                conv.weight.copy_(torch.eye(5)[:, :, None] + 0.01)
                conv.bias.zero_()
            self.first.weight[:, 4] = 0
            self.first.weight[4] = torch.tensor([0, 0, 0, 0, 3e4 if is_hard else 1.0])[:, None]
            self.second.weight[:, 4] = 0

    def forward(self, x_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, Tensor]:
        h_BCT = self.second(self.first(self.exact(x_BFT)).relu()).relu()
        return (8 * self.last(self.third(h_BCT).relu())).mT.log_softmax(2), frames_B + 0


def small(is_hard: bool = False) -> tuple[ExportGraph, list[dict[str, np.ndarray]]]:
    noise = torch.Generator().manual_seed(1)

    def sounds(batch: int, frames: int) -> Tensor:
        labels = torch.randint(4, (batch, frames), generator=noise)
        one_hot_BTF = torch.nn.functional.one_hot(labels, 5).float()
        one_hot_BTF[:, :, 4] = torch.rand(batch, frames, generator=noise)
        return one_hot_BTF.mT.contiguous()

    example = {"x_BFT": sounds(2, 30), "frames_B": torch.tensor([30, 20])}
    module = Small(is_hard).eval()
    graph = ExportGraph(
        module=module,
        reference=module,
        inputs=example,
        axes={"x_BFT": {0: "B", 2: "T"}, "frames_B": {0: "B"}},
        outputs=("y_BSV", "output_frames_B"),
        checks=(),
        tolerance=1e-4,
        metadata=METADATA,
        full_precision=("exact",),
    )
    return graph, [{"x_BFT": sounds(1, 60).numpy(), "frames_B": np.array([60])} for _ in range(12)]


def test_float16_leaves_what_must_be_exact_and_the_inputs_and_outputs_in_float32():
    graph, _ = small()
    content = to_float16(converted(graph))
    model = onnx.load_model_from_string(content)
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert kinds["exact.weight"] == onnx.TensorProto.FLOAT
    assert kinds["first.weight_half"] == onnx.TensorProto.FLOAT16
    assert "first.weight" not in kinds
    session = onnxruntime.InferenceSession(content)
    assert {value.type for value in session.get_outputs()} == {"tensor(float)", "tensor(int64)"}
    assert 0 < checked(content, graph, "fp16") < 0.01
    assert json.loads(session.get_modelmeta().custom_metadata_map["precision"]) == "fp16"


def test_int8_says_the_words_of_float32_and_what_it_was_fitted_to():
    graph, clips = small()
    found = to_int8(converted(graph), clips, METADATA)
    assert found.words > 50
    assert (found.errors, len(found.excluded)) == (0, 1)  # the last layer
    told = json.loads(onnxruntime.InferenceSession(found.content).get_modelmeta().custom_metadata_map["int8"])
    assert (told["layers"], told["clips"], told["words"]) == (4, 12, found.words)
    operators = [node.op_type for node in onnx.load_model_from_string(found.content).graph.node]
    assert operators.count("QuantizeLinear") >= 3
    assert checked(found.content, graph, "int8") < 0.5


def test_values_that_are_not_finite_are_refused():
    graph, _ = small()
    content = to_float16(converted(graph))
    great = graph._replace(inputs={**graph.inputs, "x_BFT": torch.full((2, 5, 30), torch.nan)})
    with pytest.raises(ExportError, match=r"y_BSV has the shape \(2, 30, 5\) and NaN or infinity in fp16; take fp32"):
        checked(content, great, "fp16")


def test_a_graph_that_float16_changes_too_much_is_refused():
    graph, _ = small()
    content = to_float16(converted(graph))
    other = graph._replace(reference=lambda x_BFT, frames_B: (2 * graph.module(x_BFT, frames_B)[0], frames_B))
    with pytest.raises(ExportError, match=r"the graph differs by .*% of its greatest value in fp16; take fp32"):
        checked(content, other, "fp16")


def test_layers_that_8_bits_cannot_hold_stay_in_float32_and_are_named():
    graph, clips = small(is_hard=True)
    found = to_int8(converted(graph), clips, METADATA)
    assert found.errors == 0
    assert 1 < len(found.excluded) < found.layers == 4


def test_words_that_no_exclusion_keeps_are_an_error():
    graph, clips = small()
    with pytest.raises(
        ExportError, match=r"int8: 0 of \d+ words of the clips differ .* even with 3 of 4 layers in float32"
    ):
        to_int8(converted(graph), clips, METADATA, Quantisation(most_errors=-1))


def error_in_8_bits(x_N: np.ndarray, low: float, high: float) -> float:
    step = (high - low) / 255
    zero = round(-low / step)
    kept_N = (np.clip(np.round(x_N / step) + zero, 0, 255) - zero) * step
    return float(np.square(x_N - kept_N).mean())


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_the_best_range_has_the_least_error(shape, is_symmetric):
    random = np.random.default_rng(0)
    x_N = random.gamma(shape, size=200_000) - 0.3 * random.gamma(shape, size=200_000)
    low, high = float(x_N.min()), float(x_N.max())
    counts_K, _ = np.histogram(x_N, 2048, (low, high))
    found = best_range(counts_K, low, high, is_symmetric=is_symmetric)
    assert found[0] == -found[1] or not is_symmetric
    widest = (-high, high) if is_symmetric else (low, high)
    assert error_in_8_bits(x_N, *found) <= error_in_8_bits(x_N, *widest)
    others = [(found[0] * a, found[1] * (a if is_symmetric else b)) for a in (0.8, 1.0, 1.2) for b in (0.8, 1.0, 1.2)]
    assert error_in_8_bits(x_N, *found) < 1.02 * min(error_in_8_bits(x_N, *other) for other in others)
    assert best_range(np.zeros(2048), 0.0, 0.0) == (0.0, 0.0)


class Summed(nn.Module):
    """Two layers whose sum goes on, after another has cut off what is below 0; of so many taps on the right."""

    def __init__(self, taps: int):
        super().__init__()
        self.left, self.last = nn.Conv1d(5, 5, 9, padding=4), nn.Conv1d(5, 5, 1)
        self.right = nn.Conv1d(5, 5, taps, padding=taps // 2)

    def forward(self, x_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, Tensor]:
        h_BCT = (self.left(x_BFT) + self.right(x_BFT)).relu()
        return self.last(h_BCT).mT.log_softmax(2), frames_B + 0


@pytest.mark.parametrize(("taps", "in_8_bits"), [(3, 2), (1, 1)])
def test_sums_the_last_layer_and_small_ones_that_are_summed_up_are_not_rounded_to_8_bits(taps, in_8_bits):
    graph, clips = small()
    module = Summed(taps).eval()
    graph = graph._replace(module=module, reference=module, full_precision=())
    found = to_int8(converted(graph), clips, METADATA, Quantisation(most_errors=float("inf")))
    assert found.layers - len(found.excluded) == in_8_bits
    nodes = onnx.load_model_from_string(found.content).graph.node
    makers = {name: node.op_type for node in nodes for name in node.output}
    rounded = [makers.get(node.input[0], "input") for node in nodes if node.op_type == "QuantizeLinear"]
    assert sorted(rounded) == [*["Conv"] * in_8_bits, "input"]


def test_for_engines_activations_have_a_sign_and_no_zero_point_and_biases_stay():
    graph, clips = small()
    found = to_int8(converted(graph), clips, METADATA, Quantisation(target="tensorrt"))
    model = onnx.load_model_from_string(found.content)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    zeros = [constants[n.input[2]] for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert {zero.dtype.name for zero in zeros} == {"int8"}
    assert not any(zero.any() for zero in zeros)
    told = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert told["int8"]["target"] == "tensorrt"


def test_noise_is_as_loud_as_asked_for():
    samples_N = np.sin(np.arange(16_000)).astype(np.float32)
    noise_N = noisy(samples_N, 10.0, 0) - samples_N
    assert np.mean(np.square(samples_N)) / np.mean(np.square(noise_N)) == pytest.approx(10, rel=0.05)
    assert noisy(samples_N, float("inf"), 0) is samples_N


def test_places_are_counted_in_single_precision_also_where_what_is_heard_says_how_many():
    single, whole = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Cast", ["pace"], ["count"], "counts", to=whole),
        make("Range", ["zero", "count", "one"], ["places"], "ranges"),
        make("Add", ["pace", "pace"], ["twice"], "adds"),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [value("pace", single, [])], [value("twice", single, [])])
    assert "ranges" in of_places(graph)
    assert "adds" not in of_places(graph)
