import contextlib
import gc
import io
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile

from benchmarks.serving import offline
from common.audio.waveform import AudioError
from common.config import ConfigError
from common.recognition.output.writing import rendered
from tests.timing import quickest
from trt import run
from trt.client import ClientConfig, command, main
from trt.client.asking import Server, ServerError, percentile, transcript_from
from trt.client.load import load
from trt.client.measuring import ClientClip, measure
from trt.client.streaming import in_real_time
from trt.runtime.recognizer import Recognizer

REPOSITORY = Path(__file__).parents[3]


def test_files_and_folders_are_transcribed_as_without_a_server(server, jasper, clips, tmp_path, capsys):
    folder = clips[0].parent
    inputs = (str(folder), str(clips[0]), str(tmp_path / "gone.wav"))
    cfg = ClientConfig(action="transcribe", inputs=inputs, url=server.url, format="json", output=tmp_path / "all.jsonl")
    assert main(cfg) == 1
    found = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    expected = list(Recognizer(jasper.with_suffix(".onnx")).stream([*sorted(folder.iterdir()), clips[0]]))
    assert [record["text"] for record in found] == [transcript.text for transcript in expected]
    assert found[2]["words"][0]["start"] == expected[2].words[0].start
    told = capsys.readouterr().err
    assert "gone: [Errno 2] No such file" in told
    assert "error: 1 of 8 could not be transcribed" in told
    cfg = ClientConfig(action="transcribe", inputs=(str(clips[1]),), url=server.url, format="srt")
    assert main(cfg) == 0
    assert capsys.readouterr().out == rendered(expected[1], "srt", with_name=True)


def test_of_a_manifest_the_error_rate_and_the_status_are_those_without_a_server(
    server, jasper, clips, tmp_path, capsys
):
    listed = tmp_path / "listed.jsonl"
    rows = [{"audio_filepath": str(clip), "text": f"Two {clip.stem}", "duration": 1.0} for clip in clips[:3]]
    rows[1]["audio_filepath"] = "gone.wav"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outputs = tmp_path / "here.txt", tmp_path / "there.txt"
    assert run.main(run.RunConfig(model=jasper.with_suffix(".onnx"), inputs=(listed,), output=outputs[0])) == 1
    here = capsys.readouterr().err.splitlines()
    asked = ClientConfig(action="transcribe", inputs=(str(listed),), url=server.url, output=outputs[1])
    assert main(asked) == 1
    there = capsys.readouterr().err.splitlines()
    assert there[-2:] == here[-2:]
    assert there[-2].startswith("WER ")
    assert there[-2].endswith(" errors in 4 words of 2 utterances")
    assert outputs[0].read_text() == outputs[1].read_text()
    with pytest.raises(ConfigError, match="cannot be written to: it is read"):
        main(replace(asked, output=listed))


def test_a_text_is_spoken_into_a_file(server, tmp_path, capsys):
    for name in ("a.wav", "a.flac", "a.mp3"):
        assert main(ClientConfig(action="speak", inputs=("Hello.",), url=server.url, output=tmp_path / name)) == 0
        assert soundfile.info(tmp_path / name).samplerate == 22_050
    assert "the first after" in capsys.readouterr().err
    with pytest.raises(ServerError, match="status 400: response_format: Input should be 'wav'"):
        main(ClientConfig(action="speak", inputs=("Hello.",), url=server.url, output=tmp_path / "a.doc"))
    assert not (tmp_path / "a.doc").exists()


def test_a_recording_is_streamed_as_it_would_be_spoken(server, clips, monkeypatch, capsys):
    monkeypatch.setattr("trt.client.command.in_real_time", partial(in_real_time, speed=10.0))
    assert main(ClientConfig(action="live", inputs=(str(clips[1]),), url=server.url)) == 0
    told = capsys.readouterr()
    assert told.out.split()
    assert "1.3 s; words were final p50" in told.err


def test_a_recording_that_cannot_be_read_is_refused_before_anything_is_sent(tmp_path):
    with pytest.raises(AudioError, match=r"gone\.wav"):
        main(ClientConfig(action="live", inputs=(str(tmp_path / "gone.wav"),), url="http://127.0.0.1:9"))


