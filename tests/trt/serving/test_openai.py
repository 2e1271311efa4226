"""What clients of OpenAI's API send today, by its own client library."""

import base64
import io
import json
import threading
from pathlib import Path

import numpy as np
import openai
import pytest
import soundfile

from tests.trt.serving.running import Counting, noise, pretended, served
from trt.serve import ServeConfig
from trt.serving.admission.limits import RequestError
from trt.serving.transcribing.languages import check_languages


@pytest.fixture(scope="module")
def client():
    cfg = ServeConfig(asr=Path("none"), port=0)
    with served(cfg, pretended(cfg)) as running:
        yield openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)


def wav(seconds: float) -> io.BytesIO:
    file = io.BytesIO()
    soundfile.write(file, noise(seconds), 16_000, format="WAV")
    file.seek(0)
    file.name = "a.wav"
    return file


@pytest.mark.parametrize(
    "model", ["whisper-1", "gpt-transcribe", "gpt-4o-mini-transcribe-2025-12-15", "ears", "default"]
)
def test_names_of_today_are_known(client, model):
    found = client.audio.transcriptions.create(
        model=model,
        file=wav(1.0),
        language="en",
        prompt="Anna",
        temperature=0.2,
        include=["logprobs"],
        chunking_strategy={"type": "server_vad", "threshold": 0.4},
        extra_body={"keywords": ["Anna"]},
    )
    assert found.usage.seconds == 1.0
    assert "".join(each.token for each in found.logprobs) == found.text
    assert all(bytes(map(int, each.bytes)).decode() == each.token for each in found.logprobs)
    assert found.logprobs[0].logprob == pytest.approx(np.log(0.5), abs=1e-3)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model": "gpt-4o-transcribe-x"}, "model 'gpt-4o-transcribe-x': expected one of ears, whisper-1"),
        ({"language": "zz"}, "language 'zz': this model writes english; see --language"),
        ({"language": "de"}, "language 'de': this model writes english"),
        ({"include": ["tokens"]}, "include[] 'tokens': expected one of logprobs"),
        ({"chunking_strategy": "some"}, "chunking_strategy 'some': expected auto or server_vad"),
    ],
)
def test_what_this_server_has_not_is_refused(client, asked, message):
    with pytest.raises(openai.APIStatusError) as refused:
        client.audio.transcriptions.create(**{"model": "whisper-1", "file": wav(0.5), **asked})
    assert message in refused.value.message


def test_times_are_those_that_are_asked_for(client):
    for asked in (["word"], ["segment"], ["word", "segment"]):
        found = client.audio.transcriptions.create(
            model="whisper-1", file=wav(3.0), response_format="verbose_json", timestamp_granularities=asked
        )
        assert (bool(found.words), bool(found.segments)) == ("word" in asked, "segment" in asked)


@pytest.mark.parametrize("suffix", ["m4a", "mp4", "webm", "aac"])
def test_what_phones_and_browsers_record_is_heard(client, suffix, tmp_path):
    pytest.importorskip("av")
    from tests.common.audio import test_containers

    path = test_containers.encoded(tmp_path / f"a.{suffix}", test_containers.sine())
    found = client.audio.transcriptions.create(model="whisper-1", file=path, response_format="verbose_json")
    assert found.duration == pytest.approx(test_containers.SECONDS, abs=0.1)


def test_a_file_is_told_as_it_is_heard(client, monkeypatch):
    first_came, hear, heard, deltas = threading.Event(), Counting.stream, [], []

    def stream(asr, recordings, **options):
        if heard:
            first_came.wait()
        heard.append(len(recordings))
        return hear(asr, recordings, **options)

    monkeypatch.setattr(Counting, "stream", stream)
    for event in client.audio.transcriptions.create(model="whisper-1", file=wav(100.0), stream=True):
        if event.type == "transcript.text.delta":
            deltas.append(event.delta)
            first_came.set()
    assert "".join(deltas) == event.text
    assert event.model_extra is None or event.usage is not None
    assert len(heard) > 3


@pytest.mark.parametrize("voice", ["marin", "cedar", "0"])
def test_speech_comes_as_events(client, voice):
    asked = {"model": "gpt-4o-mini-tts-2025-12-15", "voice": voice, "input": "One two.", "response_format": "pcm"}
    whole = client.audio.speech.create(**asked).content
    with client.audio.speech.with_streaming_response.create(**asked, stream_format="sse") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    events = [json.loads(line) for line in lines]
    assert events[-1]["type"] == "speech.audio.done"
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == whole


def test_languages_are_known_by_code_and_name():
    check_languages(["pt-BR"], ["portuguese"])
    check_languages(["zh"], ["mandarin"])
    check_languages(["Japanese", "en"], ["en", "de"])
    check_languages([], ["english"])
    with pytest.raises(RequestError, match="language 'fr, es': this model writes english, german"):
        check_languages(["fr", "es"], ["en", "de"])
