import numpy as np
import soundfile

from common import config
from tests.data import shared
from tests.jasper.tiny import run, tiny_config

RATE = 16_000


def test_a_librispeech_folder_is_known_by_its_transcripts(capsys):
    golden = shared("golden/jasper") / "Jasper_epoch7_checkpoint.pt"
    folder = shared("data/librispeech-mini/LibriSpeech/test-clean/1995")
    said = run(capsys, "jasper.inference", golden, folder)
    assert said.out[0].startswith("1995-1837-0001\t")
    assert said.err[-1].startswith("WER ")


def test_weights_precision_and_configuration_can_be_chosen(model, tmp_path, capsys):
    path = tmp_path / "a.flac"
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 2 * RATE), RATE)
    plain, raw = (run(capsys, "jasper.inference", model, path, "--ema", ema) for ema in ("true", "false"))
    assert plain.out != raw.out
    assert run(capsys, "jasper.inference", model, path, "--precision", "bf16").status == 0
    assert run(capsys, "jasper.inference", model, path, "--precision", "int8").status in (0, 2)  # 2: no library
    own = tmp_path / "own.toml"
    own.write_text(config.to_toml(tiny_config(trim_silence=False)))
    assert run(capsys, "jasper.inference", model, path, "--config", own, "--ema", "true").out == plain.out
