"""The notebooks run on toy checkpoints, and are kept without outputs."""

from pathlib import Path

import pytest

from common.audio import waveform
from tests.fastpitch.speaking.test_synthesizer import save as save_fastpitch
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan
from tests.jasper.tiny import save_tiny
from tests.trt.serving.running import noise

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
REPOSITORY = Path(__file__).parents[2]
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    waveform.write(tmp_path / "talk.flac", noise(3.0), 16_000)
    models = {
        "CHECKPOINT": save_tiny(tmp_path / "m.pt"),
        "RECORDING": tmp_path / "talk.flac",
        "FASTPITCH": save_fastpitch(tmp_path / "fastpitch.pt"),
        "VOCODER": save_hifigan(tmp_path / "vocoder.pt", ISTFT),
    }
    variables = {
        "SECONDS_PER_ROW": "0.5",
        "PYTHONPATH": str(REPOSITORY),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    for name, value in (models | variables).items():
        monkeypatch.setenv(name, str(value))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert "image/png" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
