"""FSDP2 (Zhao et al. 2023): each process keeps a part of every weight, gradient and moment.

A layer's weights are gathered while it computes. Checkpoints hold whole tensors under the usual names, so a run can go
on with another number of processes.
"""

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from common.config import ConfigError
from common.devices.distributed import World
from common.devices.precision import Precision
from common.training.state import options_of_today


def shard(model: nn.Module, world: World, precision: Precision) -> nn.Module:
    """`model`, whose weights are the same in all processes, on the device; layers in parts. Raises ConfigError.

    In bf16 layers are gathered in bf16, which autocast would make of them anyway, and their gradients are added up in
    float32. What is around the layers is small, and normalised and quantised in float32: it is gathered as it is, and
    in other precisions everything is. Layers that are to be compiled are before, the usual order; they are traced at
    their first call either way.
    """
    if world.size == 1:
        raise ConfigError("fsdp = true with one process: there is nothing to share; start several by torchrun")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # takes half a second, as DTensor does

    model.to(world.device)
    mesh = init_device_mesh(world.device.type, (world.size,))  # by default it would be of the build's accelerator
    policy = MixedPrecisionPolicy()
    if precision == "bf16":  # inputs are what autocast takes
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    for layer in model.get_submodule("wav2vec2.encoder.layers").children():
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh)
    return model


class WholeWeights:
    """The weights of a sharded network as a part of a checkpoint; every method is for all processes together."""

    def __init__(self, network: nn.Module):
        self.network = network

    def state_dict(self) -> dict[str, Any]:
        """Whole tensors on the host, in the first process."""
        from torch.distributed.checkpoint import state_dict as whole  # takes half a second

        return whole.get_model_state_dict(
            self.network, options=whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, in every process."""
        from torch.distributed.checkpoint import state_dict as whole

        whole.set_model_state_dict(self.network, state, options=whole.StateDictOptions(full_state_dict=True))


class WholeMoments:
    """The same of the state of its optimiser, by names of parameters."""

    def __init__(self, network: nn.Module, optimizer: Optimizer):
        self._network, self._optimizer = network, optimizer

    def state_dict(self) -> dict[str, Any]:
        """Whole tensors on the host, in the first process."""
        from torch.distributed.checkpoint import state_dict as whole

        return whole.get_optimizer_state_dict(
            self._network, self._optimizer, options=whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, in every process."""
        from torch.distributed.checkpoint import state_dict as whole

        options = whole.StateDictOptions(full_state_dict=True)
        with options_of_today(self._optimizer):
            whole.set_optimizer_state_dict(self._network, self._optimizer, state, options=options)
