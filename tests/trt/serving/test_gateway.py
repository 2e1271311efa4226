"""What the gateway answers, beside what the models answer without it."""

import http.client
import io
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import openai
import pytest
import soundfile

import fastpitch
from common.audio import waveform
from common.audio.silence import Pauses
from common.recognition.output.subtitles import render
from common.recognition.output.transcripts import Transcript, Word
from tests.timing import until
from tests.trt.serving.running import Counting, noise, pretended, served
from trt.facts import ModelError
from trt.runtime.recognizer import Recognizer
from trt.runtime.voice import Synthesizer, Vocoder
from trt.serve import ServeConfig
from trt.serving.models import load_voice

TEXT = "Hello there. How are you today? This is the third sentence, and the last."


@pytest.fixture(scope="module")
def offline(jasper, clips):
    return dict(zip(clips, Recognizer(jasper.with_suffix(".onnx")).stream(clips), strict=True))


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_answers_under_load_are_those_of_the_model_alone(server, offline):
    files = list(offline) * 8
    with ThreadPoolExecutor(12) as pool:
        answers = list(
            pool.map(lambda file: server.transcribe(file.read_bytes(), response_format="verbose_json"), files)
        )
    for file, (status, body) in zip(files, answers, strict=True):
        assert status == 200
        found = json.loads(body)
        assert found["text"] == offline[file].text
        assert [(w["word"], w["start"], w["end"]) for w in found["words"]] == [w[:3] for w in offline[file].words]
    assert len({answer.text for answer in offline.values()}) == len(offline)
    server.comes_to_rest()


def test_formats_are_those_of_openai(server, clips, offline):
    content, expected = clips[2].read_bytes(), offline[clips[2]]
    asked = {style: server.transcribe(content, response_format=style)[1] for style in ("json", "text", "srt", "vtt")}
    assert json.loads(asked["json"]) == {"text": expected.text, "usage": {"type": "duration", "seconds": 3.0}}
    assert asked["text"].decode() == f"{expected.text}\n"
    assert asked["srt"].decode() == render(expected.words, "srt")
    assert asked["vtt"].decode() == render(expected.words, "vtt")
    verbose = json.loads(server.transcribe(content, response_format="verbose_json")[1])
    assert (verbose["duration"], verbose["language"]) == (3.0, "english")
    assert " ".join(segment["text"] for segment in verbose["segments"]) == expected.text
    assert all(a["end"] <= b["end"] and a["avg_logprob"] < 0 for a, b in pairwise(verbose["segments"]))


def test_openai_s_client_transcribes(client, clips, offline):
    with clips[1].open("rb") as file:
        found = client.audio.transcriptions.create(
            model="whisper-1", file=file, response_format="verbose_json", timestamp_granularities=["word"]
        )
    expected = offline[clips[1]]
    assert found.text == expected.text
    assert [(word.word, word.start) for word in found.words] == [(word.text, word.start) for word in expected.words]
    plain = client.audio.transcriptions.create(
        model="m", file=("a.flac", clips[1].read_bytes()), response_format="text"
    )
    assert plain == f"{expected.text}\n"
    events = list(client.audio.transcriptions.create(model="m", file=clips[1], stream=True))
    assert "".join(event.delta for event in events[:-1]) == events[-1].text == expected.text


def test_openai_s_client_speaks_and_lists_models(client, talker):
    assert [model.id for model in client.models.list()] == ["m", "fastpitch"]
    assert client.models.retrieve("m").id == "m"
    audio = client.audio.speech.create(model="tts-1", voice="alloy", input="Hello there.", response_format="wav")
    samples_N, rate = soundfile.read(io.BytesIO(audio.content), dtype="int16")
    expected = fastpitch.load(talker[0], device="cpu").synthesize(
        "Hello there.", vocoder=fastpitch.load_vocoder(talker[1], device="cpu")
    )
    assert rate == expected.sample_rate
    assert np.abs(samples_N - np.rint(expected.samples * 32767)).max() <= 1
    with client.audio.speech.with_streaming_response.create(model="tts-1", voice="0", input=TEXT) as answer:
        assert answer.headers["content-type"] == "audio/mpeg"
        assert soundfile.info(io.BytesIO(answer.read())).duration > 1


def test_errors_are_those_that_openai_s_client_knows(client, clips):
    with pytest.raises(openai.NotFoundError, match="model '../../etc/passwd': expected one of m, whisper-1") as error:
        client.audio.transcriptions.create(model="../../etc/passwd", file=clips[0])
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="cannot be read as audio"):
        client.audio.transcriptions.create(model="m", file=("a.wav", b"RIFF no audio"))
    with pytest.raises(openai.BadRequestError, match="voice 'nobody': expected default, a name of OpenAI's, or 0"):
        client.audio.speech.create(model="tts-1", voice="nobody", input="Hello.")


