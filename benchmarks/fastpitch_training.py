"""FastPitch's aligner, and a whole training step, against the formulation they were published in, on one thread.

    python benchmarks/fastpitch_training.py aligner
    python benchmarks/fastpitch_training.py step

The published formulation: squared distances by broadcasting to [B, M, T, L]; the prior utterance by utterance, frame
by frame, by scipy; the search of one utterance after the other in numpy arrays, compiled by numba; convolutions of
channels first, attention by two matrix products, frames by a product with a dense matrix of zeros and ones; torch's CTC
loss on each utterance by itself; LAMB one tensor after the other; losses and the norms of all gradients read in every
step. Both sides have the same weights, and their losses are compared before they are timed. Mel frames are given to
both, and in the step the prior to the published side, whose data loader makes it.

Shapes: B utterances, L symbols, T frames, M mel bins, C channels.
"""

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numba
import numpy as np
import torch
from scipy.stats import betabinom
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common.benchmark import append_row, compare, ratio, spread
from common.convolution.winograd import WinogradConvolution
from common.features import TTS, LogMel
from common.training.optimizers import build_optimizer
from fastpitch.acoustic.aligner import (
    BLANK_LOGIT,
    PRIOR_FLOOR,
    TEMPERATURE,
    Aligner,
    SoftAlignment,
    beta_binomial,
    nearness,
    symbol_of_frames,
)
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.model import FastPitch
from fastpitch.acoustic.training.data import ClipBatch
from fastpitch.acoustic.training.objective import Counts, Loss, counts_of, fastpitch_objective
from fastpitch.acoustic.transformer import MaskedAttention

CPU = torch.device("cpu")
SYMBOLS = 148


# ---- The published formulation ----


def broadcast_nearness(query_BMT: Tensor, key_BML: Tensor) -> Tensor:
    return -TEMPERATURE * (query_BMT[:, :, :, None] - key_BML[:, :, None]).pow(2).sum(1)


def scipy_prior(frames_B: Iterable[int], lengths_B: Iterable[int], frames: int, symbols: int) -> Tensor:
    priors = []
    for t, n in zip(frames_B, lengths_B, strict=True):
        rows = [betabinom(n, i, t + 1 - i).pmf(np.arange(n)) for i in range(1, t + 1)]
        priors.append(np.pad(np.stack(rows), ((0, frames - t), (0, symbols - n))))
    return torch.from_numpy(np.stack(priors)).float()


@numba.njit(cache=False)
def search_one(log_probs_TL: np.ndarray) -> np.ndarray:
    frames, symbols = log_probs_TL.shape
    best, came_from = np.full((frames, symbols), -np.inf, np.float32), np.zeros((frames, symbols), np.int64)
    best[0, 0] = log_probs_TL[0, 0]
    for t in range(1, frames):
        for i in range(symbols):
            came_from[t, i], score = i, best[t - 1, i]
            if i > 0 and best[t - 1, i - 1] >= score:
                came_from[t, i], score = i - 1, best[t - 1, i - 1]
            best[t, i] = log_probs_TL[t, i] + score
    hard = np.zeros((frames, symbols), np.float32)
    i = symbols - 1
    for t in range(frames - 1, -1, -1):
        hard[t, i] = 1
        i = came_from[t, i]
    return hard


def search_each(probs_BTL: Tensor, frames_B: Iterable[int], lengths_B: Iterable[int]) -> Tensor:
    log_probs_BTL = probs_BTL.detach().cpu().log().numpy()
    hard_BTL = np.zeros_like(log_probs_BTL)
    for b, (t, n) in enumerate(zip(frames_B, lengths_B, strict=True)):
        hard_BTL[b, :t, :n] = search_one(np.ascontiguousarray(log_probs_BTL[b, :t, :n]))
    return torch.from_numpy(hard_BTL)


