import math
from dataclasses import replace

import pytest
import torch

from tests.wav2vec2.contrastive.reference import published_logits, published_loss
from tests.wav2vec2.small import QUIET, audio_batch, pretraining_model, small_config
from wav2vec2.contrastive.masking import MaskConfig, draw_targets
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.contrastive.objective import ObjectiveConfig, contrast, contrastive_logits
from wav2vec2.contrastive.quantizer import GumbelQuantizer, TemperatureConfig, gumbel_noise, perplexity
from wav2vec2.network.extractor import n_frames

MASKS = MaskConfig(time_length=4)


def targets_for(samples, seed=0, distractors=9):
    frames = [n_frames(n, small_config().conv_layers) for n in samples]
    return draw_targets(frames, MASKS, distractors=distractors, seed=seed)


def number(loss, name):
    return float(torch.as_tensor(getattr(loss, name)).detach())


def compared(seed=0, duplicates=True):
    """Context, targets by codes (some of them the same), codes, distractors."""
    generator = torch.Generator().manual_seed(seed)
    codes_BMG = torch.randint(3 if duplicates else 10**6, (2, 11, 2), generator=generator)
    book = torch.randn(3, 2, 4, generator=generator)
    targets_BMC = (
        torch.cat([book[codes_BMG[..., g], g] for g in range(2)], 2)
        if duplicates
        else torch.randn(2, 11, 8, generator=generator)
    )
    context_BMC = torch.randn(2, 11, 8, generator=generator)
    distractors_BMK = torch.randint(11, (2, 11, 6), generator=generator)
    return context_BMC, targets_BMC, codes_BMG, distractors_BMK


@pytest.mark.parametrize("duplicates", [True, False])
def test_logits_loss_and_gradients_are_those_of_the_published_formulation(duplicates):
    context_BMC, targets_BMC, codes_BMG, distractors_BMK = compared(duplicates=duplicates)
    inputs = [context_BMC.requires_grad_(), targets_BMC.requires_grad_()]
    found = contrastive_logits(*inputs, codes_BMG, distractors_BMK, temperature=0.15)
    expected = published_logits(*inputs, distractors_BMK, temperature=0.15)
    assert (found.isinf().sum() > 0) == duplicates or not duplicates
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    loss = contrast(*inputs, codes_BMG, distractors_BMK, temperature=0.15).loss
    expected_loss = published_loss(*inputs, distractors_BMK, temperature=0.15)
    torch.testing.assert_close(loss, expected_loss)
    for mine, theirs in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected_loss, inputs), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_right_is_only_what_is_better_than_something():
    context_BMC = torch.ones(1, 4, 2)
    codes_BMG = torch.arange(4).view(1, 4, 1)
    distractors_BMK = torch.tensor([[[1, 2], [0, 2], [0, 1], [0, 0]]])
    same = contrast(context_BMC, torch.ones(1, 4, 2), codes_BMG, distractors_BMK, temperature=0.1)
    assert same.correct == 0
    assert same.loss.item() == pytest.approx(4 * math.log(3))
    targets_BMC = torch.tensor([[[1.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]]])
    assert contrast(context_BMC, targets_BMC, codes_BMG, distractors_BMK, temperature=0.1).correct == 1
    alone = contrast(context_BMC, targets_BMC, torch.zeros_like(codes_BMG), distractors_BMK, temperature=0.1)
    assert alone.correct == 4  # nothing is left to confuse it with
    assert alone.loss == 0


def test_the_loss_is_compared_in_float32_under_autocast():
    context_BMC, targets_BMC, codes_BMG, distractors_BMK = compared()
    with torch.autocast("cpu", torch.bfloat16):
        found = contrastive_logits(context_BMC, targets_BMC, codes_BMG, distractors_BMK, temperature=0.1)
    expected = contrastive_logits(context_BMC, targets_BMC, codes_BMG, distractors_BMK, temperature=0.1)
    assert torch.equal(found, expected)


def test_in_evaluation_the_quantiser_takes_the_likeliest_entries():
    quantizer = GumbelQuantizer(small_config()).eval()
    features_QC = torch.randn(7, 24)
    x_QJ, codes_QG, probabilities_QGV = quantizer(features_QC, temperature=2.0)
    scores_QGV = quantizer.scores(features_QC).view(7, 2, 12)
    assert torch.equal(codes_QG, scores_QGV.argmax(2))
    torch.testing.assert_close(probabilities_QGV, scores_QGV.softmax(2))
    expected = torch.cat([quantizer.codes_GVE[g][codes_QG[:, g]] for g in range(2)], 1)
    assert torch.equal(x_QJ, expected)


