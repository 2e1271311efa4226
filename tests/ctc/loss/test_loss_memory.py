"""Gradients of the loss in memory that is lent again, from a pool of each module."""

import copy
import os
import pickle

import pytest
import torch

import ctc
from ctc.bindings import _loss_library
from ctc.bindings._loss_library import LossOptions, TargetLabels
from ctc.loss import function as loss
from ctc.loss import memory
from ctc.loss.memory import GradientPool
from tests.ctc.losses import random_batch, random_layout


@pytest.fixture
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALLEST_POOLED_BYTES", 1 << 20)


@pytest.mark.usefixtures("small_pools")
def test_a_pool_lends_only_memory_that_nobody_uses_any_more():
    pool = GradientPool()
    like = torch.empty(3, 400, 300).transpose(0, 1)
    first = pool.empty_like(like)
    assert first.stride() == like.stride()
    second = pool.empty_like(like)
    assert first.data_ptr() != second.data_ptr()
    address, view = first.data_ptr(), first[5]
    del first
    assert pool.empty_like(like).data_ptr() != address
    del view
    third = [pool.empty_like(like) for _ in range(2)]
    assert address in [tensor.data_ptr() for tensor in third]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes that are forked")
@pytest.mark.usefixtures("small_pools")
def test_memory_of_a_pool_is_not_shared_with_a_forked_process():
    lent = GradientPool().empty_like(torch.empty(40, 100, 300))
    lent[0, 0, 0] = 1.0
    if (child := os.fork()) == 0:
        lent[0, 0, 0] = 2.0
        os._exit(0)
    os.waitpid(child, 0)
    assert lent[0, 0, 0] == 1.0


@pytest.mark.usefixtures("small_pools")
def test_a_pool_gives_the_strides_that_torch_would_give():
    like = torch.empty(40, 100, 300)
    for layout in (like, like.transpose(0, 1), like[:, ::2], like[:1].expand(40, 100, 300), like.permute(1, 0, 2)):
        assert GradientPool().empty_like(layout).stride() == torch.empty_like(layout).stride()


@pytest.mark.parametrize("kind", ["compiled node", "operator", "torch.compile", "module"])
def test_logits_of_any_layout_have_a_gradient_with_memory_of_its_own(kind, monkeypatch):
    monkeypatch.setattr(memory, "SMALLEST_POOLED_BYTES", 1)
    if kind == "operator":
        monkeypatch.setattr(loss._compiled_loss, "function", lambda: None)
    compiled = torch.compile(ctc.ctc_loss, backend="aot_eager", dynamic=False)
    call = {"torch.compile": compiled, "module": ctc.CTCLoss()}.get(kind, ctc.ctc_loss)
    for seed in range(6 if kind == "torch.compile" else 300):
        T, B, V, dtype = 2 + seed % 7, 1 + seed % 3, 2 + seed % 5, (torch.float32, torch.bfloat16)[seed % 2]
        x = random_layout((T, B, V), seed, dtype)
        rest = torch.randint(1, V, (B, 2)), torch.full((B,), T), torch.tensor([2, 1, 0][:B])
        leaf = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(call(leaf, *rest), leaf)
        copy_of_x = x.clone(memory_format=torch.contiguous_format).requires_grad_()
        (wanted,) = torch.autograd.grad(ctc.ctc_loss(copy_of_x, *rest), copy_of_x)
        assert torch.equal(gradient, wanted), (seed, x.stride())


def test_a_module_with_a_pool_can_be_copied_and_pickled():
    module = ctc.CTCLoss(blank=3)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert twin.blank == 3
        assert twin.pool is not module.pool


@pytest.mark.usefixtures("small_pools")
def test_the_module_gives_what_the_function_gives_and_reuses_its_gradient():
    logits, *rest = random_batch(100, 9, 2000, 2)
    module = ctc.CTCLoss(zero_infinity=True)
    addresses = set()
    for _ in range(3):
        x = logits.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(module(x, *rest), x)
        addresses.add(gradient.data_ptr())
        expected = ctc.ctc_loss(x, *rest, zero_infinity=True)
        assert torch.equal(gradient, torch.autograd.grad(expected, x)[0])
        del gradient
    assert len(addresses) == 1


@pytest.mark.parametrize("classes", [1024, 2041, 2049])
@pytest.mark.parametrize("instruction_set", ["generic", "avx2", "avx512"])
def test_gradients_past_the_caches_are_those_of_one_utterance_wherever_their_rows_begin(classes, instruction_set):
    """Of more than 8 MB, something of others behind every row, which begins anywhere within a vector of memory."""
    frames, batch = 30, 2 * 10**6 // (30 * classes) + 20
    logits = torch.randn(frames, batch, classes)
    targets = torch.randint(1, classes, (batch, 5))
    lengths = torch.randint(10, frames + 1, (batch,)), torch.full((batch,), 5)
    room = torch.full((frames * batch * (classes + 3) + 1,), 7.0)
    gradient = room[1:].view(frames, batch, classes + 3)
    options = LossOptions(reduction="none", instruction_set=instruction_set)
    try:
        _loss_library.run(logits, TargetLabels(targets, *lengths, 5), options, gradient[:, :, :classes])
    except ValueError as refused:
        pytest.skip(str(refused))
    assert gradient.nbytes > 8e6
    assert (gradient[:, :, classes:] == 7).all()
    assert room[0] == 7
    for i in range(0, batch, 7):
        one = logits[:, i : i + 1].clone()
        alone = torch.empty_like(one)
        own = TargetLabels(targets[i : i + 1], lengths[0][i : i + 1], lengths[1][i : i + 1], 5)
        _loss_library.run(one, own, options, alone)
        assert torch.equal(gradient[:, i, :classes], alone[:, 0])
