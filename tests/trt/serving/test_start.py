"""Servers that cannot start, and servers that are ended before they are ready."""

import asyncio
import os
import shutil
import signal
import socket

import pytest

from tests.trt.serving.running import served
from trt import serve
from trt.serve import ServeConfig


@pytest.mark.parametrize("name", ["port", "wyoming_port"])
def test_a_port_that_is_taken_is_named_before_anything_is_tested(model, name, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cfg = ServeConfig(asr=model, **{"port": 0, name: port})
        message = (
            rf"cannot listen at 127\.0\.0\.1:{port}: address already in use; name another port with --{name}, or 0"
        )
        with pytest.raises(OSError, match=message), served(cfg):
            pass
    assert "self-test" not in capsys.readouterr().err


def test_an_address_of_another_machine_is_told_in_one_line_whatever_the_port(model):
    """192.0.2.1 is nobody's (RFC 5737)."""
    message = r"cannot listen at 192\.0\.2\.1:0: cannot assign requested address; expected an address of this machine"
    with pytest.raises(OSError, match=message), served(ServeConfig(asr=model, port=0, host="192.0.2.1")):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_server_that_is_not_ready_yet(model, number, monkeypatch):
    stopped = []
    gateway = serve.build(ServeConfig(asr=model, port=0))

    async def starts():
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)

    async def stops():
        stopped.append(number)

    monkeypatch.setattr(gateway, "start", starts)
    monkeypatch.setattr(gateway, "stop", stops)
    assert asyncio.run(asyncio.wait_for(serve.until_signal(gateway, ServeConfig(asr=model, port=0)), 30)) == 0
    assert stopped == [number]


def test_a_server_that_cannot_start_says_why_and_is_stopped(model, monkeypatch):
    cfg, stopped = ServeConfig(asr=model, port=0), []
    gateway = serve.build(cfg)

    async def starts():
        raise serve.SelfTestError("self-test: nothing is right")

    async def stops():
        stopped.append(True)

    monkeypatch.setattr(gateway, "start", starts)
    monkeypatch.setattr(gateway, "stop", stops)
    with pytest.raises(serve.SelfTestError, match="nothing is right"):
        asyncio.run(serve.serve(gateway, cfg, asyncio.Event(), lambda port: None))
    assert stopped == [True]


def test_the_folders_of_the_quickstart_are_a_recogniser_and_a_voice(tmp_path, jasper, talker):
    run, packed = tmp_path / "quickstart", tmp_path / "quickstart-voice" / "packed"
    for folder in (run, packed):
        folder.mkdir(parents=True)
    shutil.copy(jasper, run / "jasper_best.pt")
    for path, name in zip(talker, ("fastpitch.pt", "vocoder.pt"), strict=True):
        shutil.copy(path, packed / name)
    cfg = ServeConfig(asr=run, tts=packed.parent, port=0)
    assert list(cfg.voices()) == [(packed, packed)]
    with served(cfg) as server:
        assert server.gateway.models() == ["quickstart", "quickstart-voice"]
        assert server.speak(input="One.", response_format="wav")[0] == 200
