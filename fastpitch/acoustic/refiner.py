"""The lowest mel bins predicted anew, from the outline of what the decoder predicted.

Below 0.8 kHz each harmonic has a bin of its own, and that is where a decoder that learned half an hour of speech by
heart is worst: of what it adds there to the outline, little is right for a text that it never heard, and a
discriminator makes it bold, not right. So a network sees only what is right of a prediction, blurred frames, and what
follows from the pitch, where the harmonics of each frame are. It learns a flow from noise to recorded frames (Lipman et
al. 2023, arXiv:2210.02747; of mel frames Mehta et al. 2024, arXiv:2309.03199). Speech takes the first step alone,
without noise: the mean of recorded frames of such an outline. It is trained by itself when all else is,
`trained = "refiner"`. Another, smaller one may learn that mean alone from it (`learns = "mean"`), and a voice that is
packed has no more than it.

Shapes: B utterances, T frames, M mel bins, K lowest of them, C channels, W waves.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.linear import Linear
from common.convolution.operator import along_time
from fastpitch.acoustic.config import MEL_CENTRE, MEL_SCALE, RefinerConfig

SPREAD = 0.7  # nepers, about the deviation of recorded values from the outline
COARSE, FINE = (7, 9), (3, 5)  # frames and bins of the means that the outline is: of the lowest bins, of the others
OVERLAP, EVERY = 10, 4  # finer means begin so many bins lower, and one in so many is shown
VOICED_BINS, VOICE_FRAMES = slice(4, 20), 5  # of the mean depth of harmonics, which tells voice
DOUBT, DOUBT_FRAMES = 0.06, 8  # noise of outlines in training, which are better there than for what was never heard
WAVES, FASTEST, TIMES = 32, 200.0, 128  # that tell the time, the radians of the fastest, and channels made of them


class Outline(NamedTuple):
    """What is known of the lowest bins, of no gradient: base_BTK their blurred values, condition_BTC all that is."""

    base_BTK: Tensor
    condition_BTC: Tensor
    keep_BT1: Tensor


class Refiner(nn.Module):
    """The lowest bins of log-mel frames, given their outline.

    `wanted`: what is to be learned in place of recorded frames, [B, T, K] of an outline, by one that learns a mean.
    """

    def __init__(self, config: RefinerConfig, mel_bins: int):
        super().__init__()
        self.config, self.mel_bins = config, mel_bins
        self.bins, self.window = min(config.bins, mel_bins), config.window
        self.higher = slice(max(0, self.bins - OVERLAP), mel_bins, EVERY)
        self.wanted: Callable[[Outline], Tensor] | None = None
        conditions = 2 * self.bins + len(range(mel_bins)[self.higher]) + 1
        self.time, seen = None, conditions
        if config.learns == "flow":
            self.time = nn.Sequential(Linear(2 * WAVES, TIMES), nn.SiLU(), Linear(TIMES, TIMES), nn.SiLU())
            seen += self.bins
        self.begin = Linear(seen, config.channels)
        self.blocks = nn.ModuleList(RefinerBlock(config, dilation=1 + i % 2) for i in range(config.layers))
        self.end = Linear(config.channels, self.bins)
        nn.init.zeros_(self.end.weight)
        nn.init.zeros_(self.end.bias)

    def outline(self, mel_BTM: Tensor, depth_BTM: Tensor, comb_BTM: Tensor, keep_BT1: Tensor) -> Outline:
        """What the network sees: blurred predictions, how deep the harmonics are, and where.

        Frames that are not kept are not seen.
        """
        mel_BTM, depth_BTM = mel_BTM.detach(), depth_BTM.detach()
        # Of the bins that are not shown, a mean needs the nearest alone.
        around, first = self.bins + COARSE[1] // 2, max(0, self.higher.start - FINE[1] // 2)
        base_BTK = blurred(mel_BTM[..., :around], keep_BT1, *COARSE)[..., : self.bins]
        higher_BTM = blurred(mel_BTM[..., first:], keep_BT1, *FINE)[..., self.higher.start - first :: EVERY]
        voice_BT1 = blurred(depth_BTM[..., VOICED_BINS].mean(2, keepdim=True), keep_BT1, VOICE_FRAMES, 1)
        shown_BTM = (torch.cat([base_BTK, higher_BTM], 2) - MEL_CENTRE) * MEL_SCALE
        condition_BTC = torch.cat([shown_BTM, voice_BT1, comb_BTM[..., : self.bins].to(shown_BTM.dtype)], 2)
        return Outline(base_BTK, condition_BTC * keep_BT1, keep_BT1)

    def forward(self, outline: Outline) -> Tensor:
        """[B, T, K] as spoken; zero in the padding."""
        return (outline.base_BTK + SPREAD * self.mean(outline)) * outline.keep_BT1

    def mean(self, outline: Outline) -> Tensor:
        """[B, T, K] the mean of what there is beside the outline, in units of SPREAD; arbitrary in the padding."""
        if self.time is None:
            return self._found(outline.condition_BTC, None, outline.keep_BT1)
        nothing_BTK = torch.zeros_like(outline.base_BTK)
        return self.velocity(nothing_BTK, nothing_BTK[:, 0, 0], outline)

    def losses(self, recorded_BTM: Tensor, outline: Outline) -> Tensor:
        """[B, T] mean squared errors of what is learned, in units of SPREAD; in evaluation of what is spoken.

        In training they are of a window of each utterance, if the configuration has one, and alike in all its frames.
        """
        frames = recorded_BTM.shape[1]
        if self.training and 0 < self.window < frames:
            recorded_BTM, outline = self.windows(recorded_BTM, outline)
            kept_BT = outline.keep_BT1[..., 0]
            errors_BT = self._errors(recorded_BTM, outline) * kept_BT
            return (errors_BT.sum(1, keepdim=True) / kept_BT.sum(1, keepdim=True).clamp(min=1)).expand(-1, frames)
        return self._errors(recorded_BTM, outline)

    def windows(self, recorded_BTM: Tensor, outline: Outline) -> tuple[Tensor, Outline]:
        """As many frames of each as a window has, at a random place within the utterance."""
        frames_B = outline.keep_BT1[..., 0].sum(1)
        start_B = (torch.rand_like(frames_B) * (frames_B - self.window + 1).clamp(min=0)).long()
        frame_BW1 = (start_B[:, None] + torch.arange(self.window, device=start_B.device))[..., None]

        def cut(x_BTC: Tensor) -> Tensor:
            return x_BTC.gather(1, frame_BW1.expand(-1, -1, x_BTC.shape[2]))

        return cut(recorded_BTM), Outline(*map(cut, outline))

    def _errors(self, recorded_BTM: Tensor, outline: Outline) -> Tensor:
        if self.training:
            outline = outline._replace(condition_BTC=_doubted(outline.condition_BTC) * outline.keep_BT1)
        wanted_BTK = recorded_BTM[..., : self.bins]
        if self.wanted is not None:
            with torch.no_grad():
                wanted_BTK = self.wanted(outline)
        target_BTK = (wanted_BTK.float() - outline.base_BTK.float()) / SPREAD
        if self.time is None or not self.training:
            return (self.mean(outline).float() - target_BTK).square().mean(2)
        noise_BTK = torch.randn_like(target_BTK)
        time_B = noise_BTK[:, 0, 0]
        order_B = torch.randperm(len(time_B), device=time_B.device)  # times that are spread over a batch
        time_B = (order_B + torch.rand_like(time_B)) / len(time_B)
        reached_BTK = torch.lerp(noise_BTK, target_BTK, time_B[:, None, None])
        found_BTK = self.velocity(reached_BTK.to(outline.condition_BTC.dtype), time_B, outline)
        return (found_BTK.float() - (target_BTK - noise_BTK)).square().mean(2)

    def velocity(self, x_BTK: Tensor, time_B: Tensor, outline: Outline) -> Tensor:
        """Where x_BTK moves at each utterance's time, 0 (noise) to 1 (speech); arbitrary in the padding."""
        seen_BTC = torch.cat([x_BTK, outline.condition_BTC], 2)
        return self._found(seen_BTC, self._times(time_B, x_BTK.dtype), outline.keep_BT1)

    def _times(self, time_B: Tensor, dtype: torch.dtype) -> Tensor:
        assert self.time is not None
        radians_W = torch.tensor([FASTEST ** (i / (WAVES - 1)) for i in range(WAVES)], device=time_B.device)
        angle_BW = time_B.float()[:, None] * radians_W
        return self.time(torch.cat([angle_BW.sin(), angle_BW.cos()], 1).to(dtype))

    def _found(self, seen_BTC: Tensor, time_BC: Tensor | None, keep_BT1: Tensor) -> Tensor:
        h_BTC = self.begin(seen_BTC)
        for block in self.blocks:
            h_BTC = block(h_BTC, time_BC, keep_BT1)
        return self.end(h_BTC)

    @torch.no_grad()
    def as_spoken(self) -> "Refiner":
        """One that says the same and holds no more than it takes: neither time, nor noise."""
        if self.time is None:
            return self
        spoken = Refiner(replace(self.config, learns="mean"), self.mel_bins)
        weights = {name: weight for name, weight in self.state_dict().items() if not name.startswith("time.")}
        weights["begin.weight"] = weights["begin.weight"][:, self.bins :]  # what it sees beside x, which is zero
        time_C = self._times(torch.zeros(1, device=self.end.weight.device), self.end.weight.dtype)[0]
        for i, block in enumerate(self.blocks):
            for name in ("weight", "bias"):
                del weights[f"blocks.{i}.modulation.{name}"]
            scale_C, shift_C = block.modulation(time_C).chunk(2)  # type: ignore[operator]
            widen = f"blocks.{i}.widen"
            weights[f"{widen}.bias"] = weights[f"{widen}.bias"] + weights[f"{widen}.weight"] @ shift_C
            weights[f"{widen}.weight"] = weights[f"{widen}.weight"] * (1 + scale_C)
        spoken.load_state_dict(weights)
        return spoken.to(self.end.weight.device).train(self.training)


