"""Rescoring of n-best lists with a tiny random GPT-2 over words."""

import json
import sys

import pytest
import torch

from common.config import ConfigError, parse_flags
from common.recognition import rescore
from common.recognition import tune as tuning
from common.recognition.rescoring import (
    Candidate,
    CausalModel,
    candidates_of,
    order_of,
    read_lists,
    tune,
    with_log_probs,
)

transformers = pytest.importorskip("transformers")
WORDS = ("<s>", "</s>", "<unk>", "red", "cat", "read", "cap")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A GPT-2 of two narrow layers, and a tokenizer of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    path = tmp_path_factory.mktemp("gpt2")
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    fast.save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return CausalModel(folder, batch_size=2)


def test_log_probabilities_are_those_of_each_text_alone_with_its_start_and_end(model):
    texts = ["red cat", "", "read the cap", "cat"]
    for text, found in zip(texts, model.log_probs(texts), strict=True):
        tokens = torch.tensor([[0, *model.tokenizer.encode(text, add_special_tokens=False), 1]])
        with torch.no_grad():
            log_probs = model.model(tokens).logits.log_softmax(-1)[0]
        expected = sum(float(log_probs[i, tokens[0, i + 1]]) for i in range(tokens.shape[1] - 1))
        assert found == pytest.approx(expected, abs=1e-4)


def test_candidates_are_ordered_by_score_weight_and_bonus():
    candidates = [Candidate("red cat", -1.0, -6.0), Candidate("read cat", -1.5, -4.0), Candidate("red", -3.0, -4.0)]
    assert order_of(candidates, 0.0, 0.0) == [0, 1, 2]
    assert order_of(candidates, 0.5, 0.0) == [1, 0, 2]
    assert order_of(candidates, 0.0, -3.0) == [2, 0, 1]


def test_tuning_finds_the_weights_with_the_fewest_errors():
    lists = [[Candidate("red cap", -1.0, -9.0), Candidate("red cat", -2.0, -2.0)], [Candidate("cat", -1.0, -1.0)], []]
    found = tune(lists, ["red cat", "cat", "cap"])
    assert (found.before, found.after) == (pytest.approx(2 / 4), pytest.approx(1 / 4))
    assert 0.14 < found.weight <= 0.2
    assert found.word_bonus == 0.0
    with pytest.raises(ValueError, match="expected a reference for each of 3 recordings, found 1"):
        tune(lists, ["red cat"])


def records(path):
    words = [{"text": "red", "start": 0.0, "end": 0.4, "confidence": 0.5}]
    alternatives = [{"text": "red cat", "score": -2.0, "words": words}, {"text": "cap", "score": -2.5, "words": []}]
    rows = [
        {"audio": "a", "text": "red cap", "score": -1.9, "confidence": 0.9, "words": [], "alternatives": alternatives},
        {"audio": "b", "text": "", "confidence": 0.0, "words": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def test_the_commands_rescore_and_tune(folder, model, tmp_path, capsys):
    rows = records(tmp_path / "nbest.jsonl")
    out = tmp_path / "out.jsonl"
    flags = [str(folder), str(tmp_path / "nbest.jsonl"), "-o", str(out), "--weight", "0.5", "--word_bonus", "1.0"]
    assert rescore.main(parse_flags(rescore.RescoreConfig, None, flags, description="")) == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    (candidates, _) = with_log_probs([candidates_of(row) for row in rows], model)
    texts = [candidates[i].text for i in order_of(candidates, 0.5, 1.0)]
    assert [found[0]["text"], *(one["text"] for one in found[0]["alternatives"])] == texts
    scores = [found[0]["score"], *(one["score"] for one in found[0]["alternatives"])]
    assert scores == sorted(scores, reverse=True)
    assert found[0]["confidence"] == (0.5 if texts[0] == "red cat" else 0.0)
    assert found[1]["text"] == ""
    soundless = tmp_path / "dev.jsonl"
    (tmp_path / "a.wav").write_bytes(b"")
    lines = [{"audio_filepath": "a.wav", "duration": 1.0, "text": text} for text in ("Red cat", "cap")]
    soundless.write_text("".join(json.dumps(line) + "\n" for line in lines))
    flags = [str(folder), str(tmp_path / "nbest.jsonl"), str(soundless)]
    assert tuning.main(parse_flags(tuning.TuneConfig, None, flags, description="")) == 0
    assert "word error rate" in capsys.readouterr().out
    soundless.write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(ConfigError, match=r"dev\.jsonl: expected the 2 recordings of .*nbest\.jsonl, found 1"):
        tuning.main(parse_flags(tuning.TuneConfig, None, flags, description=""))


def test_what_cannot_be_used_is_told(tmp_path, monkeypatch):
    for content in (b"{}\n", b'{"text": "\xff"}', b"[" * 100_000):
        (tmp_path / "bad.jsonl").write_bytes(content)
        with pytest.raises(ConfigError, match=r"bad\.jsonl:1: expected a transcript as inference writes it"):
            list(read_lists(tmp_path / "bad.jsonl"))
    with pytest.raises(ConfigError, match="no causal language model that transformers can load"):
        CausalModel(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="rescoring needs the package transformers: pip install transformers"):
        CausalModel(tmp_path)
