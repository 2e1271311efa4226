"""Finds the weights of a rescoring: `python -m common.recognition.tune MODEL nbest.jsonl MANIFEST`.

    python -m jasper.inference CHECKPOINT dev.jsonl --decoding.n_best 20 --format json --output nbest.jsonl
    python -m common.recognition.tune gpt2 nbest.jsonl dev.jsonl

MODEL is a causal language model of transformers. What it prints are flags of `python -m common.recognition.rescore`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.data.manifest import ManifestError, read_manifest
from common.recognition.rescoring import CausalModel, candidates_of, read_lists, tune, with_log_probs
from common.text.normalize import normalize_english


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """Which development set the weights are found on: those with which the fewest of its words are wrong."""

    model: Annotated[str, Positional, arg(metavar="MODEL")]
    """A folder of transformers with a causal language model and its tokenizer, or a name of the hub."""
    lists: Annotated[Path, Positional, arg(metavar="NBEST")]
    """Transcripts of the development set that inference wrote in the format json, with n_best above 1."""
    manifest: Annotated[Path, Positional, arg(metavar="MANIFEST")]
    """Manifest or corpus folder with the texts of the same recordings, in the same order."""
    device: str = "cpu"
    """Device of the language model."""


def main(cfg: TuneConfig) -> int:
    """Prints the weights and what they gain; returns the exit status. Raises ConfigError and ManifestError."""
    records = list(read_lists(cfg.lists))
    texts = [normalize_english(utterance.text) for utterance in read_manifest(cfg.manifest).utterances]
    if len(texts) != len(records):
        raise ConfigError(f"{cfg.manifest}: expected the {len(records)} recordings of {cfg.lists}, found {len(texts)}")
    lists = with_log_probs([candidates_of(record) for record in records], CausalModel(cfg.model, device=cfg.device))
    spelled = [[c._replace(text=normalize_english(c.text)) for c in candidates] for candidates in lists]
    found = tune(spelled, texts)
    rates = f"word error rate {found.after:.2%}, without rescoring {found.before:.2%}"
    print(f"--weight {found.weight} --word_bonus {found.word_bonus}  ({rates})")
    return 0


if __name__ == "__main__":
    config.run(main, TuneConfig, __doc__, ManifestError)
