"""Readers of what comes to exported models and to the server: metadata, engines, messages, answers of other servers."""

import asyncio
import hashlib
import json
import logging
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from common.audio import waveform
from common.audio.waveform import AudioError
from common.config import ConfigError
from common.recognition.output.transcripts import Transcript, Word
from common.recognition.rescoring import read_lists
from fastpitch.front import inputs, planning
from fastpitch.front.control import ControlError, SpeakerStatistics
from fastpitch.front.languages import TextError
from fastpitch.front.ssml import SsmlError
from fastpitch.front.symbols import TextProcessor
from tests.fastpitch.tiny import LETTERS
from tests.fuzz.reader import Reader
from tests.fuzz.structures import ODD

RATE, PER_FRAME = 16_000, 160
FACTS: dict[str, Any] = {
    "family": "jasper",
    "task": "recognition",
    "input": "samples",
    "sample_rate": RATE,
    "labels": ["a", "b", " ", "_"],
    "blank": 3,
    "separator": " ",
    "samples_per_frame": PER_FRAME,
    "seconds_per_frame": PER_FRAME / RATE,
    "context_frames": 2,
    "chunk_seconds": 0.1,
    "chunk_multiple": 1,
    "shortest_samples": 1,
    "trim_silence": False,
    "configuration": {"features": {"sample_rate": RATE, "hop_samples": PER_FRAME}},
}


def exported() -> Reader:
    """ONNX files of recognisers, their metadata, and a recording that they hear."""
    from trt.engines.building import _model
    from trt.facts import ModelError
    from trt.runtime.recognizer import Recognizer

    with tempfile.TemporaryDirectory() as folder:
        heard = Path(folder) / "a.wav"
        waveform.write(heard, 0.1 * np.sin(np.arange(3200) / 7).astype(np.float32), RATE)
        sound = heard.read_bytes()

    def read(path: Path) -> None:
        content = path.read_bytes()
        if path.suffix != ".onnx":
            if path.suffix == ".odd":
                content = _lines(odd_facts(content))
            told = [line.partition(b"\t") for line in content.split(b"\n")]
            path = path.with_suffix(".onnx")
            path.write_bytes(small_onnx({key: value for key, _, value in told}))
        _model(path)
        recording = waveform.Held(sound, "a.wav")
        for transcript in Recognizer(path, threads=1).stream([recording]):
            str(transcript.text)

    whole = small_onnx({key.encode(): json.dumps(value).encode() for key, value in FACTS.items()})
    return Reader([(".txt", _lines(FACTS)), (".odd", b"0"), (".onnx", whole)], read, (ModelError, AudioError))


def _lines(facts: dict[str, Any]) -> bytes:
    return "\n".join(f"{key}\t{json.dumps(value)}" for key, value in facts.items()).encode()


def odd_facts(content: bytes) -> dict[str, Any]:
    """FACTS with one to three values of another kind, which `content` decides; b"0": as they are."""
    facts, draw = dict(FACTS), random.Random(content)
    for _ in range(0 if content == b"0" else draw.choice((1, 1, 2, 3))):
        facts[draw.choice(list(facts))] = draw.choice([value for value in ODD if type(value) not in (bytes, set)])
    return facts


