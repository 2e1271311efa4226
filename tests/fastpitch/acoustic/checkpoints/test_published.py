import re
from pathlib import Path

import numpy as np
import pytest
import torch

from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.checkpoints.published import model_config, published_weights
from fastpitch.acoustic.checkpoints.reading import of_state
from fastpitch.acoustic.model import FastPitch, rounded_frames
from fastpitch.speaking.synthesizer import load
from tests.data import shared


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(shared("golden/tts/fastpitch_expected.npz")) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def model() -> FastPitch:
    path = shared("golden/tts/FastPitch_checkpoint_3.pt")
    state = checkpoint.load(path)
    weights = published_weights(state["state_dict"], path)
    model = FastPitch(model_config(state["config"], path), n_symbols=148, mel_bins=80).eval()
    model.load_state_dict(weights)
    return model


def assert_near(found: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_published_checkpoint_says_what_it_said_there(golden, model, in_batch):
    tokens_BT, lengths_B = torch.from_numpy(golden["tokens"]), torch.from_numpy(golden["token_lens"])
    together = model.infer(tokens_BT, lengths_B)
    for b, length in enumerate(lengths_B):
        one = model.infer(tokens_BT[b : b + 1, :length], lengths_B[b : b + 1])
        said, row = (together, b) if in_batch else (one, 0)
        frames = int(golden[f"mel_len_{b}"][0])
        assert said.frames_B[row] == frames
        assert_near(said.mel_BMT[row, :, :frames], golden[f"mel_{b}"])
        assert_near(said.pitch_BT[row, :length], golden[f"pitch_{b}"][0])
        assert_near(said.energy_BT[row, :length], golden[f"energy_{b}"])
        assert_near(said.durations_BT[row, :length], golden[f"dur_{b}"])
        expected = rounded_frames(torch.from_numpy(golden[f"dur_{b}"])[None])[0]
        assert torch.equal(said.symbol_frames_BT[row, :length], expected)


def test_a_published_checkpoint_keeps_a_given_pace_and_given_durations(golden, model):
    tokens_BT, lengths_B = torch.from_numpy(golden["tokens"])[:1], torch.from_numpy(golden["token_lens"])[:1]
    assert_near(model.infer(tokens_BT, lengths_B, pace=0.8).mel_BMT[0], golden["mel_0_pace08"])
    durations_BT = torch.from_numpy(golden["dur_tgt"])
    assert_near(model.infer(tokens_BT, lengths_B, durations_BT=durations_BT).mel_BMT[0], golden["mel_0_dur_tgt"])


def test_a_published_checkpoint_reads_texts_as_it_was_trained_to():
    path = shared("golden/tts/FastPitch_checkpoint_3.pt")
    text = of_state(checkpoint.load(path), path).config.text
    assert (text.symbol_set, text.unknown_words, text.tone_sandhi) == ("english_basic", "letters", False)


def test_weights_of_another_model_are_named():
    expected = "x.pt: not a FastPitch 1.1 checkpoint: it holds joint.linear, which that model does not have"
    with pytest.raises(CheckpointError, match=re.escape(expected)):
        published_weights({"module.joint.linear.weight": torch.zeros(1)}, Path("x.pt"))


def test_a_configuration_that_is_cut_short_says_what_is_missing():
    with pytest.raises(CheckpointError, match=r"x.pt: the configuration in it lacks 'symbols_embedding_dim'; expected"):
        model_config({"n_speakers": 1}, Path("x.pt"))


@pytest.mark.parametrize("attention", [True, False])
def test_a_published_model_of_other_mel_bins_has_an_aligner_of_80_channels_or_none(tmp_path, attention):
    state = checkpoint.load(shared("golden/tts/FastPitch_checkpoint_3.pt"))
    state["config"] |= {"n_mel_channels": 100}
    weights = state["state_dict"]
    query = ((160, 80, 3), (200, 100, 3)), ((80, 160, 1), (100, 200, 1)), ((80, 80, 1), (80, 100, 1))
    for layer, (old, new) in zip((0, 2, 4), query, strict=True):
        name = f"attention.query_proj.{layer}.conv.weight"
        assert weights[name].shape == old
        weights[name], weights[f"{name[:-6]}bias"] = torch.zeros(new), torch.zeros(new[0])
    weights["proj.weight"], weights["proj.bias"] = torch.zeros(100, weights["proj.weight"].shape[1]), torch.zeros(100)
    state["state_dict"] = {n: w for n, w in weights.items() if attention or not n.startswith("attention.")}
    checkpoint.save(tmp_path / "x.pt", state)
    tts = load(tmp_path / "x.pt", device="cpu")
    assert tts.sentences(tts.plan("Hi."), batch_size=1)[0].mel_MT.shape[0] == 100
    assert (tts.model.aligner is not None) == attention
