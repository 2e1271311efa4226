"""The set-up, without installing anything: what uv is told of pip's settings, and what happens where there is no uv."""

import os
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup.sh"
CONFIG = """:env:.index-url='https://env/simple'
global.cert='/etc/own.pem'
global.extra-index-url='\\nhttps://one/simple\\nfile:///two https://three/simple'
global.find-links='/wheels /more'
global.index-url='https://global/simple'
global.proxy='http://proxy:3128'
install.trusted-host='one three'
"""
TOLD = {
    "UV_DEFAULT_INDEX": "https://env/simple",
    "UV_EXTRA_INDEX_URL": "https://one/simple https://three/simple",
    "UV_FIND_LINKS": "/wheels,/more",
    "UV_INSECURE_HOST": "one three",
    "SSL_CERT_FILE": "/etc/own.pem",
    "ALL_PROXY": "http://proxy:3128",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place with a pip and a uv that write down what they are asked."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "pip.conf").write_text(CONFIG)
    pip = 'if [ "$1" = config ]; then cat pip.conf; else echo "pip $*" >> asked; [[ "$*" != *\' uv\' ]]; fi'
    for name, what in (("pip", pip), ("uv", 'echo "uv $*" >> asked; env > told')):
        path = tmp_path / ".venv" / "bin" / name
        path.write_text(f"#!/usr/bin/env bash\n{what}\n")
        path.chmod(0o755)
    return tmp_path


def fetched(folder: Path, **variables: str) -> list[str]:
    """What was asked of pip and uv to fetch two packages."""
    names = (*TOLD, "all_proxy")
    environment = {key: value for key, value in os.environ.items() if key not in names} | variables
    environment |= {"SPEECH_PYTHON": "python", "PATH": "/usr/bin:/bin"}
    code = f'source "{SETUP}"; cd "{folder}"; fetch torch==1+cpu -r requirements.txt'
    subprocess.run(["bash", "-c", code], env=environment, check=True)
    return (folder / "asked").read_text().splitlines()


def test_uv_is_told_what_pip_was_told(folder):
    assert fetched(folder) == [
        "uv pip install -q --python .venv/bin/python torch==1+cpu -r requirements.txt -c constraints.txt"
    ]
    told = dict(line.split("=", 1) for line in (folder / "told").read_text().splitlines() if "=" in line)
    assert {name: told.get(name) for name in TOLD} == TOLD


def test_what_uv_was_told_itself_counts_and_nothing_is_made_up(folder):
    fetched(folder, UV_DEFAULT_INDEX="https://own/simple")
    assert "UV_DEFAULT_INDEX=https://own/simple" in (folder / "told").read_text().splitlines()
    (folder / "pip.conf").write_text("")
    fetched(folder)
    assert not [line for line in (folder / "told").read_text().splitlines() if line.startswith(tuple(TOLD))]


def test_without_uv_pip_fetches_everything(folder):
    (folder / ".venv" / "bin" / "uv").unlink()
    assert [line for line in fetched(folder) if not line.endswith(" uv")] == [
        "pip install -q torch==1+cpu -c constraints.txt",
        "pip install -q -r requirements.txt -c constraints.txt",
    ]


def test_where_torch_cannot_be_had_the_rest_does_not_bring_another_build(folder):
    (folder / ".venv" / "bin" / "uv").unlink()
    (folder / ".venv" / "bin" / "pip").write_text('#!/bin/sh\necho "$*" >> asked\n[ "${3#-}" != "$3" ]\n')
    code = f'source "{SETUP}"; cd "{folder}"; fetch torch==1+cpu -r requirements.txt && true'
    environment = {**os.environ, "SPEECH_PYTHON": "python", "PATH": "/usr/bin:/bin"}
    assert subprocess.run(["bash", "-c", code], env=environment, check=False).returncode == 1
    assert "requirements.txt" not in (folder / "asked").read_text()
