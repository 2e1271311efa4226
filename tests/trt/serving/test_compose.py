"""docker/compose.yaml: what it says is what the server takes, and what it starts answers; in docker where there is a
daemon, else as processes of this machine."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from wyoming.info import Describe, Info

from common import config
from tests.processes import free_port
from tests.trt.serving.streams.test_wyoming import told
from trt.client.asking import Server
from trt.serve import ServeConfig
from trt.serving.admission.limits import Limits

REPOSITORY = Path(__file__).parents[3]
FILE = REPOSITORY / "docker" / "compose.yaml"
SERVICES = yaml.safe_load(FILE.read_text())["services"]
MODELS = ("asr.onnx", "tts.onnx", "vocoder.onnx")
KNOWN = {
    "build", "image", "command", "environment", "volumes", "ports", "read_only", "tmpfs", "cap_drop", "security_opt",
    "stop_grace_period", "restart",
}  # fmt: skip


def served_by(service: dict) -> tuple[list[str], ServeConfig]:
    """The flags of a service's command, and what they mean."""
    python, dash, module, *flags = shlex.split(service["command"])
    assert (python, dash, module) == ("python", "-m", "trt.serve")
    return flags, config.parse_flags(ServeConfig, None, flags, description="")


@pytest.fixture
def models(jasper, voice, tmp_path):
    """A folder as the composition wants it."""
    for path, name in zip((jasper.with_suffix(".onnx"), voice / "tts.onnx", voice / "v.onnx"), MODELS, strict=True):
        shutil.copy(path, tmp_path / name)
        (tmp_path / name).chmod(0o644)  # the user of the image is another
    return tmp_path


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_every_service_is_what_the_server_takes(service):
    assert set(service) <= KNOWN
    flags, cfg = served_by(service)
    image = (FILE.parent / service["build"]["context"] / service["build"]["dockerfile"]).read_text()
    published = [one.rpartition(":")[2] for one in service["ports"]]
    assert published == [str(port) for port in (cfg.port, cfg.wyoming_port) if port]
    assert all(one.startswith("127.0.0.1:") for one in service["ports"])  # the command has no keys of its own
    assert f"EXPOSE {cfg.port}" in image
    assert cfg.host == "0.0.0.0"
    assert cfg.web  # the page that docs/bulk.md promises
    mounted = [volume.rsplit(":", 2)[1:] for volume in service["volumes"]]
    assert mounted == [["/models", "ro"]]
    paths = [flag for flag in flags if flag.startswith("/")]
    assert paths == [f"/models/{name}" for name in MODELS]
    assert all(name in FILE.read_text().partition("services:")[0] for name in MODELS)
    seconds = float(service["stop_grace_period"].removesuffix("s"))
    assert seconds >= Limits().drain_seconds + 5
    assert (service["cap_drop"], service["read_only"], service["tmpfs"]) == (["ALL"], True, ["/tmp"])


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_every_variable_of_a_service_is_read_by_the_server(service):
    code = "".join(path.read_text() for path in (REPOSITORY / "trt").rglob("*.py"))
    for name in service["environment"]:
        assert re.search(rf"environ\S*{name}", code), name
    asked = set(re.findall(r"\$\{(\w+)", FILE.read_text()))
    assert asked == {"MODELS", *service["environment"]}
    assert "MODELS=folder docker compose -f docker/compose.yaml up" in (REPOSITORY / "docs" / "bulk.md").read_text()


def answers(port: int, wyoming: int, keys: tuple[str, ...] = ("",)) -> None:
    """What a server of the composition must do."""
    client = Server(f"http://127.0.0.1:{port}", key=keys[0], waits=(0.5,) * 600)
    assert b"".join(client.speak("One two.", response_format="wav"))[:4] == b"RIFF"
    info = Info.from_event(told(wyoming, [Describe().event()], "info")[-1])
    assert [model.name for model in info.asr[0].models] == ["asr"]
    health = [sys.executable, "docker/health.py"]
    assert subprocess.run(health, cwd=REPOSITORY, env={**os.environ, "PORT": str(port)}, check=False).returncode == 0


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_the_command_of_a_service_starts_a_server_that_answers_and_ends_in_time(service, models):
    ports = free_port(), free_port()
    flags = [each.replace("/models", str(models)) if each.startswith("/") else each for each in served_by(service)[0]]
    flags[flags.index("--wyoming_port") + 1] = str(ports[1])
    environment = {**os.environ, "SPEECH_API_KEYS": "one,two"}
    command = [sys.executable, "-m", "trt.serve", *flags, "--port", str(ports[0])]
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment)
    try:
        answers(*ports, keys=("two",))
        process.send_signal(signal.SIGTERM)
        assert process.wait(float(service["stop_grace_period"].removesuffix("s"))) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_composition_starts_in_docker_and_answers(models):
    docker = shutil.which("docker")
    for command, missing in ((["compose", "version"], "docker compose"), (["info"], "a daemon of docker")):
        if docker is None or subprocess.run([docker, *command], capture_output=True, check=False).returncode:
            pytest.skip(f"{missing} is not here; where it is, this test builds the image and starts its server")
    compose = [docker, "compose", "-f", str(FILE), "-p", "speech-models-test"]
    environment = {**os.environ, "MODELS": str(models)}
    try:
        subprocess.run([*compose, "up", "-d", "--build", "--wait"], env=environment, check=True)
        answers(8000, 10300)
        began = time.monotonic()
        subprocess.run([*compose, "stop"], env=environment, check=True)
        assert time.monotonic() - began < Limits().drain_seconds
    finally:
        subprocess.run([*compose, "down", "--rmi", "local", "--volumes"], env=environment, check=False)
