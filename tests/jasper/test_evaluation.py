import json
from pathlib import Path

import jiwer
import numpy as np
import pytest
import soundfile
import torch

import jasper
from common.data.manifest import Utterance, write_jsonl
from common.devices import distributed
from common.recognition.scoring import Evaluation
from jasper import data, evaluation
from tests.jasper.tiny import run, save_tiny

RATE = 16_000
TEXTS = {"a": "Mr. Smith", "b": "one TWO", "c": "three", "d": "four five six", "e": "seven"}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five utterances of 0.5 to 2.5 seconds."""
    folder = tmp_path_factory.mktemp("speech")
    utterances = []
    for i, (id, text) in enumerate(TEXTS.items(), start=1):
        path = folder / f"{id}.wav"
        soundfile.write(path, np.random.default_rng(i).normal(0, 0.1, i * RATE // 2), RATE)
        utterances.append(Utterance(id=id, audio=path, seconds=i / 2, text=text))
    write_jsonl(folder / "m.jsonl", utterances)
    return folder / "m.jsonl"


def test_the_error_rates_are_those_of_the_transcripts(model, manifest, tmp_path, capsys):
    hypotheses = tmp_path / "new" / "hypotheses.jsonl"
    said = run(capsys, "jasper.evaluation", model, manifest, "--workers", 0, "--hypotheses", hypotheses)
    rows = [json.loads(line) for line in hypotheses.read_text().splitlines()]
    references = [row["reference"] for row in rows]
    texts = [row["hypothesis"] for row in rows]
    transcripts = jasper.load(model, device="cpu").transcribe([manifest.parent / f"{id}.wav" for id in TEXTS])
    assert said.status == 0
    assert [row["id"] for row in rows] == list(TEXTS)
    assert references == ["mister smith", "one two", "three", "four five six", "seven"]
    assert [" ".join(text.split()) for text in texts] == [t.text for t in transcripts]
    assert said.out[0] == "utterances 5"
    assert said.out[2].startswith(f"WER        {jiwer.wer(references, texts):.2%} (")
    stripped = [text.strip() for text in texts]
    assert said.out[3].startswith(f"CER        {jiwer.cer(references, stripped):.2%} (")


def test_batches_do_not_change_what_is_found(model, manifest, capsys):
    one, two, five = (
        run(capsys, "jasper.evaluation", model, manifest, "--workers", 0, "--batch_size", size) for size in (1, 2, 5)
    )
    assert one.out == two.out == five.out


def test_processes_share_the_utterances_and_find_the_same(model, manifest, monkeypatch):
    """Two processes, one after the other: what each gathers from all is recorded, then played back."""
    asr = jasper.load(model, device="cpu")
    utterances, _ = data.read_utterances([str(manifest)], asr.config.data, data.spelling_of(asr.config), training=False)
    dataset = data.speech_dataset(utterances, asr.config, training=False)

    def found(world: distributed.World) -> Evaluation:
        return evaluation.evaluate(asr.model, asr.log_mel, dataset, world, vocabulary=asr.vocabulary, batch_size=2)

    whole = found(distributed.World(rank=0, size=1, device=asr.device))
    parts = []
    monkeypatch.setattr(distributed.World, "gather", lambda self, mine: [parts.append(mine) or mine])
    for rank in range(2):
        found(distributed.World(rank=rank, size=2, device=asr.device))
    assert sorted(len(part) for part in parts) == [2, 3]
    monkeypatch.setattr(distributed.World, "gather", lambda self, mine: parts)
    together = found(distributed.World(rank=0, size=2, device=asr.device))
    assert together._replace(losses=()) == whole._replace(losses=())
    assert together.loss == pytest.approx(whole.loss, rel=1e-6)


def test_weights_and_length_can_be_chosen(model, manifest, capsys):
    averaged, raw = (
        run(capsys, "jasper.evaluation", model, manifest, "--workers", 0, "--ema", ema) for ema in ("true", "false")
    )
    assert averaged.out[1] != raw.out[1]
    short = run(capsys, "jasper.evaluation", model, manifest, "--workers", 0, "--max_seconds", 1.2)
    assert short.out[0] == "utterances 2"


def test_an_utterance_whose_text_does_not_fit_counts_no_loss(model, tmp_path, capsys):
    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).normal(0, 0.1, RATE // 10), RATE)
    write_jsonl(tmp_path / "m.jsonl", [Utterance(id="a", audio=tmp_path / "a.wav", seconds=0.1, text="far too long")])
    said = run(capsys, "jasper.evaluation", model, tmp_path / "m.jsonl", "--workers", 0)
    assert said.status == 0
    assert said.out[1] == "loss       0.0000"


def test_a_data_set_without_one_readable_recording_has_no_rates(model, tmp_path, capsys):
    (tmp_path / "a.wav").write_text("no audio")
    write_jsonl(tmp_path / "m.jsonl", [Utterance(id="a", audio=tmp_path / "a.wav", seconds=0.1, text="hello")])
    said = run(capsys, "jasper.evaluation", model, tmp_path / "m.jsonl", "--workers", 0)
    assert said.status == 1
    assert said.out[0] == "utterances 0"
    assert said.err[0].startswith(f"utterance a: {tmp_path}/a.wav: cannot be read as audio")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to evaluate on; name manifests or corpus folders after the model"),
        (["m.jsonl", "--batch_size", "0"], "batch_size = 0, workers = 2: expected above 0, at least 0"),
        (["gone.jsonl"], "gone.jsonl: no such file or folder; expected a manifest"),
    ],
)
def test_a_mistake_is_one_line(model, capsys, arguments, message):
    said = run(capsys, "jasper.evaluation", model, *arguments)
    assert said.status == 2
    assert len(said.err) == 1
    assert said.err[0].startswith("error: ")
    assert message in said.err[0]


def test_weights_that_are_no_numbers_are_named_before_anything_is_evaluated(manifest, tmp_path, capsys):
    broken = save_tiny(tmp_path / "broken.pt")
    state = torch.load(broken, weights_only=True)
    state["weights"]["decoder.bias"].fill_(float("nan"))
    torch.save(state, broken)
    said = run(capsys, "jasper.evaluation", broken, manifest, "--workers", 0, "--ema", "false", "--batch_size", 2)
    assert said.status == 2
    assert f"{broken}: decoder.bias is damaged: " in said.err[-1]
