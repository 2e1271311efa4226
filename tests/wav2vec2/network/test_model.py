import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from common.config import ConfigError
from tests.wav2vec2.small import LABELS, QUIET, audio_batch, ctc_model, lively, small_config
from wav2vec2.contrastive.model import Wav2Vec2ForPretraining
from wav2vec2.network.hourglass import Shortening
from wav2vec2.network.model import Masked, Wav2Vec2, Wav2Vec2ForCTC, normalized

KINDS = ("base", "large", "base hourglass", "large hourglass", "base linear", "large linear")


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_utterance_gives_the_same_alone_and_in_a_padded_batch(kind):
    """With gradients, test_models_in_training.py says it."""
    model = ctc_model(kind)
    audio_BN, samples_B = audio_batch(padding=3.0)
    logits_BSV, frames_B = model(audio_BN, samples_B)
    for audio_N, samples, logits_SV, frames in zip(audio_BN, samples_B, logits_BSV, frames_B, strict=True):
        alone = model(audio_N[None, :samples])
        assert alone.frames_B is None
        torch.testing.assert_close(alone.logits_BSV[0], logits_SV[:frames], atol=1e-5, rtol=0)


def test_nan_in_one_utterance_does_not_reach_another():
    model = ctc_model("base hourglass")
    audio_BN, samples_B = audio_batch((8000, 8000))
    expected = model(audio_BN[1:], samples_B[1:]).logits_BSV[0]
    audio_BN[0] = math.nan
    torch.testing.assert_close(model(audio_BN, samples_B).logits_BSV[1], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["base", "large", "base hourglass"])
@pytest.mark.parametrize("padding", [math.nan, math.inf, 1e30])
def test_whatever_stands_in_the_padding_reaches_neither_results_nor_gradients(kind, padding):
    model, found = ctc_model(kind), []
    for filled in (0.0, padding):
        logits_BSV, frames_B = model(*audio_batch((8000, 4321), padding=filled))
        valid = torch.cat([logits_SV[:frames] for logits_SV, frames in zip(logits_BSV, frames_B, strict=True)])
        learned = [p for name, p in model.named_parameters() if "mask" not in name]
        found.append([valid, *torch.autograd.grad(valid.square().sum(), learned)])
    assert all(torch.equal(plain, filled) for plain, filled in zip(*found, strict=True))


@pytest.mark.parametrize("samples", [0, 1, 320, 399])
def test_audio_that_is_too_short_for_a_frame_is_told(samples):
    with pytest.raises(ValueError, match=rf"^audio of {samples} samples; the model needs 400 for its first frame$"):
        ctc_model()(torch.zeros(2, samples))
    assert ctc_model()(torch.zeros(2, 400)).logits_BSV.shape == (2, 1, len(LABELS))


@pytest.mark.parametrize("grad", [False, True])
def test_audio_may_lie_in_memory_in_any_order(grad):
    model, (audio_BN, samples_B) = ctc_model(), audio_batch((16000, 16000))
    with torch.set_grad_enabled(grad):
        found = model(audio_BN.T.contiguous().T, samples_B).logits_BSV
        assert torch.equal(found, model(audio_BN, samples_B).logits_BSV)


@pytest.mark.parametrize("kind", KINDS)
def test_in_float64_everything_is(kind):
    audio_BN, samples_B = audio_batch()
    expected = ctc_model(kind)(audio_BN, samples_B).logits_BSV
    found = ctc_model(kind).double()(audio_BN.double(), samples_B).logits_BSV
    assert found.dtype == torch.float64
    assert (found - expected).abs().max() < 1e-4


