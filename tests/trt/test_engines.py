import json
from types import SimpleNamespace

import pytest

from common.config import ConfigError
from common.export import encoded
from tests.trt.test_reduction import small
from trt import engines
from trt.build import BuildConfig, main
from trt.conversion import converted
from trt.engines import Built, EngineError, check, check_shape, description, parsed_sizes
from trt.reduction import to_float16


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An exported network in float32 and, beside it, in float16."""
    folder = tmp_path_factory.mktemp("engines")
    graph, _ = small()
    features = {"sample_rate": 16_000, "hop_samples": 160}
    program = converted(graph._replace(metadata={**graph.metadata, **encoded(configuration={"features": features})}))
    (folder / "m.onnx").write_bytes(program.content)
    (folder / "half.onnx").write_bytes(to_float16(program))
    return folder / "m.onnx"


def test_sizes_are_batches_and_lengths():
    assert parsed_sizes("1x2s,8x7s,16x16.7s") == ((1, 2.0, True), (8, 7.0, True), (16, 16.7, True))
    assert parsed_sizes("1x200, 1x200, 4x900")[2] == (4, 900.0, False)
    with pytest.raises(ConfigError, match="profile '1x2s': expected three sizes, batch x length, such as 1x2s"):
        parsed_sizes("1x2s")
    with pytest.raises(ConfigError, match="expected sizes above 0 that rise"):
        parsed_sizes("8x2s,1x7s,16x16.7s")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_an_engine_is_built_without_a_device_and_says_what_it_is_for(model, precision, tmp_path):
    pytest.importorskip("tensorrt_rtx_bindings")
    path = model if precision == "fp32" else model.with_name("half.onnx")
    cfg = BuildConfig(model=path, out=tmp_path / "m.engine", precision=precision, compute_capability=("8.6", "8.9"))
    out = main(cfg)
    facts = check(out, capability="8.9", library="tensorrt_rtx", version=json.loads(beside(out))["version"])
    assert facts["bytes"] == out.stat().st_size > 1000
    assert facts["shapes"]["x_BFT"] == [[1, 5, 200], [8, 5, 700], [16, 5, 1670]]
    assert (facts["precision"], facts["metadata"]["blank"]) == (precision, 4)
    check_shape(facts, "x_BFT", [2, 5, 300])
    with pytest.raises(EngineError, match=r"x_BFT of shape \[2, 5, 9000\]: the engine was built for \[1, 5, 200\]"):
        check_shape(facts, "x_BFT", [2, 5, 9000])


def beside(path):
    return path.with_suffix(".engine.json").read_text()


@pytest.fixture
def engine(tmp_path):
    path = tmp_path / "m.engine"
    built = Built(b"engine", "tensorrt_rtx", "1.7", ("8.6",), "fp16", {}, "0", {}, 1.0)
    path.write_bytes(built.content)
    path.with_suffix(".engine.json").write_text(description(built))
    return path


def test_an_engine_that_does_not_fit_is_refused(engine):
    here = {"capability": "8.6", "library": "tensorrt_rtx", "version": "1.7"}
    assert check(engine, **here)["precision"] == "fp16"
    with pytest.raises(EngineError, match=r"built for compute capability 8\.6, and this device has 9\.0; build"):
        check(engine, **here | {"capability": "9.0"})
    with pytest.raises(EngineError, match=r"built by tensorrt_rtx 1\.7, and here is tensorrt 11; build it again"):
        check(engine, **here | {"library": "tensorrt", "version": "11"})
    engine.write_bytes(b"other")
    with pytest.raises(EngineError, match=r"its checksum is not that of m\.engine\.json; the file is damaged"):
        check(engine, **here)
    engine.with_suffix(".engine.json").unlink()
    with pytest.raises(EngineError, match=r"not an engine of trt\.build with m\.engine\.json beside it"):
        check(engine, **here)


def saved(model, tmp_path, **facts):
    import onnx

    proto = onnx.load(model)
    for key, value in encoded(**facts).items():
        proto.metadata_props.add(key=key, value=value)
    onnx.save(proto, tmp_path / "other.onnx")
    return tmp_path / "other.onnx"


@pytest.mark.parametrize(
    ("facts", "precision", "message"),
    [
        ({}, "fp16", "is fp32, not fp16; networks are strongly typed: export it with --precision fp16"),
        ({"precision": "int8"}, "int8", "its 8-bit activations have no sign, for processors, which TensorRT does not"),
        ({"part": "whole"}, "fp32", "decides its length itself, and an engine wants it beforehand; export --part enc"),
    ],
)
def test_a_model_of_which_no_engine_can_be_built_is_named(model, tmp_path, facts, precision, message):
    with pytest.raises(EngineError, match=message):
        main(BuildConfig(model=saved(model, tmp_path, **facts), precision=precision))


def test_what_is_no_model_is_one_line(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\xff nothing")
    with pytest.raises(EngineError, match=r"m\.onnx: cannot be read as an ONNX model: "):
        main(BuildConfig(model=tmp_path / "m.onnx"))
    with pytest.raises(ValueError, match="no compute capability; name those of the devices"):
        BuildConfig(model=tmp_path / "m.onnx", compute_capability=())


def test_devices_that_only_tensorrt_builds_for_are_named(model):
    pytest.importorskip("tensorrt_rtx_bindings")
    with pytest.raises(EngineError, match=r"compute capability 9\.0, 10\.0: TensorRT-RTX builds for 7\.5, .*install"):
        main(BuildConfig(model=model, compute_capability=("8.6", "9.0", "10.0")))


def test_without_the_library_the_extra_is_named(model, monkeypatch):
    monkeypatch.setattr(engines, "LIBRARIES", ("no_such_library",))
    with pytest.raises(EngineError, match=r"neither tensorrt nor tensorrt_rtx is installed; pip install"):
        main(BuildConfig(model=model))


def test_what_the_library_says_is_passed_on(model, monkeypatch):
    """With a library that takes no graph, and one that builds nothing."""

    class Refusing:
        __version__ = "0"
        ILogger = type("ILogger", (), {"Severity": SimpleNamespace(ERROR=1)})
        NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=0)
        takes = False

        def Builder(self, logger):
            network = SimpleNamespace(num_inputs=0)
            own = SimpleNamespace(num_compute_capabilities=0, add_optimization_profile=lambda profile: None)
            return SimpleNamespace(
                create_network=lambda flags: network,
                create_builder_config=lambda: own,
                create_optimization_profile=lambda: None,
                build_serialized_network=lambda network, config: logger.log(1, "out of\n memory"),
            )

        def OnnxParser(self, network, logger):
            said = SimpleNamespace(desc=lambda: "no such\n operation")
            return SimpleNamespace(parse=lambda content: self.takes, get_error=lambda i: said)

    library = Refusing()
    monkeypatch.setattr(engines, "_library", lambda: ("tensorrt", library))
    with pytest.raises(EngineError, match=r"m\.onnx: tensorrt does not take this graph: no such operation"):
        main(BuildConfig(model=model))
    library.takes = True
    with pytest.raises(EngineError, match=r"m\.onnx: tensorrt builds no engine: out of memory"):
        main(BuildConfig(model=model))
