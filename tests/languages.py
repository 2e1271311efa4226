"""Corpora in three scripts whose "speech" is a tone per letter, as manifests: fast to make, and learnable."""

import json
from pathlib import Path

import numpy as np

from common.audio import waveform

WORDS = {
    "russian": ("Привет", "ёж", "мир", "Дом", "лес", "объём"),
    "german": ("Bär", "schön", "Straße", "über", "Öl", "Maß"),
    "mandarin": ("你好", "世界", "中国", "学习"),
}


def write_manifests(folder: Path, language: str, *, train: int = 12, validation: int = 3) -> Path:
    """train.jsonl and dev.jsonl below `folder`, with capitals and punctuation as people write them."""
    random = np.random.default_rng(0)
    letters = sorted({letter.lower() for word in WORDS[language] for letter in word})
    for subset, count in (("train", train), ("dev", validation)):
        rows = []
        for i in range(count):
            words = [str(word) for word in random.choice(WORDS[language], size=2 + i % 2, replace=False)]
            text = ("，" if language == "mandarin" else ", ").join(words) + "."
            tones = [
                np.sin(np.arange(2400) * 0.05 * (3 + letters.index(letter))) if letter in letters else np.zeros(2400)
                for letter in " ".join(words).lower()
            ]
            path = folder / f"{subset}-{i}.wav"
            samples = 0.5 * np.concatenate(tones) + 0.003 * random.standard_normal(2400 * len(tones))
            folder.mkdir(parents=True, exist_ok=True)
            waveform.write(path, samples.astype(np.float32), 16000)
            rows.append({"audio_filepath": path.name, "duration": len(samples) / 16000, "text": text})
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / f"{subset}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder
