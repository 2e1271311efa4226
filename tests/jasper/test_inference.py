from pathlib import Path

import numpy as np
import pytest
import soundfile

from common import config
from tests.data import shared
from tests.jasper.tiny import run, tiny_config

RATE = 16_000


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A FLAC file, a deeper WAV file at 8 kHz and something that is no audio, in one folder."""
    folder = tmp_path / "speech"
    (folder / "deeper").mkdir(parents=True)
    random = np.random.default_rng(0)
    soundfile.write(folder / "a.flac", random.normal(0, 0.1, 2 * RATE), RATE)
    soundfile.write(folder / "deeper" / "b.WAV", random.normal(0, 0.1, 12_000), 8_000)
    (folder / "notes.md").write_text("no audio")
    return [folder / "a.flac", folder / "deeper" / "b.WAV"]


def test_a_librispeech_folder_is_known_by_its_transcripts(capsys):
    golden = shared("golden/jasper") / "Jasper_epoch7_checkpoint.pt"
    folder = shared("data/librispeech-mini/LibriSpeech/test-clean/1995")
    said = run(capsys, "jasper.inference", golden, folder)
    assert said.out[0].startswith("1995-1837-0001\t")
    assert said.err[-1].startswith("WER ")


def test_weights_precision_and_configuration_can_be_chosen(model, files, tmp_path, capsys):
    plain, raw = (run(capsys, "jasper.inference", model, files[0], "--ema", ema) for ema in ("true", "false"))
    assert plain.out != raw.out
    assert run(capsys, "jasper.inference", model, files[0], "--precision", "bf16").status == 0
    assert run(capsys, "jasper.inference", model, files[0], "--precision", "int8").status in (0, 2)  # 2: no library
    own = tmp_path / "own.toml"
    own.write_text(config.to_toml(tiny_config(trim_silence=False)))
    assert run(capsys, "jasper.inference", model, files[0], "--config", own, "--ema", "true").out == plain.out
