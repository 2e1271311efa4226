import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ctc import _library as ctc_library
from ctc import native
from trt.depthwise import library
from trt.depthwise.rewriting import joined

X_SCALE, Y_SCALE = 0.02, 0.05
needs_code = pytest.mark.skipif(not library.is_usable(), reason="no processor with AVX-512 VNNI, or no compiler")


def model(
    *, channels=32, taps=5, dilation=1, stride=1, zero=0, y_zero=130, has_bias=False, is_condition=True
) -> onnx.ModelProto:
    """A convolution of every channel by itself in 8 bits, of what a mask multiplies, as quantisation leaves it."""
    random = np.random.default_rng(taps)
    weight = random.integers(-127, 128, (channels, 1, taps)).astype(np.int8)
    constants = {
        "x_scale": np.float32(X_SCALE), "x_zero": np.uint8(zero), "one": np.float32(1 / 255), "none": np.uint8(0),
        "y_scale": np.float32(Y_SCALE), "y_zero": np.uint8(y_zero), "axis": np.array([1]), "weight": weight,
        "weight_scale": random.uniform(0.001, 0.003, channels).astype(np.float32),
        "weight_zero": np.zeros(channels, np.int8), "bias": np.ones(channels, np.float32),
        "zeroth": np.int64(0), "step": np.int64(1), "frame_axis": np.array([2]),
    }  # fmt: skip
    padding = taps // 2 * dilation
    conv = {"group": channels, "pads": [padding] * 2, "dilations": [dilation], "strides": [stride]}
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["size"], start=2, end=3),
        node("Squeeze", ["size"], ["frames"]),
        node("Range", ["zeroth", "frames", "step"], ["places"]),
        node("Unsqueeze", ["lengths", "axis"], ["ends"]),
        node("Less", ["places", "ends"], ["inside"]),
        node("Cast", ["inside"], ["counted"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["counted", "axis"], ["mask"]),
        node("QuantizeLinear", ["mask" if is_condition else "weights", "one", "none"], ["mask_8"]),
        node("DequantizeLinear", ["mask_8", "one", "none"], ["mask_1"]),
        node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["x_8"]),
        node("DequantizeLinear", ["x_8", "x_scale", "x_zero"], ["x_1"]),
        node("Mul", ["x_1", "mask_1"], ["masked"]),
        node("QuantizeLinear", ["masked", "x_scale", "x_zero"], ["masked_8"]),
        node("DequantizeLinear", ["masked_8", "x_scale", "x_zero"], ["masked_1"]),
        node("DequantizeLinear", ["weight", "weight_scale", "weight_zero"], ["taps"], axis=0),
        node("Conv", ["masked_1", "taps", *(["bias"] if has_bias else [])], ["sums"], "conv", **conv),
        node("QuantizeLinear", ["sums", "y_scale", "y_zero"], ["y_8"]),
        node("DequantizeLinear", ["y_8", "y_scale", "y_zero"], ["y"]),
    ]
    if not is_condition:
        nodes.insert(0, node("Abs", ["mask"], ["weights"]))
        nodes = [*nodes[1:8], nodes[0], *nodes[8:]]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "depthwise",
        [value("x", TensorProto.FLOAT, ["B", channels, "T"]), value("lengths", TensorProto.INT64, ["B"])],
        [value("y", TensorProto.FLOAT, ["B", channels, "S"])],
        [numpy_helper.from_array(np.asarray(constant), name) for name, constant in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def joined_model(**choices) -> onnx.ModelProto:
    found = joined(model(**choices))
    onnx.checker.check_model(found)
    assert [node.op_type for node in found.graph.node].count("DepthwiseConv") == 1
    return found


def session(made: onnx.ModelProto, *, is_native: bool) -> onnxruntime.InferenceSession:
    options, content = onnxruntime.SessionOptions(), made.SerializeToString()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if is_native:
        assert library.register(options, content, threads=1)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def sounds(channels: int, lengths: list[int]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(len(lengths))
    x_BCT = random.uniform(-1, 4, (len(lengths), channels, max(lengths))).astype(np.float32)
    return {"x": x_BCT, "lengths": np.array(lengths)}


@pytest.mark.parametrize("is_native", [False, pytest.param(True, marks=needs_code)])
@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ({}, [50, 1, 37]),
        ({"taps": 33, "channels": 64, "zero": 100}, [401, 200]),
        ({"taps": 87, "dilation": 2, "channels": 16, "y_zero": 0}, [193]),
        ({"taps": 1, "zero": 255, "y_zero": 255}, [12, 13]),
        ({"taps": 3, "dilation": 512}, [1]),
        ({"taps": 511, "channels": 16}, [30]),
    ],
)
def test_the_operator_gives_what_quantised_convolutions_give_to_the_last_bit(sizes, lengths, is_native):
    inputs = sounds(sizes.get("channels", 32), lengths)
    (expected,) = session(model(**sizes), is_native=False).run(None, inputs)
    (found,) = session(joined_model(**sizes), is_native=is_native).run(None, inputs)
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(found, expected)


