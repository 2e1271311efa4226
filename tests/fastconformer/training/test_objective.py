"""Losses and gradients of whole models are NeMo's."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from common.augmentation import SpecAugmentConfig
from common.data.loading import AudioBatch
from common.features import Features
from fastconformer.checkpoints.reading import read_model
from fastconformer.config import Config, LossConfig
from fastconformer.training.objective import Loss, masked, objective
from fastconformer.transducer.loss.fused_loss import joint_loss
from tests.fastconformer import golden
from tests.fastconformer.checkpoints import archives

OFF = SpecAugmentConfig(freq_masks=0, time_masks=0)


def batch(name: str) -> AudioBatch:
    """The three utterances with their transcripts in the pieces of a model."""
    inputs, targets = golden.arrays("inputs"), golden.facts(name)["targets"]
    samples = [inputs[f"audio_{i}"].astype(np.float32) / 32768 for i in range(3)]
    audio_BN = torch.zeros(3, max(map(len, samples)))
    targets_BU = torch.zeros(3, max(map(len, targets)), dtype=torch.int64)
    for b in range(3):
        audio_BN[b, : len(samples[b])] = torch.from_numpy(samples[b])
        targets_BU[b, : len(targets[b])] = torch.tensor(targets[b])
    return AudioBatch(
        indices=[0, 1, 2],
        ids=["a", "b", "c"],
        utterances=[1, 1, 1],
        audio_BN=audio_BN,
        samples_B=torch.tensor(list(map(len, samples))),
        targets_BU=targets_BU,
        target_lengths_B=torch.tensor(list(map(len, targets))),
        failures=[],
    )


class NemoFeatures(nn.Module):
    """NeMo's features of the three utterances: ours differ by the rounding of its transform."""

    window = torch.zeros(1)

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> Features:
        inputs = golden.arrays("inputs")
        frames_B = torch.from_numpy(inputs["feature_lens"])
        features_BFT = torch.zeros(3, 80, int(frames_B.max()))
        for b, frames in enumerate(frames_B.tolist()):
            features_BFT[b, :, :frames] = torch.from_numpy(inputs[f"features_{b}"])
        return Features(features_BFT, frames_B)


def run(name: str, *, weights: tuple[float, ...] = (1.0, 1.0, 1.0), epoch: int = 0, **loss: float):
    model, imported = read_model(golden.folder() / f"{name}.nemo")
    cfg = Config(model=imported.model, features=imported.features, spec_augment=OFF)
    cfg = replace(cfg, loss=replace(LossConfig(omega=0.0), **loss))
    found: Loss = objective(model, model, NemoFeatures(), batch(name), torch.tensor(weights), cfg, epoch=epoch, seed=0)
    return model, found


@pytest.mark.parametrize("name", ["ctc", *golden.TRANSDUCERS])
def test_losses_and_gradients_are_those_of_nemo(name):
    model, loss = run(name)
    facts, relative = golden.facts(name), golden.tolerance("real_loss_relative")
    assert float(loss.value) == pytest.approx(facts["total_loss"], rel=relative)
    head = {"ctc": None, "rnnt": "rnnt"}.get(name, "tdt_sigma0.02")
    if head is not None:
        assert float(loss.transducer) == pytest.approx(np.mean(facts["losses"][head]), rel=relative)
    if name.endswith("ctc"):
        assert float(loss.ctc) == pytest.approx(np.mean(facts["losses"]["ctc"]), rel=relative)
    loss.value.backward()
    gradients = archives.nemo_names({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    if name == "ctc":  # the head is alone there, and has another name
        gradients = {key.replace("ctc_decoder.", "decoder."): gradient for key, gradient in gradients.items()}
    norms = facts["grad_norms"]
    assert gradients.keys() == norms.keys()
    for key, gradient in gradients.items():
        assert float(gradient.norm()) == pytest.approx(norms[key], rel=golden.tolerance("grad_norm_relative"), abs=1e-3)
    for key, expected in golden.arrays(name).items():
        if key.startswith("grad:"):
            found = gradients[key.removeprefix("grad:")].numpy().reshape(expected.shape)
            assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)


def test_omega_chooses_the_loss_of_the_pieces_alone():
    _, loss = run("tdt", omega=1.0)
    expected = np.mean(golden.facts("tdt")["losses"]["rnnt_on_token_part"])
    assert float(loss.transducer) == pytest.approx(expected, rel=golden.tolerance("real_loss_relative"))


def test_utterances_count_by_their_weight_and_heads_by_their_share():
    losses = golden.facts("tdt_ctc")["losses"]
    _, loss = run("tdt_ctc", weights=(1.0, 0.0, 1.0), ctc_weight=0.5)
    of_transducer, of_ctc = (sum(losses[head][i] for i in (0, 2)) / 3 for head in ("tdt_sigma0.02", "ctc"))
    assert float(loss.value) == pytest.approx((of_transducer + of_ctc) / 2, rel=1e-5)
    _, first = run("tdt_ctc", ctc_epochs=1)
    assert float(first.value) == float(first.ctc)
    _, second = run("tdt_ctc", ctc_epochs=1, epoch=1)
    assert float(second.value) == pytest.approx(0.7 * float(second.transducer) + 0.3 * float(second.ctc))


def test_while_ctc_counts_alone_the_transducer_is_not_computed(monkeypatch):
    def loss_of_joint(*args, **options):
        computed.append(args)
        return joint_loss(*args, **options)

    computed: list[tuple] = []
    monkeypatch.setattr("fastconformer.training.objective.joint_loss", loss_of_joint)
    model, alone = run("tdt_ctc", ctc_epochs=1)
    assert not computed
    assert float(alone.transducer) == 0
    _, both = run("tdt_ctc", ctc_epochs=1, epoch=1)
    assert len(computed) == 1
    assert float(alone.ctc) == float(both.ctc)
    alone.value.backward()
    for head in (model.prediction, model.joint):  # the optimiser counts and decays these too
        assert all(p.grad is not None and not p.grad.any() for p in head.parameters())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.encoder.parameters())


def test_a_masked_prediction_network_says_nothing_of_some_utterances():
    said_BUH = torch.ones(200, 2, 3)
    assert masked(said_BUH, 0.0, seed=1) is said_BUH
    some_B = masked(said_BUH, 0.25, seed=1).amin((1, 2))
    assert torch.equal(some_B, masked(said_BUH, 0.25, seed=1).amax((1, 2)))
    assert 30 < int((some_B == 0).sum()) < 70
    model, _ = run("rnnt", mask_prediction=1.0)
    silent, _ = run("rnnt", mask_prediction=1.0)
    with torch.no_grad():
        silent.prediction.rnn.weight_hh_l0.zero_()
    losses = []
    for network in (model, silent):
        cfg = Config(model=network.cfg, spec_augment=OFF, loss=LossConfig(mask_prediction=1.0))
        found = objective(network, network, NemoFeatures(), batch("rnnt"), torch.ones(3), cfg, epoch=0, seed=0)
        losses.append(float(found.transducer))
    assert losses[0] == losses[1]