class RefinerBlock(nn.Module):
    """A ConvNeXt block (Liu et al. 2022) whose normalised values are scaled and shifted as the time, if any, says."""

    def __init__(self, config: RefinerConfig, *, dilation: int):
        super().__init__()
        width, reach = config.channels, dilation * (config.kernel // 2)
        self.depthwise = nn.Conv1d(width, width, config.kernel, padding=reach, dilation=dilation, groups=width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = Linear(TIMES, 2 * width) if config.learns == "flow" else None
        self.widen = Linear(width, config.filter_channels)
        self.narrow = Linear(config.filter_channels, width)
        self.scale_C = nn.Parameter(torch.full((width,), 0.3))
        if self.modulation is not None:
            nn.init.zeros_(self.modulation.weight)
            nn.init.zeros_(self.modulation.bias)

    def forward(self, x_BTC: Tensor, time_BC: Tensor | None, keep_BT1: Tensor) -> Tensor:
        """The output, as long as the input; of frames outside `keep_BT1` nothing is seen."""
        y_BTC = self.norm(along_time(self.depthwise, x_BTC * keep_BT1))
        if self.modulation is not None and time_BC is not None:
            scale_B1C, shift_B1C = self.modulation(time_BC)[:, None].chunk(2, 2)
            y_BTC = y_BTC * (1 + scale_B1C) + shift_B1C
        return x_BTC + self.scale_C * self.narrow(self.widen(y_BTC, "gelu"))


def blurred(x_BTM: Tensor, keep_BT1: Tensor, frames: int, bins: int) -> Tensor:
    """Means over `frames` x `bins` values about each, odd numbers, of those that are kept and that there are."""
    kept_BT1 = keep_BT1.to(x_BTM.dtype)
    sums_BTM, frames_BT1, bins_11M = (
        F.avg_pool2d(values[:, None], kernel, stride=1, padding=(kernel[0] // 2, kernel[1] // 2))[:, 0]
        for values, kernel in (
            (x_BTM * kept_BT1, (frames, bins)),
            (kept_BT1, (frames, 1)),
            (torch.ones_like(x_BTM[:1, :1]), (1, bins)),
        )
    )
    return sums_BTM / (frames_BT1 * bins_11M).clamp(min=1e-3)


def _doubted(condition_BTC: Tensor) -> Tensor:
    """The condition with a noise that changes slowly, of another size for each utterance."""
    batch, frames, channels = condition_BTC.shape
    slow_BCT = torch.randn(batch, channels, frames // DOUBT_FRAMES + 2, device=condition_BTC.device)
    noise_BTC = F.interpolate(slow_BCT, size=frames, mode="linear").mT
    size_B11 = 2 * DOUBT * torch.rand(batch, 1, 1, device=condition_BTC.device)
    return condition_BTC + (size_B11 * noise_BTC).to(condition_BTC.dtype)
