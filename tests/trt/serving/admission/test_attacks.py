"""Clients that mean ill, or vanish: the server stays up, says what was wrong, and holds nothing afterwards."""

import asyncio
import contextlib
import http.client
import io
import json
import os
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.timing import until
from tests.trt.serving.running import Served, form, impatient, noise, pretended, served
from trt.serve import ServeConfig, build, read_keys
from trt.serving.admission.limits import Budget, BusyError, Limits, SelfTestError

REPOSITORY = Path(__file__).parents[4]
LIMITS = Limits(max_body_mb=2, max_seconds=60, max_queue=4)


@pytest.fixture(scope="module")
def narrow(jasper, talker, tmp_path_factory):
    """A server that allows little, and wants a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("one\n\ntwo\n")
    cfg = ServeConfig(
        asr=jasper.with_suffix(".onnx"), tts=talker[0], vocoder=talker[1], port=0, limits=LIMITS, api_keys=keys
    )
    with served(cfg) as running:
        yield running


def head(length: int | None, *, key: str = "one", path: str = "/v1/audio/transcriptions") -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n{size}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    ).encode()


@contextlib.contextmanager
def connected(server: Served):
    with socket.create_connection(("127.0.0.1", server.port), timeout=200) as connection:
        yield connection


def answer_of(connection: socket.socket) -> tuple[int, str]:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read().decode()


def still_answers(server: Served) -> None:
    server.comes_to_rest()
    body, kind = form(wav(0.5))
    headers = {"Content-Type": kind, "Authorization": "Bearer two"}
    while (status := server.ask("POST", "/v1/audio/transcriptions", body, headers)[0]) == 503:
        pass
    assert status == 200
    server.comes_to_rest()


def wav(seconds: float, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, noise(seconds, rate=rate), rate, format="WAV")
    return file.getvalue()


def test_only_requests_with_a_key_are_answered(narrow):
    for headers in ({}, {"Authorization": "Bearer three"}, {"Authorization": "one two"}):
        status, body = narrow.ask("GET", "/v1/models", headers=headers)
        assert status == 401
        assert "missing or wrong API key; send 'Authorization: Bearer KEY'" in body.decode()
    assert narrow.ask("GET", "/v1/models", headers={"Authorization": "Bearer two"})[0] == 200
    assert narrow.ask("GET", "/health")[0] == 200


def test_a_body_that_says_that_it_is_too_large_is_refused_at_once(narrow):
    with connected(narrow) as connection:
        connection.sendall(head(1_000_000_000))
        status, body = answer_of(connection)
    assert status == 413
    assert json.loads(body)["error"]["message"] == "a body of 1000.0 MB; expected at most 2 MB"
    still_answers(narrow)


def test_a_form_that_turns_out_too_large_is_refused(narrow):
    begin = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    with connected(narrow) as connection:
        connection.sendall(head(None) + f"{len(begin):x}\r\n".encode() + begin + b"\r\n")
        for _ in range(40):
            connection.sendall(b"40000\r\n" + bytes(0x40000) + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        status, body = answer_of(connection)
    assert status == 413
    assert "expected at most 2 MB" in body
    still_answers(narrow)


def test_a_gigabyte_is_refused_and_memory_stays(narrow):
    begin = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    gone = contextlib.suppress(BrokenPipeError, ConnectionResetError)
    with impatient(LIMITS, 0.7), connected(narrow) as connection, gone:
        connection.sendall(head(1_000_000_000) + begin)
        for _ in range(1000):
            connection.sendall(bytes(1_000_000))
        assert answer_of(connection)[0] == 413
    still_answers(narrow)


def test_a_client_that_sends_too_slowly_is_refused(narrow):
    with impatient(LIMITS, 0.7), connected(narrow) as connection:
        connection.sendall(head(1000) + b"--b")
        status, body = answer_of(connection)
    assert status == 408
    assert "the body did not come within 0.7 s" in body
    still_answers(narrow)


@pytest.mark.parametrize("sent", [b"", b"--b\r\n", b"--b\r\nContent-Disposition: form-data\r\n\r\nabc"])
def test_clients_that_vanish_leave_nothing(narrow, sent):
    for _ in range(5):
        with connected(narrow) as connection:
            connection.sendall(head(1_000) + sent)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    still_answers(narrow)


def test_clients_that_vanish_while_they_wait_are_not_transcribed(narrow, monkeypatch):
    asr, may, heard = narrow.gateway.hearing.ears.asr, threading.Event(), []
    hear = asr.stream

    def stream(recordings, **options):
        heard.extend(map(len, recordings))
        may.wait()
        return hear(recordings, **options)

    monkeypatch.setattr(asr, "stream", stream)
    (first, kind), (body, _) = form(wav(0.5)), form(wav(3.0))
    headers = {"Content-Type": kind, "Authorization": "Bearer two"}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(narrow.ask, "POST", "/v1/audio/transcriptions", first, headers)
        until(lambda: heard)
        with contextlib.ExitStack() as stack:
            for waiting in (1, 2):
                connection = stack.enter_context(connected(narrow))
                connection.sendall(head(len(body)) + body)
                until(lambda waiting=waiting: narrow.gateway.hearing.waiting == waiting)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: len(narrow.gateway.app.under_way) == 1)
        may.set()
        assert answer.result()[0] == 200
    still_answers(narrow)
    assert heard == [8_000, 8_000], "those of the clients that stayed"


def test_a_reader_that_is_too_slow_is_left_and_others_are_answered(narrow):
    content = json.dumps({"input": "One two three four five six seven. " * 100, "response_format": "pcm"}).encode()
    lines = (
        f"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer one\r\nContent-Length: {len(content)}\r\n"
    )
    with impatient(LIMITS, 2.0), connected(narrow) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"{lines}\r\n".encode() + content)
        headers = {"Authorization": "Bearer one", "Content-Type": "application/json"}
        asked = json.dumps({"input": "One.", "response_format": "pcm"}).encode()
        assert narrow.ask("POST", "/v1/audio/speech", asked, headers)[0] == 200
        narrow.comes_to_rest()
    still_answers(narrow)


@pytest.mark.parametrize("style", ["FLAC", "WAV"])
def test_a_recording_that_is_too_long_is_refused_before_it_is_decoded(narrow, style):
    file = io.BytesIO()
    soundfile.write(file, np.zeros(8_000 * 100, np.int16), 8_000, format=style)
    body, kind = form(file.getvalue())
    status, answer = narrow.ask(
        "POST", "/v1/audio/transcriptions", body, {"Content-Type": kind, "Authorization": "Bearer one"}
    )
    assert status == 413
    assert json.loads(answer)["error"]["message"] == "a.wav: 100 s of audio; expected at most 60 s"


def test_more_requests_than_the_queue_holds_are_told_to_come_again(narrow):
    """And a client that has its share of the places leaves the others to other clients."""
    body, _ = form(wav(1.0))

    def asked(key: str) -> tuple[int, str]:
        with connected(narrow) as connection:
            connection.sendall(head(len(body), key=key) + body)
            return answer_of(connection)

    under_way = narrow.gateway.app.under_way
    with contextlib.ExitStack() as stack:
        for begun, key in enumerate(("one", "two")):
            assert asked(key)[0] == 200
            until(lambda: len(under_way) == 2 * begun)  # noqa: B023
            for _ in range(2):
                stack.enter_context(connected(narrow)).sendall(head(len(body), key=key) + body[:100])
            until(lambda: len(under_way) == 2 * begun + 2)  # noqa: B023
            status, answer = asked(key)
            expected = (429, "has its share: 2 requests are") if key == "one" else (503, "is busy: 4 requests are")
            assert (status, f"{expected[1]} under way; try again later" in answer) == (expected[0], True)
    still_answers(narrow)


def test_a_request_for_more_memory_than_there_is_is_told_to_come_again():
    budget = Budget(100)
    budget.take(60)
    with pytest.raises(BusyError, match="the server is busy: requests hold 0 MB of 0 MB; try again later"):
        budget.take(50)
    budget.give_back(60)
    budget.take(100)


@pytest.mark.parametrize(
    "content", [b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" + os.urandom(200), b"POST " + b"a" * 100_000, b"\r\n" * 50]
)
def test_what_is_no_http_is_refused(narrow, content):
    with connected(narrow) as connection, contextlib.suppress(OSError):
        connection.sendall(content)
        connection.settimeout(0.1)
        connection.recv(1000)
    still_answers(narrow)


def test_a_model_that_gives_something_else_in_a_batch_does_not_start(jasper):
    cfg = ServeConfig(asr=jasper.with_suffix(".onnx"), port=0)
    gateway = build(cfg)
    transcribe = gateway.hearing.ears.asr.log_probs
    gateway.hearing.ears.asr.log_probs = lambda audio_BN, samples_B: [
        row[:: len(samples_B)] for row in transcribe(audio_BN, samples_B)
    ]

    with pytest.raises(
        SelfTestError, match=r"self-test: .* s of noise give .* in a batch and .* alone; the model's padding"
    ):
        asyncio.run(gateway.start())


def test_a_voice_that_says_nothing_does_not_start(talker):
    gateway = build(ServeConfig(tts=talker[0], vocoder=talker[1]))
    voice = gateway.speaking.voice

    def silent(sayings):
        return [said if said is None else 0 * said for said in voice.next_sounds(sayings)]

    gateway.speaking.voice = voice._replace(next_sounds=silent)
    with pytest.raises(
        SelfTestError, match="self-test: fastpitch says nothing; its weights or its vocoder's are damaged"
    ):
        asyncio.run(gateway.start())


@pytest.fixture(scope="module")
def command(jasper):
    return [sys.executable, "-m", "trt.serve", "--asr", str(jasper.with_suffix(".onnx")), "--port", "0"]


def test_sigterm_answers_what_is_under_way_and_ends(command):
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    try:
        port = 0
        for line in process.stderr:
            if "serving m at http://127.0.0.1:" in line:
                port = int(line.rsplit(":", 1)[1])
                break
        answers = []
        content = wav(50.0)

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            body, kind = form(content)
            connection.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind})
            answers.append(connection.getresponse().status)

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()

        def begun() -> float:
            """Requests that are under way or answered."""
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as told:
                lines = told.read().decode().splitlines()
            counted = ("speech_requests_under_way", "speech_requests_total{")
            return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(counted))

        until(lambda: begun() == 3)
        process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join()
        assert answers == [200, 200, 200]
        assert process.wait() == 0
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "nothing to serve; name a recogniser with --asr, or a voice with --tts and --vocoder"),
        ({"tts": Path("f.pt")}, "a voice needs both --tts and --vocoder"),
        (
            {"asr": Path("m"), "max_batch": 0},
            "max_batch = 0, batch_size = 8: expected a delay of 0 or more, sizes above 0",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ServeConfig(**settings)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="max_seconds = 0: expected above 0"):
        Limits(max_seconds=0)


def test_a_file_without_keys_is_refused(tmp_path, monkeypatch):
    (tmp_path / "keys").write_text("\n\n")
    with pytest.raises(ValueError, match="keys: holds no keys; expected one a line"):
        read_keys(tmp_path / "keys")
    with pytest.raises(ValueError, match="gone: cannot be read"):
        read_keys(tmp_path / "gone")
    monkeypatch.setenv("SPEECH_API_KEYS", "a, b")
    assert read_keys(None) == ("a", "b")


def test_a_model_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(
        ValueError, match=r"gone\.pt: no such file; expected an ONNX file of trt\.export, or a checkpoint"
    ):
        build(ServeConfig(asr=tmp_path / "gone.pt"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 100, "a form of more than 64 parts"),
        (b"--b\r\nContent-Disposition: " + b"x" * 100_000 + b"\r\n\r\n1\r\n", "Maximum header size exceeded"),
        (
            b"--b\r\n" + b"".join(b"A%d: x\r\n" % i for i in range(3000)) + b"\r\n1\r\n",
            "Maximum header count exceeded",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n' + bytes(1_100_000) + b"\r\n",
            "field 'prompt' of more than 65536 bytes; files have a filename",
        ),
    ],
)
def test_a_form_of_too_much_is_refused(narrow, content, message):
    body = content + b"--b--\r\n"
    with connected(narrow) as connection:
        connection.sendall(head(len(body)) + body)
        status, answer = answer_of(connection)
    assert status == 400
    assert message in answer
    still_answers(narrow)


def test_a_connection_on_which_no_request_begins_is_closed(monkeypatch):
    cfg = ServeConfig(asr=Path("none"), port=0, limits=replace(LIMITS, client_seconds=77.0))
    looks, call_later = queue.SimpleQueue(), asyncio.BaseEventLoop.call_later

    def held(loop, delay, callback, *arguments, **how):
        if delay != cfg.limits.client_seconds:
            return call_later(loop, delay, callback, *arguments, **how)
        return looks.put(lambda: loop.call_soon_threadsafe(callback, *arguments))

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", held)
    with served(cfg, pretended(cfg)) as server, contextlib.ExitStack() as stack:
        silent, slow, later = (stack.enter_context(connected(server)) for _ in range(3))
        slow.sendall(b"GET /health HTTP/1.1\r\nHost:")
        later.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer_of(later)[0] == 200
        later.sendall(b"GET /health HTTP/1.1\r\nHo")
        for _ in range(6):  # two at each
            looks.get()()
        for connection in (silent, slow, later):
            assert connection.recv(1) == b""


def test_more_connections_than_there_may_be_are_closed(narrow):
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(narrow)) for _ in range(5 * LIMITS.max_queue)]
        closed, _, _ = select.select(held, [], [], LIMITS.client_seconds)  # for which any may be idle
        assert closed
        with contextlib.suppress(ConnectionResetError):
            assert closed[0].recv(1) == b""
    still_answers(narrow)