def test_samples_of_a_pipe_are_streamed(server, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", type("Pipe", (), {"buffer": io.BytesIO(bytes(20_001))}))
    assert main(ClientConfig(action="live", inputs=("-",), url=server.url)) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_many_clients_are_measured_and_none_gets_another_s_answer(server, clips, capsys):
    cfg = ClientConfig(
        action="measure",
        inputs=tuple(map(str, clips)),
        url=server.url,
        clients=8,
        seconds=1.0,
    )
    assert main(cfg) == 0
    told = capsys.readouterr().out
    assert ": 0 errors, 0 wrong" in told
    assert "latency in ms: p50" in told
    assert ", of the clients 0." in told


def test_a_server_that_tells_no_processor_time_is_measured_without(server, clips, monkeypatch, capsys):
    asked = Server.asked

    def without_metrics(self, method, path, *rest, **how):
        return asked(self, method, path.replace("/metrics", "/gone"), *rest, **how)

    monkeypatch.setattr(Server, "asked", without_metrics)
    cfg = ClientConfig(action="measure", inputs=(str(clips[0]),), url=server.url, clients=1, seconds=0.2)
    assert main(cfg) == 0
    told = capsys.readouterr().out
    assert "s of audio a second\n" in told
    assert "processor time" not in told


def test_a_fastconformer_is_measured_without_a_server_too(hybrid, clips):
    clip = ClientClip(clips[0].read_bytes(), clips[0].name, 1.0)
    found = offline(hybrid, [clip], batch_size=8, seconds=0.01, threads=1)
    assert min(found) > 0


def test_the_first_sound_and_captions_are_measured(server, clips, capsys):
    asked = {"action": "measure", "url": server.url, "clients": 2, "seconds": 0.5}
    assert main(ClientConfig(inputs=("Hello there.",), of="speech", **asked)) == 0
    assert "answers; ms to the first sound: p50" in capsys.readouterr().out
    assert main(ClientConfig(inputs=tuple(map(str, clips[:2])), of="captions", **asked)) == 0
    assert "words; ms from the end of a word to its being final: p50" in capsys.readouterr().out
    with pytest.raises(ServerError, match="gone.wav: no such file"):
        main(ClientConfig(inputs=("gone.wav",), of="captions", **asked))
    with pytest.raises(ServerError, match="nothing to say in it"):
        main(ClientConfig(inputs=("...",), of="speech", **asked))


@pytest.fixture
def _looks_at_the_clock(monkeypatch):
    """Each takes a client a thousand seconds: its end comes after so many, however busy the processor is."""
    looks = itertools.count(0, 1000)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + next(looks), thread_time=time.thread_time)
    monkeypatch.setattr("trt.client.load.time", clock)


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


@pytest.mark.usefixtures("_looks_at_the_clock")
def test_answers_that_are_swapped_are_counted():
    with answering(lambda n: answer_of(b"another" if n % 3 == 0 else b"own")) as url:
        found = load(url, [b"x"], [b"own"], clients=1, seconds=30_000)  # three looks a request
    assert (found.wrong, len(found.latencies), found.errors) == (4, 10, [])


@pytest.mark.usefixtures("_looks_at_the_clock")
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
        found = load(url, [b"x", b"y"], [b"own", b"own"], clients=1, seconds=12_000)
    assert (found.numbers, found.wrong, found.errors) == ([0, 1, 0, 1], 0, [])


@pytest.mark.usefixtures("_looks_at_the_clock")
def test_a_busy_server_and_a_broken_connection_are_asked_again_and_a_refusal_is_told(monkeypatch):
    monkeypatch.setattr("trt.client.load.WAITS", (0.01, 0.01))
    answers = {0: answer_of(b"", b"503 busy"), 1: b"", 2: answer_of(b"own"), 3: answer_of(b"no such", b"404 Not Found")}
    with answering(answers.get) as url:
        found = load(url, [b"x"], [b"own"], clients=1, seconds=5_000)
    assert found.errors == [f"{url}: status 404: no such"]
    assert found.latencies[0] > 1000.02
    assert found.wrong == 0
    with answering(lambda n: b"") as url:
        found = load(url, [b"x"], [b"own"], clients=2, seconds=5_000)
    assert set(found.errors) == {f"{url}: the connection was closed; tried 3 times"}


