"""`python -m fastconformer.benchmark`: what the length of a recording costs."""

import numpy as np
import pytest
import soundfile

from common import benchmark, config
from common.config import ConfigError
from common.data.manifest import Utterance, write_jsonl
from fastconformer import benchmark as length
from fastconformer.benchmark import LengthConfig
from tests.fastconformer.checkpoints import archives


def utterances(folder) -> list[Utterance]:
    draw = np.random.default_rng(0)
    found = []
    for i, seconds in enumerate((1.5, 2.0)):
        soundfile.write(folder / f"{i}.flac", draw.normal(0, 0.1, round(seconds * 16_000)), 16_000)
        found.append(Utterance(id=str(i), audio=folder / f"{i}.flac", seconds=seconds, text="The dog!"))
    return found


def flags(*arguments):
    return config.parse_flags(LengthConfig, None, [str(a) for a in arguments], description="")


def test_a_row_per_length_has_its_memory_time_and_errors(tmp_path):
    archives.write(tmp_path / "model.nemo", archives.files())
    write_jsonl(tmp_path / "a.jsonl", utterances(tmp_path))
    files = [tmp_path / "model.nemo", tmp_path / "a.jsonl"]
    length.main(flags(*files, "--minutes", "0.1", "--repeats", "1", "--results", tmp_path, "--device", "cpu"))
    (row,) = benchmark.read_rows("transducer_length", folder=tmp_path)
    assert (row["minutes"], row["model"], row["chunks"], row["words"]) == (0.1, "model", [10.0, 10.0, 5.0], 8)
    assert row["processor_seconds"] > 0
    assert row["times_real_time"] > 1
    assert 50 < row["peak_mib"] < 4_000
    assert row["wer"] > 0 < row["wer_alone"]


def test_there_are_as_many_utterances_as_it_takes(tmp_path):
    assert length.enough(utterances(tmp_path), 5.2) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m"], "nothing to transcribe; name manifests or corpus folders after the model"),
        (["m", "a", "--minutes", "0"], r"minutes = \(0.0,\), batch_size = 8, repeats = 3: expected above 0"),
    ],
)
def test_impossible_measurements_are_named(arguments, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        flags(*arguments)
