"""A refiner of the lowest mel bins: what it sees and changes, what it learns, and that a run with it can be stopped."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.config import ConfigError, to_dict
from common.features import TTS
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.checkpoints.own import FORMAT
from fastpitch.acoustic.config import AdversaryConfig, Config, ModelConfig, RefinerConfig
from fastpitch.acoustic.model import FastPitch, SpeechTargets, refined
from fastpitch.acoustic.refiner import SPREAD, Refiner, blurred
from fastpitch.acoustic.training.run import NAME, build_model
from fastpitch.train import main
from tests.fastpitch.runs import run_of, toy_config, write_corpus
from tests.fastpitch.tiny import SMALL, assert_leaves_as_it_speaks, tiny_model
from tests.training import logged

REFINER = RefinerConfig(layers=2, channels=8, filter_channels=16, bins=12)
REFINED = replace(SMALL, harmonics=True, refiner=REFINER)


def refined_model() -> FastPitch:
    model = tiny_model(REFINED)
    model.harmonics.draw(TTS)
    model.harmonics.depth.weight.normal_(0, 0.02)
    model.refiner.end.weight.normal_(0, 0.3)
    return model


def test_an_utterance_sounds_the_same_alone_and_in_a_batch():
    model = refined_model()
    tokens_BT = torch.randint(1, 140, (2, 9), generator=torch.Generator().manual_seed(1))
    together = model.infer(tokens_BT, torch.tensor([9, 5]))
    alone = model.infer(tokens_BT[1:, :5], torch.tensor([5]))
    frames = int(alone.frames_B)
    torch.testing.assert_close(alone.mel_BMT[0], together.mel_BMT[1, :, :frames], rtol=0, atol=1e-5)
    assert not together.mel_BMT[1, :, frames:].any()


def test_only_the_lowest_bins_are_changed_and_a_new_refiner_says_their_outline():
    model = refined_model()
    tokens_BT, lengths_B = torch.tensor([[5, 6, 7, 8]]), torch.tensor([4])
    found_BMT = model.infer(tokens_BT, lengths_B).mel_BMT
    model.refiner.end.weight.zero_()
    outline_BMT = model.infer(tokens_BT, lengths_B).mel_BMT
    model.refiner = None
    plain_BMT = model.infer(tokens_BT, lengths_B).mel_BMT
    assert torch.equal(found_BMT[:, 12:], plain_BMT[:, 12:])
    assert (found_BMT[:, :12] - outline_BMT[:, :12]).abs().mean() > 0.05
    blurred_BTM = blurred(plain_BMT.mT, torch.ones(1, plain_BMT.shape[2], 1), 7, 9)
    torch.testing.assert_close(outline_BMT.mT[..., :12], blurred_BTM[..., :12])


def test_a_share_lies_between_what_the_decoder_and_the_refiner_say():
    found = {}
    for share in (1.0, 0.25):
        torch.manual_seed(0)
        model = refined_model()
        model.config = replace(model.config, refiner=replace(REFINER, share=share))
        found[share] = model.infer(torch.tensor([[5, 6, 7, 8]]), torch.tensor([4])).mel_BMT
    model.refiner = None
    plain_BMT = model.infer(torch.tensor([[5, 6, 7, 8]]), torch.tensor([4])).mel_BMT
    torch.testing.assert_close(found[0.25], plain_BMT + 0.25 * (found[1.0] - plain_BMT))


def test_the_frames_that_a_vocoder_is_fine_tuned_on_have_the_share_that_is_spoken():
    model, tokens_BL, frames = refined_model(), torch.tensor([[5, 6]]), torch.zeros(1, 20)
    targets = SpeechTargets(torch.zeros(1, 80, 20), torch.tensor([20]), frames, frames, torch.tensor([[10, 10]]))
    found = {}
    for share in (1.0, 0.25):
        model.config = replace(model.config, refiner=replace(REFINER, share=share))
        found[share] = model(tokens_BL, torch.tensor([2]), targets, torch.tensor([0]))
    plain_BTK = found[1.0].mel_BTM[..., :12]
    whole_BTK, part_BTK = found[1.0].refined_BTK, found[0.25].refined_BTK
    assert (whole_BTK - plain_BTK).abs().mean() > 0.05
    torch.testing.assert_close(part_BTK, plain_BTK + 0.25 * (whole_BTK - plain_BTK))


def test_means_are_of_values_that_there_are():
    x_BTM = torch.tensor([[[1.0, 2], [3, 4], [99, 99]]])
    keep_BT1 = torch.tensor([[[1.0], [1], [0]]])
    torch.testing.assert_close(blurred(x_BTM, keep_BT1, 3, 1)[0, :2], torch.tensor([[2.0, 3], [2, 3]]))
    torch.testing.assert_close(blurred(x_BTM, keep_BT1, 3, 3)[0, :2], torch.full((2, 2), 2.5))


def test_it_learns_from_recorded_frames_what_outline_and_pitch_tell_and_changes_nothing_else():
    torch.manual_seed(0)
    model = refined_model().requires_grad_(True)
    model.harmonics.depth.weight.data.zero_()
    frames_B, lengths_B = torch.tensor([40]), torch.tensor([4])
    pitch_BT = torch.linspace(-1, 1, 40)[None]
    comb_BTM = model.harmonics.comb(model.hertz(pitch_BT, 0))
    recorded_BMT = (torch.linspace(-4, -7, TTS.mel_bins) + comb_BTM).mT
    targets = SpeechTargets(recorded_BMT, frames_B, pitch_BT, torch.zeros(1, 40), torch.tensor([[10, 10, 10, 10]]))
    optimizer = torch.optim.AdamW(model.refiner.parameters(), lr=1e-2)
    losses = []
    for training in [False] + 40 * [True] + [False]:
        model.refiner.train(training)
        said = model(torch.tensor([[5, 6, 7, 8]]), lengths_B, targets, torch.tensor([0]))
        loss = said.refiner_losses_BT.mean()
        losses.append(float(loss.detach()))
        if training:
            model.zero_grad()
            loss.backward()
            optimizer.step()
    assert losses[-1] < 0.4 * losses[0]
    expected = (said.refined_BTK - recorded_BMT.mT[..., :12]).square().mean() / SPREAD**2
    assert losses[-1] == pytest.approx(float(expected.detach()), rel=1e-3)
    others = [parameter.grad for name, parameter in model.named_parameters() if not name.startswith("refiner.")]
    assert not any(grad is not None and grad.any() for grad in others)
    spoken_BTM = refined(said.mel_BTM, said.refined_BTK)
    assert torch.equal(spoken_BTM[..., 12:], said.mel_BTM[..., 12:])


@pytest.mark.parametrize("part", ["whole", "decoder"])
def test_what_is_exported_is_refined_too(part):
    assert_leaves_as_it_speaks(refined_model(), part)


def test_a_run_of_the_refiner_leaves_all_else_as_it_was_and_can_be_stopped(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus"), tmp_path / "first", epochs=1)
    cfg = replace(cfg, model=replace(cfg.model, harmonics=True))
    main(cfg)
    first = checkpoint.saved_steps(tmp_path / "first", NAME)[-1][1]
    model = replace(cfg.model, refiner=REFINER)
    cfg = replace(cfg, epochs=2, model=model, trained="refiner", checkpoint=first, optim=replace(cfg.optim, lr=1e-2))
    main(replace(cfg, output_dir=tmp_path / "whole"))
    stopped = replace(cfg, output_dir=tmp_path / "stopped")
    main(replace(stopped, steps=2))
    main(stopped)
    before, one, other = (
        checkpoint.load(checkpoint.saved_steps(tmp_path / name, NAME)[-1][1]) for name in ("first", "whole", "stopped")
    )
    for name, weight in one["weights"].items():
        assert torch.equal(weight, other["weights"][name]), name
        if not name.startswith("refiner."):
            assert torch.equal(weight, (before["ema"] or before["weights"])[name]), name
    assert one["weights"]["refiner.end.weight"].any()
    best = checkpoint.load(tmp_path / "whole" / f"{NAME}_best.pt")["progress"]["best"]
    losses = logged(tmp_path / "whole", "dev_refiner_loss") + logged(tmp_path / "whole", "dev_ema_refiner_loss")
    assert best == min(losses)


def test_a_run_of_the_refiner_needs_all_else_from_a_checkpoint_and_keeps_its_pitch(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus"), tmp_path / "run")
    cfg = replace(cfg, data=replace(cfg.data, pitch_mean=(), pitch_std=()))
    cfg = replace(cfg, trained="refiner", model=replace(cfg.model, harmonics=True, refiner=REFINER))
    expected = r'trained = "refiner": expected checkpoint, the model whose refiner learns'
    with pytest.raises(ConfigError, match=expected), run_of(cfg):
        pass
    learned = build_model(replace(cfg, trained="all", model=replace(cfg.model, refiner=RefinerConfig())))
    learned.pitch_mean.fill_(123)
    state = {"format": FORMAT, "config": to_dict(cfg), "symbols": [], "weights": learned.state_dict(), "ema": None}
    begun = replace(cfg, checkpoint=tmp_path / "begun.pt")
    checkpoint.save(begun.checkpoint, state)
    with run_of(begun) as run:
        assert float(run.model.pitch_mean) == 123
    del state["weights"]["harmonics.depth.weight"]
    checkpoint.save(begun.checkpoint, state)
    expected = r"does not have.* 1 weights .* as they are, harmonics.depth.weight the"
    with pytest.raises(CheckpointError, match=expected), run_of(begun):
        pass


def test_what_is_spoken_and_validated_is_always_the_same_and_what_is_learned_is_not():
    refiner = Refiner(REFINER, 80)
    torch.nn.init.normal_(refiner.end.weight)
    mel_BTM, keep_BT1 = torch.randn(1, 30, 80) - 5, torch.ones(1, 30, 1)
    outline = refiner.outline(mel_BTM, torch.zeros(1, 30, 80), torch.zeros(1, 30, 80), keep_BT1)
    assert not torch.equal(refiner.losses(mel_BTM, outline), refiner.losses(mel_BTM, outline))
    refiner.eval()
    assert torch.equal(refiner.losses(mel_BTM, outline), refiner.losses(mel_BTM, outline))
    assert torch.equal(refiner(outline), refiner(outline))


def test_what_it_learns_of_is_a_window_of_each_utterance_within_its_frames():
    refiner = Refiner(replace(REFINER, window=4), 80)
    recorded_BTM = torch.zeros(3, 10, 80)
    recorded_BTM[:, :, :12] = torch.tensor([[1.0], [2.0], [3.0]])[:, :, None] * SPREAD
    keep_BT1 = (torch.arange(10) < torch.tensor([[10], [6], [2]]))[:, :, None].float()
    recorded_BTM *= keep_BT1
    outline = refiner.outline(*(torch.zeros(3, 10, 80) for _ in range(3)), keep_BT1)
    seen = [refiner.windows(recorded_BTM, outline) for _ in range(50)]
    assert {found_BTM.shape[1] for found_BTM, _ in seen} == {4}
    assert all(own.keep_BT1[:2].all() and own.keep_BT1[2, :, 0].tolist() == [1, 1, 0, 0] for _, own in seen)
    losses_BT = refiner.losses(recorded_BTM, outline)
    assert losses_BT.shape == (3, 10)
    assert torch.equal(losses_BT, losses_BT[:, :1].expand(-1, 10))
    refiner.eval()  # in evaluation all frames count
    expected_B1 = torch.tensor([[1.0], [4], [9]])
    torch.testing.assert_close(refiner.losses(recorded_BTM, outline) * keep_BT1[..., 0], expected_B1 * keep_BT1[..., 0])


def test_the_place_of_a_window_changes_from_step_to_step():
    refiner = Refiner(replace(REFINER, window=2), 80)
    frame_BTM = torch.arange(30.0)[None, :, None].expand(1, 30, 80)
    outline = refiner.outline(*(torch.zeros(1, 30, 80) for _ in range(3)), torch.ones(1, 30, 1))
    starts = {int(refiner.windows(frame_BTM, outline)[0][0, 0, 0]) for _ in range(300)}
    assert starts == set(range(29))


def random_refiner(**sizes: object) -> Refiner:
    torch.manual_seed(0)
    refiner = Refiner(replace(REFINER, **sizes), 80).eval()
    for weight in refiner.state_dict().values():
        weight.normal_(0, 0.3)
    return refiner


def test_what_is_spoken_takes_less_than_what_is_learned_and_says_the_same():
    refiner = random_refiner()
    spoken = refiner.as_spoken()
    outline = refiner.outline(
        torch.randn(2, 30, 80) - 5, torch.rand(2, 30, 80), torch.randn(2, 30, 80), torch.ones(2, 30, 1)
    )
    torch.testing.assert_close(spoken(outline), refiner(outline), rtol=1e-4, atol=1e-4)
    assert spoken.config.learns == "mean"
    assert spoken.as_spoken() is spoken
    unused = {name for name in refiner.state_dict() if name.startswith("time.") or ".modulation." in name}
    assert set(refiner.state_dict()) - set(spoken.state_dict()) == unused
    assert spoken.begin.in_features == refiner.begin.in_features - REFINER.bins


def test_a_small_refiner_learns_the_mean_of_a_larger_one():
    torch.manual_seed(0)
    teacher, pupil = random_refiner(), Refiner(replace(REFINER, layers=1, learns="mean"), 80)
    pupil.wanted = teacher.forward
    outline = teacher.outline(
        torch.randn(2, 40, 80) - 5, torch.rand(2, 40, 80), torch.randn(2, 40, 80), torch.ones(2, 40, 1)
    )
    unheard_BTM = torch.full((2, 40, 80), float("nan"))  # what was recorded counts for nothing
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=1e-2)
    losses = []
    for training in [False] + 60 * [True] + [False]:
        loss = pupil.train(training).losses(unheard_BTM, outline).mean()
        losses.append(float(loss.detach()))
        if training:
            pupil.zero_grad()
            loss.backward()
            optimizer.step()
    assert losses[-1] < 0.5 * losses[0]
    expected = (pupil(outline) - teacher(outline)).square().mean() / SPREAD**2
    assert losses[-1] == pytest.approx(float(expected.detach()), rel=1e-3)


def test_a_run_learns_of_a_teacher_and_refuses_one_that_cannot_teach(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus"), tmp_path / "run", epochs=1)
    cfg = replace(cfg, model=replace(cfg.model, harmonics=True, refiner=REFINER))
    taught, plain = tmp_path / "taught.pt", tmp_path / "plain.pt"
    for path, of in ((taught, cfg), (plain, replace(cfg, model=replace(cfg.model, refiner=RefinerConfig())))):
        weights = build_model(of).state_dict()
        if of.model.refiner.layers:
            weights["refiner.end.weight"].normal_()
        checkpoint.save(path, {"format": FORMAT, "config": to_dict(of), "symbols": [], "weights": weights, "ema": None})
    small = replace(cfg.model, refiner=replace(REFINER, layers=1, learns="mean"))
    cfg = replace(cfg, trained="refiner", model=small, checkpoint=taught, teacher=taught)
    main(cfg)
    assert checkpoint.load(checkpoint.saved_steps(tmp_path / "run", NAME)[-1][1])["weights"]["refiner.end.weight"].any()
    expected = r"plain.pt: cannot teach this refiner: its own is not there; expected one of 12 of \d+"
    with pytest.raises(CheckpointError, match=expected), run_of(replace(cfg, output_dir=tmp_path / "x", teacher=plain)):
        pass
    wider = replace(cfg, output_dir=tmp_path / "y", model=replace(small, refiner=replace(small.refiner, bins=8)))
    with pytest.raises(CheckpointError, match=r"its own predicts 12 of \d+ mel bins; expected one of 8"), run_of(wider):
        pass


def test_a_model_without_an_aligner_is_trained_with_durations_alone(tmp_path):
    cfg = toy_config(write_corpus(tmp_path / "corpus"), tmp_path / "run")
    cfg = replace(cfg, model=replace(cfg.model, aligner=False))
    with pytest.raises(ConfigError, match=r"model.aligner = false: expected data.durations_dir"), run_of(cfg):
        pass


def test_a_refiner_without_what_it_needs_is_refused():
    with pytest.raises(ValueError, match=r'teacher = a.pt: expected trained = "refiner" and model.refiner.learns'):
        Config(trained="refiner", model=REFINED, teacher=Path("a.pt"))
    with pytest.raises(ValueError, match="refiner.layers: expected harmonics = true beside it"):
        ModelConfig(refiner=REFINER)
    with pytest.raises(ValueError, match=r'trained = "refiner": expected model.refiner.layers above 0'):
        Config(trained="refiner")
    with pytest.raises(ValueError, match=r'adversary.weight = 1.0: expected 0 with trained = "refiner"'):
        Config(trained="refiner", model=REFINED, adversary=AdversaryConfig(weight=1.0))
    with pytest.raises(ValueError, match="share = 0: expected above 0, at most 1"):
        RefinerConfig(share=0)
    with pytest.raises(ValueError, match="kernel = 4: expected an odd number"):
        RefinerConfig(kernel=4)
