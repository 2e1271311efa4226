import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "jasper"
DEFAULT = "configs/jasper/jasper10x5dr_speedp-online_speca.toml"


@pytest.fixture
def call(tmp_path):
    """Runs a script with a python that only writes down its arguments; returns a line per call of it."""
    (tmp_path / "python").write_text(f'#!/usr/bin/env bash\necho "$*" >> {tmp_path}/asked\n')
    (tmp_path / "python").chmod(0o755)

    def run(script: str, *arguments: str, **variables: str) -> list[str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = inherited | {"SPEECH_PYTHON": str(tmp_path / "python")} | variables
        subprocess.run(["bash", str(SCRIPTS / script), *arguments], env=environment, check=True, timeout=30)
        return (tmp_path / "asked").read_text().splitlines()

    return run


def test_inference_benchmark_passes_only_what_is_set(call):
    assert call("inference_benchmark.sh") == [f"-m jasper.benchmark {DEFAULT} --task inference"]


def test_inference_benchmark_takes_the_variables_of_2021(call):
    (asked,) = call(
        "inference_benchmark.sh", "--modes", "eager", AMP="true", BATCH_SIZE_SEQ="1 2", MAX_DURATION_SEQ="2 7",
        NUM_STEPS="500", NUM_WARMUP_STEPS="10", CUDNN_BENCHMARK="false", OUTPUT_DIR="/results",
    )  # fmt: skip
    assert asked == (
        f"-m jasper.benchmark {DEFAULT} --task inference --batch_sizes 1 2 --seconds 2 7 --repeats 500 --warmup 10 "
        "--cudnn_benchmark false --results /results --precision fp16 --modes eager"
    )


def test_inference_benchmark_takes_the_positions_of_2019(call):
    (asked,) = call(
        "inference_benchmark.sh", "/data", "dev-clean", "configs/jasper10x5dr.toml", "/results", "model.pt", "true",
        "true", "fp32", "-1", "36", "0", "64",
    )  # fmt: skip
    assert asked == (
        "-m jasper.benchmark configs/jasper/jasper10x5dr.toml --task inference --batch_sizes 64 --seconds 36 "
        "--cudnn_benchmark true --seed 0 --results /results --precision fp32 --checkpoint model.pt"
    )


def test_train_benchmark_starts_once_per_number_of_gpus(call):
    one, two = call(
        "train_benchmark.sh", "--repeats", "5", NUM_GPUS_SEQ="1 2", PRECISION="bf16", BATCH_SIZE_SEQ="32 64"
    )
    flags = f"jasper.benchmark {DEFAULT} --task training --batch_sizes 32 64 --precision bf16 --repeats 5"
    assert one == f"-m {flags}"
    assert two == f"-m torch.distributed.run --standalone --nproc_per_node 2 -m {flags}"


def test_train_benchmark_takes_the_positions_of_2019(call):
    (asked,) = call(
        "train_benchmark.sh", "/data", "configs/jasper10x5dr.toml", "/results", "true", "true", "1", "fp16", "100",
        "16.7", "0", "64", "0.015", "1",
    )  # fmt: skip
    assert asked == (
        "-m jasper.benchmark configs/jasper/jasper10x5dr.toml --task training --batch_sizes 64 --seconds 16.7 "
        "--repeats 100 --cudnn_benchmark true --seed 0 --results /results --precision fp16 --optim.lr 0.015 "
        "--grad_accumulation 1"
    )
