"""A tiny configuration that the tests of training share; its corpus is that of Jasper's."""

from dataclasses import replace
from pathlib import Path

from common import config
from fastconformer.config import Config

TOY = Path(__file__).resolve().parents[2] / "configs" / "fastconformer" / "toy.toml"


def toy_config(root: Path, output_dir: Path, **changes: object) -> Config:
    """configs/fastconformer/toy.toml on the corpus at `root`, with top-level `changes`."""
    cfg = config.load(Config, TOY)
    return replace(cfg, data=replace(cfg.data, root=root), output_dir=output_dir, **changes)  # type: ignore[arg-type]