def test_an_utterance_without_a_frame_in_a_batch_does_no_harm():
    model, (audio_BN, samples_B) = (
        ctc_model("large", replace(QUIET, attention_dropout=0.1)).train(),
        audio_batch((8000, 300)),
    )
    logits_BSV, frames_B = model(audio_BN, samples_B)
    assert frames_B.tolist() == [24, 0]
    logits_BSV[0].square().sum().backward()
    assert all(p.grad.isfinite().all() for name, p in model.named_parameters() if "mask" not in name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_of_a_layer_is_what_the_next_one_starts_from(kind):
    model = ctc_model(kind).wav2vec2
    audio_BN, _ = audio_batch((8000,))
    outputs = [model(audio_BN, layers=i).x_BSD for i in range(5)]
    last = model(audio_BN).x_BSD
    torch.testing.assert_close(model.encoder.norm(outputs[4]) if "large" in kind else outputs[4], last)
    if kind in ("base", "large"):
        for i in range(4):
            torch.testing.assert_close(model.encoder.layers[i](outputs[i], None), outputs[i + 1])
    assert all(output.shape == last.shape for output in outputs)


def test_an_hourglass_of_factor_1_adds_what_its_layers_saw_to_what_they_made():
    model, audio_BN = ctc_model(hourglass="[1,(2,1),1]").wav2vec2, audio_batch((8000,))[0]
    before, inside = model(audio_BN, layers=1).x_BSD, model(audio_BN, layers=2).x_BSD
    inside = model.encoder.layers[2](inside, None)
    torch.testing.assert_close(model.encoder.layers[3](before + inside, None), model(audio_BN).x_BSD)


def test_a_shortened_frame_is_the_mean_of_its_frames_and_zeros_stand_for_missing_ones():
    shortening = Shortening(2, 3, "naive")
    x_BSD = torch.arange(8.0).view(1, 4, 2)
    short = shortening.shorten(x_BSD, torch.tensor([[True] * 4]))
    assert torch.equal(short.x_BUD, torch.tensor([[[2.0, 3.0], [2.0, 7 / 3]]]))
    assert short.mask_BU.tolist() == [[True, True]]
    assert shortening.restore(short.x_BUD, 4)[0, :, 0].tolist() == [2.0] * 4
    empty = shortening.shorten(x_BSD, torch.tensor([[True] * 3 + [False]])).mask_BU
    assert empty.tolist() == [[True, False]]


def test_a_masked_frame_is_the_mask_embedding_and_a_masked_channel_is_zero():
    model, (audio_BN, samples_B) = ctc_model().wav2vec2, audio_batch((8000, 8000))
    seen = []
    model.encoder.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    mask_BS, mask_BD = torch.zeros(2, 24, dtype=torch.bool), torch.zeros(2, 32, dtype=torch.bool)
    mask_BS[0, 3:5], mask_BD[1, 7] = True, True
    plain = model(audio_BN, samples_B).features_BSC
    masked = model(audio_BN, samples_B, masked=Masked(mask_BS, mask_BD)).features_BSC
    assert torch.equal(plain, masked)
    plain_BSD, masked_BSD = seen
    assert torch.equal(masked_BSD[0, 3:5], model.mask_embedding.expand(2, -1))
    assert masked_BSD[1, :, 7].abs().max() == 0
    changed = (plain_BSD != masked_BSD).nonzero().tolist()
    assert all((b == 0 and s in (3, 4)) or (b == 1 and d == 7) for b, s, d in changed)


def test_normalised_audio_is_that_of_layer_norm_over_the_utterance_alone():
    audio_BN, samples_B = audio_batch(padding=9.0)
    found = normalized(audio_BN, samples_B, 1e-5)
    for mine_N, audio_N, samples in zip(found, audio_BN, samples_B, strict=True):
        torch.testing.assert_close(mine_N[:samples], F.layer_norm(audio_N[:samples], (samples,)))
        assert not mine_N[samples:].any()


def test_a_left_out_layer_has_no_effect_and_its_parameters_get_gradients_of_zero():
    model = lively(Wav2Vec2(small_config(), replace(QUIET, layer_drop=0.5))).train()
    audio_BN, _ = audio_batch((8000,))
    seed = next(s for s in range(100) if model.encoder.kept_layers(s) == [True, False, True, True])
    x_BSD = model(audio_BN, seed=seed).x_BSD
    x_BSD.sum().backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if "mask" not in name)
    assert not any(parameter.grad.any() for parameter in model.encoder.layers[1].parameters())
    assert any(parameter.grad.any() for parameter in model.encoder.layers[2].parameters())
    del model.encoder.layers[1]
    model.encoder.learning = QUIET
    torch.testing.assert_close(model(audio_BN).x_BSD, x_BSD)


