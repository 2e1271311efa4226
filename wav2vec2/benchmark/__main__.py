"""Speed beside `transformers`, and of hourglasses: `python -m wav2vec2.benchmark --help`.

    python -m wav2vec2.benchmark configs/wav2vec2/base.toml --seconds 6.54 --batch_sizes 1 16 --precision bf16
    python -m wav2vec2.benchmark configs/wav2vec2/toy.toml --task pretraining --sides ours transformers --seconds 5
    python -m wav2vec2.benchmark --task finetuning --sides ours hourglass --batch_sizes 16 --seconds 12.5
    python -m wav2vec2.benchmark --task contrast

The sides take turns in one run, and the ratio is the median over the turns. Weights are random; audio is noise unless
`--audio` names a folder of recordings, of which as many as are needed are cut to `--seconds`. A row per side goes to
benchmarks/results/wav2vec2_<task>.jsonl. Training is told in seconds of audio per second. (The published "tokens per
second" are masked frames in pre-training and characters in fine-tuning.) A side that does not fit into the memory of a
GPU is told and left out.
"""

import sys
from dataclasses import replace
from pathlib import Path

from common import config
from wav2vec2.benchmark.config import BenchmarkConfig
from wav2vec2.benchmark.measure import main


def _command_line(arguments: list[str]) -> BenchmarkConfig:
    cfg = config.command_line(BenchmarkConfig, arguments, description=__doc__ or "")
    files = [Path(argument).stem for argument in arguments if argument.endswith(".toml")]
    return replace(cfg, name=cfg.name or (files[-1] if files else "base"))


if __name__ == "__main__":
    with config.reported():
        main(_command_line(sys.argv[1:]))
