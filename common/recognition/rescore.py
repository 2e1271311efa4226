"""Puts n-best lists in a better order: `python -m common.recognition.rescore MODEL nbest.jsonl -o FILE`.

    python -m jasper.inference CHECKPOINT a.flac --decoding.n_best 20 --format json --output nbest.jsonl
    python -m common.recognition.rescore gpt2 nbest.jsonl --weight 0.3 --word_bonus 1.0 -o better.jsonl

MODEL is a causal language model of transformers. `python -m common.recognition.tune` finds weight and bonus.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.recognition.output import writing
from common.recognition.rescoring import CausalModel, candidates_of, read_lists, rescored, with_log_probs


@dataclass(frozen=True, kw_only=True)
class RescoreConfig:
    """Which n-best lists a causal language model puts in order, and how much it counts."""

    model: Annotated[str, Positional, arg(metavar="MODEL")]
    """A folder of transformers with a causal language model and its tokenizer, or a name of the hub."""
    lists: Annotated[Path, Positional, arg(metavar="NBEST")]
    """Transcripts that inference wrote in the format json, with n_best above 1."""
    output: Annotated[Path, arg(aliases=("-o",))]
    """A file for the same transcripts in their new order."""
    weight: float = 0.3
    """Factor of the language model's log-probabilities."""
    word_bonus: float = 0.0
    """Score added for every word, because a language model prefers few words."""
    device: str = "cpu"
    """Device of the language model."""


def main(cfg: RescoreConfig) -> int:
    """Writes the transcripts in their new order; returns the exit status. Raises ConfigError."""
    writing.check_file(cfg.output, [cfg.lists])
    records = list(read_lists(cfg.lists))
    lists = with_log_probs([candidates_of(record) for record in records], CausalModel(cfg.model, device=cfg.device))
    with cfg.output.open("w", encoding="utf-8") as file:
        for record, candidates in zip(records, lists, strict=True):
            row = rescored(record, candidates, cfg.weight, cfg.word_bonus)
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    config.run(main, RescoreConfig, __doc__)
