"""scripts/test.sh: on how many cores it runs, whatever the number of threads that a user has set."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.parametrize(
    ("variables", "quota", "processes"),
    [
        ({}, "", 7),
        ({"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}, "", 7),
        ({"OMP_NUM_THREADS": "1", "PROCESSES": "12"}, "", 12),
        ({"OMP_NUM_THREADS": "1"}, "max 100000", 7),
        ({}, "350000 100000", 4),
        ({}, "50000 100000", 1),
    ],
)
def test_one_process_more_than_cores_but_one_on_one(variables, quota, processes, tmp_path):
    cpu_max = tmp_path / "cpu.max"
    if quota:
        cpu_max.write_text(f"{quota}\n")
    (tmp_path / "scripts").mkdir()
    for name in ("test.sh", "setup.sh", "help.sh"):
        text = (SCRIPTS / name).read_text().replace("/sys/fs/cgroup/cpu.max", str(cpu_max))
        (tmp_path / "scripts" / name).write_text(text)
    for name, what in (("nproc", 'echo "${OMP_NUM_THREADS:-6}"'), ("python", f'echo "$*" >> {tmp_path}/asked')):
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{what}\n")
        (tmp_path / name).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "PROCESSES"))}
    environment |= variables | {"PATH": f"{tmp_path}:/usr/bin:/bin", "SPEECH_PYTHON": str(tmp_path / "python")}
    subprocess.run(["bash", tmp_path / "scripts" / "test.sh"], env=environment, check=True)
    asked = [line for line in (tmp_path / "asked").read_text().splitlines() if line.startswith("-m pytest")]
    whole = "-m pytest" if processes == 1 else f"-m pytest -n {processes} --dist worksteal"
    assert sorted(asked) == sorted([whole, "-m pytest tests/device"])


def test_a_failure_of_either_process_of_tests_is_one_of_the_whole(tmp_path):
    (tmp_path / "python").write_text('#!/usr/bin/env bash\necho "says $*"\n[[ "$*" != *"$FAILS"* ]]\n')
    (tmp_path / "python").chmod(0o755)
    for fails, code in (("worksteal", 1), ("tests/device", 1), ("nothing", 0)):
        variables = {"FAILS": fails, "PROCESSES": "2", "SPEECH_PYTHON": str(tmp_path / "python")}
        command = ["bash", SCRIPTS / "test.sh", "-m", "not slow"]
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert done.stdout.splitlines()[-1] == "says -m pytest tests/device -m not slow"


@pytest.mark.parametrize(
    ("whole", "device", "status"), [(0, 5, 0), (5, 0, 0), (5, 5, 5), (1, 5, 1), (5, 1, 1), (0, 0, 0)]
)
def test_what_is_asked_for_may_be_among_the_tests_of_the_device_or_the_others_alone(whole, device, status, tmp_path):
    answers = f'case "$*" in *tests/device*) exit {device};; "-m pytest"*) exit {whole};; esac'
    (tmp_path / "python").write_text(f"#!/usr/bin/env bash\n{answers}\n")
    (tmp_path / "python").chmod(0o755)
    environment = os.environ | {"SPEECH_PYTHON": str(tmp_path / "python"), "PROCESSES": "2"}
    done = subprocess.run(["bash", SCRIPTS / "test.sh", "-k", "name"], env=environment, check=False)
    assert done.returncode == status
