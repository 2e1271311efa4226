"""What files say of themselves is checked before anything relies on it."""

import hashlib
import json

import numpy as np
import pytest

from common.audio import waveform
from tests.fuzz.served import FACTS, RATE, small_onnx
from trt.engines.building import EngineError, check, check_shape
from trt.facts import ModelError, checked, facts_in
from trt.runtime.recognizer import Recognizer


def written(path, facts, outputs=4):
    path.write_bytes(small_onnx({key.encode(): json.dumps(value).encode() for key, value in facts.items()}, outputs))
    return path


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sample_rate", 0, "sample_rate is 0; expected a rate of 1000 to 768000"),
        ("labels", ["a", 1], r"labels is \['a', 1\]; expected a list of texts"),
        ("blank", 4, "blank is 4; expected one of 4 labels"),
        ("samples_per_frame", 10**12, "samples_per_frame is 1000000000000; expected 1 or more"),
        ("seconds_per_frame", float("nan"), "seconds_per_frame is nan; expected a number above 0"),
        ("trim_silence", "no", "trim_silence is no; expected true or false"),
        ("longest_pause", -1, "longest_pause is -1; expected 0 or more"),
        ("pause_db", 0, "pause_db is 0; expected a number above 0"),
    ],
)
def test_a_fact_of_another_kind_is_named(tmp_path, name, value, message):
    path = written(tmp_path / "m.onnx", FACTS | {name: value})
    with pytest.raises(ModelError, match=f"m.onnx: its metadata are not those of a model .*: {message}"):
        Recognizer(path)
    with pytest.raises(ValueError, match=message):
        checked(FACTS | {name: value})


def test_metadata_that_are_no_json_are_named():
    with pytest.raises(ValueError, match="labels is no JSON: '{'"):
        facts_in({"labels": "{"})
    with pytest.raises(ValueError, match="labels is no JSON"):
        facts_in({"labels": "[" * 100_000})


def test_a_graph_that_gives_something_else_or_nothing_is_an_error_of_its_file(tmp_path):
    waveform.write(tmp_path / "a.wav", np.full(1600, 0.1, np.float32), RATE)
    recogniser = Recognizer(written(tmp_path / "m.onnx", FACTS, outputs=7))
    with pytest.raises(
        ModelError, match=r"m.onnx: gives arrays of shapes .*; expected log-probabilities \[1, frames, 4\]"
    ):
        list(recogniser.stream([tmp_path / "a.wav"]))
    with pytest.raises(ModelError, match="m.onnx: does not run: "):
        recogniser.network.run(audio_BN=np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shapes": {"audio_BN": [[1], [2]]}}, r"shapes of audio_BN: \[\[1\], \[2\]\]"),
        ({"shapes": 3}, "not an engine of trt.build"),
        ({"metadata": {"labels": 3}}, "labels is 3; expected a list of texts"),
        ({"capabilities": None}, "not an engine of trt.build"),
    ],
)
def test_what_stands_beside_an_engine_is_checked(tmp_path, changes, message):
    engine = tmp_path / "a.engine"
    engine.write_bytes(b"engine")
    facts = {
        "sha256": hashlib.sha256(b"engine").hexdigest(),
        "library": "tensorrt_rtx",
        "version": "1",
        "capabilities": ["8.9"],
        "shapes": {"audio_BN": [[1, 100], [1, 1000], [8, 9000]]},
        "metadata": FACTS,
    }
    beside = tmp_path / "a.engine.json"
    beside.write_text(json.dumps(facts))
    found = check(engine, capability="8.9", library="tensorrt_rtx", version="1")
    for name, shape in (("audio_BN", (1, 99)), ("audio_BN", (1,)), ("other", (1, 100))):
        with pytest.raises(EngineError, match=rf"{name} of shape .*: the engine was built for"):
            check_shape(found, name, shape)
    beside.write_text(json.dumps(facts | changes))
    with pytest.raises(EngineError, match=message):
        check(engine, capability="8.9", library="tensorrt_rtx", version="1")