def test_gumbel_noise_has_its_mean_and_variance_and_follows_torchs_seed():
    torch.manual_seed(0)
    noise = gumbel_noise(torch.empty(200_000))
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, rel=0.02)
    torch.manual_seed(0)
    assert torch.equal(noise, gumbel_noise(torch.empty(200_000)))


def test_perplexity_is_the_number_of_entries_that_are_equally_in_use():
    usage_GV = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]])
    assert perplexity(usage_GV).item() == pytest.approx(6)


def test_entries_that_no_frame_could_choose_leave_the_gradient_finite():
    scores_QGV = torch.zeros(3, 2, 5)
    scores_QGV[:, 0, 1:], scores_QGV[:, 1, 4] = -200.0, -120.0  # probabilities of exactly 0
    scores_QGV.requires_grad_()
    usage_GV = scores_QGV.softmax(2).mean(0)
    assert (usage_GV == 0).sum() == 5
    found = perplexity(usage_GV)
    assert found.item() == pytest.approx(5, abs=1e-4)
    found.backward()
    assert scores_QGV.grad.isfinite().all()


def test_the_code_perplexity_is_that_of_the_likeliest_entries_whatever_noise_chose():
    model = pretraining_model().train()
    with torch.no_grad():
        model.quantizer.scores.weight.zero_()
        model.quantizer.scores.bias.copy_(0.01 * torch.arange(24.0))  # collapsed: one entry is always the likeliest
    audio_BN, samples_B = audio_batch((9000, 8000))
    loss = model(audio_BN, samples_B, [targets_for([9000, 8000])], objective=ObjectiveConfig(), temperature=2.0)
    assert loss.code_perplexity.item() == pytest.approx(2, abs=1e-4)
    assert loss.probability_perplexity > 20


def test_the_temperature_falls_to_its_floor():
    temperature = TemperatureConfig()
    assert temperature.at(0) == 2.0
    assert temperature.at(100_000) == pytest.approx(1.213, abs=1e-3)
    assert temperature.at(200_000) == pytest.approx(0.736, abs=1e-3)
    assert temperature.at(280_000) == 0.5
    with pytest.raises(ValueError, match=r"^end = 0\.0: expected a number above 0$"):
        TemperatureConfig(end=0.0)
    with pytest.raises(ValueError, match=r"^start = inf: expected a number above 0$"):
        TemperatureConfig(start=math.inf)
    with pytest.raises(ValueError, match=r"^decay = 1\.5: expected 0 to 1$"):
        TemperatureConfig(decay=1.5)


def test_an_impossible_objective_is_refused():
    with pytest.raises(ValueError, match=r"^distractors = 0: expected a number above 0$"):
        ObjectiveConfig(distractors=0)
    with pytest.raises(ValueError, match=r"^logit_temperature = nan: expected a number above 0$"):
        ObjectiveConfig(logit_temperature=math.nan)
    with pytest.raises(ValueError, match=r"^diversity = -1\.0: expected a number of at least 0$"):
        ObjectiveConfig(diversity=-1.0)
    with pytest.raises(ValueError, match=r"^penalty = nan: expected a number of at least 0$"):
        ObjectiveConfig(penalty=math.nan)


@pytest.mark.parametrize("kind", ["base", "large hourglass"])
def test_sub_batches_together_give_the_sum_of_what_they_give_alone_and_its_gradient(kind):
    model = pretraining_model(kind).train()
    audio_BN, samples_B = audio_batch((9000, 8000, 16000, 16000, 12000))
    targets = [targets_for(samples_B[:2].tolist(), seed=1), targets_for(samples_B[2:].tolist(), seed=2)]
    sizes = [part.positions_BM.numel() for part in targets]
    noise_QGV = gumbel_noise(torch.empty(sum(sizes), 2, 12))
    options = {"objective": ObjectiveConfig(), "temperature": 1.5}
    together = model(audio_BN, samples_B, targets, noise_QGV=noise_QGV, **options)
    alone = [
        model(audio_BN[rows], samples_B[rows], [part], noise_QGV=noise, **options)
        for rows, part, noise in zip((slice(0, 2), slice(2, 5)), targets, noise_QGV.split(sizes), strict=True)
    ]
    for name in ("total", "contrastive", "diversity", "penalty", "frames", "correct"):
        assert number(together, name) == pytest.approx(sum(number(loss, name) for loss in alone), rel=1e-5)
    for name in ("code_perplexity", "probability_perplexity"):
        mean = sum(number(loss, name) * loss.frames for loss in alone) / together.frames
        assert number(together, name) == pytest.approx(mean, rel=1e-5)
    parameters = list(model.parameters())
    found = torch.autograd.grad(together.total, parameters)
    expected = torch.autograd.grad(sum(loss.total for loss in alone), parameters)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine - theirs).norm() <= 1e-4 * theirs.norm() + 1e-6


