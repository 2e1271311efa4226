"""NVIDIA's Triton behind the gateway, where its wheel and the library of this Python are."""

import asyncio
import contextlib
import fcntl
import json
import pkgutil
import re
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from common.audio import waveform
from tests.timing import until
from tests.trt.serving.running import noise, served
from trt.facts import ModelError
from trt.runtime.recognizer import Recognizer
from trt.serve import ServeConfig, build
from trt.serving.admission.limits import RequestError
from trt.serving.models import load_voice
from trt.serving.triton import program
from trt.serving.triton.asking import Infer
from trt.serving.triton.folder import MEMORY
from trt.serving.triton.program import EngineAbsentError, Served, Triton
from trt.serving.triton.sentences import tensors_of


def absent() -> str:
    try:
        program.find_wheel()
        program.find_python()
    except EngineAbsentError as error:
        return str(error)
    return ""


needs_triton = pytest.mark.skipif(bool(absent()), reason=absent() or "runs")


# Ends the model that Triton runs: batches, and recordings that take long, are noted before they wait for a lock.
HELD = """
import fcntl
def held(name, method):
    def wait(model, *given):
        with Path(__file__).with_name(name).open("a") as file:
            print(len(given[-1]), file=file, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        return method(model, *given)
    return wait
for name in ("execute", "_answer_later"):
    setattr(TritonPythonModel, name, held(name, getattr(TritonPythonModel, name)))
"""


@pytest.fixture(scope="module")
def behind(model, voice):
    cfg = ServeConfig(
        asr=model, tts=voice / "tts.onnx", vocoder=voice / "v.onnx", engine="triton", voice_engine="triton", port=0
    )

    def lay_out(triton: Triton, folder: Path, whole=Triton._lay_out) -> None:
        whole(triton, folder)
        for path in folder.glob("models/*/1/model.py"):
            path.write_text(path.read_text() + HELD)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Triton, "_lay_out", lay_out)
        with served(cfg) as running:
            yield running


@contextlib.contextmanager
def held(running, model: str, method: str = "execute") -> Iterator[Callable[[Sequence[Future]], None]]:
    """A method of the model waits in here. Yields what returns once as many requests have come to it or its queue."""
    with (engine_of(running).folder.path / "models" / model / "1" / method).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        start = file.tell()

        def have_come(asked: Sequence[Future]) -> None:
            arrived = 0
            while arrived < len(asked):
                assert not any(each.done() for each in asked), asked
                time.sleep(0.01)
                file.seek(start)
                arrived = sum(map(int, file)) + metrics(running, model, "nv_inference_pending_request_count")[0]

        yield have_come


def engine_of(running) -> Triton:
    return running.gateway.triton


