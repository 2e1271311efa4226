import asyncio
import base64
import json
from pathlib import Path

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from common.audio import waveform
from common.audio.silence import keeper
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript, Word
from tests.fastconformer.hearing.streaming.test_pool import streaming
from tests.trt.serving.running import noise, pretended, served
from trt.client.asking import ServerError
from trt.client.streaming import captions, in_real_time
from trt.serve import ServeConfig
from trt.serving.admission.limits import Limits
from trt.serving.gateway import Gateway, GatewaySettings
from trt.serving.models import Ears
from trt.serving.streams.live import Captions, LiveOptions

RATE = 100
SPOKEN = [Word(f"w{i}", 0.7 * i + 0.1, 0.7 * i + 0.6, 1.0) for i in range(60)]


def captioned(*, seconds: float, words=SPOKEN, options=None):
    """Finals with the time at which they came, and partials; the samples say when they were spoken."""
    heard_seconds = []

    async def hear(samples_N):
        first, end = samples_N[0] / RATE, (samples_N[-1] + 1) / RATE
        heard_seconds.append(len(samples_N) / RATE)
        inside = [word for word in words if word.start >= first - 1e-6 and word.start < end]
        moved = [Word(w.text, w.start - first, min(w.end, end) - first, 1.0) for w in inside]
        return Transcript("", "", moved, end - first)

    async def run():
        stream, finals, partials = Captions(hear, RATE, options), [], []
        samples_N = np.arange(round(seconds * RATE), dtype=np.float32)
        for first in range(0, len(samples_N), 10):
            found = await stream.add(samples_N[first : first + 10])
            if found is not None:
                finals += [(word, stream.seconds) for word in found.words]
                partials.append(found.partial)
        finals += [(word, stream.seconds) for word in (await stream.end()).words]
        return finals, partials

    return *asyncio.run(run()), heard_seconds


def test_every_word_is_final_once_in_order_and_with_its_times():
    finals, _, _ = captioned(seconds=30)
    expected = [word for word in SPOKEN if word.start < 30]
    assert [word.text for word, _ in finals] == [word.text for word in expected]
    for (found, _), word in zip(finals[:-1], expected, strict=False):
        assert found.start == pytest.approx(word.start, abs=0.011)
        assert found.end == pytest.approx(word.end, abs=0.011)


def test_words_are_final_within_a_second_and_not_before_what_follows_was_heard():
    finals, partials, _ = captioned(seconds=30)
    delays = [at - word.end for word, at in finals[:-2]]
    assert max(delays) <= 1.0
    assert min(delays) >= LiveOptions.lookahead_seconds - 0.02
    assert any(partials)


def test_what_is_heard_at_a_look_does_not_grow_with_the_stream():
    for words in (SPOKEN, []):
        _, _, heard_seconds = captioned(seconds=40, words=words)
        assert max(heard_seconds) <= LiveOptions.longest_seconds + 0.5


def test_a_word_that_goes_on_and_on_is_final_before_it_leaves_the_window():
    finals, _, _ = captioned(seconds=30, words=[Word("aaa", 1.0, 29.0, 1.0)])
    assert finals[0][0].text == "aaa"
    assert finals[0][1] < 20


def captioned_with_pauses(pause, hear, words):
    """Finals of words after each of which are so many seconds of zeros, with the time at which they came."""
    gap_N = np.zeros(round(pause * RATE), np.float32)
    samples_N = np.concatenate([gap_N, *(part_N for word_N in words for part_N in (word_N, gap_N))])

    async def run():
        stream, finals = Captions(hear, RATE, keep=keeper(RATE, longest_pause=0.1, pause_db=25.0)), []
        for first in range(0, len(samples_N), 10):
            if (found := await stream.add(samples_N[first : first + 10])) is not None:
                finals += [(word, stream.seconds) for word in found.words]
        return [*finals, *((word, stream.seconds) for word in (await stream.end()).words)]

    return asyncio.run(run())


WORDS = [np.full(50, 0.5 + 0.01 * i, np.float32) for i in range(8)]


