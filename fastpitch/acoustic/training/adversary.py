"""Who tells predicted mel frames from recorded ones, so that predictions stay as sharp as speech is.

A squared error is least for the mean of all frames that could follow, and a mean is blurred. Least-squares
discriminators over images (Mao et al. 2017) and feature matching (Larsen et al. 2016), of windows of mel frames, as in
GANSpeech (Yang et al. 2021, arXiv:2106.15153).

Shapes: W windows, T frames of a window, M mel bins; images are [W, C, T, M].
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.devices.distributed import World
from common.devices.precision import autocast
from common.training.learner import Learner
from common.training.state import Part, Progress
from fastpitch.acoustic.config import MEL_CENTRE, MEL_SCALE, AdversaryConfig, Config
from fastpitch.acoustic.training.objective import Loss

SLOPE = 0.2  # of the leaky ReLUs
# Kernel and stride of a layer over frames and mel bins, and how many times as wide it is as the first.
LAYERS = (((3, 9), (1, 2), 1), ((3, 5), (2, 2), 2), ((3, 3), (2, 2), 4), ((3, 3), (1, 2), 4))


class MelDiscriminator(nn.Module):
    """Scores of the patches of windows of mel frames: 1 recorded, 0 predicted."""

    def __init__(self, config: AdversaryConfig):
        super().__init__()
        widths = [1, *(config.channels * times for _, _, times in LAYERS)]
        norm = nn.utils.parametrizations.weight_norm
        self.convs = nn.ModuleList(
            norm(nn.Conv2d(before, after, kernel, stride, padding=(kernel[0] // 2, kernel[1] // 2)))
            for (before, after), (kernel, stride, _) in zip(pairwise(widths), LAYERS, strict=True)
        )
        self.score = norm(nn.Conv2d(widths[-1], 1, 3, padding=1))

    def forward(self, mel_WTM: Tensor) -> list[Tensor]:
        """Activations of all layers, the scores last."""
        x = ((mel_WTM - MEL_CENTRE) * MEL_SCALE)[:, None]
        found = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), SLOPE)
            found.append(x)
        return [*found, self.score(x)]


class Challenge(NamedTuple):
    """What the prediction loses, not weighted: to the discriminator, and by how its activations differ."""

    adversarial: Tensor
    features: Tensor


class Windows(NamedTuple):
    """The same windows of recorded and of predicted frames, [W, T, M]."""

    recorded_WTM: Tensor
    predicted_WTM: Tensor


class Adversary:
    """The discriminator of a run, and how it learns."""

    def __init__(self, cfg: Config, world: World):
        self.cfg, self.world = cfg.adversary, world
        self.precision = cfg.precision
        network = MelDiscriminator(cfg.adversary).to(world.device)
        self.learner = Learner(network, cfg, world, is_averaged=False)

    @property
    def parts(self) -> dict[str, Part | None]:
        """What a checkpoint must hold."""
        return {f"adversary_{name}": part for name, part in self.learner.parts.items() if name != "ema"}

    def windows(self, loss: Loss) -> Windows:
        """A random window of each clip, from torch's generator; zero in the padding of short ones."""
        predicted_BTM = loss.prediction.mel_BTM.float()
        longest, frames = predicted_BTM.shape[1], min(self.cfg.frames, predicted_BTM.shape[1])
        last_B = (loss.targets.frames_B - frames).clamp(min=0)
        first_B = (torch.rand(len(last_B), device=last_B.device) * (last_B + 1)).long().clamp(max=longest - frames)
        place_WT = first_B[:, None] + torch.arange(frames, device=first_B.device)
        place_WTM = place_WT[:, :, None].expand(-1, -1, predicted_BTM.shape[2])
        return Windows(loss.targets.mel_BMT.mT.gather(1, place_WTM), predicted_BTM.gather(1, place_WTM))

    def challenge(self, windows: Windows) -> Challenge:
        """What the prediction loses; gradients reach it alone."""
        network = self.learner.network.requires_grad_(False)
        with autocast(self.world.device, self.precision):
            with torch.no_grad():
                real = network(windows.recorded_WTM)
            fake = network(windows.predicted_WTM)
        adversarial = (1 - fake[-1].float()).square().mean()
        pairs = zip(real[:-1], fake[:-1], strict=True)
        features = torch.stack([(r.float() - f.float()).abs().mean() for r, f in pairs]).mean()
        return Challenge(adversarial, features)

    def weighted(self, challenge: Challenge) -> Tensor:
        """What it adds to the loss."""
        return self.cfg.weight * challenge.adversarial + self.cfg.features * challenge.features

    def update(self, all_windows: list[Windows], rate: float, progress: Progress, share: float = 1.0) -> Tensor:
        """One step of the discriminator, on the windows of all micro-batches, as one with `share` in it; its loss."""
        learner, losses = self.learner, []
        learner.network.requires_grad_(True)
        learner.begin(rate)
        for windows in learner.each(all_windows):
            with autocast(self.world.device, self.precision):
                scores = learner.parallel(torch.cat([windows.recorded_WTM, windows.predicted_WTM.detach()]))[-1].float()
            real, fake = scores.chunk(2)
            loss = ((1 - real).square().mean() + fake.square().mean()) * (share / len(all_windows))
            learner.backward(loss)
            losses.append(loss.detach())
        learner.finish(progress)
        return torch.stack(losses).sum()
