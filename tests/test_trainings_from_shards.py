"""Every training from shards ends in the state of one from plain files, bit by bit."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.data.manifest import read_sources
from common.data.shards.writing import write
from tests.training import assert_same_state, state_of
from tests.training_commands import COMMANDS, Command

pytestmark = pytest.mark.slow


def from_shards(cfg, out: Path, output_dir: Path):
    """The configuration of a run from shards of the recordings of another."""
    named = {}
    for purpose in ("train", "validation"):
        sources = getattr(cfg.data, purpose)
        listed = [f"{name}.tsv" if (cfg.data.root / f"{name}.tsv").is_file() else name for name in sources]
        found = read_sources(listed, root=cfg.data.root, training=False)
        write(found.utterances, out / purpose, shard_bytes=1 << 16)
        named[purpose] = (str(out / purpose),)
    return replace(cfg, output_dir=output_dir, data=replace(cfg.data, root=None, **named))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.id or command.name)
def test_a_training_from_shards_has_the_weights_of_one_from_plain_files(command: Command, tmp_path):
    corpus = command.corpus(tmp_path / "corpus" / command.name)
    plain = command.config(corpus, tmp_path / "plain")
    command.module.main(plain)
    command.module.main(from_shards(plain, tmp_path / "shards", tmp_path / "sharded"))
    assert_same_state(state_of(tmp_path / "plain"), state_of(tmp_path / "sharded"))