class PublishedConvolution(WinogradConvolution):
    def forward(self, x_BTI: Tensor) -> Tensor:
        return F.conv1d(x_BTI.mT, self.weight, self.bias, padding=self.weight.shape[2] // 2).mT


class PublishedAttention(MaskedAttention):
    def forward(self, x_BTC: Tensor, inside_BT: Tensor) -> Tensor:
        query_BTC, key_BTC, value_BTC = self.query_key_value(x_BTC).chunk(3, 2)
        score_BTT = torch.bmm(query_BTC, key_BTC.mT) / math.sqrt(query_BTC.shape[2])
        score_BTT = score_BTT.masked_fill(~inside_BT[:, None].expand_as(score_BTT), -torch.inf)
        return self.out(torch.bmm(F.dropout(score_BTT.softmax(2), self.dropout, self.training), value_BTC))


class PublishedAligner(Aligner):
    prior_BTL: Tensor

    def forward(self, symbols_BLC: Tensor, lengths_B: Tensor, mel_BMT: Tensor, frames_B: Tensor) -> SoftAlignment:
        key_BML = self.key_out(F.relu(self.key_wide(symbols_BLC.mT)))
        query_BMT = self.query_out(F.relu(self.query_middle(F.relu(self.query_wide(mel_BMT)))))
        is_symbol_BL = torch.arange(key_BML.shape[2]) < lengths_B[:, None]
        logits_BTL = broadcast_nearness(query_BMT, key_BML).masked_fill(~is_symbol_BL[:, None], -torch.inf)
        logits_BTL = logits_BTL.log_softmax(2) + (self.prior_BTL + PRIOR_FLOOR).log()
        probs_BTL = logits_BTL.softmax(2)
        self.hard_BTL = search_each(probs_BTL, frames_B.tolist(), lengths_B.tolist())
        durations_BL = self.hard_BTL.sum(1).long()
        assert torch.equal(durations_BL.sum(1), frames_B)
        # clamped, where the published loss clamps only the frames that it counts
        log_probs_BTL = probs_BTL.clamp(min=1e-12).log()
        return SoftAlignment(log_probs_BTL, logits_BTL, durations_BL, symbol_of_frames(durations_BL, mel_BMT.shape[2]))


class PublishedFastPitch(FastPitch):
    def _decoded(self, x_BLC: Tensor, symbol_BT: Tensor, frames_B: Tensor, voice_B1C: Tensor | None) -> Tensor:
        is_frame_BT = torch.arange(symbol_BT.shape[1]) < frames_B[:, None]
        repeat_BTL = F.one_hot(symbol_BT, x_BLC.shape[1]).to(x_BLC.dtype) * is_frame_BT[:, :, None]
        return self.projection(self.decoder(torch.matmul(repeat_BTL, x_BLC), is_frame_BT)) * is_frame_BT[:, :, None]


PUBLISHED = {
    WinogradConvolution: PublishedConvolution,
    MaskedAttention: PublishedAttention,
    Aligner: PublishedAligner,
    FastPitch: PublishedFastPitch,
}


def as_published(model: FastPitch) -> FastPitch:
    """A model with the same weights, whose parts compute as published."""
    twin = FastPitch(model.config, n_symbols=SYMBOLS, mel_bins=TTS.mel_bins)
    twin.load_state_dict(model.state_dict())
    for module in twin.modules():
        module.__class__ = PUBLISHED.get(type(module), type(module))
    return twin.train(model.training)


def forward_sum_each(logits_BTL: Tensor, frames_B: Tensor, lengths_B: Tensor) -> Tensor:
    """Mean over the utterances of torch's CTC loss, called for one after the other."""
    losses = []
    for logits_TL, t, n in zip(F.pad(logits_BTL, (1, 0), value=BLANK_LOGIT), frames_B, lengths_B, strict=True):
        log_probs_T1L = logits_TL[:t, None, : n + 1].log_softmax(2)
        labels_1L = torch.arange(1, int(n) + 1)[None]
        losses.append(F.ctc_loss(log_probs_T1L, labels_1L, t[None], n[None], zero_infinity=True))
    return torch.stack(losses).mean()


class LambLoop:
    """LAMB with a global limit on the gradient, one tensor after the other."""

    def __init__(self, parameters: list[nn.Parameter], cfg: Config):
        self.parameters, self.cfg, self.steps = parameters, cfg.optim, 0
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    @torch.no_grad()
    def step(self, lr: float) -> None:
        self.steps += 1
        assert self.cfg.betas is not None
        assert self.cfg.eps is not None
        beta1, beta2 = self.cfg.betas
        norm = torch.stack([p.grad.norm() for p in self.parameters]).norm()
        for p, (first, second) in zip(self.parameters, self.moments, strict=True):
            grad = p.grad / norm.clamp(min=1)
            first.mul_(beta1).add_(grad, alpha=1 - beta1)
            second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            divisor = (second / (1 - beta2**self.steps)).sqrt() + self.cfg.eps
            update = first / (1 - beta1**self.steps) / divisor + self.cfg.weight_decay * p
            p.sub_(lr * p.norm() / update.norm() * update)


# ---- The comparisons ----


def compare_aligners(
    batch: int = 32, frames: int = 800, symbols: int = 130, *, exact: bool = True
) -> dict[str, object]:
    """Distance, prior and search of equally long utterances; the projections before them are the same on both sides."""
    draw = torch.Generator().manual_seed(0)
    query_BMT, key_BML = (torch.randn(batch, 80, n, generator=draw) * 4 for n in (frames, symbols))
    frames_B, lengths_B = torch.full((batch,), frames), torch.full((batch,), symbols)

    def ours() -> Tensor:
        prior_BTL = beta_binomial(frames_B, lengths_B, frames, symbols)
        logits_BTL = nearness(query_BMT, key_BML).log_softmax(2) + (prior_BTL + PRIOR_FLOOR).log()
        return ctc.monotonic_alignment(logits_BTL.log_softmax(2), frames_B, lengths_B)

    def published() -> Tensor:
        prior_BTL = scipy_prior(frames_B.tolist(), lengths_B.tolist(), frames, symbols)
        logits_BTL = broadcast_nearness(query_BMT, key_BML).log_softmax(2) + (prior_BTL + PRIOR_FLOOR).log()
        return search_each(logits_BTL.softmax(2), frames_B.tolist(), lengths_B.tolist()).sum(1).long()

    search_one(np.zeros((2, 2), np.float32))  # compiles
    probs_BTL = torch.rand(batch, frames, symbols, generator=draw)
    parts: dict[str, Callable[[], object]] = {
        "distance": lambda: nearness(query_BMT, key_BML),
        "distance published": lambda: broadcast_nearness(query_BMT, key_BML),
        "prior": lambda: beta_binomial(frames_B, lengths_B, frames, symbols),
        "search": lambda: ctc.monotonic_alignment(probs_BTL.log(), frames_B, lengths_B),
        "search published": lambda: search_each(probs_BTL, frames_B.tolist(), lengths_B.tolist()),
    }
    times = compare(parts, device=CPU, warmup=1, repeats=3)
    whole = compare({"ours": ours, "published": published}, device=CPU, warmup=0, repeats=1)
    differing = (ours() != published()).sum().item() if exact else None
    return {
        "metric": "latency_ms",
        "what": f"distance, prior and search of {batch} x {frames} frames x {symbols} symbols",
        **{f"{name.replace(' ', '_')}_p50": round(t.percentile(50), 2) for name, t in times.items()},
        "spread": spread(*whole.values()),
        "p50": round(whole["ours"].percentile(50), 2),
        "published_p50": round(whole["published"].percentile(50), 2),
        "times_faster": round(ratio(whole["published"], whole["ours"]), 1),
        "durations_that_differ": differing,
    }


def random_batch(batch: int, symbols: int, frames: int) -> ClipBatch:
    draw = torch.Generator().manual_seed(0)
    lengths_B = torch.linspace(0.7 * symbols, symbols, batch).long()
    frames_B = torch.linspace(0.7 * frames, frames, batch).long()
    inside_BT = torch.arange(frames) < frames_B[:, None]
    return ClipBatch(
        tokens_BL=torch.randint(1, SYMBOLS, (batch, symbols), generator=draw),
        lengths_B=lengths_B,
        audio_BN=torch.zeros(batch, 0),
        samples_B=torch.zeros(batch, dtype=torch.int64),
        mel_BMT=(torch.randn(batch, TTS.mel_bins, frames, generator=draw) - 5) * inside_BT[:, None],
        frames_B=frames_B,
        pitch_BT=(200 + 50 * torch.randn(batch, frames, generator=draw)).clamp(min=60) * inside_BT,
        speaker_B=torch.zeros(batch, dtype=torch.int64),
        durations_BL=torch.zeros(batch, 0, dtype=torch.int64),
        indices=list(range(batch)),
        ids=[str(b) for b in range(batch)],
        failures=[],
    )


def compare_steps(batch: int = 16, symbols: int = 32, frames: int = 200) -> dict[str, object]:
    cfg, clips, log_mel = Config(), random_batch(batch, symbols, frames), LogMel(TTS)
    torch.manual_seed(0)
    model = FastPitch(cfg.model, n_symbols=SYMBOLS, mel_bins=TTS.mel_bins)
    twin = as_published(model)
    assert isinstance(twin.aligner, PublishedAligner)
    twin.aligner.prior_BTL = beta_binomial(clips.frames_B, clips.lengths_B, frames, symbols)
    counts = Counts(*counts_of(clips).unbind())

    without_alignment = replace(cfg, loss=replace(cfg.loss, alignment=0.0))

    def loss_of(network: FastPitch, cfg: Config) -> Loss:
        return fastpitch_objective(
            network, log_mel, clips, cfg, pitch_mean=network.pitch_mean, pitch_std=network.pitch_std, counts=counts,
            binarisation_weight=1.0,
        )  # fmt: skip

    def published_loss() -> Tensor:
        loss = loss_of(twin, without_alignment)
        logits_BTL = loss.prediction.alignment.logits_BTL
        return loss.value + cfg.loss.alignment * forward_sum_each(logits_BTL, clips.frames_B, clips.lengths_B)

    with torch.no_grad():
        model.eval()
        twin.eval()
        difference = abs(float(loss_of(model, cfg).value) - float(published_loss())) / float(published_loss())
        model.train()
        twin.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = build_optimizer(trained, cfg.optim)
    lamb = LambLoop([p for p in twin.parameters() if p.requires_grad], cfg)

    def ours() -> None:
        loss_of(model, cfg).value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def published() -> None:
        loss = published_loss()
        loss.backward()
        [float(p.grad.norm()) for p in lamb.parameters]  # as the published recipe logs them
        lamb.step(0.1)
        loss.item()
        twin.zero_grad(set_to_none=True)

    times = compare({"ours": ours, "published": published}, device=CPU, warmup=1, repeats=2)
    return {
        "metric": "latency_ms",
        "what": f"training step of FastPitch, {batch} clips of up to {frames} frames and {symbols} symbols",
        "spread": spread(*times.values()),
        "p50": round(times["ours"].percentile(50), 1),
        "published_p50": round(times["published"].percentile(50), 1),
        "times_faster": round(ratio(times["published"], times["ours"]), 2),
        "relative_difference_of_the_loss": difference,
    }


def main() -> None:
    comparisons = {"aligner": compare_aligners, "step": compare_steps}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="{aligner,step}", help="comparisons to make (default both)")
    wanted = parser.parse_args().what or list(comparisons)
    for name in wanted:
        if name not in comparisons:
            parser.error(f"{name}: expected aligner or step")
    torch.set_num_threads(1)
    for name in wanted:
        row = comparisons[name]()
        print(row)
        append_row("fastpitch_training", row, device=CPU)


if __name__ == "__main__":
    main()
