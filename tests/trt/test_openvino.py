"""Recognisers in OpenVINO give what they give in ONNX Runtime; where it is not installed, the reason is one line."""

import json
import sys

import numpy as np
import onnx
import pytest

from trt.facts import ModelError
from trt.run import RunConfig, main
from trt.runtime import loading

LENGTHS = (800, 9_137, 40_000, 16_000, 1)


def test_where_openvino_is_not_installed_the_command_says_how_to_install_it(jasper, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    wanted = r"m\.onnx: runtime openvino needs the package of that name \(.*\): pip install -e '\.\[openvino\]'"
    for runtime in ("openvino", "openvino_bf16"):
        with pytest.raises(ModelError, match=wanted):
            main(RunConfig(model=jasper.with_suffix(".onnx"), inputs=(jasper.parent,), runtime=runtime))


def test_what_is_no_onnx_file_is_told_before(tmp_path):
    (tmp_path / "m.engine").write_bytes(b"of TensorRT")
    with pytest.raises(
        ModelError, match=r"m\.engine: an engine of TensorRT, which openvino does not run; give it an ON"
    ):
        loading.load(tmp_path / "m.engine", runtime="openvino")
    with pytest.raises(ModelError, match=r"gone\.onnx: no such file; expected a model that trt\.export wrote"):
        loading.load(tmp_path / "gone.onnx", runtime="openvino")


def audio(lengths):
    random = np.random.default_rng(0)
    audio_BN = 0.1 * random.standard_normal((len(lengths), max(lengths))).astype(np.float32)
    return {"audio_BN": audio_BN, "samples_B": np.array(lengths)}


def differences(path, runtime, lengths=LENGTHS):
    """The greatest difference of log-probabilities, and the part of the frames with the same label."""
    both = [loading.load(path, threads=1, runtime=name) for name in ("onnxruntime", runtime)]
    expected, found = (asr.log_probs(**audio(lengths)) for asr in both)
    assert [len(row) for row in found] == [len(row) for row in expected]
    expected, found = np.concatenate(expected), np.concatenate(found)
    return np.abs(expected - found).max(), (expected.argmax(1) == found.argmax(1)).mean()


def test_ragged_batches_give_the_same_in_float32(jasper):
    pytest.importorskip("openvino")
    assert differences(jasper.with_suffix(".onnx"), "openvino")[0] < 5e-5
    assert differences(jasper.with_suffix(".onnx"), "openvino", (31,))[0] < 5e-5


def test_bfloat16_is_for_the_network_and_not_for_features(jasper, tmp_path):
    openvino = pytest.importorskip("openvino")
    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("no processor with bfloat16")
    path = jasper.with_suffix(".onnx")
    difference, same = differences(path, "openvino_bf16")
    assert 1e-5 < difference < 0.2
    assert same > 0.9
    model = onnx.load(path)
    kept = [entry for entry in model.metadata_props if entry.key != "features_tensor"]
    assert len(kept) == len(model.metadata_props) - 1
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    onnx.save(model, tmp_path / "old.onnx")
    with pytest.raises(ModelError, match=r"old\.onnx: does not say where its features end, which stay in fp32; export"):
        loading.load(tmp_path / "old.onnx", runtime="openvino_bf16")


def test_a_processor_without_bfloat16_and_files_in_fewer_bits_are_refused(jasper, tmp_path, monkeypatch):
    openvino = pytest.importorskip("openvino")
    model = onnx.load(jasper.with_suffix(".onnx"))
    model.metadata_props.add(key="precision", value=json.dumps("int8"))
    onnx.save(model, tmp_path / "int8.onnx")
    with pytest.raises(
        ModelError, match=r"int8\.onnx: is in int8; OpenVINO takes files in fp32, and ONNX Runtime this"
    ):
        loading.load(tmp_path / "int8.onnx", runtime="openvino")
    (tmp_path / "bad.onnx").write_bytes(b"\x00 not a model")
    with pytest.raises(ModelError, match=r"bad\.onnx: cannot be loaded: "):
        loading.load(tmp_path / "bad.onnx", runtime="openvino")
    monkeypatch.setattr(openvino.Core, "get_property", lambda *_: ["FP32"])
    with pytest.raises(
        ModelError, match=r"m\.onnx: precision bf16: this processor has no instructions for it; take fp32"
    ):
        loading.load(jasper.with_suffix(".onnx"), runtime="openvino_bf16")


def test_transducers_run_in_openvino_too(hybrid, clips):
    pytest.importorskip("openvino")
    texts = [
        [transcript.text for transcript in loading.load(hybrid, threads=1, runtime=runtime).stream(clips[:3])]
        for runtime in ("onnxruntime", "openvino")
    ]
    assert texts[0] == texts[1]
