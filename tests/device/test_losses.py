import pytest
import torch

import ctc
from tests.device.mirror import counted, no_waits

TARGETS_BL, FRAMES_B, LENGTHS_B = torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([20, 15]), torch.tensor([3, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"star": 9}, {"label_smoothing": 0.1, "reduction": "mean"}], ids=str)
def test_the_plain_ctc_loss_and_its_gradient_are_bitwise_those_of_the_cpu(device, plain_cpu, dtype, options):
    logits_BTV = torch.randn(2, 20, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    targets_BL = TARGETS_BL.clone()
    targets_BL[0, 1] = options.get("star", 2)
    found = []
    for place in (torch.device("cpu"), device):
        leaf_BTV = logits_BTV.to(place, copy=True).requires_grad_()
        given = [tensor.to(place) for tensor in (targets_BL, FRAMES_B, LENGTHS_B)]
        loss = ctc.ctc_loss(leaf_BTV, *given, batch_first=True, **options)
        assert loss.device == place
        loss.sum().mul(4).backward()
        found.append((loss.detach().cpu(), leaf_BTV.grad.cpu()))
    assert all(torch.equal(here, there) for here, there in zip(*found, strict=True))


def test_alignments_are_those_of_the_cpu(device, plain_cpu):
    log_probs_BTL = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(1)).log_softmax(2)
    expected = ctc.monotonic_alignment(log_probs_BTL, FRAMES_B, LENGTHS_B)
    found = ctc.monotonic_alignment(log_probs_BTL.to(device), FRAMES_B.to(device), LENGTHS_B.to(device))
    assert torch.equal(found.cpu(), expected)
    here, there = (ctc.greedy(x, FRAMES_B, blank=0) for x in (log_probs_BTL, log_probs_BTL.to(device)))
    assert [(d.labels, d.end_frames) for d in here] == [(d.labels, d.end_frames) for d in there]  # labels and frames


def test_an_alignment_is_four_operations_per_token(device):
    found = []
    for tokens in (50, 150):
        log_probs_BTL = torch.randn(2, 200, tokens, generator=torch.Generator().manual_seed(1)).to(device)
        given = [torch.tensor(numbers, device=device) for numbers in ([200, 180], [tokens, tokens - 9])]
        with counted() as counts, no_waits():
            ctc.monotonic_alignment(log_probs_BTL, *given)
        found.append(counts.operations.total())
    assert found[1] - found[0] == 4 * 100
