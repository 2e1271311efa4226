"""Small random models."""

import torch
from torch import Tensor, nn

from fastconformer.config import EncoderConfig, ModelConfig
from fastconformer.network.model import Model

MEL_BINS = 16


def config(**encoder: object) -> ModelConfig:
    """A model of two narrow blocks; `encoder` says what is different of them."""
    plain: dict = {"width": 16, "layers": 2, "heads": 4, "subsampling_channels": 6, "kernel": 5} | encoder
    return ModelConfig(
        encoder=EncoderConfig(**plain), pieces=12, prediction_width=10, prediction_layers=2, joint_width=14
    )


def model(cfg: ModelConfig, *, mel_bins: int = MEL_BINS, seed: int = 0) -> Model:
    """A model whose every weight, bias and statistic is random, in evaluation mode."""
    torch.manual_seed(seed)
    found = Model(cfg, mel_bins)
    randomize(found)
    return found.eval()


def randomize(network: nn.Module, seed: int = 0) -> None:
    """Biases, scales and statistics that do something."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.copy_(torch.rand(tensor.shape, generator=draw) + 0.5)
            elif tensor.is_floating_point() and (tensor.ndim == 1 or "bias" in name):
                tensor.add_(torch.randn(tensor.shape, generator=draw) * 0.2)


def features(*frames: int, mel_bins: int = MEL_BINS, extra: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random features of utterances of so many frames, with rubbish beyond their ends."""
    draw = torch.Generator().manual_seed(seed)
    longest = max(frames) + extra
    return torch.randn(len(frames), mel_bins, longest, generator=draw), torch.tensor(frames)