def small_onnx(metadata: dict[bytes, bytes], labels: int = 4) -> bytes:
    """A graph from samples to log-probabilities of `labels`, as `trt.export` names its ends."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    kernel = draw.standard_normal((labels, 1, PER_FRAME)).astype(np.float32)
    constants = {
        "kernel": kernel,
        "channel": np.array([1]),
        "hop": np.array(PER_FRAME),
        "less": np.array(PER_FRAME - 1),
    }
    tail = draw.standard_normal((1, PER_FRAME - 1)).astype(np.float32)
    nodes = [
        helper.make_node("Pad", ["audio_BN", "pads"], ["padded_BN"]),
        helper.make_node("Unsqueeze", ["padded_BN", "channel"], ["x_B1N"]),
        helper.make_node("Conv", ["x_B1N", "kernel"], ["x_BVS"], strides=[PER_FRAME]),
        helper.make_node("Transpose", ["x_BVS"], ["x_BSV"], perm=[0, 2, 1]),
        helper.make_node("LogSoftmax", ["x_BSV"], ["log_probs_BSV"], axis=2),
        helper.make_node("Add", ["samples_B", "less"], ["more_B"]),
        helper.make_node("Div", ["more_B", "hop"], ["frames_B"]),
    ]
    constants["pads"] = np.array([0, 0, 0, tail.shape[1]])
    graph = helper.make_graph(
        nodes,
        "small",
        [
            helper.make_tensor_value_info("audio_BN", TensorProto.FLOAT, ["B", "N"]),
            helper.make_tensor_value_info("samples_B", TensorProto.INT64, ["B"]),
        ],
        [
            helper.make_tensor_value_info("log_probs_BSV", TensorProto.FLOAT, ["B", "S", labels]),
            helper.make_tensor_value_info("frames_B", TensorProto.INT64, ["B"]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    for key, value in metadata.items():  # two of them may be one key, which the check refuses and readers must bear
        model.metadata_props.add(key=key.decode("utf-8", "replace"), value=value.decode("utf-8", "replace"))
    return model.SerializeToString()


def engines() -> Reader:
    """What stands beside an engine of TensorRT."""
    from trt.engines.building import EngineError, check, check_shape

    content = b"engine"
    described = {
        "library": "tensorrt_rtx",
        "version": "1.0",
        "capabilities": ["8.9"],
        "precision": "fp32",
        "shapes": {"audio_BN": [[1, 100], [1, 1000], [8, 10000]], "samples_B": [[1], [1], [8]]},
        "metadata": FACTS,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }

    def read(path: Path) -> None:
        engine, beside = path.with_name("a.engine"), path.with_name("a.engine.json")
        engine.write_bytes(content)
        if path.suffix == ".odd":
            seed = path.read_bytes()
            draw, odd = random.Random(seed), {**described, "metadata": odd_facts(seed)}
            if seed != b"0" and draw.random() < 0.7:
                odd[draw.choice(list(odd))] = draw.choice([value for value in ODD if type(value) is not bytes])
            beside.write_text(json.dumps(odd), encoding="utf-8")
        else:
            path.replace(beside)
        facts = check(engine, capability="8.9", library="tensorrt_rtx", version="1.0")
        check_shape(facts, "audio_BN", (1, 500))
        check_shape(facts, "samples_B", (1,))

    seeds = [(".json", json.dumps(described, indent=1).encode()), (".odd", b"0")]
    return Reader(seeds, read, (EngineError,))


def captions() -> Reader:
    """What a client of live captions asks for and sends: a line of the query, then messages, JSON or sound."""
    from starlette.datastructures import Headers, QueryParams
    from starlette.websockets import WebSocketState

    from trt.serving.admission.limits import Budget, Limits, RequestError, Taken
    from trt.serving.streams import live

    class Socket:
        """The server's end of a connection."""

        client_state = application_state = WebSocketState.CONNECTED

        def __init__(self, content: bytes) -> None:
            query, *lines = content.split(b"\n")
            self.query_params = QueryParams(query.decode("latin-1"))
            self.headers = Headers({"sec-websocket-protocol": query[:20].decode("latin-1")})
            self._lines, self.refused = lines, ""
            self.state = SimpleNamespace(taken=Taken(Budget(1e9)))

        async def accept(self, subprotocol: str | None) -> None:
            pass

        async def close(self, code: int = 1000, reason: str = "") -> None:
            pass

        async def send_text(self, text: str) -> None:
            told = json.loads(text)
            self.refused = told["message"] if told["type"] == "error" else self.refused

        async def receive(self) -> dict[str, Any]:
            if not self._lines:
                return {"type": "websocket.disconnect"}
            line = self._lines.pop(0)
            if line[:1] in b"{[":
                return {"type": "websocket.receive", "text": line.decode("utf-8", "replace")}
            return {"type": "websocket.receive", "bytes": line}

    class Ears:
        sample_rate, name, keep = RATE, "ears", None

        def decoder_of(self, name: str) -> None:
            """It has none of its own."""

    class AtOnce:
        async def __call__(self, given: Callable[[], Any], due: float | None = None) -> Any:
            return given()

        async def soon(self, given: Callable[[], Any], size: int, most: int) -> Any:
            return given()

    class Hearing:
        ears, pool, workers = Ears(), None, AtOnce()

        def wanted(self, *languages: str) -> dict[str, str]:
            return {}

        def check(self, favoured: Any) -> None:
            """It knows all language models."""

        async def hear(self, samples_N: np.ndarray, lane: str, *how: Any, **options: Any) -> Transcript:
            seconds = len(samples_N) / RATE
            return Transcript("array", "a", [Word("a", 0.0, seconds, 1.0)], seconds)

    class Raised(logging.Handler):
        """Raises what is logged as an error within the server."""

        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                raised.append(record.exc_info[1])

    raised: list[BaseException] = []
    logger = logging.getLogger("trt.serve")
    logger.addHandler(Raised())
    logger.propagate = False
    limits = Limits(client_seconds=1, max_seconds=20)

    def read(path: Path) -> None:
        raised.clear()
        socket = Socket(path.read_bytes())
        asyncio.run(live.serve_captions(socket, Hearing(), limits, asyncio.Event()))  # type: ignore[arg-type]
        if raised:
            raise raised[0]
        if socket.refused:
            raise RequestError(400, socket.refused)

    sound = bytes(b for b in (np.sin(np.arange(4000) / 9) * 9000).astype("<i2").tobytes() if b not in b"\n{[")
    floats = np.full(3000, 0.25, "<f4").tobytes()
    end = b'{"type": "end"}'
    return Reader(
        [
            ("", b"\n".join([b"sample_rate=16000", sound, sound[:77], end])),
            ("", b"\n".join([b"sample_rate=44100&format=s16le", sound, end])),
            ("", b"\n".join([b"format=f32le&sample_rate=8000", floats, floats[:5], floats, end])),
        ],
        read,
        (RequestError,),
    )


