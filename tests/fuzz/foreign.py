"""Readers of what other programs write: markup, tokenizers, archives, folders, corpora, requests to a server."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import soundfile

from common.config import ConfigError
from common.data.manifest import ManifestError, read_manifest
from common.runs.checkpoint import CheckpointError
from common.text.pieces import read_pieces
from common.text.vocabulary import VocabularyError
from fastconformer.checkpoints import reading
from fastpitch.front import ssml
from fastpitch.front.control import ControlError
from fastpitch.front.languages import TextError
from jasper.checkpoints import reading as jasper_reading
from tests.fastconformer.checkpoints import archives
from tests.fuzz.reader import Reader
from tests.jasper.checkpoints.test_nemo import description, nemo_names
from tests.jasper.checkpoints.test_nemo import write as write_nemo
from tests.jasper.tiny import random_weights, tiny_config
from tests.wav2vec2.small import ctc_model
from trt.serving.admission.limits import Limits, RequestError
from wav2vec2.checkpoints import huggingface
from wav2vec2.checkpoints.loading import load_model

MARKUP = (
    '<speak>Dr. Who paid <say-as interpret-as="currency">$3.50</say-as>.<break time="200ms"/>'
    '<prosody rate="110%" pitch="+2st" volume="-3dB">Fast</prosody> &amp; <emphasis>loud</emphasis></speak>',
    '<?xml version="1.0"?><!-- a --><speak version="1.1" xml:lang="en"><p><s>One <mark name="m"/>two</s></p>'
    '<phoneme alphabet="arpabet" ph="T AH0 M EY1 T OW2">tomato</phoneme> <sub alias="World">W3</sub></speak>',
    '<speak><prosody contour="(0%,+1st) (50%,-2st) (100%,x-high)">up and down</prosody>'
    '<say-as interpret-as="date" format="mdy">1/2/2003</say-as> <say-as interpret-as="time">3:07pm</say-as></speak>',
)


def markup() -> Reader:
    """SSML."""

    def read(path: Path) -> None:
        ssml.parse(path.read_text(encoding="utf-8", errors="replace"), lambda _: 150.0)

    return Reader([("", text.encode()) for text in MARKUP], read, (ssml.SsmlError, ControlError, TextError))


def tokenizers() -> Reader:
    """SentencePiece models, and a text of their pieces."""
    model = archives.files()["1_tokenizer.model"]

    def read(path: Path) -> None:
        pieces = read_pieces(path)
        pieces.decode(range(min(50, len(pieces.labels))))

    return Reader([(".model", model)], read, (VocabularyError,))


def nemo() -> Reader:
    """NeMo's archives of Jasper and of transducers, plain and compressed; descriptions in them."""
    cfg = tiny_config()
    seeds = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = archives.files()
        for mode in ("w", "w:gz"):
            written = [
                write_nemo(folder / "a.nemo", description(cfg), nemo_names(random_weights(cfg), cfg), mode=mode),
                archives.write(folder / "b.nemo", files, mode=mode),
            ]
            seeds += [(".nemo", path.read_bytes()) for path in written]
        seeds.append((".yaml", files["model_config.yaml"]))

        def read(path: Path) -> None:
            if path.suffix == ".yaml":
                with tempfile.TemporaryDirectory() as inside:
                    changed = files | {"model_config.yaml": path.read_bytes()}
                    reading.read_model(archives.write(Path(inside) / "c.nemo", changed))
                return
            with suppress(CheckpointError):
                jasper_reading.read_model(path)
                return
            reading.read_model(path)

    return Reader(seeds, read, (CheckpointError,))


def folders() -> Reader:
    """Folders of transformers: each file of one in turn is changed."""
    model = ctc_model("large")
    with tempfile.TemporaryDirectory() as name:
        huggingface.export(Path(name), model.state_dict(), model.wav2vec2.config)
        files = {path.name: path.read_bytes() for path in Path(name).iterdir()}
    numbers = {f".{i}.{name.rpartition('.')[2]}": name for i, name in enumerate(sorted(files))}

    def read(path: Path) -> None:
        changed = numbers["".join(path.suffixes)]
        with tempfile.TemporaryDirectory() as name:
            for own, content in files.items():
                (Path(name) / own).write_bytes(content)
            shutil.copyfile(path, Path(name) / changed)
            load_model(Path(name))

    return Reader([(suffix, files[name]) for suffix, name in numbers.items()], read, (CheckpointError,))


