"""`python -m fastconformer.inference` and `python -m fastconformer.evaluation`."""

import json
import pickle
import sys

import numpy as np
import pytest
import soundfile
import torch

import ctc
import fastconformer
from common import config
from common.config import ConfigError
from common.data.manifest import ManifestError, Utterance, write_jsonl
from common.devices.distributed import World
from common.recognition.scoring import EvaluationError
from fastconformer import evaluation, inference, ngram
from fastconformer.evaluation import EvaluationConfig
from fastconformer.inference import InferenceConfig
from fastconformer.training import validation
from tests.fastconformer.checkpoints import archives


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, two recordings, a manifest of them, and something that is no audio."""
    folder = tmp_path_factory.mktemp("place")
    archives.write(folder / "model.nemo", archives.files())
    draw = np.random.default_rng(0)
    (folder / "speech").mkdir()
    for name, rate in (("a.flac", 16_000), ("b.wav", 8_000)):
        soundfile.write(folder / "speech" / name, draw.normal(0, 0.1, 2 * rate), rate)
    utterances = [
        Utterance(id=name, audio=folder / "speech" / name, seconds=2.0, text="The dog, too!")
        for name in ("a.flac", "b.wav")
    ]
    write_jsonl(folder / "manifest.jsonl", utterances)
    return folder


def test_what_evaluation_reads_reaches_workers_that_are_not_forked(place):
    cfg = config.parse_flags(EvaluationConfig, None, ["m", str(place / "manifest.jsonl")], description="")
    asr = fastconformer.load(place / "model.nemo", device="cpu")
    dataset, _ = evaluation.evaluated(asr, cfg, str.lower)
    assert np.array_equal(pickle.loads(pickle.dumps(dataset)).item(1, 0).samples, dataset.item(1, 0).samples)


def flags(kind, *arguments):
    return config.parse_flags(kind, None, [str(a) for a in arguments], description="")


def test_decoding_takes_options_and_pieces_are_counted(place, tmp_path, capsys):
    asr = fastconformer.load(place / "model.nemo", device="cpu")
    letters = sorted({x for label in asr.pieces.labels for x in label if x.isalpha()})
    (tmp_path / "text.txt").write_text("".join(letters[:4]) + " " + letters[0] + "\n\n" + letters[1] + "\n")
    arpa = tmp_path / "pieces.arpa"
    assert ngram.main(flags(ngram.NgramConfig, place / "model.nemo", tmp_path / "text.txt", "-o", arpa)) == 0
    assert capsys.readouterr().err.startswith(f"{arpa}: ")
    assert set(ctc.read_arpa(arpa).vocabulary) <= {"<unk>", "<s>", "</s>", *asr.pieces.labels}
    options = ["--decoding.beam", "3", "--decoding.n_best", "2", "--decoding.language_model", arpa]
    options += ["--decoding.hot_words", "".join(letters[:2]), "--format", "json", "--output", tmp_path / "out.jsonl"]
    assert inference.main(flags(InferenceConfig, place / "model.nemo", place / "speech" / "a.flac", *options)) == 0
    record = json.loads((tmp_path / "out.jsonl").read_text())
    assert len(record["alternatives"]) <= 1
    (tmp_path / "bad.txt").write_text("fine\n§\n".replace("fine", letters[0]))
    with pytest.raises(ConfigError, match=r"^ngram: .*bad\.txt:2: '§' in '§' is in none of the"):
        ngram.main(flags(ngram.NgramConfig, place / "model.nemo", tmp_path / "bad.txt", "-o", arpa))
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        ngram.main(flags(ngram.NgramConfig, place / "model.nemo", tmp_path / "none.txt", "-o", arpa))


def test_error_rates_are_those_of_the_transcripts(place, tmp_path, capsys):
    options = ["--hypotheses", tmp_path / "said.jsonl", "--workers", "0", "--device", "cpu"]
    assert evaluation.main(flags(EvaluationConfig, place / "model.nemo", place / "manifest.jsonl", *options)) == 0
    assert "utterances 2" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [(row["id"], row["reference"]) for row in rows] == [("a.flac", "the dog too"), ("b.wav", "the dog too")]
    options = ["--normalize_text", "False", "--workers", "0", "--hypotheses", tmp_path / "raw.jsonl"]
    evaluation.main(flags(EvaluationConfig, place / "model.nemo", place / "manifest.jsonl", *options))
    assert json.loads((tmp_path / "raw.jsonl").read_text().splitlines()[0])["reference"] == "The dog, too!"


def test_what_cannot_be_read_is_told_beside_the_error_rates(place, tmp_path, capsys):
    lines = (place / "manifest.jsonl").read_text() + "rubbish\n"
    (tmp_path / "more.jsonl").write_text(lines)
    options = [place / "model.nemo", tmp_path / "more.jsonl", "--workers", "0", "--root", place]
    assert evaluation.main(flags(EvaluationConfig, *options)) == 1
    assert "error: 1 utterances could not be read; the others follow" in capsys.readouterr().err
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(ManifestError, match=r"none.jsonl: no utterance in it"):
        evaluation.main(flags(EvaluationConfig, place / "model.nemo", tmp_path / "none.jsonl"))


def test_a_network_that_gives_nan_is_not_evaluated(place):
    asr = fastconformer.load(place / "model.nemo", device="cpu")
    with torch.no_grad():
        asr.model.encoder.blocks[1].norm.weight[0] = float("nan")
    cfg = flags(EvaluationConfig, place / "model.nemo", place / "manifest.jsonl")
    dataset, _ = evaluation.evaluated(asr, cfg, str)
    with pytest.raises(EvaluationError, match="the network gives NaN in fp32 for one of .*a.flac"):
        validation.evaluate(asr, dataset, World(rank=0, size=1, device=torch.device("cpu")))


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (InferenceConfig, ["m"], "nothing to transcribe; name audio files"),
        (InferenceConfig, ["m", "a", "--max_symbols", "0"], "max_symbols: expected 1 or more, found 0"),
        (InferenceConfig, ["m", "a", "--output", "x", "--output_dir", "y"], "expected one of them, found both"),
        (EvaluationConfig, ["m"], "nothing to evaluate on; name manifests"),
        (EvaluationConfig, ["m", "a", "--batch_size", "0"], "batch_size = 0, workers = 2"),
    ],
)
def test_impossible_settings_are_named(kind, arguments, message):
    with pytest.raises((ConfigError, ValueError, SystemExit)) as caught:
        flags(kind, *arguments)
    if not isinstance(caught.value, SystemExit):
        assert message in str(caught.value)


def test_the_manual_is_printed_without_loading_a_model(capsys, monkeypatch):
    for kind in (InferenceConfig, EvaluationConfig):
        monkeypatch.setattr(sys, "argv", ["transducer"])
        with pytest.raises(SystemExit) as caught:
            flags(kind, "--help")
        assert caught.value.code == 0
        assert "a .nemo archive, a folder of transformers" in " ".join(capsys.readouterr().out.split())
