"""`python -m wav2vec2.export`: what others read, and what comes back."""

import json

import pytest
import torch

from common.config import ConfigError
from tests.jasper.tiny import run
from tests.wav2vec2.small import LABELS, audio_batch, ctc_model, pretraining_model
from wav2vec2.checkpoints import huggingface, reading
from wav2vec2.checkpoints.fairseq import export
from wav2vec2.checkpoints.loading import load_model


def saved(folder, model):
    huggingface.export(folder, model.state_dict(), model.wav2vec2.config)
    return folder


@pytest.mark.parametrize("kind", ["base", "large"])
def test_a_model_goes_to_fairseq_s_format_and_comes_back(kind, tmp_path, capsys):
    folder = saved(tmp_path / "hf", model := ctc_model(kind))
    told = run(capsys, "wav2vec2.export", folder, tmp_path / "out" / "model.pt", "--to", "fairseq")
    assert (told.status, told.out) == (0, [f"{tmp_path / 'out' / 'model.pt'}: ctc model, 10 labels"])
    assert [line[:31] for line in told.err] == (["note: the audio's variance gets"] if kind == "large" else [])
    back = reading.read(tmp_path / "out" / "model.pt")
    assert back.config.labels == LABELS
    assert back.assumed == ()
    audio_BN, _ = audio_batch((6000,))
    found = load_model(tmp_path / "out" / "model.pt").eval()
    torch.testing.assert_close(found(audio_BN).logits_BSV, model(audio_BN).logits_BSV, atol=1e-4, rtol=1e-4)


def test_labels_in_another_order_are_put_into_fairseq_s_with_the_blank_first(tmp_path):
    labels = ("[PAD]", " ", *"abc", "<unk>")
    model = ctc_model(labels=labels, blank=0)
    export(tmp_path / "model.pt", model.state_dict(), model.wav2vec2.config)
    assert (tmp_path / "dict.ltr.txt").read_text() == "| 4\na 3\nb 2\nc 1\n"
    back = load_model(tmp_path / "model.pt").eval()
    audio_BN, _ = audio_batch((6000,))
    expected = model(audio_BN).logits_BSV[..., [0, 5, 1, 2, 3, 4]]
    found = back(audio_BN).logits_BSV
    torch.testing.assert_close(found[..., [0, 3, 4, 5, 6, 7]], expected)
    assert (found[..., 1:3] < -9000).all()


def test_a_pretrained_model_goes_to_both_formats(tmp_path, capsys):
    model = pretraining_model("base", labels=())
    export(tmp_path / "first.pt", model.state_dict(), model.wav2vec2.config)
    assert run(capsys, "wav2vec2.export", tmp_path / "first.pt", tmp_path / "hf").status == 0
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["architectures"] == ["Wav2Vec2ForPreTraining"]
    assert run(capsys, "wav2vec2.export", tmp_path / "hf", tmp_path / "second.pt", "--to", "fairseq").status == 0
    weights = load_model(tmp_path / "second.pt").state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("base hourglass", {}, "has no hourglass: this model cannot be exported to it"),
        ("base", {"relative_buckets": 32}, "has no gated relative positions"),
        ("base", {"pos_layers": 2}, "has no stacked positions"),
        ("large", {"adapter_dim": 4}, "has no adapters"),
        ("base", {"labels": ("<s>", "a", "a")}, "a dictionary of Fairseq cannot list them"),
    ],
)
def test_what_fairseq_has_no_model_for_is_refused(kind, changes, message, tmp_path):
    model = ctc_model(kind, **changes)
    with pytest.raises(ConfigError, match=message):
        export(tmp_path / "model.pt", model.state_dict(), model.wav2vec2.config)


def test_fairseq_s_format_is_a_file(tmp_path, capsys):
    folder = saved(tmp_path / "hf", ctc_model())
    told = run(capsys, "wav2vec2.export", folder, tmp_path / "out", "--to", "fairseq")
    assert told.err[-1] == f"error: {tmp_path / 'out'}: expected the name of a .pt file for Fairseq's format"


def test_what_is_read_is_not_written_to(tmp_path, capsys):
    folder = saved(tmp_path / "hf", ctc_model())
    run(capsys, "wav2vec2.export", folder, tmp_path / "model.pt", "--to", "fairseq")
    for source, output in (
        (folder, folder),
        (folder / "model.safetensors", tmp_path / "hf" / ".." / "hf"),
        (tmp_path / "model.pt", tmp_path / "." / "model.pt"),
    ):
        told = run(capsys, "wav2vec2.export", source, output, "--to", "huggingface" if output.is_dir() else "fairseq")
        assert (told.status, told.err) == (
            2,
            [f"error: {output}: cannot be written to: it is read; name another output"],
        )
