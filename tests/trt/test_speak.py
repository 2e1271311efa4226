import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.jasper.tiny import run
from trt.runtime.voice import Synthesizer, Vocoder

REPOSITORY = Path(__file__).parents[2]


def test_phrases_are_written_and_what_cannot_be_said_is_told(voice, tmp_path, capsys):
    (tmp_path / "p.tsv").write_text(
        "text\toutput\tpace\tmel\nHi there.\ta.wav\t2\t\n\u4f60.\tb.wav\t\t\n\tc.wav\t\tc.npy\n"
    )
    models = [voice / "tts.onnx", "--vocoder", voice / "v.onnx"]
    said = run(capsys, "trt.speak", *models, tmp_path / "p.tsv", "Hi there.", "-o", tmp_path / "out", "--speaker", 1)
    assert said.status == 1
    assert "p.tsv:3: '\u4f60.': nothing to say in it" in said.err[0]
    assert "c.npy: a mel spectrogram; expected a text" in said.err[1]
    assert said.out == [f"{tmp_path}/out/a.wav", f"{tmp_path}/out/audio_3.wav"]
    assert said.err[2] == "error: 2 of 4 phrases could not be said"
    sounds = {path.name: soundfile.read(path, dtype="int16")[0] for path in (tmp_path / "out").iterdir()}
    assert sorted(sounds) == ["a.wav", "audio_3.wav"]
    assert len(sounds["a.wav"]) < 0.7 * len(sounds["audio_3.wav"])
    whole_N = Synthesizer(voice / "tts.onnx", Vocoder(voice / "v.onnx")).say("Hi there.", speaker=1).samples
    assert np.abs(sounds["audio_3.wav"] - 32767 * whole_N).max() <= 2


def test_it_speaks_where_torch_cannot_be_imported(voice, tmp_path):
    code = """
import runpy, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "librosa", "scipy", "jiwer", "onnx", "tensorboard"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
runpy.run_module("trt.speak", run_name="__main__", alter_sys=True)
"""
    models = [voice / "tts.onnx", "--vocoder", voice / "v.onnx"]
    command = [sys.executable, "-c", code, *map(str, models), "Hi there.", "-o", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert soundfile.info(tmp_path / "audio_0.wav").frames > 256


@pytest.mark.filterwarnings("ignore:'trt.speak' found in sys.modules")
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([], "nothing to say; name phrase files, or write texts in quotes"),
        (["Hi.", "--sigma", -1], "sigma = -1: expected 0 or more"),
    ],
)
def test_what_cannot_be_said_so_is_one_line(voice, capsys, asked, told):
    said = run(capsys, "trt.speak", voice / "tts.onnx", *asked, "--vocoder", voice / "v.onnx")
    assert said.status == 2
    assert said.err[-1].endswith(told)
