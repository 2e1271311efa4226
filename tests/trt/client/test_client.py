import io
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import soundfile

from common.audio.waveform import AudioError
from common.recognition.writing import rendered
from trt.client import ClientConfig, main
from trt.client.asking import Server, ServerError, percentile, transcript_from
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


def test_a_text_is_spoken_into_a_file(server, tmp_path, capsys):
    for name in ("a.wav", "a.flac", "a.mp3"):
        assert main(ClientConfig(action="speak", inputs=("Hello.",), url=server.url, output=tmp_path / name)) == 0
        assert soundfile.info(tmp_path / name).samplerate == 22_050
    assert "the first after" in capsys.readouterr().err
    with pytest.raises(ServerError, match="status 400: response_format: Input should be 'wav'"):
        main(ClientConfig(action="speak", inputs=("Hello.",), url=server.url, output=tmp_path / "a.doc"))
    assert not (tmp_path / "a.doc").exists()


def test_a_recording_is_streamed_as_it_would_be_spoken(server, clips, capsys):
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
        (lambda: Server("http://127.0.0.1:9").transcribe(b"", "a"), "tried 6 times"),
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
        ({"action": "transcribe", "inputs": ("a",), "clients": 0}, "clients = 0: expected above 0"),
    ],
)
def test_flags_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ClientConfig(**settings)


def test_a_percentile_is_one_of_the_values():
    assert percentile([1.0, 2.0, 10.0], 50) == 2.0
    assert percentile([1.0, 2.0, 10.0], 99) == 10.0


@pytest.mark.slow
def test_it_needs_no_torch():
    code = "import sys; sys.modules['torch'] = None; import trt.client"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
