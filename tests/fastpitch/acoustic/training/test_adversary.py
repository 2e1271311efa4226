"""A discriminator of mel frames: what it sees, what it teaches, and that a run with it can be stopped."""

from dataclasses import replace

import pytest
import torch

from fastpitch.acoustic.config import AdversaryConfig
from fastpitch.acoustic.training.adversary import Adversary, MelDiscriminator, Windows
from fastpitch.acoustic.training.data import collate
from fastpitch.acoustic.training.objective import Counts, counts_of, fastpitch_objective
from fastpitch.acoustic.training.run import ADVERSARIAL, NAME, Run
from fastpitch.train import main
from tests.fastpitch.runs import toy_config
from tests.training import directory_of, state_of

SMALL = AdversaryConfig(weight=1.0, frames=16, channels=4)


@pytest.fixture
def cfg(corpus, tmp_path):
    return toy_config(corpus, tmp_path / "run", adversary=SMALL)


def adversary_of(cfg) -> Adversary:
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, directory)
        assert run.adversary is not None
        return run.adversary


def test_windows_are_the_same_of_both_and_within_the_clip(cfg):
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, directory)
        batch = collate([run.train_set.item(i, 0) for i in range(3)])
        loss = fastpitch_objective(
            run.model, run.log_mel, batch, cfg, pitch_mean=run.model.pitch_mean, pitch_std=run.model.pitch_std,
            counts=Counts(*counts_of(batch).unbind()), binarisation_weight=0.0,
        )  # fmt: skip
        for _ in range(5):
            windows = run.adversary.windows(loss)
            assert windows.recorded_WTM.shape == windows.predicted_WTM.shape == (3, 16, cfg.features.mel_bins)
            for b in range(3):
                mel_TM = loss.targets.mel_BMT[b].mT[: int(batch.frames_B[b])]
                recorded_TM, predicted_TM = windows.recorded_WTM[b], windows.predicted_WTM[b]
                (start,) = [t for t in range(len(mel_TM) - 15) if torch.equal(mel_TM[t : t + 16], recorded_TM)]
                assert torch.equal(loss.prediction.mel_BTM[b, start : start + 16], predicted_TM)


def test_what_is_told_apart_loses_and_gradients_reach_the_prediction_alone(cfg):
    cfg = replace(cfg, optim=replace(cfg.optim, kind="adamw"))
    adversary = adversary_of(cfg)
    random = torch.Generator().manual_seed(0)
    recorded_WTM = torch.randn(4, 16, 80, generator=random) - 5
    predicted_WTM = (recorded_WTM.mean(1, keepdim=True).expand(-1, 16, -1)).clone().requires_grad_(True)
    windows = Windows(recorded_WTM, predicted_WTM)
    with directory_of(replace(cfg, output_dir=cfg.output_dir / "other"), NAME) as directory:
        progress = Run(cfg, directory).state.progress
    losses = [float(adversary.update([windows], 2e-3, progress)) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    challenge = adversary.challenge(windows)
    assert float(challenge.adversarial.detach()) > 0.3
    adversary.weighted(challenge).backward()
    assert predicted_WTM.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in adversary.learner.network.parameters())


def test_frames_that_are_the_recorded_ones_match_in_all_features(cfg):
    mel_WTM = torch.randn(2, 16, 80) - 5
    assert float(adversary_of(cfg).challenge(Windows(mel_WTM, mel_WTM)).features) == 0


def test_the_published_window_is_judged_in_patches():
    found = MelDiscriminator(AdversaryConfig())(torch.zeros(2, 128, 80))
    assert found[-1].shape == (2, 1, 32, 5)


def test_every_part_of_the_loss_is_logged_and_its_weights_are_saved(cfg, tmp_path):
    main(replace(cfg, epochs=1, output_dir=tmp_path / "whole"))
    assert "adversary_weights" in state_of(tmp_path / "whole")
    log = (tmp_path / "whole" / "nvlog.json").read_text()
    assert all(f'"train_{name}"' in log for name in ADVERSARIAL)


def test_windows_that_no_layer_can_see_are_refused():
    with pytest.raises(ValueError, match="frames = 4, channels = 32: expected at least 8 and at least 1"):
        AdversaryConfig(frames=4)
