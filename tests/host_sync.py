"""A watch for operations that would make the host wait for a GPU; it needs none."""

from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {"_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "_unique2"}


class NoHostSync(TorchDispatchMode):
    """Fails on what would make the host wait for a GPU, and counts the other operations."""

    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket.__name__ not in WAITING, func
        self.calls += 1
        return func(*args, **(kwargs or {}))
