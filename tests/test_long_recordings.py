"""A recording that is decoded while it is recognised has the transcript of the same recording as a whole."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import soundfile

import ctc
from benchmarks import long_recordings
from common.recognition import decoding
from common.recognition.decoding import DecodingOptions
from common.recognition.sources import recordings as sources
from ctc.ngram import estimate
from tests.toys import KINDS, save_toy

SHORT = {"chunk_seconds": 4.0}
SMALL = {"wav2vec2": {"layers": 1, "heads": 1}}  # attention takes most of its time
WHOLE = {"fastconformer": {"whole_seconds": 5.0}}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("recordings")
    paths = [long_recordings.write_recording(folder / "a.flac", 45.5), folder / "b.wav", folder / "c.mp3"]
    soundfile.write(paths[1], 0.2 * np.random.default_rng(1).standard_normal((16_000 * 3, 2)), 16_000)
    return [*paths[:2], long_recordings.write_recording(paths[2], 31.0), paths[1]]


@pytest.fixture(scope="module", params=KINDS)
def asr(request, tmp_path_factory):
    path = save_toy(request.param, tmp_path_factory.mktemp(request.param) / "toy.pt", **SMALL.get(request.param, {}))
    return request.param, importlib.import_module(f"{request.param}.recognizer").load(path, device="cpu")


OPTIONS = {
    "greedy": DecodingOptions(),
    "beam": DecodingOptions(beam=8),
    "n-best": DecodingOptions(beam=8, n_best=3),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_transcripts_of_long_recordings_are_those_of_their_chunks(asr, recordings, name, monkeypatch):
    kind, model = asr
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 150)
    options = {**SHORT, **WHOLE.get(kind, {}), "batch_size": 3, "decoder": model.decoder(OPTIONS[name])}
    if kind == "fastconformer" and name == "greedy":
        options["decoder"] = None
    whole = model.transcribe(recordings, **options)
    monkeypatch.setattr(sources, "LONG_SECONDS", 10.0)
    parts = model.transcribe(recordings, **options)
    assert [t.text for t in parts] == [t.text for t in whole]
    assert all(t.text for t in whole)
    assert [[w.start for w in t.words] for t in parts] == [[w.start for w in t.words] for t in whole]
    assert [len(t.alternatives) for t in parts] == [len(t.alternatives) for t in whole]
    for part, other in zip(parts, whole, strict=True):
        assert [w.confidence for w in part.words] == pytest.approx([w.confidence for w in other.words], abs=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_recording_that_breaks_off_costs_itself(kind, tmp_path, recordings, monkeypatch):
    model = importlib.import_module(f"{kind}.recognizer").load(save_toy(kind, tmp_path / "toy.pt"), device="cpu")
    monkeypatch.setattr(sources, "LONG_SECONDS", 10.0)
    broken = tmp_path / "broken.flac"
    broken.write_bytes(recordings[0].read_bytes()[:-50_000])
    good, bad, other = model.transcribe([recordings[0], broken, recordings[1]], on_error="skip", **SHORT)
    assert "broken.flac: truncated" in bad.error
    assert (bad.text, bad.words) == ("", [])
    assert [good, other] == model.transcribe([recordings[0], recordings[1]], **SHORT)


@pytest.fixture(scope="module")
def one_and_ninety_minutes(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("minutes")
    return [long_recordings.write_recording(folder / f"{minutes}.flac", minutes * 60) for minutes in (1, 90)]


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_a_recording(kind, one_and_ninety_minutes, tmp_path):
    save_toy(kind, tmp_path / "toy.pt", **SMALL.get(kind, {}))
    short, long = one_and_ninety_minutes
    spent = [
        long_recordings.transcribe(kind, tmp_path / "toy.pt", path, tmp_path / "text", by=by, decoding="greedy").mib
        for path, by in ((short, "path"), (long, "path"), (long, "standard input"))
    ]
    assert max(spent) - spent[0] < 150  # MiB; 90 minutes of samples alone are 330


def test_a_scorer_reads_stretches_as_it_reads_the_whole(tmp_path, recordings, monkeypatch):
    import jasper

    asr = jasper.load(save_toy("jasper", tmp_path / "toy.pt"), device="cpu")
    path = tmp_path / "lm.arpa"
    ctc.write_arpa(path, estimate([["a", "b"], ["c", "a"]], order=2))
    decoder = asr.decoder(DecodingOptions(beam=8, language_model=path))
    monkeypatch.setattr(decoding, "LONGEST_STRETCH", 150)
    whole = asr.transcribe(recordings, decoder=decoder, **SHORT)
    monkeypatch.setattr(sources, "LONG_SECONDS", 10.0)
    assert [t.text for t in asr.transcribe(recordings, decoder=decoder, **SHORT)] == [t.text for t in whole]
