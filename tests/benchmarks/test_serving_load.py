"""Many clients at once, of a real server and of stand-ins."""

import contextlib
import itertools
import socket
import threading
import time

import pytest

from benchmarks.serving_load import LoadConfig, load, main
from tests.timing import quickest
from tests.trt.conftest import clips, jasper, once, server, talker  # noqa: F401  fixtures
from trt.client.asking import Server, ServerError


@pytest.mark.slow
def test_many_clients_are_measured_and_none_gets_another_s_answer(server, clips, capsys):  # noqa: F811
    assert main(LoadConfig(url=server.url, inputs=tuple(clips), clients=8, seconds=1.0)) == 0
    told = capsys.readouterr().out
    assert ": 0 errors, 0 wrong" in told
    assert "latency in ms: p50" in told
    assert ", of the clients 0." in told


def test_a_server_that_tells_no_processor_time_is_measured_without(server, clips, monkeypatch, capsys):  # noqa: F811
    asked = Server.asked

    def without_metrics(self, method, path, *rest, **how):
        return asked(self, method, path.replace("/metrics", "/gone"), *rest, **how)

    monkeypatch.setattr(Server, "asked", without_metrics)
    assert main(LoadConfig(url=server.url, inputs=(clips[0],), clients=1, seconds=0.2)) == 0
    told = capsys.readouterr().out
    assert "s of audio a second\n" in told
    assert "processor time" not in told


@contextlib.contextmanager
def answering(answer):
    """The address of a server that sends `answer` of the number of each request, and closes where that is nothing."""
    listener, count = socket.create_server(("127.0.0.1", 0)), itertools.count()

    def talk(connection):
        with connection, contextlib.suppress(OSError):
            while connection.recv(1 << 16) and (content := answer(next(count))):
                connection.sendall(content)

    def listen():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def answer_of(content: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(content), content)


def test_answers_that_are_swapped_are_counted():
    with answering(lambda n: answer_of(b"another" if n % 3 == 0 else b"own")) as url:
        found = load(url, [b"x"], [b"own"], clients=1, seconds=0.1)
    assert found.wrong == pytest.approx(len(found.latencies) / 3, abs=1)
    assert found.wrong
    assert not found.errors


def test_an_answer_that_comes_in_parts_is_put_together():
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(1 << 16):
            for part in (b"HTTP/1.1 200 OK\r\nContent-", b"Length: 3\r\n\r\no", b"wn"):
                connection.sendall(part)
                time.sleep(0.01)

    threading.Thread(target=answer, daemon=True).start()
    with listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        found = load(url, [b"x", b"y"], [b"own", b"own"], clients=1, seconds=0.1)
    assert found.numbers[:2] == [0, 1]
    assert (found.wrong, found.errors) == (0, [])


def test_a_busy_server_and_a_broken_connection_are_asked_again_and_a_refusal_is_told(monkeypatch):
    monkeypatch.setattr("benchmarks.serving_load.WAITS", (0.01, 0.01))
    answers = {0: answer_of(b"", b"503 busy"), 1: b"", 2: answer_of(b"own"), 3: answer_of(b"no such", b"404 Not Found")}
    with answering(lambda n: answers.get(n, answer_of(b"own"))) as url:
        found = load(url, [b"x"], [b"own"], clients=1, seconds=0.2)
    assert found.errors == [f"{url}: status 404: no such"]
    assert found.latencies[0] > 0.02
    assert found.wrong == 0
    with answering(lambda n: b"") as url:
        found = load(url, [b"x"], [b"own"], clients=2, seconds=0.05)
    assert set(found.errors) == {f"{url}: the connection was closed; tried 3 times"}


def test_the_clients_take_little_processor_time():
    def of_a_request() -> float:
        with answering(lambda n: answer_of(b"own")) as url:
            found = load(url, [b"x" * 20_000], [b"own"], clients=4, seconds=0.3)
        return found.cpu_seconds / len(found.latencies)

    assert quickest(2e-3, of_a_request) < 2e-3


def test_nothing_to_measure_is_named(tmp_path):
    with pytest.raises(ServerError, match="no audio in this folder"):
        main(LoadConfig(url="http://127.0.0.1:9", inputs=(tmp_path,)))


def test_no_clients_are_refused():
    with pytest.raises(ValueError, match="clients = 0, seconds = 60: expected above 0"):
        LoadConfig(url="http://127.0.0.1:9", inputs=(), clients=0)
