import asyncio
import json
import re
import socket

import numpy as np
import pytest
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeVoice

from tests.trt.serving.running import noise, served
from trt.runtime.recognizer import Recognizer
from trt.serve import ServeConfig, build
from trt.serving.admission.limits import Limits
from trt.serving.streams.wyoming import Wyoming


@pytest.fixture(scope="module")
def port(jasper, talker):
    """The port of a server that speaks Wyoming's protocol."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    limits = Limits(max_seconds=60, client_seconds=5)
    cfg = ServeConfig(
        asr=jasper.with_suffix(".onnx"), tts=talker[0], vocoder=talker[1], port=0, wyoming_port=number, limits=limits
    )
    with served(cfg) as running:
        yield number
        running.comes_to_rest()


def told(port, events, until):
    """All events that come back, up to the first of type `until`."""

    async def ask():
        async with AsyncTcpClient("127.0.0.1", port) as client:
            for event in events:
                await client.write_event(event)
            found = []
            while event := await asyncio.wait_for(client.read_event(), 200):
                found.append(event)
                if event.type == until:
                    return found
            return found

    return asyncio.run(ask())


def spoken(samples_N, *, rate=16_000, channels=1):
    content = np.clip(np.rint(samples_N * 32768), -32768, 32767).astype("<i2").repeat(channels).tobytes()
    yield Transcribe().event()
    yield AudioStart(rate, 2, channels).event()
    for first in range(0, len(content), 4096):
        yield AudioChunk(rate, 2, channels, content[first : first + 4096]).event()
    yield AudioStop().event()


def test_the_models_are_described(port):
    info = Info.from_event(told(port, [Describe().event()], "info")[-1])
    assert (info.asr[0].models[0].name, info.tts[0].voices[0].name) == ("m", "fastpitch")
    assert info.asr[0].models[0].languages == ["en"]
    assert [speaker.name for speaker in info.tts[0].voices[0].speakers] == ["0"]


@pytest.mark.parametrize("channels", [1, 2])
def test_a_recording_is_transcribed(port, jasper, channels):
    samples_N = np.rint(noise(2.0, seed=3) * 32768).clip(-32768, 32767).astype(np.float32) / 32768
    (expected,) = Recognizer(jasper.with_suffix(".onnx")).stream([samples_N])
    found = told(port, spoken(samples_N, channels=channels), "transcript")
    assert Transcript.from_event(found[-1]).text == expected.text


def test_nothing_said_is_no_text(port):
    assert Transcript.from_event(told(port, spoken(np.zeros(16_000)), "transcript")[-1]).text == ""


def test_a_text_is_spoken_in_pieces(port):
    asked = Synthesize("Hello there. How are you?", voice=SynthesizeVoice(name="fastpitch", speaker="0")).event()
    found = told(port, [asked], "audio-stop")
    assert found[0].type == "audio-start"
    chunks = [AudioChunk.from_event(event) for event in found[1:-1]]
    assert {chunk.rate for chunk in chunks} == {22_050}
    assert sum(len(chunk.audio) for chunk in chunks) > 22_050
    assert len(chunks) > 1


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([AudioStop().event()], "audio-stop without audio before it"),
        ([Synthesize("").event()], "synthesize: nothing to say; expected a text"),
        ([Synthesize("Hi.", voice=SynthesizeVoice(name="x", speaker="9")).event()], "voice '9': expected default"),
        ([AudioChunk(16_000, 3, 1, b"abc").event()], "audio of rate, width, channels (16000, 3, 1): expected numbers"),
        ([AudioChunk(1, 2, 1, b"ab").event()], "audio of 1 Hz in 1 channels: expected a rate that recordings have"),
        (
            [AudioChunk(8_000, 2, 1, b"ab").event(), AudioChunk(9_000, 2, 1, b"ab").event()],
            "(9000, 2, 1) after (8000, 2",
        ),
        ([AudioChunk(8_000, 2, 1, bytes(1_000_000)).event()], "more than 60 s of audio"),
        (
            [Event("audio-chunk", {"rate": 8_000, "width": [2], "channels": 1}, b"ab")],
            "(8000, [2], 1): expected numbers",
        ),
        (
            [Event("transcribe", {"transcript_terms": 5}), AudioChunk(8_000, 2, 1, b"ab").event()],
            "transcript_terms and transcript_names: expected lists",
        ),
    ],
)
def test_what_cannot_be_done_is_an_error_and_the_connection_stays(port, events, message):
    found = told(port, [*events, Describe().event()], "info")
    assert message in Error.from_event(found[0]).text
    assert found[-1].type == "info"


def test_unknown_events_are_passed_over_and_a_ping_answered(port):
    found = told(port, [Event("something-new", {"a": 1}), Event("ping", {"text": "x"})], "pong")
    assert [(event.type, event.data) for event in found] == [("pong", {"text": "x"})]


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"{}\n",
        b"[]\n",
        b'{"type": "audio-chunk", "payload_length": "x"}\n',
        b'{"type": "ping", "data_length": 3}\n[1]',
        b'{"type": "audio-chunk", "payload_length": 99999999}\n',
        b"a" * 100_000,
    ],
)
def test_what_is_no_event_ends_the_connection_with_an_error(port, content):
    with socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
        connection.sendall(content)
        line, said = connection.makefile("rb").read().split(b"\n", 1)
    assert json.loads(line)["type"] == "error"
    expected = "no event of Wyoming's protocol: '.*'; expected an object of JSON with a type, and lengths up to [0-9]+"
    assert re.fullmatch(expected, json.loads(said)["text"])
    assert told(port, [Describe().event()], "info")


def test_half_a_character_is_answered_as_it_came(port):
    with socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
        connection.sendall(rb'{"type": "ping", "data": {"text": "\ud800"}}' + b"\n")
        head, data = (connection.makefile("rb").readline(), json.loads)
        assert data(head)["type"] == "pong"


def test_a_server_of_another_language_says_so_and_hears_it(jasper):
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    cfg = ServeConfig(asr=jasper.with_suffix(".onnx"), port=0, wyoming_port=number, language="german")
    with served(cfg):
        info = Info.from_event(told(number, [Describe().event()], "info")[-1])
        assert info.asr[0].models[0].languages == ["de"]
        events = [Transcribe(language="de").event(), *list(spoken(noise(0.5)))[1:]]
        found = told(number, events, "transcript")
        assert Transcript.from_event(found[-1]).language == "de", found[-1]


def test_a_client_that_vanishes_leaves_nothing(port):
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                b'{"type": "audio-chunk", "data": {"rate": 16000, "width": 2, "channels": 1}, "payload_length": 100}\n'
            )
            connection.sendall(bytes(50))


def test_what_a_client_waits_for_is_dropped_when_it_goes(jasper, monkeypatch):
    events = b"".join(event_bytes(event) for event in spoken(noise(0.5)))

    async def talk():
        gateway = build(ServeConfig(asr=jasper.with_suffix(".onnx")))
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def hear(samples_N, name, **options):
            begun.set()
            try:
                await asyncio.sleep(600)
            finally:
                cancelled.set()

        monkeypatch.setattr(gateway.hearing, "hear", hear)
        protocol = Wyoming(gateway.hearings, {}, limits=gateway.settings.limits, budget=gateway.budget)
        server = await protocol.start("127.0.0.1", 0)
        _, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        writer.write(events)
        await begun.wait()
        writer.close()
        await cancelled.wait()
        server.close()

    asyncio.run(talk())


def event_bytes(event: Event) -> bytes:
    data, payload = json.dumps(event.data or {}).encode(), event.payload or b""
    head = {"type": event.type, "data_length": len(data), "payload_length": len(payload)}
    return json.dumps(head).encode() + b"\n" + data + payload


def test_more_clients_than_there_may_be_are_told_to_come_again_and_silent_ones_are_left(jasper, monkeypatch):
    def patient(seconds: float) -> None:
        monkeypatch.setattr("trt.serving.streams.wyoming.IDLE_SECONDS", seconds)

    async def talk():
        gateway = build(ServeConfig(asr=jasper.with_suffix(".onnx"), limits=Limits(max_queue=2, client_share=1.0)))
        protocol = Wyoming(gateway.hearings, {}, limits=gateway.settings.limits, budget=gateway.budget)
        server = await protocol.start("127.0.0.1", 0)

        async def told(said: bytes = b"") -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
            writer.write(said)
            found = await (reader.readline() if said else reader.read())
            writer.close()
            return found

        patient(600.0)
        port = server.sockets[0].getsockname()[1]
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        while len(protocol._clients) < 2:
            await asyncio.sleep(0.01)
        assert b"the server is busy: 2 clients are connected; try again later" in await told()
        for _, writer in held:
            writer.close()
        patient(0.05)
        while await told():  # as long as the server has not seen that they went, it is busy
            pass
        patient(600.0)
        while b"pong" not in await told(b'{"type": "ping"}\n'):
            pass
        server.close()

    asyncio.run(talk())