def test_the_total_is_the_weighted_sum_and_every_parameter_learns_from_it():
    model = pretraining_model(learning=replace(QUIET, dropout=0.1, layer_drop=0.3, feature_dropout=0.1)).train()
    audio_BN, samples_B = audio_batch((9000, 8000))
    objective = ObjectiveConfig(diversity=0.5, penalty=3.0)
    loss = model(audio_BN, samples_B, [targets_for([9000, 8000])], objective=objective, temperature=2.0, seed=4)
    expected = loss.contrastive + 0.5 * loss.diversity + 3 * loss.penalty
    torch.testing.assert_close(loss.total.detach(), expected)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert [name for name, value in loss._asdict().items() if getattr(value, "requires_grad", False)] == ["total"]


def test_dropout_of_features_changes_what_is_to_be_found_and_nothing_else():
    audio_BN, samples_B = audio_batch((9000, 8000))
    targets, noise_QGV = [targets_for([9000, 8000])], torch.zeros(200, 2, 12)
    options = {"objective": ObjectiveConfig(), "temperature": 2.0}
    options["noise_QGV"] = noise_QGV[: targets[0].positions_BM.numel()]
    plain, dropped = (
        pretraining_model(learning=replace(QUIET, feature_dropout=p)).train()(audio_BN, samples_B, targets, **options)
        for p in (0.0, 0.5)
    )
    assert plain.penalty == dropped.penalty
    assert plain.probability_perplexity != dropped.probability_perplexity


def test_training_learns_to_find_the_targets():
    torch.manual_seed(0)
    model = Wav2Vec2ForPretraining(small_config(), replace(QUIET, extractor_gradient=0.1)).train()
    seconds_N = torch.arange(16000) / 16000
    steps = [(seconds_N * 5).floor() * k for k in (1, 1.5, 2, 0.7)]
    audio_BN = 0.3 * torch.stack([torch.sin(2 * torch.pi * 300 * seconds_N * (1 + step)) for step in steps])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for update in range(30):
        targets = [targets_for([16000] * 4, seed=update, distractors=20)]
        loss = model(audio_BN, None, targets, objective=ObjectiveConfig(), temperature=2.0)
        optimizer.zero_grad()
        (loss.total / loss.frames).backward()
        optimizer.step()
        losses.append(number(loss, "contrastive") / loss.frames)
    assert losses[-1] < 0.6 * losses[0]
    assert loss.correct / loss.frames > 0.5  # chance is 1/21
    assert loss.code_perplexity > 5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_low_precision_the_loss_is_finite_and_close(dtype):
    model = pretraining_model("base hourglass").train()
    audio_BN, samples_B = audio_batch((16000, 12000))
    targets, noise_QGV = [targets_for([16000, 12000])], gumbel_noise(torch.empty(200, 2, 12))
    options = {"objective": ObjectiveConfig(), "temperature": 2.0}
    options["noise_QGV"] = noise_QGV[: targets[0].positions_BM.numel()]
    expected = model(audio_BN, samples_B, targets, **options)
    with torch.autocast("cpu", dtype):
        found = model(audio_BN, samples_B, targets, **options)
    found.total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert number(found, "total") == pytest.approx(number(expected, "total"), rel=0.1)
    assert found.total.dtype == torch.float32


def test_data_parallel_training_does_not_wait_for_layers_that_were_left_out(tmp_path):
    def train():
        model = pretraining_model(learning=replace(QUIET, layer_drop=0.7)).train()
        parallel = torch.nn.parallel.DistributedDataParallel(model)  # an error at the second step if any was unused
        audio_BN, _ = audio_batch((8000,))
        for seed in range(3):
            assert not all(model.wav2vec2.encoder.kept_layers(seed))
            loss = parallel(
                audio_BN, None, [targets_for([8000])], objective=ObjectiveConfig(), temperature=2.0, seed=seed
            )
            loss.total.backward()

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        train()  # what holds the group is gone before it: else that waits for its threads, and they for Python's lock
    finally:
        torch.distributed.destroy_process_group()


def test_a_layer_compiles_into_one_graph():
    model = pretraining_model("large").wav2vec2
    audio_BN, samples_B = audio_batch((8000, 5000))
    expected = model(audio_BN, samples_B).x_BSD
    for layer in model.encoder.layers:
        layer.compile(backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(model(audio_BN, samples_B).x_BSD, expected)
