from pathlib import Path

import torch
from torch import nn

from fastpitch.vocoders.training.data import Heard, micro_batches, share
from fastpitch.vocoders.training.run import taken


def test_micro_batches_are_all_of_the_batch_and_have_their_shares_of_it():
    batch = Heard(torch.arange(10.0).view(5, 1, 2), torch.arange(20.0).view(5, 4))
    parts = micro_batches(batch, 2)
    assert [share(part, parts) for part in parts] == [0.6, 0.4]
    for whole, pieces in zip(batch, zip(*parts, strict=True), strict=True):
        assert torch.equal(torch.cat(pieces), whole)


def test_a_network_takes_weights_in_either_notation_and_tells_what_did_not_fit():
    def network(channels: int) -> nn.Sequential:
        return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(2, channels, 3)))

    torch.manual_seed(0)
    plain, normalized = nn.Sequential(nn.Conv1d(2, 4, 3)), network(4)
    assert taken(normalized, plain.state_dict(), Path("a.pt")) == ["a.pt: taken"]
    torch.testing.assert_close(normalized[0].weight, plain[0].weight)
    told = taken(network(5), plain.state_dict(), Path("a.pt"))
    assert "a.pt: 0.bias: (4,) in the checkpoint, (5,) here, starts anew" in told
    assert "a.pt: taken" not in told
