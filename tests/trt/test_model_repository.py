"""Repositories for a full Triton: their files, and, where Triton is, their Python parts at work."""

import asyncio
import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from common.audio import waveform
from jasper import load
from tests.trt.serving.running import noise
from tests.trt.serving.triton.test_triton import needs_triton
from trt.export import command
from trt.facts import ModelError
from trt.model_repository import REPOSITORY, ModelRepositoryConfig, main
from trt.runtime.recognizer import Recognizer
from trt.serving.triton.asking import Infer
from trt.serving.triton.program import Triton, site_packages
from trt.serving.triton.steps import STEPS


@pytest.fixture(scope="module")
def exported(jasper, tmp_path_factory):
    """The recogniser from samples, from features, and files that say that they are something else."""
    folder = tmp_path_factory.mktemp("exported")
    shutil.copy2(jasper.with_suffix(".onnx"), folder / "samples.onnx")
    command.main(command.ExportConfig(checkpoint=jasper, out=folder / "features.onnx", input="features"))
    for name in ("greedy", "bare", "pieces"):
        model = onnx.load(folder / "samples.onnx")
        if name == "greedy":
            model.metadata_props.add(key="decode", value='"greedy"')
        else:
            del model.metadata_props[:]
        if name == "pieces":
            model.metadata_props.add(key="family", value='"fastconformer"')
        onnx.save(model, folder / f"{name}.onnx")
    return folder


@pytest.fixture(scope="module")
def without_pauses(exported, jasper):
    """The recogniser that cuts pauses, in torch, from samples and from features."""
    for name in ("samples", "features"):
        model = onnx.load(exported / f"{name}.onnx")
        told = {p.key: p.value for p in model.metadata_props} | {"longest_pause": "0.1", "pause_db": "25.0"}
        onnx.helper.set_model_props(model, told)
        onnx.save(model, exported / f"{name}_cut.onnx")
    asr = load(jasper, device="cpu")
    features = replace(asr.config.features, longest_pause=0.1, pause_db=25.0)
    asr.config = replace(asr.config, features=features)
    return asr


def steps_of(folder: Path):
    """The models as Triton would call them one after the other, in this process."""

    def run(samples_N):
        tensors = {"audio": samples_N[None]}
        for name in ("sound", "network", "decoder"):
            version = folder / name / "1"
            settings = json.loads((version / "paths.json").read_text())
            (found,) = STEPS[name](settings, version)([tensors])
            tensors |= found
            tensors = {key: value for key, value in tensors.items() if key != "audio"}
            if name == "sound":
                told = {key: tensors.pop(key) for key in ("heard_B", "cuts_BK2")}
            if name == "network":
                tensors = {**found, **told}
        return json.loads(tensors["transcript"].tobytes())

    return run


@pytest.mark.parametrize("source", ["samples", "features"])
def test_the_steps_give_what_the_recogniser_gives(exported, jasper, clips, tmp_path, source):
    main(ModelRepositoryConfig(out=tmp_path / "models", asr=exported / f"{source}.onnx", backend="python"))
    run = steps_of(tmp_path / "models")
    for clip, expected in zip(clips, Recognizer(jasper.with_suffix(".onnx")).stream(clips), strict=True):
        found = run(waveform.read(clip, sample_rate=16_000).samples)
        assert found["text"] == expected.text
        assert [word[:3] for word in found["words"]] == [list(word[:3]) for word in expected.words]
    assert run(np.zeros(16_000, np.float32))["text"] == ""


@pytest.mark.parametrize("source", ["samples", "features"])
def test_pauses_are_cut_alike_by_checkpoint_file_and_steps(exported, without_pauses, tmp_path, source):
    main(ModelRepositoryConfig(out=tmp_path / "models", asr=exported / f"{source}_cut.onnx", backend="python"))
    zeros_N, said_N = np.zeros(12_000, np.float32), noise(3.0)
    given_N = np.concatenate([zeros_N, said_N, zeros_N, said_N, zeros_N])
    expected, plain = without_pauses.transcribe([given_N, np.concatenate([said_N, zeros_N[:1600], said_N])])
    assert expected.text
    assert expected.words[-1].end > plain.words[-1].end + 1.0
    (file,) = Recognizer(exported / "samples_cut.onnx").stream([given_N])
    found = steps_of(tmp_path / "models")(given_N)
    for text, words in ((file.text, file.words), (found["text"], found["words"])):
        assert text == expected.text
        assert [tuple(word[:3]) for word in words] == [tuple(word[:3]) for word in expected.words]


@pytest.mark.parametrize(
    ("settings", "files"),
    [
        ({}, ["model.onnx"]),
        ({"backend": "python"}, ["model.onnx", "model.py", "paths.json"]),
        ({"backend": "tensorrt"}, ["model.plan"]),
    ],
)
def test_a_version_stands_beside_another_and_none_is_overwritten(exported, tmp_path, capsys, settings, files):
    if settings.get("backend") == "tensorrt":
        (tmp_path / "m.engine").write_bytes(b"engine")
        settings = {**settings, "engine": tmp_path / "m.engine"}
    for version in (1, 2):
        main(ModelRepositoryConfig(out=tmp_path / "models", asr=exported / "samples.onnx", version=version, **settings))
        assert sorted(file.name for file in (tmp_path / "models" / "network" / str(version)).iterdir()) == files
        assert sorted(file.name for file in (tmp_path / "models" / "decoder" / str(version)).iterdir()) == [
            "model.py",
            "paths.json",
        ]
        assert list((tmp_path / "models" / "recognizer" / str(version)).iterdir()) == []
    assert "sound, network, decoder, recognizer in version 2; not run" in capsys.readouterr().err
    with pytest.raises(ModelError, match=r"sound/2: is there already; take another --version or folder"):
        main(ModelRepositoryConfig(out=tmp_path / "models", asr=exported / "samples.onnx", version=2, **settings))