@pytest.mark.parametrize("pause", [3.5, 20.0])
def test_pauses_are_not_heard_and_words_are_final_within_them_at_their_times(pause):
    longest = looks = 0

    async def hear(heard_N):
        nonlocal longest, looks
        longest, looks = max(longest, len(heard_N)), looks + 1
        places = [(i, np.flatnonzero(heard_N == word_N[0])) for i, word_N in enumerate(WORDS)]
        found = [Word(f"w{i}", at_N[0] / RATE, (at_N[-1] + 1) / RATE, 1.0) for i, at_N in places if len(at_N)]
        return Transcript("", "", found, len(heard_N) / RATE)

    finals = captioned_with_pauses(pause, hear, WORDS)
    starts = [pause + i * (pause + 0.5) for i in range(8)]
    assert [(word.text, word.start) for word, _ in finals] == [(f"w{i}", start) for i, start in enumerate(starts)]
    assert all(word.end == pytest.approx(start + 0.5) for (word, _), start in zip(finals, starts, strict=True))
    assert max(at - word.end for word, at in finals) <= LiveOptions.pause_seconds + LiveOptions.every_seconds
    assert longest <= 4.6 * RATE
    assert looks <= 5 * len(WORDS)  # a pause costs no looks


@pytest.mark.parametrize("pause", [0.1, 0.25, 1.0, 2.0])
def test_what_a_word_is_does_not_depend_on_the_pause_after_it(pause):
    async def hear(heard_N):
        """Each word whole where half a second follows it, or nothing more does in the recording."""
        found = []
        for i, word_N in enumerate(WORDS):
            at_N = np.flatnonzero(heard_N == word_N[0])
            if len(at_N):
                is_whole = len(at_N) == 50 and (at_N[-1] + 50 < len(heard_N) or i == len(WORDS) - 1)
                found.append(Word(f"w{i}" if is_whole else "?", at_N[0] / RATE, (at_N[-1] + 1) / RATE, 1.0))
        return Transcript("", "", found, len(heard_N) / RATE)

    finals = captioned_with_pauses(pause, hear, WORDS)
    assert [word.text for word, _ in finals] == [f"w{i}" for i in range(8)]


def test_captions_over_a_websocket_are_the_words_of_the_recording(server, tmp_path):
    waveform.write(tmp_path / "a.wav", noise(3.0, seed=5), 16_000)
    shown: list[str] = []
    told = captions(server.url, in_real_time(tmp_path / "a.wav", speed=10.0), show=shown.append)
    assert told.seconds == 3.0
    assert told.text == " ".join(word.text for word in told.words) == " ".join(shown)
    assert len(told.delays) == len(told.words) > 3
    assert all(0 <= word.start <= word.end <= 3.0 for word in told.words)


@pytest.mark.parametrize("beam", [0, 2])
def test_a_model_made_for_streams_writes_of_a_stream_what_it_writes_of_the_file(clips, beam):
    asr = streaming(1)
    options = DecodingOptions(beam=beam)
    ears = Ears("ears", 16_000, 60.0, asr, 8, asr.keep, asr.decoder(options) if beam else None, options)
    expected = [asr.transcribe([clip], decoder=ears.decoder)[0].text for clip in clips]
    assert sum(map(bool, expected)) > 3
    with served(ServeConfig(asr=Path("none"), port=0), Gateway([ears], [], GatewaySettings())) as running:
        assert running.gateway.hearing.pool is not None
        assert [captions(running.url, in_real_time(clip, speed=100.0)).text for clip in clips] == expected
        assert [json.loads(running.transcribe(clip.read_bytes(), clip.name)[1])["text"] for clip in clips] == expected
        for clip, text in zip(clips, expected, strict=True):
            with connect(f"ws://127.0.0.1:{running.port}/v1/realtime?intent=transcription") as socket:
                settings = {"format": {"rate": 16_000}, "turn_detection": None}
                socket.send(json.dumps({"type": "session.update", "session": {"audio": {"input": settings}}}))
                for piece in in_real_time(clip, speed=100.0):
                    audio = base64.b64encode(piece).decode()
                    socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
                socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
                while (event := json.loads(socket.recv(30)))["type"].rpartition(".")[2] != "completed":
                    assert event["type"] != "error", event
                assert event["transcript"] == text


