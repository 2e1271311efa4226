import torch

from fastpitch.vocoders.training.data import Heard, micro_batches, share


def test_micro_batches_are_all_of_the_batch_and_have_their_shares_of_it():
    batch = Heard(torch.arange(10.0).view(5, 1, 2), torch.arange(20.0).view(5, 4))
    parts = micro_batches(batch, 2)
    assert [share(part, parts) for part in parts] == [0.6, 0.4]
    for whole, pieces in zip(batch, zip(*parts, strict=True), strict=True):
        assert torch.equal(torch.cat(pieces), whole)
