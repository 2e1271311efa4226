"""What `trt/README.md` promises of machines without torch, in an environment that has nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common.audio import waveform
from fastconformer.recognizer import load as load_transducer
from jasper.recognizer import load as load_jasper
from tests.fastconformer import golden
from tests.timing import importing, quickest

REPOSITORY = Path(__file__).parents[2]
NEEDED = ("onnxruntime", "numpy", "soundfile", "soxr", "tyro")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an empty environment with what the README installs; skips without a package index."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    interpreter = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", interpreter, "install", "-q", "--no-compile"]
    command += ["-c", REPOSITORY / "constraints.txt", *NEEDED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr or "Could not find a version" in done.stderr:
        pytest.skip("no package index here")
    assert done.returncode == 0, done.stderr
    return interpreter


def run(python: Path, *arguments: object) -> str:
    """What a command prints there."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [python, *map(str, arguments)], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.timeout(600)
def test_recordings_are_transcribed_where_only_that_is_installed(python, jasper, hybrid, tmp_path):
    random = np.random.default_rng(0)
    loudness = np.repeat(random.uniform(0.01, 0.3, 25), 1600)
    waveform.write(tmp_path / "a.flac", loudness * random.standard_normal(len(loudness)), 16_000)
    for model, asr in (
        (jasper.with_suffix(".onnx"), load_jasper(jasper, device="cpu")),
        (hybrid, load_transducer(golden.folder() / "tdt_ctc.nemo", device="cpu")),
    ):
        (expected,) = asr.transcribe([tmp_path / "a.flac"])
        assert expected.text
        assert run(python, "-m", "trt.run", model, tmp_path / "a.flac") == f"{tmp_path / 'a.flac'}\t{expected.text}\n"
    assert quickest(1, lambda: importing("trt.run", python, cwd=REPOSITORY)) < 1
    assert run(python, "-c", "import importlib.util as u; print(u.find_spec('torch'))") == "None\n"