def answers() -> Reader:
    """What a Triton server answers, and what the client of ours reads."""
    from trt.client.asking import ServerError, transcript_from
    from trt.serving.admission.limits import RequestError
    from trt.serving.models import Sound
    from trt.serving.triton.asking import Infer, Remote
    from trt.serving.triton.transcripts import content_of

    class Writer:
        def writelines(self, parts: Sequence[bytes]) -> None:
            pass

        async def drain(self) -> None:
            pass

        def close(self) -> None:
            pass

    words = [Word("a", 0.0, 0.5, 0.9), Word("b", 0.5, 1.0, 0.8)]
    said = content_of(Transcript("array", "a b", words, 1.0))
    tensor = {"name": "transcript", "datatype": "UINT8", "shape": [1, len(said)]}
    head = json.dumps({"outputs": [tensor]}).encode()
    lines = (
        f"HTTP/1.1 200 OK\r\nContent-Length: {len(head) + len(said)}\r\n"
        f"Inference-Header-Content-Length: {len(head)}\r\n\r\n"
    )
    refusal = b'{"error": "no such model"}'
    verbose = {"text": "a b", "duration": 1.0, "words": [{"word": "a", "start": 0.0, "end": 0.5, "confidence": 0.9}]}

    async def ask(content: bytes) -> None:
        reader = asyncio.StreamReader(limit=1 << 16)
        reader.feed_data(content)
        reader.feed_eof()
        infer = Infer("127.0.0.1", 1)
        infer.idle.append((reader, Writer()))  # type: ignore[arg-type]
        await Remote(infer)(Sound(np.zeros(10, np.float32)))

    def read(path: Path) -> None:
        content = path.read_bytes()
        if path.suffix == ".json":
            transcript_from(content.decode("utf-8", "replace"), "a")
        else:
            asyncio.run(ask(content))

    refused = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(refusal)}\r\n\r\n".encode() + refusal
    seeds = [(".http", lines.encode() + head + said), (".json", json.dumps(verbose).encode()), (".http", refused)]
    return Reader(seeds, read, (RequestError, ServerError))


