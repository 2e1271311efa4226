"""A network that learns, with what follows its weights: optimiser, loss scale, moving average."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from torch import Tensor, nn

from common.data.manifest import Utterance, Utterances
from common.devices import distributed
from common.devices.distributed import World
from common.devices.precision import grad_scaler
from common.runs import seeds
from common.training.ema import Ema
from common.training.optimizers import build_optimizer
from common.training.state import Part, Progress

Share = TypeVar("Share")


class Learner:
    """`network`, its optimiser, loss scale and moving average, and what every step does to them.

    `cfg` has optim, precision and ema. `parameters` are those that learn, by default all. `parallel` runs the network
    and exchanges gradients between the processes, once `join` was called.
    """

    def __init__(
        self, network: nn.Module, cfg: Any, world: World, *, parameters: Iterable[Tensor] | None = None,
        is_averaged: bool = True,
    ):  # fmt: skip
        self.network, self.world = network, world
        self.parallel: nn.Module = network
        self.optimizer = build_optimizer(network.parameters() if parameters is None else parameters, cfg.optim)
        self.scaler = grad_scaler(world.device, cfg.precision)
        self.ema = Ema(network, cfg.ema) if cfg.ema and is_averaged else None
        self.told: dict[str, Tensor] = {}
        """What the last step leaves for the log: the norm of its gradients and, in fp16, the scale of the loss."""

    @property
    def parts(self) -> dict[str, Part | None]:
        """What a checkpoint must hold, under the names that checkpoints of one network have."""
        return {"weights": self.network, "ema": self.ema, "optimizer": self.optimizer, "scaler": self.scaler}

    def join(self) -> None:
        """Makes `parallel` of the parameters that learn now; when the weights are those to begin with."""
        self.parallel = distributed.data_parallel(self.network, self.world)

    def models(self) -> dict[str, nn.Module]:
        """What a validation evaluates, by the name that the log has for it: the network and its average.

        Running statistics become the same in all processes; by all of them together.
        """
        models = {"dev": self.network} | ({"dev_ema": self.ema.model} if self.ema is not None else {})
        for model in models.values():
            distributed.share_buffers(model, self.world)
        return models

    def begin(self, rate: float, *others: nn.Module, seed: int | None = None) -> None:
        """Sets this network and `others` to training, and the learning rate to `rate`; `seed` is that of dropout."""
        if seed is not None:
            seeds.begin(seed, self.world.device)
        for network in (self.parallel, *others):
            network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def each(self, parts: Sequence[Share]) -> Iterator[Share]:
        """The parts of a step, whose gradients are added up; only the last backward exchanges them."""
        for i, part in enumerate(parts):
            with distributed.gradient_sync(self.parallel, enabled=i == len(parts) - 1):
                yield part

    def backward(self, loss: Tensor) -> None:
        """Adds the gradient of `loss`."""
        self.scaler.scale(loss).backward()

    def finish(self, progress: Progress, *, clip_norm: float = 0.0) -> Tensor:
        """Changes the weights by their gradients, which are gone then, and lets the moving average follow.

        The norm of the whole gradient is made at most `clip_norm`, 0 for any; it was what is returned. Where it is not
        finite the weights and the optimiser stay as they are; a device decides that by itself.
        """
        self.scaler.unscale_(self.optimizer)
        parameters = [parameter for parameter in self.network.parameters() if parameter.grad is not None]
        norm = nn.utils.get_total_norm([cast("Tensor", p.grad) for p in parameters], foreach=True)
        if clip_norm:
            nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm, foreach=True)
        norm = distributed.total(norm)
        self._step(norm)
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            self.ema.update(progress.step)
        self.told = {"grad_norm": norm}
        if self.scaler.is_enabled():
            self.scaler.update()
            self.told["loss_scale"] = cast("Tensor", self.scaler._get_scale_async())
        return norm

    def _step(self, norm: Tensor) -> None:
        """A step of the optimiser if the `norm` of its gradients is finite, which a CPU may be asked, and no device."""
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
        elif norm.device.type == "cpu":
            if norm.isfinite():
                self.optimizer.step()
        else:
            self.optimizer.found_inf = norm.isfinite().logical_not().float()  # type: ignore[attr-defined]
            self.optimizer.step()
            del self.optimizer.found_inf  # type: ignore[attr-defined]


def size_of(network: nn.Module) -> str:
    """How many parameters it has, for the log."""
    return f"{sum(parameter.numel() for parameter in network.parameters()):,} parameters"


def amount_of(utterances: Sequence[Utterance], called: str) -> str:
    """How many there are and how long they last, for the log."""
    return f"{len(utterances)} {called}, {Utterances.of(utterances).seconds.sum() / 3600:.2f} h"
