import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from common.config import ConfigError
from common.export import encoded
from fastpitch.vocoders import export as vocoder_export
from fastpitch.vocoders.vocoder import load_generator
from jasper import export as jasper_export
from jasper.config import Config
from jasper.network.model import Jasper
from tests.fastpitch.vocoders.small import HIFIGAN, ISTFT, save_hifigan
from tests.jasper.tiny import tiny_config
from tests.trt.export.test_command import SEPARABLE
from tests.trt.quantisation.test_reduced import small
from tests.wav2vec2.small import ctc_model
from trt import benchmark
from trt.benchmark import BenchmarkConfig
from trt.build import BuildConfig, main
from trt.conversion import converted
from trt.engines import building
from trt.engines.building import Built, EngineError, check, check_shape, description, parsed_sizes
from trt.facts import ModelError
from trt.quantisation.reduced import Quantisation, to_float16, to_int8
from trt.runtime import loading
from trt.runtime.engine import Engine
from wav2vec2 import export as wav2vec2_export


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
    cfg = BuildConfig(model=path, out=tmp_path / "m.engine", compute_capability=("8.6", "8.9"))
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


def test_without_a_device_an_engine_is_one_line(engine):
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    message = r"m\.engine: an engine of TensorRT runs on a GPU, and there is none here; give the ONNX file that it was"
    with pytest.raises(EngineError, match=message):
        loading.load(engine)
    with pytest.raises(EngineError, match=message):
        benchmark.main(BenchmarkConfig(model=tiny_config().model, engines=(engine,)))
    with pytest.raises(ModelError, match=r"no\.engine: no such file"):
        loading.load(engine.with_name("no.engine"))


class Library:
    """What an engine needs of TensorRT, over a network that doubles, on the processor."""

    __version__ = "1.7"
    TensorIOMode = SimpleNamespace(INPUT=0)

    def __init__(self, is_loaded=True, runs=True):
        self.is_loaded, self.runs = is_loaded, runs

    def Runtime(self, logger):
        names = ["x_BFT", "y_BFT"]
        whole = SimpleNamespace(
            num_io_tensors=2,
            get_tensor_name=names.__getitem__,
            get_tensor_mode=names.index,
            get_tensor_dtype=lambda name: "float32",
            create_execution_context=lambda: SimpleNamespace(
                set_input_shape=lambda name, shape: self.__setattr__("shape", shape),
                get_tensor_shape=lambda name: self.shape,
                set_tensor_address=lambda name, address: None,
                execute_async_v3=lambda stream: self.runs,
            ),
        )
        return SimpleNamespace(deserialize_cuda_engine=lambda content: whole if self.is_loaded else None)

    def nptype(self, dtype):
        return dtype


def test_an_engine_is_asked_by_names_and_shapes_and_says_what_is_wrong(engine, monkeypatch):
    """Over a stand-in of the library: none has run on a device."""
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0, synchronize=lambda: None))
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda shape, dtype, device: empty(shape, dtype=dtype))
    described = {"metadata": {"family": "x"}, "shapes": {"x_BFT": [[1, 5, 2], [1, 5, 3], [2, 5, 4]]}}
    logger = SimpleNamespace(said=["out of memory"])
    loaded = Engine(engine, described, Library(), logger)
    assert (loaded.inputs, loaded.outputs, loaded.facts) == (["x_BFT"], ["y_BFT"], {"family": "x"})
    found = loaded.run(x_BFT=np.zeros((2, 5, 3), np.float32))["y_BFT"]
    assert (found.shape, found.dtype) == ((2, 5, 3), np.float32)
    with pytest.raises(EngineError, match=r"x_BFT of shape \[3, 5, 3\]: the engine was built for \[1, 5, 2\] to"):
        loaded.run(x_BFT=np.zeros((3, 5, 3), np.float32))
    with pytest.raises(EngineError, match=r"m\.engine: did not run: out of memory"):
        Engine(engine, described, Library(runs=False), logger).run(x_BFT=np.zeros((2, 5, 3), np.float32))
    with pytest.raises(EngineError, match=r"m\.engine: cannot be loaded on this device: out of memory"):
        Engine(engine, described, Library(is_loaded=False), logger)