@needs_code
def test_threads_may_call_at_once():
    inputs = sounds(32, [300])
    ours = session(joined_model(), is_native=True)
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: ours.run(None, inputs)[0], range(12))
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize(
    "other",
    [{"stride": 2}, {"channels": 24}, {"taps": 4}, {"has_bias": True}, {"is_condition": False},
     {"taps": 129, "dilation": 5}, {"taps": 513}, {"taps": 3, "dilation": 513}],
)  # fmt: skip
def test_what_the_native_code_does_not_compute_stays_as_it_is(other):
    made = model(**other)
    before = made.SerializeToString()
    assert joined(made).SerializeToString() == before


@needs_code
@pytest.mark.parametrize(("name", "value"), [("padding", 1), ("dilation", 0), ("dilation", 10**12)])
def test_a_file_whose_attributes_do_not_fit_is_an_error(name, value):
    made = joined_model()
    (node,) = [node for node in made.graph.node if node.op_type == "DepthwiseConv"]
    (attribute,) = [attribute for attribute in node.attribute if attribute.name == name]
    attribute.i = value
    with pytest.raises(Exception, match="DepthwiseConv: shapes or attributes that do not fit"):
        session(made, is_native=True).run(None, sounds(32, [20]))


@needs_code
def test_the_code_is_for_files_that_ask_for_it_and_few_threads(tmp_path):
    options, content = onnxruntime.SessionOptions(), joined_model().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(content)
    assert library.register(options, tmp_path / "m.onnx", threads=3)
    assert not library.register(onnxruntime.SessionOptions(), content, threads=4)
    assert not library.register(onnxruntime.SessionOptions(), model().SerializeToString(), threads=1)


@needs_code
@pytest.mark.parametrize("how", ["cut short", "without its functions", "of another interface"])
def test_native_code_that_cannot_be_used_costs_its_speed_and_one_line(tmp_path, monkeypatch, capsys, how):
    made, inputs = joined_model(), sounds(32, [50, 37])
    (expected,) = session(made, is_native=True).run(None, inputs)
    package = tmp_path / "depthwise"
    (package / "_build").mkdir(parents=True)
    damaged = native.NativeLibrary(package=package, command=library.LIBRARY.command)
    if how == "cut short":
        damaged.cpu.write_bytes(library.LIBRARY.cpu.read_bytes()[:3000])
    elif how == "without its functions":
        shutil.copy(ctc_library.LIBRARY.cpu, damaged.cpu)
    else:
        content = library.LIBRARY.cpu.read_bytes()
        damaged.cpu.write_bytes(content.replace(b"RegisterCustomOps", b"RegisterCustomOpz"))
    monkeypatch.setattr(library, "LIBRARY", damaged)
    library.is_usable.cache_clear()
    options, content = onnxruntime.SessionOptions(), made.SerializeToString()
    for _ in range(2):
        assert not library.register(options, content, threads=1)
    told = capsys.readouterr().err
    assert told.startswith(f"depthwise: {damaged.cpu} cannot be ")
    assert told.endswith(" --force builds it again\n")
    assert told.count("\n") == 1
    options.log_severity_level = 4
    without = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(without.run(None, inputs)[0], expected)
    library.is_usable.cache_clear()
