import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from common import config
from scripts import gpu_slow
from wav2vec2.benchmark.config import BenchmarkConfig
from wav2vec2.network.config import HourglassConfig

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

STEPS = [
    "build",
    "transducer_build",
    "attention_build",
    "memcheck",
    "racecheck",
    "tests",
    "trainings",
    "ctc",
    "decoders",
    "optim",
    "features",
    "training",
    "latency",
    "quartznet",
    "fastpitch",
    "wav2vec2",
    "wav2vec2_fp16",
    "wav2vec2_large",
    "pretraining",
    "finetuning",
]

# Stands for python on a GPU machine: writes down what it is asked to run, and fails where it is told to.
PYTHON = """#!/usr/bin/env bash
if [ "$1" = -c ]; then
  [[ "$2" != *metadata* ]] || echo "$MISSING"
  [[ "$2" != *cuda.is_available* ]] || exit "$BLIND"
  [[ "$2" != *version.cuda* ]] || echo "torch 2.9, CUDA 12.8"
  exit 0
fi
[[ "$1" != *gpu_slow.py ]] || exec python3 "$@"
echo "$*" >> "$ASKED"
[[ "$*" != *benchmarks/optim.py* ]] || echo "$ROW" >> "$RESULT"
[ -z "$FAIL" ] || [[ "$*" != *"$FAIL"* ]]
"""


class GpuMachine:
    """A PATH with a GPU and a python that pretends, and a repository that holds nothing but the script."""

    def __init__(self, folder: Path):
        self.bin, self.asked, self.result = folder / "bin", folder / "asked", folder / "benchmarks/results/some.jsonl"
        for path in (self.bin, folder / "scripts", folder / "tests", self.result.parent):
            path.mkdir(parents=True)
        for name in ("gpu_check.sh", "gpu_slow.py", "help.sh", "setup.sh"):
            shutil.copy(SCRIPTS / name, folder / "scripts")
        self.script = folder / "scripts" / "gpu_check.sh"
        (folder / "tests" / "test_gpu.py").write_text("@pytest.mark.gpu")
        (folder / "tests" / "test_cpu.py").write_text("")
        self.write("nvidia-smi", "#!/usr/bin/env bash\n")
        self.write("compute-sanitizer", '#!/usr/bin/env bash\necho "$0 $*" >> "$ASKED"\n')
        self.write("python", PYTHON)

    def write(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def check(self, *steps: str, **variables: str) -> subprocess.CompletedProcess[str]:
        known = {
            "ASKED": self.asked,
            "RESULT": self.result,
            "MISSING": "",
            "BLIND": "0",
            "FAIL": "",
            "ROW": '{"row": 1}',
        }
        known |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "SPEECH_PYTHON": self.bin / "python"}
        environment = os.environ | {name: str(value) for name, value in (known | variables).items()}
        return subprocess.run(
            ["bash", str(self.script), *steps], env=environment, capture_output=True, text=True, check=False
        )

    def runs(self) -> list[str]:
        return self.asked.read_text().splitlines() if self.asked.exists() else []


@pytest.fixture
def gpu_machine(tmp_path):
    return GpuMachine(tmp_path)


def test_without_a_gpu_it_says_so_and_is_content(gpu_machine):
    gpu_machine.write("nvidia-smi", "#!/usr/bin/env bash\nexit 9\n")
    done = gpu_machine.check()
    assert (done.returncode, done.stdout) == (
        0, "gpu_check: no GPU here (nvidia-smi finds none): nothing to check\n"
    )  # fmt: skip
    assert gpu_machine.runs() == []


def test_every_step_runs_and_the_summary_names_it(gpu_machine):
    done = gpu_machine.check()
    assert done.returncode == 0, done.stderr
    summary = done.stdout.split("gpu_check:\n")[1].splitlines()
    assert [line.split()[0] for line in summary] == STEPS
    assert all(line.endswith("ok") for line in summary)
    assert len(gpu_machine.runs()) == len(summary)
    assert "to report" not in done.stdout
    assert "-m pytest -m gpu tests/test_gpu.py" in gpu_machine.runs()


def test_a_failing_step_is_told_and_the_others_still_run(gpu_machine):
    done = gpu_machine.check(FAIL="benchmarks/features.py")
    assert done.returncode == 1
    assert re.search(r"^features +\d+ s  failed with status 1$", done.stdout, re.MULTILINE)
    assert re.search(r"^latency +\d+ s  ok$", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1] == (
        "to report: the lines above, what the failed steps printed, the output of nvidia-smi, and torch 2.9, CUDA 12.8"
    )


def test_rows_measured_here_that_are_slower_than_their_rivals_are_named(gpu_machine):
    gpu_machine.result.write_text('{"what": "before", "times_faster": 0.1}\n')
    row = {"what": "FastPitch", "mode": "graph", "batch": 4, "p50": 2.0, "times_faster_than_eager": 0.75}
    done = gpu_machine.check("optim", ROW=json.dumps(row))
    assert done.stdout.splitlines()[-3:-1] == [
        "slower than what it is compared with:", "FastPitch graph 4: times_faster_than_eager 0.75"
    ]  # fmt: skip
    assert done.stdout.splitlines()[-1].startswith("to report: ")
    done = gpu_machine.check("optim", ROW=json.dumps(row | {"times_faster_than_eager": 1.5}))
    assert "slower" not in done.stdout