def tensors() -> Reader:
    """The steps of a recogniser in Triton: any error is answered for its own request, but none may crash or hang."""
    from trt.serving.triton.steps import TritonDecoder, TritonSound

    facts = {key: FACTS[key] for key in ("labels", "blank", "separator", "sample_rate", "seconds_per_frame")}
    sound = TritonSound({"bucket": 500, "features": None, "facts": facts}, Path())
    decoder = TritonDecoder({"facts": facts, "inputs": ["log_probs_BSV", "frames_B"]}, Path())

    def read(path: Path) -> None:
        content = path.read_bytes().ljust(64, b"\0")
        frames, heard, n_labels = (int(n) for n in np.frombuffer(content[:24], np.int64))
        values = np.frombuffer(content[24 : len(content) // 4 * 4], np.float32)
        (request,) = sound([{"audio": values[None]}])
        assert request["audio_BN"].shape[1] % 500 == 0
        log_probs_BSV = values[: len(values) // 4 * 4].reshape(1, -1, 4)[:, :, : max(1, n_labels % 5)]
        given = {"log_probs_BSV": log_probs_BSV, "frames_B": np.array([[frames]]), "heard_B": np.array([[heard]])}
        decoder([given | {"cuts_BK2": np.array([[[0.0, 0.0], [heard, frames]]], float)}])

    draw = np.random.default_rng(0)
    seed = np.array([20, RATE, 4], np.int64).tobytes() + draw.standard_normal(80).astype(np.float32).tobytes()
    return Reader([("", seed)], read, (ValueError, IndexError, OverflowError, TypeError))


def documents() -> Reader:
    """Texts, phrase files and documents to be spoken, planned for a voice that spells."""
    processor, voices = TextProcessor(LETTERS), [SpeakerStatistics(150.0, 30.0), SpeakerStatistics(220.0, 40.0)]
    seeds = [
        (
            ".txt",
            "\ufeffHello, world.\r\nDr. Who paid $3.50.\r\n\r\n<speak>One <break time='200ms'/> two</speak>\n".encode(),
        ),
        (".tsv", b"text\toutput\tspeaker\tpace\twords\nSay it.\tb.wav\t1\t0.9\tit: pace=0.8\nNo.\t\t\t\t\n"),
        (
            ".md",
            b"# A heading\n\nSome *words*, `code` and [a link](http://a.b).\n\n- one\n\n```\nx = 1\n```\n| a | b |\n",
        ),
        (".ssml", b"<speak><p><s>One</s></p><prosody rate='90%'>two &amp; three</prosody></speak>"),
    ]

    def read(path: Path) -> None:
        found = inputs.find_phrases([str(path)])
        problem: Exception | None = inputs.PhraseError(found.problems[0]) if found.problems else None
        for item in found.items[:20]:
            phrase = item.phrase
            try:
                planning.plan(
                    phrase.text[:2000],
                    processor,
                    voices,
                    name="voice",
                    speaker=phrase.speaker or 0,
                    control=phrase.control,
                    words=phrase.words,
                    symbols=phrase.symbols,
                )
            except (ControlError, TextError, SsmlError) as error:
                problem = error
        if problem is not None:
            raise problem

    return Reader(seeds, read, (inputs.PhraseError, ControlError, TextError, SsmlError))


def lists() -> Reader:
    """N-best lists to be rescored."""
    record = {"audio": "a.wav", "text": "a b", "score": -1.5, "words": [{"word": "a", "confidence": 0.5}]}
    record["alternatives"] = [{"text": "a c", "score": -2.5}, {"text": "a", "score": -3}]
    content = json.dumps(record).encode() + b"\n" + json.dumps(record | {"alternatives": []}).encode() + b"\n"
    return Reader([(".json", content)], lambda path: list(read_lists(path)), (ConfigError,))


def containers() -> Reader:
    """Recordings in containers that libsndfile does not read, as phones and browsers write them: MP4, WebM, AMR."""

    def box(kind: bytes, content: bytes) -> bytes:
        return (8 + len(content)).to_bytes(4, "big") + kind + content

    movie = box(b"moov", box(b"mvhd", bytes(100)) + box(b"trak", box(b"tkhd", bytes(84)) + box(b"mdia", bytes(60))))
    m4a = box(b"ftyp", b"M4A \0\0\2\0M4A mp42isom") + movie + box(b"mdat", bytes(range(256)) * 8)
    webm = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\x82\x84webmB\x87\x81\x04" + bytes(range(200))
    seeds = [(".m4a", m4a), (".mp4", m4a), (".webm", webm), (".amr", b"#!AMR\n" + bytes(range(200))), (".wav", m4a)]
    return Reader(seeds, lambda path: waveform.read(path, sample_rate=RATE), (AudioError,))


READERS = (exported, engines, captions, answers, tensors, documents, lists, containers)