def built_of(graph, folder, precision="fp32", clips=()):
    """An engine of a graph, on which it was tried."""
    program = converted(graph)
    content = program.content
    if precision == "fp16":
        content = to_float16(program)
    elif precision == "int8":
        content = to_int8(program, clips, graph.metadata, Quantisation(target="tensorrt", most_errors=10)).content
    (folder / "m.onnx").write_bytes(content)
    cfg = BuildConfig(model=folder / "m.onnx", compute_capability=("8.6",), profile="1x1s,2x2s,4x4s")
    return main(cfg).stat().st_size


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_engines_of_quartznet_are_built(precision, tmp_path):
    pytest.importorskip("tensorrt_rtx_bindings")
    cfg = Config(model=SEPARABLE, device="cpu")
    graph = jasper_export.graph(Jasper(cfg.model, 64).eval(), cfg, "features")
    clips = [{"features_BFT": np.random.default_rng(i).standard_normal((1, 64, 80)).astype(np.float32),
              "frames_B": np.array([80])} for i in range(2)]  # fmt: skip
    assert built_of(graph, tmp_path, precision, clips) > 10_000


@pytest.mark.parametrize(
    "kind", ["mel", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("hifigan", "istft", "wav2vec2"))]
)
def test_engines_of_the_other_families_are_built(kind, tmp_path):
    pytest.importorskip("tensorrt_rtx_bindings")
    if kind == "wav2vec2":
        graph = wav2vec2_export.graph(ctc_model("base"))
    elif kind == "mel":
        cfg = Config(model=SEPARABLE, device="cpu")
        graph = jasper_export.graph(Jasper(cfg.model, 64).eval(), cfg)
        graph = graph._replace(module=graph.module.log_mel, outputs=("features_BFT", "frames_B"))
    else:
        path = save_hifigan(tmp_path / "v.pt", HIFIGAN if kind == "hifigan" else ISTFT)
        graph = vocoder_export.graph(load_generator(path))
    assert built_of(graph, tmp_path) > 10_000


def saved(model, tmp_path, **facts):
    import onnx

    proto = onnx.load(model)
    for key, value in encoded(**facts).items():
        proto.metadata_props.add(key=key, value=value)
    onnx.save(proto, tmp_path / "other.onnx")
    return tmp_path / "other.onnx"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"precision": "int8"}, "its 8-bit activations have no sign, for processors, which TensorRT does not"),
        ({"part": "whole"}, "decides its length itself, and an engine wants it beforehand; export --part enc"),
    ],
)
def test_a_model_of_which_no_engine_can_be_built_is_named(model, tmp_path, facts, message):
    with pytest.raises(EngineError, match=message):
        main(BuildConfig(model=saved(model, tmp_path, **facts)))


def test_what_is_no_model_is_one_line(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\xff nothing")
    with pytest.raises(EngineError, match=r"m\.onnx: cannot be read as an ONNX model: "):
        main(BuildConfig(model=tmp_path / "m.onnx"))
    with pytest.raises(EngineError, match=r"gone\.onnx: no such file; expected a model that trt\.export wrote"):
        main(BuildConfig(model=tmp_path / "gone.onnx"))
    with pytest.raises(ValueError, match="no compute capability; name those of the devices"):
        BuildConfig(model=tmp_path / "m.onnx", compute_capability=())


def test_devices_that_only_tensorrt_builds_for_are_named(model):
    pytest.importorskip("tensorrt_rtx_bindings")
    with pytest.raises(EngineError, match=r"compute capability 9\.0, 10\.0: TensorRT-RTX builds for 7\.5, .*install"):
        main(BuildConfig(model=model, compute_capability=("8.6", "9.0", "10.0")))


def test_without_the_library_the_extra_is_named(model, monkeypatch):
    monkeypatch.setattr(building, "LIBRARIES", ("no_such_library",))
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
    monkeypatch.setattr(building, "installed", lambda: ("tensorrt", library))
    with pytest.raises(EngineError, match=r"m\.onnx: tensorrt does not take this graph: no such operation"):
        main(BuildConfig(model=model))
    library.takes = True
    with pytest.raises(EngineError, match=r"m\.onnx: tensorrt builds no engine: out of memory"):
        main(BuildConfig(model=model))
