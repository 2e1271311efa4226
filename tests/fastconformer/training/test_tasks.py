"""Scores of an attention decoder by task: error rates, BLEU and chrF, texts in a wrong language, loops."""

import json
import sys
from pathlib import Path

import pytest
import sacrebleu
import torch

from common import config
from common.config import ConfigError
from common.data.manifest import Utterance, read_manifest
from common.devices.distributed import World
from common.recognition.scoring import ScoredUtterance, scored
from common.text.pieces import Pieces
from common.training.state import TrainingError
from fastconformer import evaluation
from fastconformer.attention.pieces import of_parts
from fastconformer.attention.prompt import PromptFormat, Wanted
from fastconformer.evaluation import EvaluationConfig
from fastconformer.train import main
from fastconformer.training import tasks
from fastconformer.training.run import NAME
from tests.fastconformer.attention import references as golden
from tests.fastconformer.runs import translation_config, write_translations

SAID = [  # source, target, reference, hypothesis, what was noticed
    ("en", "en", "the dog found a hat", "The dog found the hat!", ()),
    ("en", "de", "Der Hund hat einen Hut gefunden.", "Der Hund hat einen Hut gefunden.", ()),
    ("en", "de", "Die Katze schläft.", "the dog found", ("loop",)),
    ("de", "de", "die 2 Katzen schlafen", "die zwei katzen", ("limit",)),
]
SPECIAL = ("<pad>", "<|endoftext|>", "<|startoftranscript|>", "<|de|>", "<|en|>")
PROMPTS = PromptFormat("canary2", of_parts([("", Pieces(SPECIAL))]), "en")


@pytest.fixture
def result(tmp_path):
    manifest = tmp_path / "a.jsonl"
    (tmp_path / "a.wav").write_bytes(b"")
    rows = [
        {"audio_filepath": "a.wav", "id": str(i), "duration": 1, "text": text, "source_lang": own, "target_lang": to}
        for i, (own, to, text, _, _) in enumerate(SAID)
    ]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    utterances = read_manifest(manifest).utterances
    own = [ScoredUtterance(i, said, flags=flags) for i, (*_, said, flags) in enumerate(SAID)]
    found = scored(utterances, own, World(rank=0, size=1, device=torch.device("cpu")))
    return found, [tasks.task_of(utterance, PROMPTS.languages) for utterance in utterances]


def test_where_only_the_language_to_write_is_named_the_default_is_spoken():
    utterance = Utterance(id="a", audio=Path("a.wav"), seconds=1.0, text="x", wanted=(("target_lang", "en-GB"),))
    assert tasks.task_of(utterance, PROMPTS.languages) == ("en", "en")
    assert tasks.task_of(utterance, PROMPTS.languages, Wanted(source_language="de")) == ("de", "en")


def test_each_task_has_the_scores_of_its_kind(result, capsys):
    found, of_each = result
    cfg = config.parse_flags(EvaluationConfig, None, ["m", "a"], description="")
    evaluation._print_tasks(found, of_each, cfg)
    translations = [SAID[i][3] for i in (1, 2)], [[SAID[i][2] for i in (1, 2)]]
    bleu, chrf = (metric(*translations).score for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf))
    assert capsys.readouterr().out.splitlines() == [
        "de: WER 50.00% (2 of 4) in 1 utterances",
        f"en -> de: BLEU {bleu:.1f}, chrF {chrf:.1f} of 2 translations",
        "en: WER 20.00% (1 of 5) in 1 utterances",
        "in a wrong language: 1 of 4",
        "repeated themselves, or did not end: 2 of 4",
    ]


def test_a_wrong_language_is_not_looked_for_where_there_is_one(result):
    found, _ = result
    assert tasks.in_wrong_language(found, [tasks.Task("en", "de")] * 4) is None


def test_what_scores_translations_is_named_where_it_is_missing(result, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("sacrebleu")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ConfigError, match="need the package sacrebleu: pip install sacrebleu"):
        tasks.translated(result[0])


def test_the_command_scores_a_manifest_of_several_tasks(tmp_path, capsys):
    corpus = write_translations(tmp_path / "corpus")
    main(translation_config(corpus, tmp_path / "run", steps=1))
    model = tmp_path / "run" / f"{NAME}_step00000001.pt"
    capsys.readouterr()
    said = tmp_path / "said.jsonl"
    options = ["--workers", "0", "--device", "cpu", "--hypotheses", said, "--decoder_precision", "int8"]
    flags = [str(option) for option in (model, corpus / "test.jsonl", *options)]
    assert evaluation.main(config.parse_flags(EvaluationConfig, None, flags, description="")) == 0
    told = capsys.readouterr().out
    assert all(
        line in told for line in ("de: WER", "en: WER", "en -> de: BLEU", "in a wrong language: ", "utterances 3")
    )
    assert len(said.read_text().splitlines()) == 3


def test_utterances_that_cannot_be_asked_for_are_named_and_the_others_scored(tmp_path, capsys):
    rows = [{"audio_filepath": str(golden.flacs()[0]), "duration": 3.0, "text": "you", "source_lang": "en"}]
    wrong = [{"taskname": "sing"}, {"source_lang": "xx"}, {"decodercontext": "you mean " * 600}]
    rows += [{**rows[0], "id": f"wrong{i}", **more} for i, more in enumerate(wrong)]
    manifest = tmp_path / "said.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = [str(golden.path("canary2_agg")), str(manifest), "--workers", "0", "--device", "cpu"]
    assert evaluation.main(config.parse_flags(EvaluationConfig, None, flags, description="")) == 1
    told = capsys.readouterr()
    assert "utterances 1" in told.out
    for i, message in enumerate(("taskname = 'sing': expected one of", "source_language = 'xx'", "give a shorter")):
        assert f"utterance wrong{i}: " in told.err
        assert message in told.err
    with pytest.raises(ConfigError, match="source_language = 'zz': expected one of de, en"):
        evaluation.main(config.parse_flags(EvaluationConfig, None, [*flags, "--source-language", "zz"], description=""))


def test_a_validation_set_that_cannot_be_asked_for_is_refused_before_the_first_step(tmp_path):
    corpus = write_translations(tmp_path / "corpus")
    rows = [json.loads(line) for line in (corpus / "dev.jsonl").read_text().splitlines()]
    rows[0]["source_lang"] = "xx"
    (corpus / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cfg = translation_config(corpus, tmp_path / "run", steps=1)
    with pytest.raises(TrainingError, match="data.validation: utterance .*source_language = 'xx': expected one of"):
        main(cfg)
