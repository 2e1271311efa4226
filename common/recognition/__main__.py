"""Rescores n-best lists with a causal language model: `python -m common.recognition rescore MODEL nbest.jsonl -o FILE`.

    python -m jasper.inference CHECKPOINT dev.jsonl --decoding.n_best 20 --format json --output nbest.jsonl
    python -m common.recognition tune gpt2 nbest.jsonl dev.jsonl
    python -m common.recognition rescore gpt2 nbest.jsonl --weight 0.3 --word_bonus 1.0 -o better.jsonl

`tune` finds the weight and the bonus with the fewest wrong words on a development set.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.data.manifest import ManifestError, read_manifest
from common.recognition.rescoring import (
    CausalModel,
    candidates_of,
    read_lists,
    rescored,
    tune,
    with_log_probs,
)
from common.text.normalize import normalize_english


@dataclass(frozen=True, kw_only=True)
class Rescore:
    """N-best lists, in the order of their scores with those of a causal language model."""

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


@dataclass(frozen=True, kw_only=True)
class Tune:
    """The weight and the word bonus with which the fewest words of a development set are wrong."""

    model: Annotated[str, Positional, arg(metavar="MODEL")]
    """A folder of transformers with a causal language model and its tokenizer, or a name of the hub."""
    lists: Annotated[Path, Positional, arg(metavar="NBEST")]
    """Transcripts of the development set that inference wrote in the format json, with n_best above 1."""
    manifest: Annotated[Path, Positional, arg(metavar="MANIFEST")]
    """Manifest or corpus folder with the texts of the same recordings, in the same order."""
    device: str = "cpu"
    """Device of the language model."""


def main(cfg: Rescore | Tune) -> int:
    """Does what `cfg` says; returns the exit status. Raises ConfigError and ManifestError."""
    records = list(read_lists(cfg.lists))
    lists = with_log_probs([candidates_of(record) for record in records], CausalModel(cfg.model, device=cfg.device))
    if isinstance(cfg, Tune):
        texts = [normalize_english(utterance.text) for utterance in read_manifest(cfg.manifest).utterances]
        if len(texts) != len(lists):
            raise ConfigError(
                f"{cfg.manifest}: expected the {len(lists)} recordings of {cfg.lists}, found {len(texts)}"
            )
        spelled = [[c._replace(text=normalize_english(c.text)) for c in candidates] for candidates in lists]
        found = tune(spelled, texts)
        rates = f"word error rate {found.after:.2%}, without rescoring {found.before:.2%}"
        print(f"--weight {found.weight} --word_bonus {found.word_bonus}  ({rates})")
        return 0
    with cfg.output.open("w", encoding="utf-8") as file:
        for record, candidates in zip(records, lists, strict=True):
            file.write(json.dumps(rescored(record, candidates, cfg.weight, cfg.word_bonus), ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    with config.reported(ManifestError):
        description = __doc__ or ""
        command: Rescore | Tune = tyro.extras.subcommand_cli_from_dict(
            {"rescore": Rescore, "tune": Tune}, prog="python -m common.recognition", description=description
        )
        sys.exit(main(command))
