"""Trains a small causal language model on the texts of manifests, for rescoring where none can be downloaded.

    python benchmarks/causal_model.py FOLDER --root CORPUS --train train-clean --tune dev-clean

A GPT-2 of a million weights over pieces of bytes, written as a folder of transformers, which the commands
`python -m common.recognition.tune` and `.rescore` take. The weights are those after the epoch with the best likelihood
of --tune. Two to three minutes of one core for 6,600 sentences.
"""

import argparse
import math
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from common.data.manifest import read_manifest
from common.text.normalize import normalize_english

PIECES = 400
BATCH = 64
RATE = 3e-3
WARM_UP = 50  # steps
END = "<|endoftext|>"


def train(folder: Path, texts: Sequence[str], held_out: Sequence[str], *, epochs: int = 8, seed: int = 0) -> float:
    """Writes a GPT-2 of `texts` to `folder`; returns the perplexity of a piece of `held_out`."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer = _tokenizer(texts)
    end = tokenizer.eos_token_id
    rows, others = ([[end, *ids, end] for ids in tokenizer(list(part))["input_ids"]] for part in (texts, held_out))
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=max(64, *map(len, rows + others)),
            n_embd=128,
            n_layer=4,
            n_head=4,
            bos_token_id=end,
            eos_token_id=end,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    steps = epochs * math.ceil(len(rows) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * step / steps))
    )
    draw, best = random.Random(seed), math.inf
    for epoch in range(1, epochs + 1):
        model.train()
        draw.shuffle(rows)
        for first in range(0, len(rows), BATCH):
            loss = _loss(model, rows[first : first + BATCH]).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            parts = [_loss(model, others[first : first + BATCH]) for first in range(0, len(others), BATCH)]
        nats = float(torch.cat(parts).mean())
        print(f"epoch {epoch}: perplexity of a piece {math.exp(nats):.2f}", flush=True)
        if nats < best:
            best = nats
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    return math.exp(best)


def _tokenizer(texts: Sequence[str]):  # type: ignore[no-untyped-def]  # of a package that is imported when it is needed
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=PIECES, special_tokens=[END], initial_alphabet=alphabet, show_progress=False),
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)


def _loss(model: torch.nn.Module, rows: Sequence[Sequence[int]]) -> Tensor:
    """-log p of every piece of `rows` and of their ends."""
    tokens_BS = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    mask_BS = torch.arange(tokens_BS.shape[1]) < torch.tensor([[len(row)] for row in rows])
    logits_BSV = model(tokens_BS, attention_mask=mask_BS.long()).logits[:, :-1]
    losses_BS = torch.nn.functional.cross_entropy(logits_BSV.transpose(1, 2), tokens_BS[:, 1:], reduction="none")
    return losses_BS[mask_BS[:, 1:]]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for the model and its tokenizer")
    parser.add_argument("--root", type=Path, required=True, help="folder that the manifests are in")
    parser.add_argument("--train", nargs="+", required=True, help="manifests whose texts the model learns")
    parser.add_argument("--tune", nargs="+", required=True, help="manifests whose texts choose the best epoch")
    parser.add_argument("--epochs", type=int, default=8, help="number of times that the texts are gone through")
    options = parser.parse_args()
    texts, held_out = (
        [normalize_english(u.text) for name in names for u in read_manifest(options.root / name).utterances]
        for names in (options.train, options.tune)
    )
    perplexity = train(options.folder, texts, held_out, epochs=options.epochs)
    print(f"{options.folder}: learnt {len(texts)} texts; perplexity of a piece of others {perplexity:.2f}")


if __name__ == "__main__":
    main()
