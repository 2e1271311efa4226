"""Several nodes: variables of one's own, those of Slurm, and two nodes on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jasper.runs import TOY, write_corpus
from tests.processes import free_port
from tests.training import REPOSITORY, assert_same_state, state_of

TRAIN = REPOSITORY / "scripts" / "jasper" / "train.sh"
SLURM = {
    "SLURM_JOB_ID": "123456",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_NODEID": "1",
    "SLURM_GPUS_ON_NODE": "8",
}


def call(python: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "SPEECH_PYTHON": str(python),
        "OUTPUT_DIR": "o",
    } | variables
    return subprocess.run(["bash", TRAIN], env=environment, capture_output=True, text=True, check=False)


def launched(python: Path, **variables: str) -> list[str]:
    """The arguments of python up to the module."""
    done = call(python, **variables)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    return words[: words.index("jasper.train") - 1]


@pytest.fixture
def scontrol(python: Path) -> None:
    """Stands for Slurm's command, beside python."""
    path = python.parent / "scontrol"
    path.write_text('#!/bin/sh\n[ "$*" = "show hostnames gpu[07-08]" ] && printf "gpu07\\ngpu08\\n"\n')
    path.chmod(0o755)


def test_nodes_find_each_other_by_the_variables_of_torchrun(python):
    given = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "gpu07", "MASTER_PORT": "1234", "NUM_GPUS": "8"}
    assert launched(python, **given) == [
        *("-m", "torch.distributed.run", "--nnodes", "2", "--node_rank", "1", "--master_addr", "gpu07"),
        *("--master_port", "1234", "--nproc_per_node", "8"),
    ]


def test_the_port_is_torchrun_s_and_one_process_runs_on_a_node_unless_said_otherwise(python):
    words = launched(python, NNODES="2", NODE_RANK="0", MASTER_ADDR="a")
    assert words[-4:] == ["--master_port", "29500", "--nproc_per_node", "1"]


@pytest.mark.usefixtures("scontrol")
def test_srun_says_all_that_is_needed(python):
    words = launched(python, **SLURM)
    assert words[2:] == [
        *("--nnodes", "2", "--node_rank", "1", "--master_addr", "gpu07", "--master_port", str(20000 + 123456 % 20000)),
        *("--nproc_per_node", "8"),
    ]


@pytest.mark.usefixtures("scontrol")
def test_variables_of_one_s_own_come_before_slurm_s(python):
    words = launched(python, **SLURM, NUM_GPUS="4", MASTER_PORT="1234")
    assert words[-4:] == ["--master_port", "1234", "--nproc_per_node", "4"]


def test_a_node_alone_needs_no_rendezvous(python):
    assert launched(python, NNODES="1") == []
    assert launched(python, SLURM_STEP_NUM_NODES="1", SLURM_JOB_NUM_NODES="1") == []


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"NNODES": "2"},
            "error: NNODES is 2; expected NODE_RANK (0 to 1) and MASTER_ADDR, the first node's name, too",
        ),
        (
            SLURM | {"SLURM_STEP_NUM_TASKS": "16"},
            "error: srun started 16 tasks on 2 nodes; expected one on each: srun --ntasks-per-node 1",
        ),
    ],
)
def test_what_is_missing_is_one_line(python, variables, message):
    done = call(python, **variables)
    assert (done.returncode, done.stderr) == (2, f"{message}\n")


def test_a_batch_script_without_srun_is_told_that_it_uses_one_node(python):
    done = call(python, SLURM_JOB_NUM_NODES="2", NUM_GPUS="1")
    expected = (
        "train.sh: Slurm gave 2 nodes, of which this uses one; start it with srun --ntasks-per-node 1 to use all\n"
    )
    assert (done.returncode, done.stderr) == (0, expected)


@pytest.mark.nightly
def test_two_nodes_learn_what_one_with_two_processes_does(tmp_path):
    root = write_corpus(tmp_path / "corpus")
    port = str(free_port())

    def start(folder: str, **variables: str) -> "subprocess.Popen[str]":
        given = {"MODEL_CONFIG": str(TOY), "DATA_DIR": str(root), "OUTPUT_DIR": str(tmp_path / folder), "EPOCHS": "1"}
        environment = os.environ | {"SPEECH_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"} | given | variables
        return subprocess.Popen(
            ["bash", TRAIN], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    shared = {"NNODES": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    nodes = [start("nodes", NODE_RANK=rank, **shared) for rank in "01"]
    for process in (*nodes, start("processes", NUM_GPUS="2")):
        said, _ = process.communicate()
        assert process.returncode == 0, said
    assert_same_state(state_of(tmp_path / "nodes"), state_of(tmp_path / "processes"))
