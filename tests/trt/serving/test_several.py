"""Several models in one server, and what one request asks of them besides: words to favour, a beam."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openai
import pytest
from websockets.sync.client import connect
from wyoming.asr import Transcribe
from wyoming.event import Event
from wyoming.info import Describe, Info

from common.config import ConfigError
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript
from tests.trt.serving.running import Choice, noise, pretended, served
from tests.trt.serving.streams.test_realtime import Streams, pcm
from tests.trt.serving.streams.test_realtime import spoken as turns
from tests.trt.serving.streams.test_wyoming import spoken, told
from tests.trt.serving.test_openai import wav
from trt.runtime.recognizer import Recognizer
from trt.serve import ServeConfig, build
from trt.serving.admission.limits import Limits
from trt.serving.batching import Workers
from trt.serving.metrics import Metrics
from trt.serving.models import Favoured, Sound, WantedText, load_ears, named
from trt.serving.streams.wyoming import Wyoming
from trt.serving.transcribing.favoured import words_of
from trt.serving.transcribing.hearing import Hearing

BUSY = "the server is busy: requests hold 0 MB of 2000 MB; try again later"


@pytest.fixture(scope="module")
def several():
    cfg = ServeConfig(asr=Path("none"), port=0, limits=Limits(max_queue=8))
    with served(cfg, pretended(cfg, others=("second",))) as running:
        yield running


@pytest.fixture(scope="module")
def client(several):
    return openai.OpenAI(base_url=f"{several.url}/v1", api_key="none", max_retries=0)


def test_a_request_names_one_of_several_models(several, client):
    assert [model.id for model in client.models.list()] == ["ears", "second-ears", "voice", "second-voice"]
    asked = {"second-ears": ["b"], "ears": ["a"], "whisper-1": ["c"]}
    for model, words in asked.items():
        client.audio.transcriptions.create(model=model, file=wav(0.5), extra_body={"keywords": words})
    heard = [{options.hot_words for options in each.ears.asr.decoders} for each in several.gateway.hearings.values()]
    assert heard == [{("a",), ("c",)}, {("b",)}]


def test_voices_are_listed_and_named(several, client):
    voices = client.get("/audio/voices", cast_to=object)
    assert [voice["id"] for voice in voices["data"]] == ["0", "1", "second-voice", "second-voice/1"]
    for voice in ("0", "1", "voice/1", "second-voice", "second-voice/1", "marin"):
        sound = client.audio.speech.create(model="tts-1", voice=voice, input="One two.", response_format="pcm")
        assert len(sound.content) > 1000
    for model in ("second-voice", "voice"):
        assert client.audio.speech.create(model=model, voice="1", input="One.", response_format="pcm").content
    for voice in ("2", "second-voice/2", "third"):
        with pytest.raises(openai.BadRequestError, match="expected default, a name of OpenAI's"):
            client.audio.speech.create(model="tts-1", voice=voice, input="One.")


@pytest.mark.parametrize("path", ["stream", "../realtime"])
def test_a_stream_names_one_of_several_models(several, path):
    url = f"ws://127.0.0.1:{several.port}/v1/audio/{path}?model=".replace("audio/../", "")
    for model in ("second-ears", "whisper-1", ""):
        with connect(url + model) as socket:
            assert json.loads(socket.recv()).get("model", "second-ears").startswith("second" if "s-" in model else "")
    with pytest.raises(Exception, match="403|1008"), connect(f"{url}third"):
        pass


def test_a_session_of_openai_s_favours_words_and_changes_its_model(several):
    asr = several.gateway.hearings["second-ears"].ears.asr
    with connect(f"ws://127.0.0.1:{several.port}/v1/realtime?intent=transcription") as socket:
        asked = {"model": "second-ears", "prompt": "Zyntriqix, R2D2"}
        update = {"audio": {"input": {"transcription": asked, "turn_detection": None}}}
        socket.send(json.dumps({"type": "session.update", "session": update}))
        socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": pcm(turns(0.5))}))
        other = {"audio": {"input": {"transcription": {"model": "ears"}, "turn_detection": None}}}
        socket.send(json.dumps({"type": "session.update", "session": other}))
        while (event := json.loads(socket.recv()))["type"] != "error":
            pass
        assert event["error"]["message"] == "the model cannot change within a turn; commit or clear it first"
        socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        while (event := json.loads(socket.recv()))["type"].rpartition(".")[2] != "completed":
            assert event["type"] != "error", event
    assert asr.decoders[-1].hot_words == ("Zyntriqix",)


def test_a_session_that_changes_its_model_holds_the_memory_of_the_other(several, monkeypatch):
    streams = Streams()
    monkeypatch.setitem(several.gateway.hearings["second-ears"].__dict__, "pool", streams)
    with connect(f"ws://127.0.0.1:{several.port}/v1/realtime?intent=transcription") as socket:

        def change(model: str, held: int) -> str:
            streams.bytes_per_stream = held
            update = {"audio": {"input": {"transcription": {"model": model}}}}
            socket.send(json.dumps({"type": "session.update", "session": update}))
            event = json.loads(socket.recv())
            return event.get("error", {}).get("message", event["type"])

        assert json.loads(socket.recv())["type"] == "session.created"
        assert change("second-ears", 3_000_000_000) == BUSY
        assert change("second-ears", 1000) == "session.updated"
        assert several.gateway.budget.held >= 1000
        assert change("ears", 1000) == "session.updated"
    several.comes_to_rest()


def test_words_to_favour_and_a_beam_are_those_of_a_request(several, client):
    asr = several.gateway.hearing.ears.asr

    def ask(**more):
        prompt = more.pop("prompt", "")
        client.audio.transcriptions.create(model="ears", file=wav(0.5), prompt=prompt, extra_body=more)

    count = len(asr.decoders)
    ask()
    assert len(asr.decoders) == count
    ask(keywords=["Anna", "new york"], prompt="Zyntriqix; C3PO\nWe met Mr. Miller there.", beam=7)
    assert (asr.decoders[-1].hot_words, asr.decoders[-1].beam) == (("Anna", "new york", "Zyntriqix", "Mr", "Miller"), 7)
    count = len(asr.decoders)
    ask(keywords=["Anna", "new york"], prompt="Zyntriqix; C3PO\nWe met Mr. Miller there.", beam=7)
    assert len(asr.decoders) == count
    for more, message in (
        ({"keywords": ["R2D2"]}, "keywords, beam: decoding: 'R2D2' cannot be spelled"),
        ({"keywords": ["a"] * 60 + ["b" * 101]}, "keywords: expected at most 64, of at most 100 characters"),
        ({"beam": "1e3"}, "beam '1e3': expected a number of label sequences from 1 to 100"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(**more)
        assert message in refused.value.message


def test_a_beam_of_a_request_may_be_narrower_than_the_server_s_list_of_the_best(several, client, monkeypatch):
    hearing, options = several.gateway.hearing, DecodingOptions(n_best=5)
    monkeypatch.setattr(hearing, "ears", hearing.ears._replace(options=options, decoder=Choice(options)))
    for beam, n_best in ((2, 2), (9, 5)):
        client.audio.transcriptions.create(model="ears", file=wav(0.5), extra_body={"beam": beam})
        found = hearing.ears.asr.decoders[-1]
        assert (found.beam, found.n_best) == (beam, n_best)


def test_what_names_the_usual_decoder_shares_its_batches(several):
    batches = []

    def stream(recordings, **how):
        batches.append(len(recordings))
        return [Transcript("array", str(len(samples_N)), [], 1.0) for samples_N in recordings]

    usual, other = (Choice(DecodingOptions(beam=beam)) for beam in (3, 4))
    ears = several.gateway.hearing.ears._replace(decoder=usual, asr=SimpleNamespace(stream=stream))
    wanted = (WantedText(), WantedText(decoder=usual), WantedText(decoder=other), WantedText())
    found = ears.hear([Sound(np.zeros(i, np.float32), one) for i, one in enumerate(wanted)])
    assert [each.text for each in found] == ["0", "1", "2", "3"]
    assert batches == [3, 1]


def test_a_prompt_lists_phrases_or_has_names_in_its_sentences():
    assert words_of("ZyntriQix, Digique Plus, a new york minute, then\nVectorSpark") == (
        "ZyntriQix", "Digique Plus", "then", "VectorSpark",
    )  # fmt: skip
    assert words_of('Please write "OpenAI", and I mean GPT-4 (not Gpt).') == ("OpenAI", "GPT-4", "Gpt")
    assert words_of("") == words_of(" ,;. \n") == ()


def test_models_have_names_of_their_own(jasper, tmp_path, monkeypatch):
    onnx = jasper.with_suffix(".onnx")
    assert named(Path("a=b/c.onnx")) == ("a", Path("b/c.onnx"))
    voices = ServeConfig(tts=(Path("a.onnx"), Path("b=b.onnx")), vocoder=(Path("v.onnx"), Path("w.onnx"))).voices()
    assert list(voices) == [(Path("a.onnx"), Path("v.onnx")), (Path("b=b.onnx"), Path("w.onnx"))]
    for vocoders in ((), (Path("v.onnx"),) * 3):
        with pytest.raises(ValueError, match="a voice needs both --tts and --vocoder"):
            ServeConfig(tts=(Path("a.onnx"), Path("b.onnx")), vocoder=vocoders)
    assert named(Path("runs/x=1/m.pt")) == ("", Path("runs/x=1/m.pt"))
    monkeypatch.chdir(tmp_path)
    Path("wer=0.05-epoch=3.nemo").touch()  # as Lightning calls its checkpoints
    assert named(Path("wer=0.05-epoch=3.nemo")) == ("", Path("wer=0.05-epoch=3.nemo"))
    assert build(ServeConfig(asr=(onnx, Path(f"other={onnx}")))).models() == ["m", "other"]
    with pytest.raises(ValueError, match="two models are called 'm'; give one a name of its own with NAME=PATH"):
        build(ServeConfig(asr=(onnx, onnx)))
    with pytest.raises(ValueError, match="precision bf16: expected a checkpoint"):
        build(ServeConfig(asr=onnx, precision="bf16"))


def test_words_of_a_request_change_what_a_model_writes_as_in_trt_run(jasper, clips):
    onnx, words = jasper.with_suffix(".onnx"), ("zq", "qz zq")
    asr, options = Recognizer(onnx), DecodingOptions(hot_words=words, hot_word_boost=5.0, beam=8)
    expected = [each.text for each in asr.stream(clips, decoder=asr.decoder(options))]
    ears = load_ears(onnx)
    with served(ServeConfig(asr=onnx, port=0)) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")
        found = [
            client.audio.transcriptions.create(
                model="m", file=clip, response_format="text", extra_body={"keywords": list(words), "beam": 8}
            ).strip()
            for clip in clips
        ]
    assert found == expected
    assert found != [each.text for each in ears.transcribe(clips)]


def test_a_request_names_a_language_model_of_the_operator_s_and_gets_what_trt_run_writes_with_it(
    jasper, clips, tmp_path
):
    onnx, arpas = jasper.with_suffix(".onnx"), [tmp_path / "4-gram.arpa", tmp_path / "b.arpa"]
    for arpa, words in zip(arpas, (("zq", "q"), ("xv", "vx")), strict=True):
        lines = [f"-0.5\t{word}" for word in ("<unk>", "<s>", "</s>", *words)]
        arpa.write_text("\n".join(["\\data\\", f"ngram 1={len(lines)}", "", "\\1-grams:", *lines, "", "\\end\\", ""]))
    asr, common = Recognizer(onnx), DecodingOptions(weight=3.0, word_bonus=2.0)
    cfg = ServeConfig(asr=onnx, port=0, decoding=common, language_models=(arpas[0], Path(f"other={arpas[1]}")))
    asked = {"": {}, "4-gram": {"beam": 8}, "other": {"beam": 20, "keywords": ["xx"], "prompt": "C3PO, vv, 7"}}
    with served(cfg) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        for name, more in asked.items():
            path = {"": None, "4-gram": arpas[0], "other": arpas[1]}[name]
            hot_words = ("xx", "vv") if name == "other" else ()
            options = replace(common, language_model=path, beam=more.get("beam", 0), hot_words=hot_words)
            expected = [each.text for each in asr.stream(clips, decoder=asr.decoder(options))]
            found = [
                client.audio.transcriptions.create(
                    model="m", file=clip, response_format="text", extra_body={"language_model": name, **more}
                ).strip()
                for clip in clips
            ]
            assert found == expected, name
        with pytest.raises(openai.BadRequestError, match="language_model 'third': expected one of 4-gram, other"):
            client.audio.transcriptions.create(model="m", file=clips[0], extra_body={"language_model": "third"})
        with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream?language_model=third") as socket:
            assert json.loads(socket.recv())["message"] == "language_model 'third': expected one of 4-gram, other"
        with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream?language_model=other") as socket:
            assert json.loads(socket.recv())["type"] == "ready"
    with pytest.raises(ConfigError, match="two language models are called 'b'"):
        build(replace(cfg, language_models=(arpas[1], Path(f"b={arpas[0]}"))))
    with pytest.raises(ConfigError, match="language model 'none': decoding: .*[Nn]o such file"):
        build(replace(cfg, language_models=(tmp_path / "none.arpa",)))


def test_streams_that_favour_words_share_one_pool_whichever_thread_opens_them_first(several):
    made, hearing = [], Hearing(
        several.gateway.hearing.ears._replace(asr=SimpleNamespace(pool=None, decoder=lambda: "greedy")),
        limits=Limits(), metrics=Metrics(), workers=Workers(), delay_seconds=0.0, most=1,
    )  # fmt: skip

    def pool(decoder, delay_seconds):
        time.sleep(0.05)
        made.append(decoder)
        scorer = SimpleNamespace(scorer_with=len, spelled=lambda words: words[:1])
        return SimpleNamespace(decoder=scorer, session=lambda hot_words: hot_words)

    hearing.ears.asr.pool = pool
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(hearing.session, [Favoured(("a",), ("b", "c"))] * 8))
    assert opened == [("a", "b")] * 8
    assert made == ["greedy"]


def talk(gateway, events, until):
    async def answers():
        protocol = Wyoming(gateway.hearings, gateway.speakings, limits=gateway.settings.limits, budget=gateway.budget)
        for each in (*gateway.hearings.values(), *gateway.speakings.values()):
            each.start()
        server = await protocol.start("127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await asyncio.to_thread(told, port, events, until)
        finally:
            server.close()
            await gateway.stop()

    return asyncio.run(answers())


def test_wyoming_s_clients_hear_words_while_they_speak_and_name_a_model():
    gateway = pretended(ServeConfig(asr=Path("none"), port=0), others=("second",))
    gateway.hearings["second-ears"].__dict__["pool"] = Streams()
    sound = list(spoken(noise(1.0)))[1:]
    found = talk(gateway, [Transcribe(name="second-ears").event(), *sound, Describe().event()], "info")
    kinds = [event.type for event in found]
    assert kinds[0] == "transcript-start"
    assert kinds[-3:] == ["transcript", "transcript-stop", "info"]
    chunks = [event.data["text"] for event in found if event.type == "transcript-chunk"]
    assert len(chunks) > 3
    assert "".join(chunks) == found[-3].data["text"] == "a" * 10
    info = Info.from_event(found[-1])
    assert [model.name for model in info.asr[0].models] == ["ears", "second-ears"]
    assert [voice.name for voice in info.tts[0].voices] == ["voice", "second-voice"]
    assert (info.asr[0].supports_transcript_streaming, info.tts[0].supports_synthesize_streaming) == (True, True)


@pytest.mark.parametrize(("held", "last"), [(3_000_000_000, "error"), (1000, "transcript")])
def test_streams_of_wyoming_s_clients_are_held_within_the_memory(held, last):
    gateway = pretended(ServeConfig(asr=Path("none"), port=0))
    gateway.hearing.__dict__["pool"] = pool = Streams()
    pool.bytes_per_stream = held
    told_last = talk(gateway, list(spoken(noise(0.5))), last)[-1].data["text"]
    assert told_last == ("aaaaa" if last == "transcript" else BUSY)
    assert gateway.budget.held == pool.open == 0


def test_wyoming_s_clients_have_a_text_spoken_while_it_is_written():
    gateway = pretended(ServeConfig(asr=Path("none"), port=0))
    parts = ["Good mor", "ning. How ", "are you? I am", " fine"]
    asked = [Event("synthesize-start", {}), *(Event("synthesize-chunk", {"text": part}) for part in parts)]
    whole = Event("synthesize", {"text": "".join(parts)})  # for servers of before
    found = talk(gateway, [*asked, whole, Event("synthesize-stop", {})], "synthesize-stopped")
    kinds = [event.type for event in found]
    assert (kinds[0], kinds[-2:]) == ("audio-start", ["audio-stop", "synthesize-stopped"])
    assert set(kinds[1:-2]) == {"audio-chunk"}
    samples = sum(len(event.payload) for event in found[1:-2]) // 2
    alone = talk(pretended(ServeConfig(asr=Path("none"), port=0)), [whole], "audio-stop")
    assert samples == pytest.approx(sum(len(event.payload or b"") for event in alone) // 2, rel=0.1)