def corpora() -> Reader:
    """Manifests of other programs: Fairseq's, tables, LibriSpeech's and LJSpeech's texts, Kaldi's folders."""
    files: Sequence[tuple[str, bytes]] = (
        ("a.tsv", b".\na.flac\t16000\nb.flac\t32000\n"),
        ("a.ltr", b"S A Y | A |\nS A Y | B |\n"),
        ("a.psv", "\ufeffpath|duration|text\r\na.flac|1.5|say a\r\nb.flac|2|s\u00e4y b".encode()),
        ("a.txt", b"a.flac|say a\nb.flac|say b"),
        ("1-2.trans.txt", b"1-2-0001 SAY A\n1-2-0002 SAY B\n"),
        ("metadata.csv", b"a|Say A.|say a\nb|Say 2.|say two"),
        ("a.csv", b'path,text,duration\r\na.flac,"say ""a""",0.01\r\nb.flac,"say\nb",\r\n'),
        ("b.tsv", b"client_id\tpath\tsentence\nme\ta.flac\tsay a\nme\tb.flac\tsay b\n"),
        ("wav.scp", b"one a.flac\ntwo b.flac\n"),
        ("segments", b"one one 0 0.01\ntwo two 0.002 0.008\n"),
    )
    kaldi = {"wav.scp": b"one a.flac\ntwo b.flac\n", "text": b"one SAY A\ntwo SAY B\n"}

    def read(path: Path) -> None:
        name = dict(zip((f".{i}" for i in range(len(files))), (name for name, _ in files), strict=True))[path.suffix]
        with tempfile.TemporaryDirectory() as inside:
            folder = Path(inside)
            for own, content in files[:2] if name in ("a.tsv", "a.ltr") else ():
                (folder / own).write_bytes(content)
            for own, content in kaldi.items() if name in ("wav.scp", "segments") else ():
                (folder / own).write_bytes(content)
            chapter = ("1-2-0001.flac", "1-2-0002.flac")
            for recording in chapter if name[0] == "1" else ("a.flac", "b.flac", "wavs/a.wav", "wavs/b.wav"):
                (folder / recording).parent.mkdir(exist_ok=True)
                soundfile.write(folder / recording, np.zeros(160), 16_000)
            shutil.copyfile(path, folder / name)
            is_folder = name == "segments" or name[0] in "1m"
            asked = folder if is_folder else folder / ("a.tsv" if name == "a.ltr" else name)
            with suppress(ManifestError):
                read_manifest(asked, on_error="skip")
            read_manifest(asked, on_error="stop")

    return Reader([(f".{i}", content) for i, (_, content) in enumerate(files)], read, (ManifestError, ConfigError))


def wyoming() -> Reader:
    """What a client of Wyoming's protocol sends."""
    from trt.serving.admission.limits import Budget
    from trt.serving.streams.wyoming import Wyoming, _Client

    chunk = {"type": "audio-chunk", "data": {"rate": 16000, "width": 2, "channels": 1}, "payload_length": 8}
    sent = [
        json.dumps({"type": "describe"}).encode() + b"\n",
        json.dumps(chunk).encode() + b"\n" + bytes(range(8)) + json.dumps({"type": "audio-stop"}).encode() + b"\n",
        json.dumps({"type": "synthesize", "data_length": 15}).encode() + b'\n{"text": "hey"}',
    ]

    async def talk(content: bytes) -> None:
        reader = asyncio.StreamReader(limit=1 << 16)
        reader.feed_data(content)
        reader.feed_eof()
        limits = Limits(client_seconds=1)
        client = _Client(Wyoming({}, {}, limits=limits, budget=Budget(1 << 20)), reader, None)  # type: ignore[arg-type]
        while await client.read():
            pass

    def read(path: Path) -> None:
        asyncio.run(talk(path.read_bytes()))

    return Reader([("", content) for content in sent], read, (RequestError, asyncio.IncompleteReadError))


def forms() -> Reader:
    """Forms and JSON in the bodies of requests to the server."""
    from starlette.requests import Request

    from trt.serving.admission import forms as server

    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF'
    body += b'\r\n--x\r\nContent-Disposition: form-data; name="language"\r\n\r\nen\r\n--x--\r\n'

    def read(path: Path) -> None:
        content = path.read_bytes()

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": content, "more_body": False}

        headers = [(b"content-type", b"multipart/form-data; boundary=x")]
        asyncio.run(server.read_form(Request({"type": "http", "headers": headers}, receive)))

    return Reader([("", body)], read, (RequestError,))
