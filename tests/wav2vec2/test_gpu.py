"""What only a GPU shows: it says what a CPU does, training never waits for it, and fp16 recovers from an overflow."""

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from common.devices.precision import float32_math
from tests.wav2vec2.runs import finetune_config, pretrain_config, run_of
from tests.wav2vec2.small import audio_batch, ctc_model, pretraining_model
from tests.wav2vec2.test_recognizer import CLIPS, KINDS
from wav2vec2 import finetune, pretrain
from wav2vec2.contrastive.masking import MaskConfig, draw_targets
from wav2vec2.contrastive.objective import ObjectiveConfig
from wav2vec2.corpus.batches import Batch, loader, on_device
from wav2vec2.losses import ctc_logits, ctc_losses
from wav2vec2.network.extractor import n_frames
from wav2vec2.recognizer import Recognizer
from wav2vec2.run import Run

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda")
TASKS = {"pretrain": (pretrain_config, pretrain.update), "finetune": (finetune_config, finetune.update)}


@pytest.fixture
def without_waiting() -> Iterator[Any]:
    """A function after whose call whatever waits for the device raises an error."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.cpu() - expected).norm() / expected.norm())


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_transcribes_as_a_cpu_does(kind):
    on_cpu, on_gpu = (Recognizer(ctc_model(kind), device=device) for device in ("cpu", DEVICE))
    expected = on_cpu.transcribe(CLIPS, batch_size=3, keep_log_probs=True)
    for a, b in zip(on_gpu.transcribe(CLIPS, batch_size=3, keep_log_probs=True), expected, strict=True):
        assert (a.text, [word[:3] for word in a.words]) == (b.text, [word[:3] for word in b.words])
        torch.testing.assert_close(a.log_probs_SV, b.log_probs_SV, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_too_an_utterance_gives_the_same_alone_and_in_a_batch(kind):
    on_gpu = Recognizer(ctc_model(kind), device=DEVICE)
    together, alone = (on_gpu.transcribe(CLIPS, batch_size=size, keep_log_probs=True) for size in (6, 1))
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a.log_probs_SV, b.log_probs_SV, atol=1e-5, rtol=0)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("layers", [None, 0, 2])
def test_representations_are_as_exact_as_those_of_a_cpu(layers, precision):
    """16 bits round everywhere: the error may be twice that of the CPU in the same precision."""
    audio_BN, samples_B = audio_batch()
    exact = Recognizer(ctc_model("base hourglass")).encode(audio_BN, samples_B, layers=layers)
    errors = {}
    for device in ("cpu", DEVICE):
        w = Recognizer(ctc_model("base hourglass"), device=device, precision=precision)
        found = w.encode(audio_BN, samples_B, layers=layers)
        assert found.x_BSC.device.type == torch.device(device).type
        assert found.frames_B.tolist() == exact.frames_B.tolist()
        errors[str(device)] = relative_error(found.x_BSC.float(), exact.x_BSC)
    assert errors[str(DEVICE)] <= 2 * errors["cpu"] + 1e-5


@pytest.mark.parametrize("kind", ["base", "large", "base hourglass"])
def test_the_loss_of_pre_training_and_its_gradient_are_those_of_a_cpu(kind):
    audio_BN, samples_B = audio_batch()
    on_cpu = pretraining_model(kind, labels=()).train()
    config = on_cpu.wav2vec2.config
    frames = [n_frames(samples, config.conv_layers) for samples in samples_B.tolist()]
    targets = draw_targets(frames, MaskConfig(time_length=3), distractors=10, seed=0)
    random = torch.Generator().manual_seed(0)
    shape = (targets.positions_BM.numel(), config.codebooks, config.codebook_size)
    noise_QGV = -torch.empty(shape).exponential_(generator=random).log()
    losses, gradients = [], []
    for model, device in ((on_cpu, "cpu"), (copy.deepcopy(on_cpu).to(DEVICE), DEVICE)):
        with float32_math("fp32"):
            loss = model(
                audio_BN.to(device), samples_B.to(device), on_device([targets], torch.device(device)),
                objective=ObjectiveConfig(), temperature=2.0, noise_QGV=noise_QGV.to(device),
            )  # fmt: skip
            loss.total.backward()
        losses.append([loss.total.item(), loss.contrastive.item(), loss.code_perplexity.item(), loss.correct.item()])
        gradients.append(torch.cat([p.grad.flatten().cpu() for p in model.parameters() if p.grad is not None]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert relative_error(gradients[1], gradients[0]) < 1e-3


@contextlib.contextmanager
def training(task: str, corpus: Any, folder: Any, **changes: Any) -> Iterator[tuple[Run[Any], list[list[Batch]]]]:
    """A run on the GPU and the batches of its first updates, in pinned memory."""
    cfg = TASKS[task][0](corpus, folder, device=str(DEVICE), data={"validation": ()}, **changes)
    with run_of(cfg) as run:
        plans = [plan for epoch in range(4) for plan in run.plans(epoch)]
        yield run, [[batch] for batch in loader(run.train_set, plans, workers=0)]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
@pytest.mark.parametrize("task", TASKS)
def test_an_update_never_waits_for_the_device(task, precision, corpus, tmp_path, without_waiting):
    with training(task, corpus, tmp_path, precision=precision, clip_norm=5.0, ema=0.9) as (run, batches):
        for batch in batches[:3]:
            TASKS[task][1](run, batch)
            run.state.progress.step += 1
        torch.cuda.synchronize()
        without_waiting()
        step = TASKS[task][1](run, batches[3])
        torch.cuda.set_sync_debug_mode("default")
        assert all(map(math.isfinite, step.sums_K.tolist()))


@pytest.mark.parametrize("task", TASKS)
def test_training_in_fp16_learns_and_passes_over_an_overflow(task, corpus, tmp_path):
    with training(task, corpus, tmp_path, precision="fp16") as (run, batches):
        updates = itertools.cycle(batches)
        start = copy.deepcopy(run.model.state_dict())
        for _ in range(8):
            TASKS[task][1](run, next(updates))
            run.state.progress.step += 1
        assert any(not torch.equal(tensor, start[name]) for name, tensor in run.model.state_dict().items())
        assert all(tensor.isfinite().all() for tensor in run.model.state_dict().values())
        assert {parameter.dtype for parameter in run.model.parameters()} == {torch.float32}
        before = copy.deepcopy(run.model.state_dict())
        run.learner.scaler.update(2.0**100)
        TASKS[task][1](run, next(updates))
        assert run.learner.scaler.get_scale() == 2.0**99
        assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())


def test_the_first_losses_are_those_of_a_cpu(corpus, tmp_path):
    """Without dropout; the noise of the quantiser is drawn on the device, so of fine-tuning only."""
    quiet = dict.fromkeys(("dropout", "attention_dropout", "input_dropout", "layer_drop", "activation_dropout"), 0.0)
    with training("finetune", corpus, tmp_path, learning=quiet) as (run, batches):
        on_cpu = copy.deepcopy(run.model).cpu()
        for (batch,) in batches[:3]:
            expected = ctc_losses(run.cfg, ctc_logits(run.cfg, on_cpu.train(), batch), batch).sum().item()
            moved = finetune.update(run, [batch])
            assert moved.sums_K[0].item() == pytest.approx(expected, rel=1e-4)
            on_cpu.load_state_dict({name: tensor.cpu() for name, tensor in run.model.state_dict().items()})
            run.state.progress.step += 1
