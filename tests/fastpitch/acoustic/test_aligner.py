import pytest
import torch
from torch.nn import functional as F

from fastpitch.acoustic.aligner import (
    Aligner,
    SoftAlignment,
    beta_binomial,
    binarisation_losses,
    entropies,
    forward_sum_losses,
    mean_over_symbols,
    nearness,
    symbol_of_frames,
)

FRAMES_B, LENGTHS_B = torch.tensor([37, 800, 12, 5]), torch.tensor([9, 130, 12, 1])


def some_alignment(frames_B: torch.Tensor, lengths_B: torch.Tensor) -> SoftAlignment:
    torch.manual_seed(0)
    frames, length = int(frames_B.max()), int(lengths_B.max())
    symbols_BLC = torch.randn(len(frames_B), length, 8) * (torch.arange(length) < lengths_B[:, None])[..., None]
    mel_BMT = torch.randn(len(frames_B), 6, frames) * (torch.arange(frames) < frames_B[:, None])[:, None]
    return Aligner(8, 6)(symbols_BLC, lengths_B, 20 * mel_BMT, frames_B)


def test_the_prior_is_scipy_s_beta_binomial():
    stats = pytest.importorskip("scipy.stats")
    prior_BTL = beta_binomial(FRAMES_B, LENGTHS_B, 805, 133)
    assert prior_BTL.dtype == torch.float32
    for prior_TL, frames, n in zip(prior_BTL, FRAMES_B.tolist(), LENGTHS_B.tolist(), strict=True):
        for t in (0, 1, frames // 2, frames - 1):
            expected_L = stats.betabinom(n, 1 + t, frames - t).pmf(range(n))
            torch.testing.assert_close(prior_TL[t, :n].double(), torch.from_numpy(expected_L), rtol=2e-6, atol=1e-12)
        assert not prior_TL[:, n:].any()
        assert not prior_TL[frames:].any()


def test_nearness_is_minus_the_squared_distance():
    query_BMT, key_BML = torch.randn(2, 80, 13), torch.randn(2, 80, 7)
    expected_BTL = -0.0005 * (query_BMT.mT[:, :, None] - key_BML.mT[:, None]).square().sum(3)
    torch.testing.assert_close(nearness(query_BMT, key_BML), expected_BTL, rtol=0, atol=1e-6)


def test_probabilities_of_an_utterance_sum_to_one_over_its_own_symbols():
    alignment = some_alignment(FRAMES_B, LENGTHS_B)
    probability_BTL = alignment.log_probs_BTL.exp()
    torch.testing.assert_close(probability_BTL.sum(2), torch.ones(4, 800))
    for probability_TL, n in zip(probability_BTL, LENGTHS_B.tolist(), strict=True):
        assert not probability_TL[:, n:].any()
    assert alignment.durations_BL.sum(1).tolist() == FRAMES_B.tolist()
    assert all((d[:n] > 0).all() for d, n in zip(alignment.durations_BL, LENGTHS_B.tolist(), strict=True))


def test_every_frame_is_of_the_symbol_whose_duration_covers_it():
    durations_BL = torch.tensor([[2, 0, 3], [1, 1, 0]])
    assert symbol_of_frames(durations_BL, 6).tolist() == [[0, 0, 2, 2, 2, 2], [0, 1, 2, 2, 2, 2]]


def test_the_forward_sum_loss_is_minus_the_log_of_the_sum_over_all_alignments():
    """Directly, by the recursion over frames, symbols and the blank between them, in float64."""
    frames_B, lengths_B = torch.tensor([9, 6, 4]), torch.tensor([4, 6, 1])
    alignment = some_alignment(frames_B, lengths_B)
    losses_B = forward_sum_losses(alignment, frames_B, lengths_B)
    for b, (frames, n) in enumerate(zip(frames_B.tolist(), lengths_B.tolist(), strict=True)):
        logits_TV = F.pad(alignment.logits_BTL[b, :frames, :n].double(), (1, 0), value=-1.0)
        emission_TV = logits_TV.log_softmax(1)
        state_of = [0 if s % 2 == 0 else s // 2 + 1 for s in range(2 * n + 1)]
        alpha_S = torch.full((2 * n + 1,), -torch.inf, dtype=torch.float64)
        alpha_S[:2] = emission_TV[0, state_of[:2]]
        for t in range(1, frames):
            ways = [alpha_S, F.pad(alpha_S, (1, -1), value=-torch.inf)]
            skip_S = F.pad(alpha_S, (2, -2), value=-torch.inf)
            skip_S[::2] = -torch.inf
            alpha_S = torch.stack([*ways, skip_S]).logsumexp(0) + emission_TV[t, state_of]
        expected = -alpha_S[-2:].logsumexp(0) / n
        torch.testing.assert_close(losses_B[b].double(), expected, rtol=1e-5, atol=1e-5)


def test_the_losses_of_an_alignment_do_not_depend_on_its_padding_and_have_finite_gradients():
    torch.manual_seed(0)
    aligner = Aligner(8, 6)
    frames_B, lengths_B = torch.tensor([30, 11]), torch.tensor([7, 5])
    symbols_BLC, mel_BMT = torch.randn(2, 7, 8), 20 * torch.randn(2, 6, 30)
    symbols_BLC[1, 5:], mel_BMT[1, :, 11:] = 0, 0
    together = aligner(symbols_BLC, lengths_B, mel_BMT, frames_B)
    alone = aligner(symbols_BLC[1:, :5], lengths_B[1:], mel_BMT[1:, :, :11], frames_B[1:])
    assert torch.equal(together.durations_BL[1, :5], alone.durations_BL[0])
    sums = [
        forward_sum_losses(a, f, n)[-1]
        for a, f, n in ((together, frames_B, lengths_B), (alone, frames_B[1:], lengths_B[1:]))
    ]
    torch.testing.assert_close(*sums, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(binarisation_losses(together)[1, :11], binarisation_losses(alone)[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(entropies(together)[1, :11], entropies(alone)[0], rtol=0, atol=1e-5)
    (sums[0] + binarisation_losses(together)[1, :11].sum()).backward()
    gradients = [p.grad for p in aligner.parameters() if p.requires_grad]
    assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients)


def test_pitch_of_a_symbol_is_the_mean_over_its_voiced_frames():
    pitch_BT = torch.tensor([[1.0, 0, 3, 0, 0, 5, 7, 9], [2.0, 4, 0, 0, 0, 0, 0, 0]])
    durations_BL = torch.tensor([[3, 2, 0, 3], [1, 1, 0, 0]])
    assert mean_over_symbols(pitch_BT, durations_BL).tolist() == [[2, 0, 0, 7], [2, 4, 0, 0]]
