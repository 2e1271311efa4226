"""The clients of two makers of agents, as they are published: LiveKit's plug-in for OpenAI, and Pipecat's service."""

import json
import os
import subprocess
import sys
import wave
from pathlib import Path

import pytest

from common.audio.vad import EnergyVad
from tests.trt.serving.running import pretended, served
from tests.trt.serving.streams.test_realtime import RATE, Streams, spoken
from trt.serve import ServeConfig

PACKAGES = {"livekit": "livekit-plugins-openai", "pipecat": "pipecat-ai[openai]"}
ENVIRONMENTS = "SPEECH_AGENTS"  # a folder of environments that are made once: livekit, pipecat


@pytest.fixture(scope="module", params=list(PACKAGES))
def client(request, tmp_path_factory):
    """The name of a client, and a Python that has it: it must not move the packages of this one."""
    kept = os.environ.get(ENVIRONMENTS)
    folder = (Path(kept) if kept else tmp_path_factory.mktemp("agents")) / request.param
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        command = [python, "-m", "pip", "install", "-q", PACKAGES[request.param]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{PACKAGES[request.param]} cannot be installed here: {done.stderr.strip()[-200:]}")
    return request.param, python


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("hears", ["whole", "streams"])
@pytest.mark.parametrize("model", ["gpt-4o-transcribe", "gpt-live-transcribe"])
def test_turns_are_transcribed_for_clients_of_agents(client, hears, model, tmp_path, monkeypatch):
    name, python = client
    if (name, model) == ("pipecat", "gpt-live-transcribe"):
        pytest.skip("the service asks for turns of the server's with every model alike")
    monkeypatch.setattr("trt.serving.streams.realtime.best_vad", EnergyVad)  # to a network noise is no speech
    path, cfg = tmp_path / "a.wav", ServeConfig(asr=Path("none"), port=0)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((spoken(1.5, 0.8) * 32767).astype("<i2").tobytes())
    gateway = pretended(cfg)
    if hears == "streams":
        gateway.hearing.__dict__["pool"] = Streams()
    with served(cfg, gateway) as server:
        script = Path(__file__).with_name("agents.py")
        command = [python, script, name, model, str(server.port), path]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert len(found) == (1 if model == "gpt-live-transcribe" else 2)
        assert all(found)
        server.comes_to_rest()
