"""What the tests of the loss share: random batches, and the truth about them."""

import hashlib

import torch
from torch import Tensor

import ctc
from ctc.loss import reference

MOST_KNOWN = 32
_known: dict[bytes, tuple[Tensor, Tensor]] = {}


def random_batch(
    T: int, L: int, V: int, B: int, *, scale: float = 1.0, blank: int = 0, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(T, B, V, generator=generator)
    targets = torch.randint(0, max(V - 1, 1), (B, L), generator=generator)
    targets += targets >= blank
    return logits, targets, torch.full((B,), T), torch.full((B,), L)


def random_layout(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of this shape in memory as `as_strided`, `expand`, `permute` and slices leave it: axes overlap or repeat,
    have gaps between them, or are in another order.
    """
    generator = torch.Generator().manual_seed(seed)
    strides, step = [0] * len(shape), 1
    for axis in torch.randperm(len(shape), generator=generator).tolist():
        strides[axis], step = step, step * shape[axis] + int(torch.randint(0, 3, (), generator=generator))
    for axis in range(len(shape)):
        choice = int(torch.randint(0, 4, (), generator=generator))
        strides[axis] = {0: 0, 1: int(torch.randint(0, 9, (), generator=generator))}.get(choice, strides[axis])
    size = 1 + sum(stride * (count - 1) for stride, count in zip(strides, shape, strict=True) if count)
    return torch.randn(size + 3, generator=generator).to(dtype).as_strided(shape, strides, 2)


def truth(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor, blank: int = 0) -> tuple[Tensor, Tensor]:
    """Losses and the gradient of their sum, by torch in float64; kept for the next device that is asked for them."""
    x = logits.detach().cpu().double().contiguous()
    given = (x, *(torch.as_tensor(each).cpu().contiguous() for each in (targets, frames, labels)))
    digest = hashlib.sha256(repr((blank, *(each.shape for each in given))).encode())
    for each in given:
        digest.update(each.numpy())
    key = digest.digest()
    if key not in _known:
        losses = reference.torch_losses(x.requires_grad_(), targets, frames, labels, blank)
        finite = torch.where(losses.isfinite(), losses, 0.0)
        _known[key] = losses.detach(), torch.autograd.grad(finite.sum(), x)[0]
        for oldest in list(_known)[:-MOST_KNOWN]:
            del _known[oldest]
    losses, gradient = _known[key]
    return losses.clone(), gradient.clone()


def ours(
    logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor, device: str = "cpu", **options
) -> tuple[Tensor, Tensor]:
    x = logits.detach().to(device).requires_grad_()
    losses = ctc.ctc_loss(x, targets.to(device), frames.to(device), labels.to(device), reduction="none", **options)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    return losses.detach().cpu(), gradient.cpu()


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm().clamp(min=1e-30))


def assert_exact(batch: tuple[Tensor, Tensor, Tensor, Tensor], device: str = "cpu", **options) -> None:
    losses, gradient = ours(*batch, device, **options)
    expected_losses, expected_gradient = truth(*batch, **options)
    torch.testing.assert_close(losses.double(), expected_losses, rtol=1e-6, atol=1e-6)
    assert relative_error(gradient, expected_gradient) <= 1e-6