def test_rows_measured_here_stand_beside_published_numbers(gpu_machine):
    row = {"config": "jasper10x5dr", "part": "network", "mode": "graph", "precision": "fp16", "batch": 16, "mean": 30.0}
    row |= {"seconds_of_audio": 16.7, "metric": "latency_ms"}
    done = gpu_machine.check("optim", ROW=json.dumps(row))
    told = "jasper10x5dr network graph fp16 16 16.7: 30 ms, published 60.92 on an A100: 2.03 times as fast"
    assert done.stdout.splitlines()[-1] == told
    assert done.returncode == 0
    for other in ({"precision": "bf16"}, {"batch": 2}, {"seconds_of_audio": 9.0}, {"metric": "other"}):
        assert "published 60" not in gpu_machine.check("optim", ROW=json.dumps(row | other)).stdout


def test_the_rate_of_a_large_transducer_stands_beside_published_ones_and_the_limits(gpu_machine):
    row = {"what": "TDT 0.6 B, greedy, samples to labels", "precision": "bf16", "batch": 128, "seconds_of_audio": 12}
    row |= {"times_real_time": 12196, "device": "NVIDIA H200"}
    told = gpu_machine.check("optim", ROW=json.dumps(row)).stdout.splitlines()[-1]
    assert told == (
        "TDT 0.6 B, greedy, samples to labels bf16 128 12: 12,196 times real time, published on an H200 6,098 by NeMo "
        f"(2.00), 12,353 by fast-gpu-asr with a beam of 6 (0.99); {gpu_slow.MOST['H200']:,} at most by the limits"
    )
    other = gpu_machine.check("optim", ROW=json.dumps(row | {"device": "NVIDIA L40"})).stdout
    assert other.endswith("fast-gpu-asr with a beam of 6 (0.99)\n")


def test_steps_can_be_chosen(gpu_machine):
    assert gpu_machine.check("optim", "features").returncode == 0
    assert gpu_machine.runs() == ["benchmarks/optim.py", "benchmarks/features.py"]


def test_rows_measured_here_are_copied(gpu_machine, tmp_path):
    gpu_machine.result.write_text('{"row": 0}\n')
    assert gpu_machine.check("optim", OUT=str(tmp_path / "out")).returncode == 0
    assert (tmp_path / "out" / gpu_machine.result.name).read_text() == '{"row": 1}\n'
    assert [path.name for path in (tmp_path / "out").iterdir()] == [gpu_machine.result.name]


def test_missing_packages_are_named_with_the_way_to_get_them(gpu_machine):
    done = gpu_machine.check(MISSING="tyro soxr")
    assert done.returncode == 1
    assert "lacks tyro soxr; install them, or where there is a network: pip download -d wheels tyro soxr" in done.stderr
    assert gpu_machine.runs() == []


def test_missing_packages_are_installed_from_wheels(gpu_machine):
    assert gpu_machine.check("optim", MISSING="tyro soxr", WHEELS="/wheels").returncode == 0
    assert gpu_machine.runs()[0] == "-m pip install -q --no-index --find-links /wheels tyro soxr"


def test_a_torch_that_sees_no_gpu_is_an_error(gpu_machine):
    done = gpu_machine.check(BLIND="1")
    assert done.returncode == 1
    assert "there is a GPU, but the torch of" in done.stderr


def limits() -> dict[str, int]:
    text = (SCRIPTS / "gpu_check.sh").read_text()
    return {name: int(limit) for name, limit in re.findall(r'^  "(\w+)\|(\d+)\|', text, re.MULTILINE)}


def test_limits_leave_it_under_40_minutes():
    assert list(limits()) == STEPS
    assert sum(limits().values()) < 38 * 60


def test_four_commands_of_ten_minutes_do_it_all():
    text = (SCRIPTS / "gpu_check.sh").read_text()
    calls = [line.split() for line in re.findall(r"^#   bash scripts/gpu_check\.sh (.+)$", text, re.MULTILINE)]
    assert len(calls) == 4
    assert sorted(step for call in calls for step in call) == sorted(STEPS)
    assert all(sum(limits()[step] for step in call) <= 590 for call in calls)
    assert calls[0][0] == "build"


def test_the_benchmarks_of_wav2vec2_get_flags_that_they_know(gpu_machine):
    assert gpu_machine.check(*STEPS[-5:]).returncode == 0
    configs = []
    for line in gpu_machine.runs():
        module, *flags = line.removeprefix("-m ").split()
        assert module == "wav2vec2.benchmark"
        toml, flags = flags[0], flags[1:]
        assert flags[:2] == ["--device", "cuda"]
        default = config.load(BenchmarkConfig, SCRIPTS.parent / toml)
        configs.append(config.parse_flags(BenchmarkConfig, default, flags, description=""))
    assert [cfg.task for cfg in configs] == ["inference"] * 3 + ["pretraining", "finetuning"]
    assert [cfg.precision for cfg in configs] == ["bf16", "fp16", "bf16", "bf16", "bf16"]
    assert [HourglassConfig.parse(text).factor for text in configs[3].hourglass] == [2, 3, 4, 6]
    assert {cfg.batch_sizes for cfg in configs[:3]} == {(1, 16)}
    assert all("transformers" not in cfg.sides for cfg in configs)
