"""OpenAI's transcription sessions, as its own client speaks to them."""

import base64
import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openai
import pytest
from websockets.sync.client import connect

from common.audio.vad import EnergyVad
from tests.timing import until
from tests.trt.serving.running import noise, pretended, served
from trt.serve import ServeConfig
from trt.serving.admission.limits import Limits
from trt.serving.streams.samples import companded

RATE = 24_000
COMPLETED = "conversation.item.input_audio_transcription.completed"


class Streams:
    """Sessions that say "a" for every tenth of a second of sound, at once."""

    def __init__(self):
        self.open = 0

    def session(self):
        self.open += 1
        fed = [0]

        async def told(samples: int) -> SimpleNamespace:
            before, fed[0] = fed[0] // 1_600, fed[0] + samples
            return SimpleNamespace(delta="a" * (fed[0] // 1_600 - before), words=[], text="", pending="", error="")

        def closed() -> None:
            self.open -= 1

        return SimpleNamespace(feed=lambda samples_N: told(len(samples_N)), finish=lambda: told(0), close=closed)


@pytest.fixture(scope="module", params=["whole", "streams"])
def live(request):
    cfg = ServeConfig(asr=Path("none"), port=0, limits=Limits(max_queue=8, max_ahead_seconds=120))
    gateway = pretended(cfg)
    if request.param == "streams":
        gateway.hearing.__dict__["pool"] = Streams()
    with pytest.MonkeyPatch.context() as patched, served(cfg, gateway) as running:
        patched.setattr("trt.serving.streams.realtime.best_vad", EnergyVad)  # to a network noise is no speech
        yield running


def spoken(*seconds: float, rate: int = RATE) -> np.ndarray:
    """Turns of so many seconds, with a second of near silence around each."""
    quiet_N = 1e-4 * noise(1.0, rate=rate)
    parts = [quiet_N]
    for i, own in enumerate(seconds):
        loud_N = 0.1 * np.sign(noise(own, seed=i, rate=rate)) * np.linspace(1, 1.2, round(own * rate))
        parts += [loud_N.astype(np.float32), quiet_N]
    return np.concatenate(parts)


def pcm(samples_N: np.ndarray) -> str:
    return base64.b64encode((samples_N * 32767).astype("<i2").tobytes()).decode()


def test_openai_s_client_gets_the_turns_of_a_stream(live):
    client = openai.OpenAI(base_url=f"{live.url}/v1", api_key="none")
    sound_N, found = spoken(1.5, 0.8), []
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        detection = {"type": "server_vad", "silence_duration_ms": 300, "prefix_padding_ms": 200}
        connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": RATE},
                        "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
                        "turn_detection": detection,
                    }
                },
                "include": ["item.input_audio_transcription.logprobs"],
            }
        )
        for start in range(0, len(sound_N), 2_400):
            connection.input_audio_buffer.append(audio=pcm(sound_N[start : start + 2_400]))
        for event in connection:
            found.append(event)
            if sum(event.type == COMPLETED for event in found) == 2:
                break
    kinds = [event.type.removeprefix("input_audio_buffer.") for event in found]
    assert kinds[:2] == ["session.created", "session.updated"]
    assert found[1].session.audio.input.turn_detection.silence_duration_ms == 300
    turn = ["speech_started", "speech_stopped", "committed", "conversation.item.added", "conversation.item.done"]
    deltas = [event for event in found if event.type.endswith("transcription.delta")]
    assert [kind for kind in kinds[2:] if not kind.endswith("delta")] == [*turn, COMPLETED] * 2
    starts = [event.audio_start_ms for event in found if event.type.endswith("speech_started")]
    stops = [event.audio_end_ms for event in found if event.type.endswith("speech_stopped")]
    assert starts == pytest.approx([800, 3_300], abs=100)
    assert stops == pytest.approx([2_800, 4_600], abs=100)
    for completed in (event for event in found if event.type == COMPLETED):
        own = "".join(event.delta for event in deltas if event.item_id == completed.item_id)
        assert own == completed.transcript != ""
        assert completed.usage.seconds == pytest.approx(
            2.0 if completed.item_id == deltas[0].item_id else 1.3, abs=0.15
        )
    committed = [event for event in found if event.type.endswith("committed")]
    assert committed[1].previous_item_id == committed[0].item_id
    live.comes_to_rest()


@contextlib.contextmanager
def session(live, **settings):
    with connect(f"ws://127.0.0.1:{live.port}/v1/realtime?intent=transcription") as socket:

        def ask(kind: str, **content) -> None:
            socket.send(json.dumps({"type": kind, **content}))

        def told(kind: str) -> dict:
            while (event := json.loads(socket.recv(30)))["type"] != kind:
                assert event["type"] != "error", event
            return event

        told("session.created")
        if settings:
            ask("session.update", session={"type": "transcription", "audio": {"input": settings}})
            told("session.updated")
        yield ask, told


