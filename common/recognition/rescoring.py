"""N-best lists in the order that a causal language model of transformers gives them, and weights tuned for it.

The commands are `python -m common.recognition.rescore` and `.tune`. `transformers` is imported when it is needed.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from common.config import ConfigError
from common.files.json_text import parsed
from common.recognition.metrics import word_errors

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0)
BONUSES = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)


class Candidate(NamedTuple):
    """One way to read a recording: its score by the search, and by the language model."""

    text: str
    score: float
    log_prob: float = 0.0

    def total(self, weight: float, word_bonus: float) -> float:
        """What candidates are ranked by."""
        return self.score + weight * self.log_prob + word_bonus * len(self.text.split())


class CausalModel:
    """A causal language model of a folder or, cached or downloaded, of the hub."""

    def __init__(self, model: str | Path, *, device: str = "cpu", batch_size: int = 16) -> None:
        """Raises ConfigError for what is no such model, and where transformers is not installed."""
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError:
            raise ConfigError("rescoring needs the package transformers: pip install transformers") from None
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(model))
            loaded: Any = AutoModelForCausalLM.from_pretrained(str(model))
            self.model = loaded.to(device).eval()
        except (OSError, ValueError, KeyError) as error:
            first = next(iter(str(error).splitlines()), "")
            raise ConfigError(f"{model}: no causal language model that transformers can load: {first}") from None
        self.batch_size = batch_size

    @torch.inference_mode()
    def log_probs(self, texts: Sequence[str]) -> list[float]:
        """The log-probability of every text with its end, where the tokenizer has tokens for start and end."""
        found: list[float] = []
        start, end = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id
        start = end if start is None else start
        for i in range(0, len(texts), self.batch_size):
            rows = []
            for text in texts[i : i + self.batch_size]:
                tokens = self.tokenizer.encode(text, add_special_tokens=False)
                rows.append([*([] if start is None else [start]), *tokens, *([] if end is None else [end])])
            found += self._of_tokens([torch.tensor(row) for row in rows])
        return found

    def _of_tokens(self, rows: list[Tensor]) -> list[float]:
        tokens_BS = pad_sequence(rows, batch_first=True).to(self.model.device)
        lengths_B1 = torch.tensor([[len(row)] for row in rows], device=tokens_BS.device)
        mask_BS = torch.arange(tokens_BS.shape[1], device=tokens_BS.device) < lengths_B1
        if tokens_BS.shape[1] < 2:
            return [0.0] * len(rows)
        logits_BSV = self.model(tokens_BS, attention_mask=mask_BS.long()).logits[:, :-1].float()
        log_probs_BS = logits_BSV.log_softmax(-1).gather(2, tokens_BS[:, 1:, None])[..., 0]
        return (log_probs_BS * mask_BS[:, 1:]).sum(1).tolist()


def with_log_probs(lists: Sequence[Sequence[Candidate]], model: CausalModel) -> list[list[Candidate]]:
    """The same lists with what the language model says; equal texts are scored once."""
    texts = list(dict.fromkeys(candidate.text for candidates in lists for candidate in candidates))
    by_length = sorted(texts, key=len)
    scores = dict(zip(by_length, model.log_probs(by_length), strict=True))
    return [[c._replace(log_prob=scores[c.text]) for c in candidates] for candidates in lists]


def order_of(candidates: Sequence[Candidate], weight: float, word_bonus: float) -> list[int]:
    """Places of the candidates, best first."""
    return sorted(range(len(candidates)), key=lambda i: -candidates[i].total(weight, word_bonus))


class Tuned(NamedTuple):
    """The best weights for a development set, and its word error rates without and with them."""

    weight: float
    word_bonus: float
    before: float
    after: float


def tune(lists: Sequence[Sequence[Candidate]], references: Sequence[str]) -> Tuned:
    """Tries all pairs. Of equally good ones the first, with the smallest weight, is taken. Raises ValueError."""
    if not lists or len(lists) != len(references):
        raise ValueError(f"expected a reference for each of {len(lists)} recordings, found {len(references)}")

    def rate(weight: float, bonus: float) -> float:
        best = [c[order_of(c, weight, bonus)[0]].text if c else "" for c in lists]
        return word_errors(references, best).rate

    before = word_errors(references, [c[0].text if c else "" for c in lists]).rate
    found = [(rate(w, b), abs(b), w, b) for w, b in itertools.product(WEIGHTS, BONUSES)]
    after, _, weight, bonus = min(found)
    return Tuned(weight, bonus, before, after)


def read_lists(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of transcripts in the format json. Raises ConfigError, which names the line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                record = parsed(line)
                candidates_of(record)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise ConfigError(
                    f"{path}:{number}: expected a transcript as inference writes it in the format json"
                ) from None
            yield record


def candidates_of(record: dict[str, Any]) -> list[Candidate]:
    """The readings of a transcript, best first."""
    found = [record, *record.get("alternatives", [])]
    return [Candidate(str(one["text"]), float(one.get("score", 0.0))) for one in found]


def rescored(record: dict[str, Any], candidates: Sequence[Candidate], weight: float, word_bonus: float) -> dict:
    """The transcript with its readings in the order of their totals, which become their scores."""
    given = [record, *record.get("alternatives", [])]
    ordered = []
    for place in order_of(candidates, weight, word_bonus):
        kept = {key: given[place][key] for key in ("text", "words") if key in given[place]}
        ordered.append({**kept, "score": round(candidates[place].total(weight, word_bonus), 4)})
    words = ordered[0].get("words", [])
    confidence = round(sum(word["confidence"] for word in words) / len(words), 4) if words else 0.0
    own = {"confidence": confidence} if "confidence" in record else {}
    return {**record, **ordered[0], **own, "alternatives": ordered[1:]}
