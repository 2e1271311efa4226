import math
from dataclasses import replace

import pytest
import torch

from fastpitch.acoustic.config import AdversaryConfig, LossConfig, ModelConfig, PredictorConfig, TransformerConfig
from fastpitch.acoustic.model import FastPitch, rounded_frames
from fastpitch.vocoders import config as vocoders
from tests.fastpitch.tiny import tiny_model

SMALL = ModelConfig(
    channels=32,
    encoder=TransformerConfig(layers=2, heads=2, head_channels=8, filter_channels=48),
    decoder=TransformerConfig(layers=2, heads=1, head_channels=16, filter_channels=48),
    duration=PredictorConfig(filter_channels=16),
    pitch=PredictorConfig(filter_channels=16),
    energy=PredictorConfig(filter_channels=16),
)
LENGTHS_B = torch.tensor([23, 9, 1, 16])
TOKENS_BT = torch.randint(1, 30, (4, 23), generator=torch.Generator().manual_seed(0))


def small(config: ModelConfig = SMALL, seed: int = 0) -> FastPitch:
    """With durations of some frames, and everything else lively enough for differences to show."""
    torch.manual_seed(seed)
    model = FastPitch(config, n_symbols=30, mel_bins=20).eval()
    for predictor in (model.pitch, model.energy):
        if predictor is not None:
            predictor.out.weight.data.mul_(2)
    model.duration.out.bias.data.fill_(1.8)
    return model


def test_the_default_model_has_the_published_number_of_parameters():
    with torch.device("meta"):
        model = FastPitch(ModelConfig(), n_symbols=148, mel_bins=80)
    assert sum(p.numel() for p in model.parameters()) == 46_266_420


@pytest.mark.parametrize("uses_energy", [True, False])
@pytest.mark.parametrize("conditions", ["encoder", "all"])
def test_an_utterance_sounds_the_same_alone_and_in_a_padded_batch(uses_energy, conditions):
    model = small(replace(SMALL, uses_energy=uses_energy, speakers=3, speaker_conditions=conditions))
    speaker_B = torch.tensor([0, 2, 1, 2])
    together = model.infer(TOKENS_BT, LENGTHS_B, speaker=speaker_B)
    for b, length in enumerate(LENGTHS_B):
        alone = model.infer(TOKENS_BT[b : b + 1, :length], LENGTHS_B[b : b + 1], speaker=speaker_B[b : b + 1])
        frames = int(alone.frames_B)
        assert frames == together.frames_B[b]
        assert frames > length
        torch.testing.assert_close(alone.mel_BMT[0], together.mel_BMT[b, :, :frames], rtol=0, atol=1e-5)
        for name in ("durations_BT", "pitch_BT", "energy_BT"):
            of_batch = getattr(together, name)[b]
            rtol = 1e-5 if name == "durations_BT" else 0  # its logarithm is what the network says
            torch.testing.assert_close(getattr(alone, name)[0], of_batch[:length], rtol=rtol, atol=1e-5)
            assert not of_batch[length:].any()
        assert not together.mel_BMT[b, :, frames:].any()


def test_frames_are_those_of_the_symbol_they_are_repeated_from():
    durations_BL = torch.tensor([[0.5, 1.5, 2.5, 3.5, 0.0, 0.49]])
    assert rounded_frames(durations_BL).tolist() == [[1, 2, 3, 4, 0, 0]]
    assert rounded_frames(durations_BL, 0.5).tolist() == [[1, 3, 5, 7, 0, 1]]
    assert rounded_frames(durations_BL, torch.tensor([[1.0, 0.5, 1, 1, 1, 0.1]])).tolist() == [[1, 3, 3, 4, 0, 5]]


def test_pace_may_differ_between_utterances_and_between_symbols():
    model = small()
    plain = model.infer(TOKENS_BT, LENGTHS_B)
    per_utterance = model.infer(TOKENS_BT, LENGTHS_B, pace=torch.tensor([1.0, 2.0, 1.0, 0.5]))
    assert torch.equal(per_utterance.symbol_frames_BT[0], plain.symbol_frames_BT[0])
    assert torch.equal(per_utterance.symbol_frames_BT[1], rounded_frames(plain.durations_BT[1:2], 2.0)[0])
    pace_BT = torch.ones(4, 23)
    pace_BT[0, 3] = 0.25
    per_symbol = model.infer(TOKENS_BT, LENGTHS_B, pace=pace_BT).symbol_frames_BT - plain.symbol_frames_BT
    assert per_symbol[0, 3] > 3
    assert per_symbol.sum() == per_symbol[0, 3]


