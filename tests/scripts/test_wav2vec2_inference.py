"""The documented variables become flags; `python` is a script that writes down its arguments."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def call(tmp_path):
    """Runs a script of wav2vec2; returns a line per call of python."""
    (tmp_path / "python").write_text(f'#!/usr/bin/env bash\necho "$*" >> {tmp_path}/asked\n')
    (tmp_path / "python").chmod(0o755)

    def run(script: str, *arguments: str, **variables: str) -> list[str]:
        environment = {"PATH": os.environ["PATH"], "SPEECH_PYTHON": str(tmp_path / "python")} | variables
        subprocess.run(["bash", str(SCRIPTS / script), *arguments], env=environment, check=True, timeout=30)
        lines = (tmp_path / "asked").read_text().splitlines()
        (tmp_path / "asked").unlink()
        return lines

    return run


def asked(call, *arguments: str, **variables: str) -> str:
    (line,) = call("wav2vec2/inference.sh", *arguments, **({"FINETUNED_MODEL": "/c.pt"} | variables))
    return line.removeprefix("-m wav2vec2.inference /c.pt").strip()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ""),
        ({"BATCH_SIZE": "16", "MAX_DURATION": "20", "CPU": "true"}, "--device cpu --batch_size 16 --max_seconds 20"),
        ({"BF16": "true", "AMP": "true"}, "--precision bf16"),
        ({"FP16": "true"}, "--precision fp16"),
        ({"EMA": "0.0"}, ""),
        ({"EMA": "0.999"}, "--ema true"),
        ({"EMA": "false"}, "--ema false"),
        ({"LABELS_PATH": "/dict.ltr.txt", "LOGITS_FILE": "/l"}, "--labels /dict.ltr.txt --save_logits /l"),
        ({"SEED": "1", "MASK_PROB": "0.5", "TORCHSCRIPT": "false", "NUM_STEPS": "0", "LOG_FILE": "/n.json"}, ""),
    ],
)
def test_published_variables_have_their_meaning(call, variables, expected):
    assert asked(call, **variables) == expected


@pytest.mark.parametrize("name", ["test-other.tsv", "test-other.jsonl", "test-other"])
def test_a_data_set_is_its_list_or_its_folder_and_predictions_go_beside_it(call, tmp_path, name):
    (tmp_path / name).mkdir()
    data = {"DATASET_DIR": str(tmp_path), "VALID_SUBSET": "test-other"}
    assert asked(call, **data) == f"{tmp_path}/{name}"
    assert asked(call, **data, OUTPUT_DIR="/r") == f"{tmp_path}/{name} --output /r/test-other.predictions"
    assert asked(call, **data, OUTPUT_DIR="/r", PREDICTION_FILE="/p") == f"{tmp_path}/{name} --output /p"


def test_several_gpus_share_the_recordings(call):
    assert call("wav2vec2/inference.sh", FINETUNED_MODEL="/c.pt", NUM_GPUS="8") == [
        "-m torch.distributed.run --standalone --nproc_per_node 8 -m wav2vec2.inference /c.pt"
    ]


def test_what_follows_two_dashes_is_transcribed(call):
    assert asked(call, "--", "a.wav", "--format", "json", BATCH_SIZE="2") == "--batch_size 2 a.wav --format json"


def test_a_model_is_asked_for(tmp_path):
    environment = {"PATH": os.environ["PATH"], "SPEECH_PYTHON": "true"}
    command = ["bash", str(SCRIPTS / "wav2vec2" / "inference.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "error: FINETUNED_MODEL is not set; expected the file or the Hugging Face folder of a fine-tuned model\n"
    )


def test_the_general_scripts_find_those_of_wav2vec2(call):
    assert call("inference.sh", "wav2vec2", FINETUNED_MODEL="/c.pt") == ["-m wav2vec2.inference /c.pt"]
    (line,) = call("inference_benchmark.sh", "wav2vec2")
    assert line == "-m wav2vec2.benchmark configs/wav2vec2/base.toml --task inference"


def test_the_benchmark_takes_the_published_variables(call):
    (line,) = call(
        "wav2vec2/inference_benchmark.sh", "--sides", "ours", BATCH_SIZE_SEQ="1 16", NUM_REPEATS="10",
        NUM_WARMUP_REPEATS="2", MAX_DURATION="6.54", BF16="true", HOURGLASS_CONFIG="[2,(8,6),2]", OUTPUT_DIR="/r",
        MODEL_CONFIG="configs/wav2vec2/large.toml",
    )  # fmt: skip
    flags = "--batch_sizes 1 16 --seconds 6.54 --repeats 10 --warmup 2 --hourglass [2,(8,6),2] --results /r"
    assert (
        line
        == f"-m wav2vec2.benchmark configs/wav2vec2/large.toml --task inference {flags} --precision bf16 --sides ours"
    )
    assert "--batch_sizes 4 --" in call("wav2vec2/inference_benchmark.sh", "--sides", "ours", BATCH_SIZE="4")[0]