def messages():
    """Protobuf's reader, and tritonclient's message of a model's configuration: its package would import grpc."""
    read = pytest.importorskip("google.protobuf.text_format")
    place = Path(pytest.importorskip("tritonclient").__file__).with_name("grpc") / "model_config_pb2.py"
    if not place.exists():
        pytest.skip("tritonclient is without grpc")
    spec = importlib.util.spec_from_file_location("model_config_pb2", place)
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    if not hasattr(module, "ModelConfig"):
        spec.loader.exec_module(module)
    return read, module.ModelConfig


@pytest.mark.parametrize("source", ["samples", "features"])
@pytest.mark.parametrize("backend", ["onnx", "python"])
def test_configurations_are_valid_and_name_what_the_file_has(exported, tmp_path, source, backend):
    main(ModelRepositoryConfig(out=tmp_path, asr=exported / f"{source}.onnx", backend=backend))
    texts = {name: (tmp_path / name / "config.pbtxt").read_text() for name in ("sound", "network", "recognizer")}
    data = "audio_BN" if source == "samples" else "features_BFT"
    assert all(f'name: "{data}"' in texts[name] for name in ("sound", "network"))
    assert f'key: "{data}"' in texts["recognizer"]
    assert ("reshape" in texts["network"]) == (backend == "onnx")
    read, config = messages()
    for text in texts.values():
        read.Parse(text, config())
    with pytest.raises(read.ParseError, match='has no field named "nonsense"'):
        read.Parse(texts["sound"] + "nonsense: 1\n", config())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("greedy", "greedy.onnx: decodes itself; expected one whose decoder is the best path of letters"),
        ("bare", "bare.onnx: takes audio_BN, samples_B; expected one whose decoder"),
        ("pieces", "pieces.onnx: is a FastConformer, which trt.serve serves; expected one whose decoder"),
    ],
)
def test_what_is_no_recogniser_with_log_probabilities_is_refused(exported, tmp_path, name, message):
    path = exported / f"{name}.onnx"
    with pytest.raises(ModelError, match=message):
        main(ModelRepositoryConfig(out=tmp_path / "models", asr=path))
    assert not (tmp_path / "models").exists()


def test_what_is_refused_leaves_nothing_half_written(exported, tmp_path):
    wanted = {"out": tmp_path / "models", "asr": exported / "samples.onnx"}
    with pytest.raises(ModelError, match=r"gone\.engine: no such file; expected the engine that trt\.build made of"):
        main(ModelRepositoryConfig(**wanted, backend="tensorrt", engine=tmp_path / "gone.engine"))
    assert not (tmp_path / "models").exists()
    (tmp_path / "models" / "decoder" / "1").mkdir(parents=True)
    with pytest.raises(ModelError, match=r"decoder/1: is there already"):
        main(ModelRepositoryConfig(**wanted))
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["decoder"]


def test_flags_that_make_no_sense_are_refused():
    with pytest.raises(
        ValueError, match=r"backend tensorrt needs --engine, an engine of the same model that trt\.build"
    ):
        ModelRepositoryConfig(out=Path("o"), asr=Path("m"), backend="tensorrt")
    with pytest.raises(ValueError, match="an engine belongs to --backend tensorrt"):
        ModelRepositoryConfig(out=Path("o"), asr=Path("m"), engine=Path("m.engine"))
    with pytest.raises(ValueError, match="version = 0, max_batch = 32, .* expected a delay of 0 or more, else above 0"):
        ModelRepositoryConfig(out=Path("o"), asr=Path("m"), version=0)


@needs_triton
@pytest.mark.parametrize("source", ["samples", "features"])
def test_triton_runs_the_ensemble_with_the_python_back_end(exported, jasper, clips, tmp_path, source):
    paths = (str(REPOSITORY), *site_packages())
    main(
        ModelRepositoryConfig(out=tmp_path / "m", asr=exported / f"{source}.onnx", backend="python", python_paths=paths)
    )
    engine = Triton(tmp_path / "m")
    engine.start(print)

    async def asked():
        infer = Infer("127.0.0.1", engine.http_port)
        sounds = [waveform.read(clip, sample_rate=16_000).samples for clip in clips] * 3
        together = (infer("recognizer", {"audio": samples_N[None]}, "transcript") for samples_N in sounds)
        pair = {"audio": np.stack([noise(1.0), noise(1.0, 1)])}
        found = await asyncio.gather(*together), await infer("recognizer", pair, "transcript")
        infer.close()
        return found

    try:
        answers, pair = asyncio.run(asked())
    finally:
        engine.stop()
    expected = list(Recognizer(jasper.with_suffix(".onnx")).stream(clips)) * 3
    assert [json.loads(answer.tobytes())["text"] for answer in answers] == [one.text for one in expected]
    texts = [json.loads(row.tobytes())["text"] for row in pair]
    assert texts == [one.text for one in Recognizer(jasper.with_suffix(".onnx")).stream([noise(1.0), noise(1.0, 1)])]