@pytest.mark.parametrize(("style", "rate"), [("wav", 22_050), ("flac", 22_050), ("mp3", 22_050), ("opus", 24_000)])
def test_sound_comes_in_many_formats(server, style, rate):
    status, content = server.speak(input=TEXT, response_format=style)
    assert status == 200
    with soundfile.SoundFile(io.BytesIO(content)) as sound:
        samples_N = sound.read(dtype="float32")
        assert sound.samplerate == rate
    _, raw = server.speak(input=TEXT, response_format="pcm", sample_rate=rate)
    assert abs(len(samples_N) - len(raw) // 2) <= 0.1 * rate
    if style in ("wav", "flac"):
        assert np.array_equal(np.rint(samples_N * 32768), np.frombuffer(raw, "<i2"))


def test_aac_is_encoded_by_pyav_and_read_again(server):
    pytest.importorskip("av")
    status, content = server.speak(input=TEXT, response_format="aac")
    assert status == 200
    read = waveform.read(waveform.Held(content, "a.aac"), sample_rate=22_050).samples
    _, raw = server.speak(input=TEXT, response_format="pcm", sample_rate=22_050)
    assert abs(len(read) - len(raw) // 2) <= 0.2 * 22_050


def test_rates_that_a_format_does_not_have_are_refused(server, monkeypatch):
    for style, rates in (("mp3", "8000, 11025, 12000"), ("aac", "8000, 11025, 12000"), ("opus", "8000, 12000, 16000")):
        status, content = server.speak(input=TEXT, response_format=style, sample_rate=11_111)
        assert status == 400
        assert f"sample_rate: {style} has {rates}".encode() in content
    monkeypatch.setattr("trt.serving.speaking.formats.can_decode", lambda: False)
    assert b"this server encodes no aac: pip install av" in server.speak(input=TEXT, response_format="aac")[1]


def test_raw_samples_have_the_rate_that_is_asked_for_or_openai_s(server):
    seconds = {rate: len(server.speak(input=TEXT, response_format="pcm", sample_rate=rate)[1]) / 2 / rate
               for rate in (16_000, 48_000)}  # fmt: skip
    default = len(server.speak(input=TEXT, response_format="pcm")[1]) / 2 / 24_000
    assert seconds[16_000] == pytest.approx(seconds[48_000], abs=1e-3) == pytest.approx(default, abs=1e-3)


def test_sound_begins_before_the_last_sentence_is_made(server):
    gateway = server.gateway
    before = gateway.metrics.total("speech_spoken_seconds_total")
    body = json.dumps({"input": TEXT * 20, "response_format": "pcm"}).encode()

    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read(1000)
    begun = gateway.metrics.total("speech_spoken_seconds_total") - before
    whole = (1000 + len(answer.read())) / 2 / 24_000
    connection.close()
    assert begun < whole / 2


def test_texts_that_are_spoken_at_the_same_time_share_batches_and_each_sounds_as_alone(server, monkeypatch):
    texts = [TEXT, "Hello there.", "One two three four. Five.", "This is another sentence."] * 2
    alone = {text: server.speak(input=text, response_format="pcm", sample_rate=22_050)[1] for text in texts}
    speaking, sizes = server.gateway.speaking, []
    voice = speaking.voice

    def next_sounds(sayings):
        sizes.append(len(sayings))
        until(lambda: len(sizes) > 1 or len(sayings) + len(speaking.lane) == len(texts))
        return voice.next_sounds(sayings)

    monkeypatch.setattr(speaking, "voice", voice._replace(next_sounds=next_sounds))
    with ThreadPoolExecutor(8) as pool:
        said = pool.map(lambda text: server.speak(input=text, response_format="pcm", sample_rate=22_050), texts)
        for text, (status, content) in zip(texts, said, strict=True):
            found, expected = (np.frombuffer(samples, "<i2").astype(int) for samples in (content, alone[text]))
            assert status == 200
            assert found.shape == expected.shape
            assert np.abs(found - expected).max() <= 1
    assert max(sizes) > 1
    _, metrics = server.ask("GET", "/metrics")
    counted = dict(line.rsplit(" ", 1) for line in metrics.decode().splitlines() if "voice_batch_size" in line)
    assert float(counted["speech_voice_batch_size_sum"]) > float(counted["speech_voice_batch_size_count"])


def test_a_text_whose_client_has_gone_is_not_spoken_any_further(server):
    body = json.dumps({"input": TEXT * 50, "response_format": "pcm"}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/v1/audio/speech", body, {"Content-Type": "application/json"})
    connection.getresponse().read(1000)
    connection.close()
    server.comes_to_rest()
    spoken = server.gateway.metrics.total("speech_spoken_seconds_total")
    assert len(server.gateway.speaking.lane) == 0
    time.sleep(0.3)
    assert server.gateway.metrics.total("speech_spoken_seconds_total") == spoken


def test_speed_and_ssml_change_the_sound(server):
    lengths = [
        len(server.speak(input=text, response_format="pcm", **how)[1])
        for text, how in (
            ("Hello there.", {}),
            ("Hello there.", {"speed": 2.0}),
            ("<speak>Hello <break time='500ms'/> there.</speak>", {}),
        )
    ]
    assert lengths[1] < lengths[0] < lengths[2]


def test_words_of_a_text_have_their_times_pitch_and_energy(server):
    status, body = server.ask("POST", "/v1/audio/speech/words", json.dumps({"input": "Hello there. Again."}).encode())
    words = json.loads(body)["words"]
    assert status == 200
    assert [word["text"] for word in words] == ["hello", "there", "again"]
    assert all(a["start"] < a["end"] <= b["start"] for a, b in pairwise(words))
    assert words[2]["start"] - words[1]["end"] >= 0.3
    assert all(word["pitch_hz"] > 0 for word in words)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "input: Field required"),
        ({"input": ""}, "input: nothing to say in it; expected at least one word"),
        ({"input": "..."}, "input: nothing to say in it; expected at least one word"),
        ({"input": 3}, "input: Input should be a valid string"),
        ({"input": "a" * 5000}, "input of 5000 characters; expected at most 4096"),
        (
            {"input": "a", "response_format": "aiff"},
            "response_format: Input should be 'wav', 'pcm', 'flac', 'mp3', 'opus' or 'aac'",
        ),
        ({"input": "a", "speed": 9}, "speed: Input should be less than or equal to 4"),
        ({"input": "a", "sample_rate": 10}, "sample_rate: Input should be greater than or equal to 8000"),
        ({"input": "<p>Hello"}, "input: broken markup"),
        ({"input": "a", "model": "x"}, "model 'x': expected one of fastpitch, tts-1"),
    ],
)
def test_a_text_that_cannot_be_said_is_refused(server, asked, message):
    status, body = server.speak(**asked)
    assert status in (400, 404)
    assert message in json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"", "", "content type 'none': expected multipart/form-data with a boundary"),
        (b"{}", "application/json", "content type 'application/json': expected multipart/form-data"),
        (b"rubbish", "multipart/form-data; boundary=b", "the body is no form that can be read"),
        (b"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx", "multipart/form-data; boundary=b",
         "the body ends before its form does"),
        (b"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n",
         "multipart/form-data; boundary=b",
         "no file; expected a recording in the field 'file', found model"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_form_with_a_recording_is_refused(server, body, kind, message):
    status, answer = server.ask("POST", "/v1/audio/transcriptions", body, {"Content-Type": kind})
    assert status in (400, 415)
    assert message in json.loads(answer)["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"{", "the body is no JSON"), (b"[1]", "a JSON list; expected an object"), (b"[" * 60_000, "no JSON")],
)
def test_a_body_that_is_no_object_of_json_is_refused(server, body, message):
    status, answer = server.ask("POST", "/v1/audio/speech", body)
    assert status == 400
    assert message in json.loads(answer)["error"]["message"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.wav: the file is empty (0 bytes)"),
        (os.urandom(10_000), "a.wav: cannot be read as audio"),
        (b"\x00" * 44, "a.wav: cannot be read as audio"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(server, content, message):
    status, answer = server.transcribe(content)
    assert status == 400
    assert message in json.loads(answer)["error"]["message"]


def test_a_format_that_is_not_written_is_refused(server, clips):
    status, answer = server.transcribe(clips[0].read_bytes(), response_format="pdf")
    assert status == 400
    assert "response_format 'pdf': expected one of json, text, verbose_json, srt, vtt" in answer.decode()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("stream", "maybe", "stream 'maybe': expected one of true, 1, false, 0"),
        ("temperature", "nan", "temperature 'nan': expected a number from 0 to 1"),
        ("temperature", "hot", "temperature 'hot': expected a number from 0 to 1"),
        ("timestamp_granularities[]", "letter", "timestamp_granularities[] 'letter': expected one of word, segment"),
    ],
)
def test_values_that_openai_has_not_are_refused(server, clips, name, value, message):
    status, answer = server.transcribe(clips[0].read_bytes(), **{name: value})
    assert status == 400
    assert message in json.loads(answer)["error"]["message"]


def test_a_field_that_is_null_counts_as_absent_and_a_wrong_kind_is_told_by_its_name(server):
    asked = {"input": "abc", "response_format": "wav"}
    null = {"speed": None, "voice": None, "stream_format": None, "instructions": None}
    assert server.speak(**asked, **null) == server.speak(**asked)
    assert json.loads(server.speak(input=None)[1])["error"]["message"] == "input: Field required"
    error = json.loads(server.speak(**asked, voice=["alloy"])[1])["error"]
    assert (error["param"], error["message"]) == ("voice", "voice: Input should be a valid string")


def test_probes_may_ask_without_a_body(server):
    for path in ("/health", "/health/ready", "/health/live"):
        assert server.ask("HEAD", path)[0] == 200


def test_nothing_of_a_request_reaches_the_file_system(server):
    """Every file that this process opens to write, while it answers requests of several megabytes."""
    written: list[str] = []
    active = threading.Event()

    def hook(event, arguments):
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if active.is_set() and writes:
            written.append(str(arguments[0]))

    sys.addaudithook(hook)
    file = io.BytesIO()
    soundfile.write(file, noise(40.0, rate=48_000), 48_000, format="WAV")
    assert len(file.getvalue()) > 3e6
    active.set()
    status, _ = server.transcribe(file.getvalue(), name="../../../tmp/evil.wav")
    server.speak(input=TEXT, response_format="mp3")
    server.speak(input=TEXT, voice="../../etc/passwd")
    active.clear()
    assert status == 200
    assert written == []


def test_health_and_metrics_say_what_goes_on(server, clips):
    before = server.gateway.metrics.total("speech_requests_total", route="/v1/audio/transcriptions", status="200")
    server.transcribe(clips[0].read_bytes())
    assert server.ask("GET", "/health") == (200, b'{"status":"ok","models":["m","fastpitch"]}')
    assert server.ask("GET", "/health/live")[0] == 200
    told = server.ask("GET", "/metrics")[1].decode()
    assert f'speech_requests_total{{route="/v1/audio/transcriptions",status="200"}} {before + 1:g}' in told
    assert "# TYPE speech_batch_size histogram" in told
    status, body = server.ask("GET", "/v1/nothing")
    assert status == 404
    assert "GET /v1/nothing: Not Found; known: GET /v1/models" in json.loads(body)["error"]["message"]


def test_a_voice_of_onnx_files_says_what_it_says_without_the_server(voice):
    own = Synthesizer(voice / "tts.onnx", Vocoder(voice / "v.onnx"))
    expected = own.say(TEXT, speaker=1).samples
    with served(ServeConfig(tts=voice / "tts.onnx", vocoder=voice / "v.onnx", port=0)) as running:
        content = running.speak(input=TEXT, voice="1", response_format="wav")[1]
        assert running.transcribe(b"")[0] == 404
    samples_N, _ = soundfile.read(io.BytesIO(content), dtype="int16")
    assert len(samples_N) == len(expected)
    assert np.abs(samples_N / 32768 - expected).max() < 1e-3
    with pytest.raises(ModelError, match=r"expected two ONNX files of trt\.export, or two checkpoints"):
        load_voice(voice / "tts.onnx", voice / "v.pt")


def test_silence_of_a_long_recording_is_cut_as_out_of_the_whole(monkeypatch):
    """A piece of nothing but noise would have it as its loudest sound, and a transducer's words for it."""
    random, rate, heard = np.random.default_rng(0), 16_000, []
    said_N = 0.1 * np.sign(np.sin(np.arange(2 * rate) / 5) * np.sin(np.arange(2 * rate) / 2_000)).astype(np.float32)
    said_N *= random.uniform(0.1, 1.0, 200).repeat(160).astype(np.float32)
    quiet_N = (1e-3 * random.standard_normal(6 * rate)).astype(np.float32)

    def stream(self, recordings, **options):
        heard.extend(np.abs(samples_N).max() for samples_N in recordings)
        return [Transcript("a", "w", [Word("w", 0.2, 0.4, 1.0)], len(samples_N) / rate) for samples_N in recordings]

    monkeypatch.setattr(Counting, "stream", stream)
    cfg = ServeConfig(asr=Path("none"), port=0)
    gateway = pretended(cfg)
    gateway.hearing.ears = gateway.hearing.ears._replace(keep=Pauses(rate, 0.1, 25.0), chunk_seconds=3.0)
    with served(cfg, gateway) as server:
        for sounds, pieces in (([quiet_N, said_N, quiet_N], 1), ([quiet_N, said_N, quiet_N, said_N, said_N], 3)):
            heard.clear()
            file = io.BytesIO()
            soundfile.write(file, np.concatenate(sounds), rate, format="WAV", subtype="FLOAT")
            found = json.loads(server.transcribe(file.getvalue(), response_format="verbose_json")[1])
            assert found["duration"] == sum(map(len, sounds)) / rate
            assert len(heard) <= pieces
            assert min(heard) > 0.05, "each piece has speech"
            starts = [word["start"] for word in found["words"]]
            assert starts == sorted(starts)
            assert starts[0] >= 6.0 or len(heard) == 1, "times are those of the recording"
