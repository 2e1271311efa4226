"""FSDP2 (Zhao et al. 2023): each process keeps a part of every weight, gradient and moment.

A layer's weights are gathered while it computes. Checkpoints hold whole tensors under the usual names, so a run can go
on with another number of processes.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from common.config import ConfigError
from common.distributed import World


def shard(model: nn.Module, world: World) -> nn.Module:
    """`model`, whose weights are the same in all processes, on the device; layers in parts. Raises ConfigError."""
    if world.size == 1:
        raise ConfigError("fsdp = true with one process: there is nothing to share; start several by torchrun")
    model.to(world.device)
    # Without a mesh the devices would be those that torch was built for, whatever this run computes on.
    mesh = init_device_mesh(world.device.type, (world.size,))
    for layer in model.get_submodule("wav2vec2.encoder.layers").children():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def whole_state(model: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whole weights, and the whole state of the optimiser by names of parameters; by all processes together."""
    from torch.distributed.checkpoint import state_dict as whole  # takes half a second

    options = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
    return (
        whole.get_model_state_dict(model, options=options),
        whole.get_optimizer_state_dict(model, optimizer, options=options),
    )


def load_optimizer(model: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Takes over what `whole_state` gave."""
    from torch.distributed.checkpoint import state_dict as whole

    whole.set_optimizer_state_dict(model, optimizer, state, options=whole.StateDictOptions(full_state_dict=True))


def local(tensor: Tensor) -> Tensor:
    """This process's part of it, or all of it if it is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def total(norm: Tensor) -> Tensor:
    """A norm over all processes' parts as an ordinary tensor."""
    return norm.full_tensor() if isinstance(norm, DTensor) else torch.as_tensor(norm)