def test_a_connection_on_which_no_request_can_follow_is_closed(monkeypatch, recwarn):
    gc.collect()  # what other tests have left
    recwarn.clear()
    monkeypatch.setattr("trt.client.load.WAITS", ())
    for answer, told in ((b"HTTP/1.1 200 OK\r\n\r\n", "an answer without Content-Length"), (b"", "the connection was")):
        with answering(lambda n, answer=answer: answer) as url:
            found = load(url, [b"x"], [b"own"], clients=1, seconds=0.1)
        assert told in found.errors[0]
    gc.collect()
    assert not [told for warned in recwarn if "transport" in (told := str(warned.message))]


def test_the_clients_take_little_processor_time():
    def of_a_request() -> float:
        with answering(lambda n: answer_of(b"own")) as url:
            found = load(url, [b"x" * 20_000], [b"own"], clients=4, seconds=0.3)
        return found.cpu_seconds / len(found.latencies)

    assert quickest(2e-3, of_a_request) < 2e-3


def test_a_server_that_is_busy_or_restarts_is_asked_again():
    """Answers 503, then closes the connection, then answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    answers = [
        b"HTTP/1.1 503 busy\r\nContent-Length: 2\r\n\r\n{}",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ]

    def answer():
        for content in answers:
            connection, _ = listener.accept()
            connection.recv(1 << 16)
            connection.sendall(content)
            connection.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    assert Server(url, waits=(0.01, 0.01, 0.01)).transcribe(b"x", 'a".wav') == "hi"
    listener.close()
    with pytest.raises(ServerError, match=r"http://127\.0\.0\.1:\d+/v1: .*refused; tried 2 times"):
        Server(url, waits=(0.01,)).transcribe(b"x", "a")


def test_a_connection_that_breaks_within_an_answer_is_asked_again_unless_it_is_heard_already():
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        for content in (b"hi", b"hi there!", b"hi"):
            connection, _ = listener.accept()
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + content)
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    server = Server(f"http://127.0.0.1:{listener.getsockname()[1]}", waits=(0.01,))
    assert server.transcribe(b"x", "a") == "hi there!"
    with pytest.raises(ServerError, match="the answer breaks off: "):
        b"".join(server.speak("Hello.", response_format="pcm"))
    listener.close()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: Server("localhost:8000"), "url 'localhost:8000': expected http://HOST:PORT"),
        (lambda: Server("http://localhost:80x0"), "url 'http://localhost:80x0': .*; expected http://HOST:PORT"),
        (lambda: transcript_from("[]", "a"), "an answer that is no transcript"),
        (lambda: transcript_from("[" * 100_000, "a"), "an answer that is no transcript .*nested too deeply"),
        (
            lambda: measure("http://127.0.0.1:9", [ClientClip(b"", "a", 1)], key="", clients=1, seconds=0.01),
            "tried 6 times",
        ),
    ],
)
def test_what_cannot_be_asked_or_understood_is_named(work, message, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(ServerError, match=message):
        work()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action": "transcribe", "inputs": ()}, "nothing to ask; name recordings, or a text to speak"),
        ({"action": "speak", "inputs": ("a",)}, "speak: expected one text in quotes, and --output FILE.wav"),
        ({"action": "live", "inputs": ("a", "b")}, "live: expected one recording, or -"),
        ({"action": "measure", "inputs": ("a",), "clients": 0}, "clients = 0, seconds = 60: expected above 0"),
    ],
)
def test_flags_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ClientConfig(**settings)


def test_nothing_to_measure_is_named(tmp_path):
    with pytest.raises(ServerError, match="no audio in this folder"):
        command.measured(ClientConfig(action="measure", inputs=(str(tmp_path),)))


def test_a_percentile_is_one_of_the_values():
    assert percentile([1.0, 2.0, 10.0], 50) == 2.0
    assert percentile([1.0, 2.0, 10.0], 99) == 10.0


def test_it_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import trt.client"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
