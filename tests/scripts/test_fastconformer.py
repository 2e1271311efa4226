"""What scripts/fastconformer/*.sh make of their variables; `python` is a script that shows its arguments."""

import numpy as np
import pytest
import soundfile

from tests.fastconformer.checkpoints import archives
from tests.scripts.calls import Folder

FOLDER = Folder("fastconformer")
call, words = FOLDER.call, FOLDER.words


def test_only_variables_that_are_set_become_flags_of_training(python):
    tiny = "configs/fastconformer/fastconformer_tiny.toml"
    assert words("train.sh", python) == f"-m fastconformer.train {tiny}"
    variables = {"EPOCHS": "3", "PRECISION": "bf16", "CHECKPOINT": "a.nemo", "TRAIN_MANIFESTS": "a b", "NUM_GPUS": "2"}
    assert words("train.sh", python, "--optim.lr", "1", MODEL_CONFIG="m.toml", **variables) == (
        "-m torch.distributed.run --standalone --nproc_per_node 2 -m fastconformer.train m.toml --checkpoint a.nemo "
        "--epochs 3 --data.train a b --precision bf16 --optim.lr 1"
    )


@pytest.mark.parametrize(("script", "output"), [("evaluation.sh", "--hypotheses"), ("inference.sh", "--output")])
def test_only_variables_that_are_set_become_flags_of_use(python, script, output):
    module = f"fastconformer.{script.removesuffix('.sh')}"
    assert words(script, python, "a.flac", CHECKPOINT="m") == f"-m {module} m a.flac"
    found = words(script, python, "a", CHECKPOINT="m", BATCH_SIZE="3", HEAD="ctc", PREDICTION_FILE="x", FP16="true")
    assert found == f"-m {module} --batch_size 3 --head ctc {output} x --precision fp16 m a"
    refused = call(script, python)
    assert refused.returncode == 2
    assert refused.stderr == "error: CHECKPOINT is not set; expected a trained model: ours, .nemo, or a folder\n"


@pytest.mark.slow
def test_a_recording_is_transcribed(tmp_path):
    import sys

    archives.write(tmp_path / "model.nemo", archives.files())
    draw = np.random.default_rng(0)
    soundfile.write(tmp_path / "a.flac", draw.normal(0, 0.1, 16_000), 16_000)
    environment = {"CHECKPOINT": str(tmp_path / "model.nemo"), "BATCH_SIZE": "2"}
    done = call("inference.sh", sys.executable, tmp_path / "a.flac", "--format", "json", **environment)
    assert done.returncode == 0, done.stderr
    assert '"duration": 1.0' in done.stdout