@pytest.mark.parametrize("kind", ["audio/pcm", "audio/pcmu", "audio/pcma"])
def test_a_client_commits_and_clears_turns_of_its_own(live, kind):
    with session(live, format={"type": kind}, turn_detection=None) as (ask, told):
        rate = RATE if kind == "audio/pcm" else 8_000
        sound_N = spoken(1.0, rate=rate)
        content = pcm(sound_N)
        if kind != "audio/pcm":
            table = companded("mu-law" if kind == "audio/pcmu" else "a-law")
            order = np.argsort(table)
            nearest = order[np.searchsorted(table[order], sound_N).clip(0, 255)].astype(np.uint8)
            content = base64.b64encode(nearest.tobytes()).decode()
        ask("input_audio_buffer.append", audio=content)
        ask("input_audio_buffer.clear")
        told("input_audio_buffer.cleared")
        ask("input_audio_buffer.append", audio=content)
        ask("input_audio_buffer.commit")
        item = told("input_audio_buffer.committed")["item_id"]
        completed = told(COMPLETED)
        assert (completed["item_id"], completed["usage"]["seconds"]) == (item, pytest.approx(3.0, abs=0.05))
        assert completed["transcript"]
    live.comes_to_rest()


@pytest.mark.parametrize("model", ["gpt-live-transcribe", "gpt-realtime-whisper"])
def test_of_models_without_turns_of_the_server_s_clients_commit_unless_they_ask_for_turns(live, model):
    with session(live, transcription={"model": model, "languages": ["en"], "keywords": []}) as (ask, told):
        ask("input_audio_buffer.append", audio=pcm(spoken(1.0)))
        ask("input_audio_buffer.commit")
        assert told(COMPLETED)["usage"]["seconds"] == pytest.approx(3.0, abs=0.05)
        ask("session.update", session={"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
        ask("session.update", session={"audio": {"input": {"transcription": {"model": model}}}})
        ask("input_audio_buffer.append", audio=pcm(spoken(1.0)))
        told("input_audio_buffer.speech_stopped")
        assert told(COMPLETED)["usage"]["seconds"] < 2.5


def test_what_a_session_cannot_do_is_an_error_event_and_it_goes_on(live):
    with session(live) as (ask, told):
        for event, message in (
            ({"type": "response.create"}, "type 'response.create': expected session.update, or input_audio_buffer"),
            ({"type": "input_audio_buffer.append", "audio": "***"}, "audio: expected base64"),
            (
                {"type": "input_audio_buffer.commit", "event_id": "mine"},
                "0 ms of sound to commit; expected at least 100",
            ),
            ({"type": "input_audio_buffer.commit", "event_id": "\ud800"}, "0 ms of sound to commit"),
            ({"type": "session.update", "session": {"type": "realtime"}}, "session.type: expected transcription"),
            (
                {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/mp3"}}}}},
                "session.audio.input.format.type: Input should be 'audio/pcm', 'audio/pcmu' or 'audio/pcma'",
            ),
            (
                {"type": "session.update", "session": {"audio": {"input": {"transcription": {"language": "zz"}}}}},
                "language 'zz': this model writes english",
            ),
            (
                {
                    "type": "session.update",
                    "session": {"audio": {"input": {"transcription": {"prompt": "a\n" * 40_000}}}},
                },
                "a prompt of 80000 characters; expected at most 65536",
            ),
            (
                {"type": "session.update", "session": {"audio": {"input": {"transcription": {"model": "other"}}}}},
                "model 'other': expected one of ears",
            ),
        ):
            ask(**{"kind" if name == "type" else name: value for name, value in event.items()})
            error = told("error")["error"]
            assert message in error["message"]
            assert error["event_id"] == event.get("event_id")
        ask("input_audio_buffer.append", audio=pcm(spoken(1.0)))
        assert told(COMPLETED)["transcript"]


def test_a_client_that_goes_leaves_no_stream(live):
    with session(live) as (ask, told):
        ask("input_audio_buffer.append", audio=pcm(spoken(1.0)[: RATE * 3 // 2]))
        told("input_audio_buffer.speech_started")
    until(lambda: not live.gateway.live)
    assert not getattr(live.gateway.hearing.pool, "open", 0)
    live.comes_to_rest()


def test_turn_detection_can_change_within_a_turn(live):
    begun = pcm(spoken(1.0)[: RATE * 3 // 2])
    with session(live) as (ask, told):

        def detect(how) -> None:
            ask("session.update", session={"audio": {"input": {"turn_detection": how}}})

        ask("input_audio_buffer.append", audio=begun)
        told("input_audio_buffer.speech_started")
        detect(None)
        told("session.updated")
        ask("input_audio_buffer.append", audio=begun)
        ask("input_audio_buffer.commit")
        assert told(COMPLETED)["usage"]["seconds"] > 1.5
        ask("input_audio_buffer.append", audio=begun)
        detect({"type": "server_vad"})
        assert told(COMPLETED)["usage"]["seconds"] == pytest.approx(1.5, abs=0.05)
        ask("input_audio_buffer.append", audio=pcm(spoken(1.0)))
        told("input_audio_buffer.speech_stopped")
        assert told(COMPLETED)["transcript"]
    live.comes_to_rest()