def group_of(engine: Triton) -> list[str]:
    """The processes of the server and of the stub of its back end."""
    command = ["ps", "-o", "stat=,pid=", "-g", str(engine.process.pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in told if not line.startswith("Z")]


def assert_nothing_is_left(engine: Triton) -> None:
    assert not engine.runs()
    assert not engine.folder.path.exists()
    assert not list(MEMORY.glob(f"{engine.folder.path.name}*"))
    until(lambda: engine.process is None or not group_of(engine))


def metrics(running, model: str, *names: str) -> tuple[float, ...]:
    url = f"http://127.0.0.1:{engine_of(running).metrics_port}/metrics"
    text = urllib.request.urlopen(url).read().decode()
    return tuple(float(re.search(rf'^{name}{{model="{model}".*}} (\S+)', text, re.MULTILINE)[1]) for name in names)


def batches(running, model: str = "recognizer") -> tuple[float, float]:
    """Recordings or sentences, and batches, so far, as Triton counts them."""
    return metrics(running, model, "nv_inference_count", "nv_inference_exec_count")


def since(before, running, model: str = "recognizer", *, least: int) -> tuple[float, float]:
    """The same since `before`: Triton counts a batch some time after its answers."""
    until(lambda: batches(running, model)[0] - before[0] >= least)
    counted = batches(running, model)
    return counted[0] - before[0], counted[1] - before[1]


@needs_triton
def test_answers_under_load_are_those_without_a_server_and_share_batches(behind, model, clips):
    offline = dict(zip(clips, Recognizer(model).stream(clips), strict=True))
    before = batches(behind)
    files = list(offline) * 6
    with ThreadPoolExecutor(len(files)) as pool, held(behind, "recognizer") as have_come:
        asked = [pool.submit(behind.transcribe, file.read_bytes(), response_format="verbose_json") for file in files]
        have_come(asked)
    for file, answer in zip(files, asked, strict=True):
        status, body = answer.result()
        assert status == 200, body
        found = json.loads(body)
        assert found["text"] == offline[file].text
        assert [(w["word"], w["start"], w["end"]) for w in found["words"]] == [w[:3] for w in offline[file].words]
    recordings, runs = since(before, behind, least=len(files))
    assert recordings == len(files)
    assert runs <= recordings / 2
    behind.comes_to_rest()


@needs_triton
def test_a_long_recording_does_not_hold_up_short_ones(behind, model, clips, tmp_path):
    waveform.write(tmp_path / "long.wav", noise(400.0), 16_000)
    content = (tmp_path / "long.wav").read_bytes()
    with served(ServeConfig(asr=model, port=0)) as without:
        expected = without.transcribe(content, response_format="json")
    with ThreadPoolExecutor(1) as pool:
        with held(behind, "recognizer", "_answer_later") as have_come:
            long = pool.submit(behind.transcribe, content, response_format="json")
            have_come([long])
            for _ in range(3):
                assert behind.transcribe(clips[0].read_bytes())[0] == 200
        assert long.result() == expected


@needs_triton
def test_texts_that_are_spoken_at_the_same_time_share_batches_and_each_sounds_as_alone(behind, voice):
    own = load_voice(voice / "tts.onnx", voice / "v.onnx", threads=1)
    texts = ["Hello there.", "One two three, four. Five!", "Go <break time='300ms'/> then."] * 4
    asked = [{"input": text, "voice": str(i % 2), "response_format": "pcm"} for i, text in enumerate(texts)]
    before = batches(behind, "voice")
    with ThreadPoolExecutor(12) as pool, held(behind, "voice") as have_come:
        answers = [pool.submit(behind.speak, **each, sample_rate=own.sample_rate) for each in asked]
        have_come(answers)
    for each, answer in zip(asked, answers, strict=True):
        status, body = answer.result()
        assert status == 200, body
        expected_N = own.whole([own.plan(each["input"], speaker=int(each["voice"]), pace=1.0)])[0]
        assert np.abs(np.frombuffer(body, "<i2") / 32767 - expected_N).max() < 2e-4
    sentences, runs = since(before, behind, "voice", least=5 * 4)
    assert sentences == 5 * 4
    assert runs < sentences
    words = json.loads(behind.ask("POST", "/v1/audio/speech/words", b'{"input": "Hello there."}')[1])["words"]
    assert [word["text"] for word in words] == ["hello", "there"]
    wrong = tensors_of(own.plan("Hello.", speaker=0, pace=1.0)[0]) | {"speaker": np.array([[7]])}
    with pytest.raises(RequestError, match="speaker 7: expected 0 to 1"):
        asyncio.run(Infer("127.0.0.1", engine_of(behind).http_port)("voice", wrong, "sound"))
    status, body = behind.speak(input="<prosody rate='100000%'>Hello.</prosody>")
    assert (status, json.loads(body)["error"]["param"]) == (400, "input"), body
    behind.comes_to_rest()


@needs_triton
def test_triton_itself_can_be_asked_and_says_what_is_wrong(behind):
    def asked(model, **inputs):
        return asyncio.run(Infer("127.0.0.1", engine_of(behind).http_port)(model, inputs, "transcript"))

    sound = noise(1.0)[None]
    assert {"text", "words", "seconds", "error"} == json.loads(asked("recognizer", audio=sound).tobytes()).keys()
    assert json.loads(asked("recognizer", audio=sound[:, :0]).tobytes())["text"] == ""
    two = [
        json.loads(row.tobytes())["text"] for row in asked("recognizer", audio=np.stack([noise(1.0), noise(1.0, 1)]))
    ]
    assert two[0] == json.loads(asked("recognizer", audio=sound).tobytes())["text"] != two[1]
    for model, inputs, message in (
        ("nobody", {"audio": sound}, "unknown model"),
        ("recognizer", {"audio": sound.astype(np.int64)}, "data-type is 'INT64', but model 'recognizer' expects"),
        ("recognizer", {"sound": sound}, "unexpected inference input 'sound'"),
        ("recognizer", {"audio": np.concatenate([sound] * 40)}, "batch-size must be <= 32"),
    ):
        with pytest.raises(RequestError, match=message):
            asked(model, **inputs)


@needs_triton
def test_without_its_engine_the_server_is_not_ready_and_says_so(model, clips):
    with served(ServeConfig(asr=model, engine="triton", port=0)) as running:
        engine = engine_of(running)
        folder = engine.folder.path
        assert running.ask("GET", "/health")[0] == 200
        assert len(group_of(engine)) > 1
        assert list(MEMORY.glob(f"{folder.name}*"))
        engine.process.kill()
        engine.process.wait()
        status, body = running.transcribe(clips[0].read_bytes())
        assert status == 503
        assert "Triton does not answer" in body.decode()
        assert running.ask("GET", "/health")[0] == 503
    assert_nothing_is_left(engine)


@needs_triton
def test_a_model_that_triton_cannot_load_is_named(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    told = []
    engine = Triton(Served(tmp_path / "m.onnx", 8, 1, "cpu", 20.0, 32))
    with pytest.raises(EngineAbsentError, match=r"Triton did not start: .*m\.onnx: cannot be loaded"):
        engine.start(told.append)
    assert told == []
    assert not engine.runs()
    assert not engine.folder.path.exists()


def test_without_the_wheel_or_the_library_of_python_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineAbsentError, match="needs NVIDIA's Triton, .* pip install --no-deps nvidia-pytriton"):
        program.find_wheel()
    monkeypatch.setattr(program.sysconfig, "get_config_var", lambda name: str(tmp_path))
    monkeypatch.setattr(program.Path, "exists", lambda path: False)
    with pytest.raises(EngineAbsentError, match=r"needs libpython3\.\d+\.so\.1\.0, .* apt-get install libpython3"):
        program.find_python()


def test_a_wheel_without_this_python_is_named(monkeypatch, tmp_path):
    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: Found)
    with pytest.raises(
        EngineAbsentError, match="tritonserver: not in this wheel of nvidia-pytriton; Triton cannot run"
    ):
        program.find_wheel()


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineAbsentError, match=rf"port {port} of 127\.0\.0\.1: Address already in use"):
            program.free((0, port, 0))
    assert max(program.free((0, 0, 0))) < 32_000


