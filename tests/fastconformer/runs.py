"""A tiny configuration that the tests of training share; its corpus is that of Jasper's."""

from dataclasses import replace
from pathlib import Path

from common import config
from common.data.synthetic import SyntheticConfig, build_translations
from fastconformer.config import Config

TOY = Path(__file__).resolve().parents[2] / "configs" / "fastconformer" / "toy.toml"


def toy_config(root: Path, output_dir: Path, **changes: object) -> Config:
    """configs/fastconformer/toy.toml on the corpus at `root`, with top-level `changes`."""
    cfg = config.load(Config, TOY)
    return replace(cfg, data=replace(cfg.data, root=root), output_dir=output_dir, **changes)  # type: ignore[arg-type]


def write_translations(folder: Path) -> Path:
    """English and German speech with translations, three batches of the toy's size of it to train on."""
    return build_translations(
        folder, SyntheticConfig(train_utterances=12, dev_utterances=2, test_utterances=2), workers=1
    )


def translation_config(root: Path, output_dir: Path, **changes: object) -> Config:
    """configs/fastconformer/translation_toy.toml on the corpus at `root`, with top-level `changes`."""
    cfg = config.load(Config, TOY.with_name("translation_toy.toml"))
    return replace(cfg, data=replace(cfg.data, root=root), output_dir=output_dir, **changes)  # type: ignore[arg-type]
