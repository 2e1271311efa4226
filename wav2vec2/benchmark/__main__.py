"""Speed beside `transformers`, and of hourglasses: `python -m wav2vec2.benchmark --help`.

    python -m wav2vec2.benchmark configs/wav2vec2/base.toml --seconds 6.54 --batch_sizes 1 16 --precision bf16
    python -m wav2vec2.benchmark configs/wav2vec2/toy.toml --task pretraining --sides ours transformers --seconds 5
    python -m wav2vec2.benchmark --task finetuning --sides ours hourglass --batch_sizes 16 --seconds 12.5

The sides take turns in one run, and the ratio is the median over the turns. Weights are random; audio is noise unless
`--audio` names a folder of recordings, of which as many as are needed are cut to `--seconds`. A row per side goes to
benchmarks/results/wav2vec2_<task>.jsonl. Training is told in seconds of audio per second. (The published "tokens per
second" are masked frames in pre-training and characters in fine-tuning.) A side that does not fit into the memory of a
GPU is told and left out.
"""

from common import config
from common.benchmark import command_line
from wav2vec2.benchmark.config import BenchmarkConfig
from wav2vec2.benchmark.measure import main

if __name__ == "__main__":
    with config.reported():
        main(command_line(BenchmarkConfig, __doc__, unnamed="base"))