def test_no_port_is_given_twice(monkeypatch):
    """Two sockets that do not listen may have the same one."""

    class InOrder:
        def sample(self, numbers: range, count: int) -> list[int]:
            return list(numbers[:count])

    monkeypatch.setattr(program.secrets, "SystemRandom", InOrder)
    assert len(set(program.free((0, 0, 0)))) == 3


def test_ports_that_cannot_be_are_refused():
    for how in ({"port": 8001}, {"wyoming_port": 8001}, {"triton_ports": (0, 70_000, 0)}, {"triton_ports": (1, 2, 2)}):
        with pytest.raises(ValueError, match=r"port (8001|70000|2): expected ports from 1 to 65535, or 0"):
            ServeConfig(asr=Path("m.onnx"), engine="triton", **{"triton_ports": (8001, 8002, 0), **how})


def test_a_model_of_the_hub_is_what_triton_gets(monkeypatch, tmp_path):
    (tmp_path / "m.nemo").write_bytes(b"")
    monkeypatch.setattr(program, "find_wheel", lambda: None)
    monkeypatch.setattr(program, "find_python", lambda: ("", []))
    monkeypatch.setattr(program.hub, "located", lambda name: {Path("one/model"): tmp_path / "m.nemo"}.get(name, name))
    assert Triton(Served(Path("one/model"), 8, 1, "cpu", 20.0, 32)).source == tmp_path / "m.nemo"
    with pytest.raises(ModelError, match=r"gone\.onnx: no such file"):
        Triton(Served(Path("gone.onnx"), 8, 1, "cpu", 20.0, 32))


@needs_triton
@pytest.mark.parametrize("moment", ["shutil.copy2", "subprocess.Popen", "http.client.HTTPConnection", "ready"])
def test_one_that_is_stopped_while_it_starts_leaves_nothing(model, moment, monkeypatch):
    """While its folder is filled, its process is made, it is asked whether it is ready, and as it becomes so."""
    engine, reached, goes_on = Triton(Served(model, 8, 1, "cpu", 20.0, 32)), threading.Event(), threading.Event()
    says_so = SimpleNamespace(request=lambda *_: None, getresponse=lambda: SimpleNamespace(status=200), close=str)
    name = "http.client.HTTPConnection" if moment == "ready" else moment
    real = pkgutil.resolve_name(name)

    def held(*given, **how):
        reached.set()
        goes_on.wait()
        return says_so if moment == "ready" else real(*given, **how)

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as pool:
        patched.setattr(name, held)
        starts = pool.submit(engine.start, print)
        reached.wait()
        engine.stop()
        goes_on.set()
        with pytest.raises(EngineAbsentError, match="Triton was stopped before it was ready"):
            starts.result()
    assert_nothing_is_left(engine)


def test_a_voice_beside_triton_says_where_it_runs(monkeypatch, jasper, voice, capsys):
    monkeypatch.setattr("trt.serve.Triton", lambda *given, **how: SimpleNamespace(http_port=1, speaks=False))
    asr = jasper.with_suffix(".onnx")
    gateway = build(ServeConfig(asr=asr, tts=voice / "tts.onnx", vocoder=voice / "v.onnx", engine="triton"))
    assert gateway.speaking is not None
    assert "the voice runs in this process: Triton answers a request whole" in capsys.readouterr().err


def test_triton_without_a_recogniser_is_refused():
    with pytest.raises(ValueError, match="engine triton runs a recogniser; name one with --asr"):
        ServeConfig(tts=Path("f.onnx"), vocoder=Path("v.onnx"), engine="triton")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "Triton does not answer: the connection ended"),
        (b"garbage\r\n\r\n", "Triton does not answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "Triton does not answer"),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nabc", "Triton: abc"),
    ],
)
def test_answers_that_break_off_or_are_none_are_refusals(answer, message):
    async def ask():
        async def talk(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            await Infer("127.0.0.1", server.sockets[0].getsockname()[1])("m", {"a": np.zeros((1, 3), np.float32)}, "t")

    with pytest.raises(RequestError, match=message):
        asyncio.run(ask())
