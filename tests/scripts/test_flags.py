"""What scripts make of the published variables, by the rows of flags.txt; `python` stands in, and shows its words."""

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from common import config
from fastpitch.acoustic.config import Config as FastPitchConfig
from tests.scripts.calls import Folder
from tests.training import REPOSITORY
from wav2vec2.run_config import FinetuneConfig, PretrainConfig

CONFIGS: dict[str, Any] = {"wav2vec2.pretrain": PretrainConfig, "wav2vec2.finetune": FinetuneConfig}
call, flags = Folder().call, Folder().flags


class Row(NamedTuple):
    """A script, with variables and arguments, and the words with which it starts python."""

    script: str
    variables: dict[str, str]
    arguments: list[str]
    expected: list[str]


def split(given: str) -> tuple[dict[str, str], list[str]]:
    """Variables, and the words beside them."""
    words = shlex.split(given)
    variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z]\w*=", word))
    return variables, [word for word in words if not re.match(r"[A-Z]\w*=", word)]


def rows() -> list[Row]:
    found: list[Row] = []
    for line in Path(__file__).with_name("flags.txt").read_text().splitlines():
        given, _, told = line.removeprefix("== ").partition("->")
        if line.startswith("== "):
            (always, scripts), before = split(given), told
        elif line and not line.startswith("#"):
            variables, arguments = split(given)
            for script in scripts:
                stem = Path(script).stem
                words = shlex.split(told.format(stem=stem, task=stem.split("_")[0]))
                if words[:1] != ["-m"]:
                    words = shlex.split(before.format(stem=stem, task=stem.split("_")[0])) + words
                found.append(Row(script, always | variables, arguments, words))
    return found


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.script} {row.variables} {row.arguments}")
def test_only_what_is_given_becomes_flags(python, row):
    assert flags(row.script, python, *row.arguments, **row.variables) == row.expected


@pytest.mark.parametrize("module", CONFIGS)
def test_the_flags_are_those_of_the_command(module):
    """Each of its own: a command line has a flag once."""
    of_it = [row.expected for row in ROWS if row.expected[1] == module]
    assert of_it
    for _, _, path, *given in of_it:
        base = config.load(CONFIGS[module], REPOSITORY / path)
        config.parse_flags(CONFIGS[module], base, given, description="")


def test_the_flags_of_44100_hz_are_a_configuration(python):
    variables = {"SAMPLING_RATE": "44100", "PHONE": "true", "ENERGY": "true", "KL_LOSS_WARMUP": "3"}
    given = flags("fastpitch/train.sh", python, **variables)[3:]
    made = config.parse_flags(FastPitchConfig, FastPitchConfig(), given, description="")
    assert (made.features.sample_rate, made.features.hop_samples, made.pitch.hop_samples) == (44_100, 512, 512)
    assert made.loss.binarisation_warmup_epochs == 3


MODEL = "expected the file of a trained model\n"


@pytest.mark.parametrize(
    ("script", "variables", "message"),
    [
        ("jasper/inference.sh", {}, f"error: CHECKPOINT is not set; {MODEL}"),
        ("jasper/inference.sh", {"CHECKPOINT": ""}, f"error: CHECKPOINT is not set; {MODEL}"),
        ("jasper/evaluation.sh", {"CHECKPOINT": "none"}, f"error: CHECKPOINT is not set; {MODEL}"),
        *(
            (f"fastconformer/{name}.sh", {}, "error: CHECKPOINT is not set; expected a trained model: ours, .nemo, or ")
            for name in ("evaluation", "inference")
        ),
        ("fastpitch/train.sh", {"SAMPLING_RATE": "16000"}, "expected 22050 or 44100"),
        (
            "fastpitch/inference_example.sh", {},
            "error: FASTPITCH and HIFIGAN (or WAVEGLOW, VOCODER) are not set; expected files of trained models\n",
        ),
        ("fastpitch/hifigan_fine_tune.sh", {"CHECKPOINT": "g.pt"}, "FINE_TUNE_DIR: the folder of mel spectrograms"),
        (
            "wav2vec2/inference.sh", {},
            "error: FINETUNED_MODEL is not set; expected the file or the Hugging Face folder of a fine-tuned model\n",
        ),
        ("wav2vec2/pretrain_base.sh", {"LOSS_WEIGHTS": "0.1"}, "error: found '0.1'; expected 2 numbers, for --objecti"),
        ("wav2vec2/pretrain_base.sh", {"EXTRACTOR_MODE": "none"}, "EXTRACTOR_MODE is none; expected default or layer_"),
        ("wav2vec2/finetune_base_1h.sh", {"HOLD_UPDATES": "4"}, "of WARMUP_UPDATES and HOLD_UPDATES one is set; set b"),
        ("wav2vec2/generate_filelists.sh", {}, "error: DATASET_DIR is not set; expected the folder of the corpus"),
    ],
)  # fmt: skip
def test_what_is_missing_or_cannot_be_used_is_named(python, script, variables, message):
    told = call(script, python, **variables)
    assert told.returncode == (1 if "fine_tune" in script else 2), told.stderr
    assert message in told.stderr


@pytest.mark.parametrize(
    ("script", "model", "names"),
    [
        ("jasper/inference.sh", "CHECKPOINT", ("DATA_DIR", "DATASET", ".jsonl", "-wav.json", "librispeech-")),
        ("wav2vec2/inference.sh", "FINETUNED_MODEL", ("DATASET_DIR", "VALID_SUBSET", ".tsv", ".jsonl", "")),
    ],
)
def test_a_data_set_is_its_manifest_or_its_folder_and_predictions_go_beside_it(python, tmp_path, script, model, names):
    folder, dataset, *suffixes, prefix = names
    data = {model: "/c.pt", folder: str(tmp_path), dataset: "dev-clean"}
    for name in (*(f"{prefix}dev-clean{suffix}" for suffix in suffixes), "dev-clean"):
        (tmp_path / name).mkdir()
        assert flags(script, python, **data)[3:] == [str(tmp_path / name)]
        written = flags(script, python, **data, OUTPUT_DIR="/r")[4:]
        assert written == ["--output", "/r/dev-clean.predictions"]
        assert flags(script, python, **data, OUTPUT_DIR="/r", PREDICTION_FILE="/p")[4:] == ["--output", "/p"]
        (tmp_path / name).rmdir()