def test_sound_at_any_rate_and_of_any_size_is_taken(server):
    content = noise(2.0, rate=44_100).astype("<f4").tobytes()
    with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream?sample_rate=44100&format=f32le") as socket:
        ready = json.loads(socket.recv())
        assert (ready["type"], ready["sample_rate"], ready["model"]) == ("ready", 44_100, "m")
        for first in range(0, len(content), 9_999):  # ends within a sample
            socket.send(content[first : first + 9_999])
        socket.send(json.dumps({"type": "end"}))
        messages = [json.loads(message) for message in socket]
    assert messages[-1]["type"] == "done"
    assert messages[-1]["duration"] == pytest.approx(2.0, abs=0.01)
    assert {message["type"] for message in messages} >= {"final", "done"}


@pytest.mark.parametrize(
    ("query", "sent", "message"),
    [
        ("sample_rate=abc", b"", "sample_rate 'abc': expected 1000 to 768000"),
        ("sample_rate=0016000", b"", "sample_rate '0016000': expected 1000 to 768000"),
        ("sample_rate=1", b"", "sample_rate '1': expected 1000 to 768000"),
        ("format=mp3", b"", "format 'mp3': expected one of s16le, f32le"),
        ("", "hello", 'expected samples as binary messages, or {"type": "end"}'),
        ("", "[" * 50_000, 'expected samples as binary messages, or {"type": "end"}'),
        ("format=f32le", b"\xff" * 8, "samples that are NaN or infinite; expected numbers from -1 to 1"),
    ],
)
def test_what_is_no_sound_is_refused(server, query, sent, message):
    with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream?{query}") as socket:
        told = json.loads(socket.recv())
        if told["type"] == "ready":
            socket.send(sent)
            told = json.loads(socket.recv())
        assert told == {"type": "error", "message": message}
        with pytest.raises(ConnectionClosed):
            socket.recv()


def test_a_recogniser_that_fails_is_told_to_the_client_and_logged(server, monkeypatch, caplog):
    async def fails(*given):
        raise RuntimeError("the network is broken")

    monkeypatch.setattr(server.gateway.hearing, "hear", fails)
    with pytest.raises(ServerError, match="internal error; the server's log has the details"):
        captions(server.url, [bytes(32_000)])
    assert "the network is broken" in caplog.text


def test_a_stream_ends_at_the_longest_recording_at_silence_of_the_client_and_without_a_key(jasper, tmp_path):
    (tmp_path / "keys").write_text("secret")
    limits = Limits(max_seconds=2, client_seconds=0.5)
    cfg = ServeConfig(asr=jasper.with_suffix(".onnx"), port=0, limits=limits, api_keys=tmp_path / "keys")
    with served(cfg) as running:
        with pytest.raises(ServerError, match="HTTP 403"):
            captions(running.url, [])
        with pytest.raises(ServerError, match="more than 2 s of audio; begin again"):
            captions(running.url, [bytes(3 * 32_000)], key="secret")
        address = f"ws://127.0.0.1:{running.port}/v1/audio/stream"
        with connect(address, subprotocols=["key.secret"]) as socket:
            assert json.loads(socket.recv())["type"] == "ready"
            assert json.loads(socket.recv())["message"] == "nothing came for 0.5 s"
        for _ in range(3):  # clients that vanish
            connect(address, subprotocols=["key.secret"]).socket.close()
        with pytest.raises(InvalidStatus):
            connect(address, subprotocols=["key.wrong"])
        assert captions(running.url, [bytes(32_000)], key="secret").text == ""


def test_a_recogniser_whose_search_wants_all_frames_has_no_streams():
    gateway = pretended(ServeConfig(asr=Path("none"), port=0))

    def refused(**options):
        raise ValueError("decoder: streams have one transcript: expected n_best = 1, and no thorough search")

    gateway.hearing.ears.asr.pool = refused
    assert gateway.hearing.pool is None
    assert gateway.hearing.stream_bytes == 0