def test_layers_are_left_out_as_often_as_asked_for_by_seed_and_never_in_evaluation():
    encoder = Wav2Vec2(small_config(), replace(QUIET, layer_drop=0.3)).encoder.train()
    kept = torch.tensor([encoder.kept_layers(seed) for seed in range(2000)])
    assert kept.float().mean(0).sub(0.7).abs().max() < 0.04
    assert encoder.kept_layers(5) == encoder.kept_layers(5)
    assert all(encoder.eval().kept_layers(0))


def test_checkpointed_activations_give_the_same_gradients():
    learning = replace(QUIET, dropout=0.1, attention_dropout=0.1)
    audio_BN, samples_B = audio_batch((8000, 5000))
    gradients = []
    for checkpointed in (False, True):
        model = lively(Wav2Vec2(small_config(), replace(learning, checkpoint_activations=checkpointed))).train()
        torch.manual_seed(3)
        model(audio_BN, samples_B).x_BSD.square().sum().backward()
        gradients.append([p.grad for name, p in model.named_parameters() if "mask" not in name])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed)


DROPOUTS = ("dropout", "attention_dropout", "activation_dropout", "input_dropout", "final_dropout")


@pytest.mark.parametrize("name", DROPOUTS)
@pytest.mark.parametrize("kind", ["base", "large"])
def test_every_dropout_acts_in_training_and_only_there(kind, name):
    model, batch = ctc_model(kind, replace(QUIET, **{name: 0.5})), audio_batch((8000,))
    expected = ctc_model(kind)(*batch).logits_BSV
    assert torch.equal(model(*batch).logits_BSV, expected)
    assert (model.train()(*batch).logits_BSV - expected).norm() > 0.01 * expected.norm()


@pytest.mark.parametrize("kind", ["base", "large"])
def test_the_input_of_the_transformer_is_dropped_out_like_the_outputs_of_its_parts(kind):
    model = lively(Wav2Vec2(small_config(kind), replace(QUIET, dropout=0.3))).train()
    x_BSD = model(audio_batch((16000,))[0], layers=0).x_BSD
    assert (x_BSD == 0).float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_the_gradient_of_the_extractor_is_scaled_or_kept_from_it():
    audio_BN, _ = audio_batch((8000,))
    gradients = {}
    for factor in (1.0, 0.25, 0.0):
        model = lively(Wav2Vec2(small_config(), replace(QUIET, extractor_gradient=factor)))
        context = model(audio_BN)
        (context.x_BSD.sum() + context.squares_B.sum()).backward()
        gradients[factor] = model.extractor.layers[2].weight.grad
        assert model.projection.weight.grad.any()
    torch.testing.assert_close(gradients[0.25], gradients[1.0] / 4)
    assert gradients[0.0] is None


def test_with_a_frozen_encoder_only_the_head_learns():
    model = ctc_model()
    model(*audio_batch(), freeze_encoder=True).logits_BSV.sum().backward()
    assert {name for name, parameter in model.named_parameters() if parameter.grad is not None} == {
        "head.weight",
        "head.bias",
    }


def test_a_head_without_labels_is_refused():
    with pytest.raises(ConfigError, match=r"^model\.labels is empty: name the symbols that the CTC head writes$"):
        Wav2Vec2ForCTC(small_config(labels=()))


@pytest.mark.parametrize("kind", ["base hourglass", "large"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_that_was_cast_gives_nearly_the_same(kind, dtype):
    model, batch = ctc_model(kind), audio_batch()
    with torch.inference_mode():
        expected, _ = model(*batch)
        found, _ = model.to(dtype)(*batch)
    assert found.dtype == dtype
    assert (found.float() - expected).norm() < 0.1 * expected.norm()


def test_initial_weights_are_those_of_the_paper():
    torch.manual_seed(0)
    model = Wav2Vec2ForPretraining(small_config(dim=64))
    backbone = model.wav2vec2
    assert backbone.encoder.layers[0].fc1.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not backbone.encoder.layers[0].attention.qkv.bias.any()
    assert backbone.encoder.positions.direction.std().item() == pytest.approx((4 / (16 * 64)) ** 0.5, rel=0.1)
    assert backbone.extractor.layers[1].weight.std().item() == pytest.approx((2 / (24 * 3)) ** 0.5, rel=0.1)
    assert model.quantizer.scores.weight.std().item() == pytest.approx(1.0, rel=0.1)
    assert 0 <= model.quantizer.codes_GVE.min() < model.quantizer.codes_GVE.max() <= 1