def test_what_is_given_replaces_what_is_predicted_except_where_it_is_nan():
    model = small()
    plain = model.infer(TOKENS_BT, LENGTHS_B)
    durations_BT = torch.full((4, 23), torch.nan)
    durations_BT[1, 2] = 40
    pitch_BT = torch.full((4, 23), torch.nan)
    pitch_BT[0, 5] = -2.0
    said = model.infer(TOKENS_BT, LENGTHS_B, durations_BT=durations_BT, pitch_BT=pitch_BT)
    assert said.symbol_frames_BT[1, 2] == 40
    assert said.pitch_BT[0, 5] == -2
    pitch_BT[0, 5] = plain.pitch_BT[0, 5]
    same = model.infer(TOKENS_BT, LENGTHS_B, pitch_BT=pitch_BT)
    torch.testing.assert_close(same.mel_BMT, plain.mel_BMT)


def test_pitch_and_energy_are_scaled_and_shifted_as_numbers_or_per_symbol():
    model = small()
    plain = model.infer(TOKENS_BT, LENGTHS_B)
    inside_BT = torch.arange(23) < LENGTHS_B[:, None]
    lower = model.infer(TOKENS_BT, LENGTHS_B, pitch_scale=-1.0, pitch_shift=torch.linspace(0, 1, 23).expand(4, -1))
    torch.testing.assert_close(lower.pitch_BT, (torch.linspace(0, 1, 23) - plain.pitch_BT) * inside_BT)
    flat = model.infer(TOKENS_BT, LENGTHS_B, energy_scale=0.0, energy_shift=torch.tensor([1.0, 2, 3, 4]))
    torch.testing.assert_close(flat.energy_BT, torch.arange(1.0, 5)[:, None] * inside_BT)
    assert not torch.equal(flat.mel_BMT, plain.mel_BMT)


def test_a_long_utterance_in_half_precision_repeats_the_right_symbols():
    model = small(replace(SMALL, max_duration=400.0)).half()
    assert model.pitch_mean.dtype == torch.float32
    tokens_BT = torch.arange(1, 25)[None]
    said = model.infer(tokens_BT, torch.tensor([24]), durations_BT=torch.full((1, 24), 151.0))
    assert said.frames_B.tolist() == [24 * 151]
    assert said.symbol_frames_BT.tolist() == [[151] * 24]
    exact = model.float().infer(tokens_BT, torch.tensor([24]), durations_BT=torch.full((1, 24), 151.0))
    # Far along, neighbouring positions still differ as they should: sin(3000) in half precision would not.
    assert (said.mel_BMT.float() - exact.mel_BMT).abs().mean() < 0.01 * exact.mel_BMT.abs().mean()


def test_a_text_that_gets_no_frames_is_silent_not_an_error():
    said = small().infer(TOKENS_BT[:1], LENGTHS_B[:1], durations_BT=torch.zeros(1, 23))
    assert said.frames_B.tolist() == [0]
    assert not said.mel_BMT.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pace": 0}, "pace 0; expected a number above 0, 1 for unchanged"),
        ({"speaker": 1}, "speaker 1; this model has 0 to 0"),
        ({"pitch_BT": torch.zeros(4, 22)}, r"pitch_BT of shape \(4, 22\) for tokens of \(4, 23\)"),
        ({"lengths_B": torch.ones(3)}, r"lengths of shape \(3,\); expected \[utterances, symbols\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        small().infer(**({"tokens_BT": TOKENS_BT, "lengths_B": LENGTHS_B} | arguments))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TransformerConfig(kernel=4), "kernel = 4: expected an odd number"),
        (lambda: PredictorConfig(kernel=2), "kernel = 2: expected an odd number"),
        (lambda: ModelConfig(pitch_kernel=2), "kernel = 2: expected an odd number"),
        (lambda: ModelConfig(speakers=0), "speakers = 0: expected at least 1"),
        (lambda: ModelConfig(channels=31), "channels = 31: expected an even number"),
        (lambda: TransformerConfig(dropout=-0.1), r"^dropout = -0.1: expected 0 to 1$"),
        (lambda: PredictorConfig(layers=-1), r"^layers = -1: expected a number above 0$"),
        (lambda: LossConfig(pitch=-0.1), r"^pitch = -0.1: expected a number of at least 0$"),
        (lambda: LossConfig(binarisation_start_epoch=-1), "binarisation_start_epoch = -1: expected a number of at"),
        (lambda: AdversaryConfig(weight=-1.0), r"^weight = -1.0: expected a number of at least 0$"),
        (lambda: AdversaryConfig(features=math.nan), "features = nan: expected a number of at least 0"),
        (lambda: vocoders.LossConfig(stft=-1.0), r"^stft = -1.0: expected a number of at least 0$"),
        (lambda: vocoders.LossConfig(adversarial=math.inf), "adversarial = inf: expected a number of at least 0"),
    ],
)
def test_a_configuration_that_makes_no_sense_says_what_it_should_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_under_autocast_the_wide_activations_stay_in_half_precision():
    model, seen = tiny_model(), []
    model.encoder.layers[0].narrow.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        model.infer(torch.ones(1, 5, dtype=torch.int64), torch.tensor([5]))
    assert seen == [torch.bfloat16]
