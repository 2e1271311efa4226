"""How the networks are run: as they are written, compiled, or recorded as CUDA graphs and replayed.

At the lengths of speech a GPU computes faster than the host can tell it what to do, so that a latency is mostly
launching. Only whole networks are replaced (encoder, predictors, decoder, vocoder): what lies between them, where
pitch, energy and durations are edited and the length of the speech becomes known, is the same in all modes.

Shapes: B utterances, T positions (symbols or frames), M mel bins, G and P groups and positions of WaveGlow's noise.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.config import ConfigError
from common.convolution.linear import unpack_linear
from common.devices.graphs import GraphRunner
from fastpitch.acoustic.model import FastPitch
from fastpitch.vocoders.vocoder import Vocoder

Mode = Literal["eager", "compiled", "graph"]
Network = Callable[..., Tensor]

SYMBOLS_MULTIPLE, FRAMES_MULTIPLE = 32, 128  # graphs are recorded for these lengths; what is added is padding


def accelerate(model: FastPitch, mode: Mode) -> FastPitch:
    """`model` itself, its networks run by `mode`. Raises ConfigError: graph needs a CUDA device."""
    if mode == "eager":
        return model
    predictors = [model.duration, model.pitch, *([model.energy] if model.energy is not None else [])]
    run = runner(mode, model, next(model.parameters()).device)
    networks = [(model.encoder, SYMBOLS_MULTIPLE), (model.decoder, FRAMES_MULTIPLE)]
    for network, multiple in [*networks, *((predictor, SYMBOLS_MULTIPLE) for predictor in predictors)]:
        forward = run(network.forward)
        network.forward = Padded(forward, multiple, (1, 1), 1) if mode == "graph" else forward
    return model


def accelerate_vocoder(vocoder: Vocoder, mode: Mode) -> Vocoder:
    """`vocoder` itself, its network run by `mode`. Raises ConfigError: graph needs a CUDA device."""
    if mode == "eager":
        return vocoder
    generator: Any = vocoder.generator
    name = "inverse" if hasattr(generator, "inverse") else "forward"
    call = runner(mode, generator, vocoder.device)(getattr(generator, name))
    if mode == "graph":
        padded = Padded(call, FRAMES_MULTIPLE, (2, 2, None) if name == "inverse" else (2, None), 1)
        call = _with_frames(padded)
    setattr(generator, name, call)
    return vocoder


class Padded:
    """A network for sequences of any length that is given them at lengths which are multiples of `multiple`.

    `dims`: for each argument its dimension of time, None for one without; `out_dim`: that of the result. Lengths of
    other arguments and of the result may be multiples of the first's. Zeros are added and what they give is cut off, so
    the network has to know from its arguments which positions count.
    """

    def __init__(self, network: Network, multiple: int, dims: tuple[int | None, ...], out_dim: int):
        self.network, self.multiple, self.dims, self.out_dim = network, multiple, dims, out_dim

    def __call__(self, first: Tensor, *others: Tensor) -> Tensor:
        """As the network."""
        assert self.dims[0] is not None
        length = first.shape[self.dims[0]]
        extra = -length % self.multiple
        arguments = []
        for tensor, dim in zip((first, *others), self.dims, strict=True):
            if dim is not None:
                added = extra * (tensor.shape[dim] // length)
                tensor = F.pad(tensor, (0, 0) * (tensor.ndim - 1 - dim) + (0, added))
            arguments.append(tensor)
        result = self.network(*arguments)
        return result.narrow(self.out_dim, 0, result.shape[self.out_dim] // (length + extra) * length)


def runner(mode: Mode, module: nn.Module, device: torch.device) -> Callable[[Network], Network]:
    """What makes a network one that runs in this mode."""
    if mode == "compiled":
        unpack_linear(module)  # a graph could only unpack them again in every call
        return lambda network: torch.compile(network, dynamic=True)
    if device.type != "cuda":
        raise ConfigError(f"mode graph needs a CUDA device, and this model is on {device}; take eager or compiled")
    return lambda network: GraphRunner(network, module)


def _with_frames(network: Network) -> Network:
    """A vocoder's network that is always told how many frames count, since it is given more."""

    def call(mel_BMT: Tensor, *others: Tensor | None) -> Tensor:
        *noise, frames_B = others or (None,)
        if frames_B is None:
            frames_B = torch.full((len(mel_BMT),), mel_BMT.shape[2], device=mel_BMT.device)
        return network(mel_BMT, *noise, frames_B)

    return call
