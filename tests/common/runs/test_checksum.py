import io
import random
from pathlib import Path

import pytest
import torch

from common.runs import checkpoint, checksum
from common.runs.checkpoint import CheckpointError


def saved(path: Path) -> bytes:
    checkpoint.save(path, {"w": torch.arange(100.0), "config": {"lr": 0.5}})
    return path.read_bytes()


def test_a_sealed_file_is_whole_and_other_readers_read_it(tmp_path):
    saved(tmp_path / "m.pt")
    assert checksum.damage(tmp_path / "m.pt") is None
    assert torch.load(tmp_path / "m.pt", weights_only=True)["config"] == {"lr": 0.5}


def test_every_flipped_bit_of_a_checkpoint_is_noticed(tmp_path):
    path = tmp_path / "m.pt"
    whole = saved(path)
    for place in range(len(whole)):
        for bit in (random.Random(place).randrange(8),):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match="m.pt: damaged"):
                checkpoint.load(path)


@pytest.mark.parametrize("start", [0, 200, 900])
def test_a_zeroed_stretch_of_a_checkpoint_is_noticed(tmp_path, start):
    path = tmp_path / "m.pt"
    whole = bytearray(saved(path))
    whole[start : start + 300] = bytes(300)
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="m.pt: damaged"):
        checkpoint.load(path)


@pytest.mark.parametrize("kept", [0, 1, 10, 50, 500, -1, -39, -40, -61, -62])
def test_a_checkpoint_cut_short_is_noticed(tmp_path, kept):
    path = tmp_path / "m.pt"
    path.write_bytes(saved(path)[:kept])
    with pytest.raises(CheckpointError, match="m.pt: damaged"):
        checkpoint.load(path)


def test_a_checkpoint_of_others_is_checked_by_the_checksums_of_its_records(tmp_path):
    path = tmp_path / "theirs.pt"
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(1000)}, buffer)
    path.write_bytes(buffer.getvalue())
    assert checkpoint.load(path)["w"].sum() == 1000
    damaged = bytearray(buffer.getvalue())
    damaged[damaged.index(torch.ones(4).numpy().tobytes()) + 2] ^= 1
    path.write_bytes(damaged)
    expected = "theirs.pt: damaged or not a checkpoint: the checksum of its record .*data/0 does not match"
    with pytest.raises(CheckpointError, match=expected):
        checkpoint.load(path)


def test_an_error_in_writing_is_raised_when_the_file_is_sealed():
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    writer = checksum.SealWriter(Full())
    torch.save({"w": torch.ones(10)}, writer)
    with pytest.raises(OSError, match="No space left on device"):
        writer.seal()
