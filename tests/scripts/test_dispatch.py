import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.parametrize("name", ["train", "evaluation", "inference", "inference_benchmark", "train_benchmark"])
def test_a_general_script_names_the_models_it_can_run(name):
    models = " ".join(sorted(path.parent.name for path in SCRIPTS.glob(f"*/{name}.sh")))
    for arguments in ([], ["no_such_model"]):
        told = subprocess.run(["bash", SCRIPTS / f"{name}.sh", *arguments], capture_output=True, text=True, check=False)
        assert told.returncode == 2
        assert told.stderr == f"usage: bash scripts/{name}.sh MODEL [ARGUMENT…]; models: {models}\n"


def test_a_general_script_runs_the_model_s_own_with_its_arguments(tmp_path):
    (tmp_path / "some_model").mkdir()
    (tmp_path / "some_model" / "train.sh").write_text('echo "$# $1"\n')
    (tmp_path / "train.sh").write_text((SCRIPTS / "dispatch.sh").read_text())
    told = subprocess.run(
        ["bash", tmp_path / "train.sh", "some_model", "a b", "c"], capture_output=True, text=True, check=True
    )
    assert told.stdout == "2 a b\n"
