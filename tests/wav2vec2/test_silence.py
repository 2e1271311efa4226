"""Digital zeros beside speech: what they do to a network that hears samples, and what a trained one then writes."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.wav2vec2.small import LABELS, QUIET, ctc_model, small_config
from wav2vec2.network.model import Wav2Vec2ForCTC, normalized
from wav2vec2.recognizer import Recognizer

RATE = 16_000
WORDS = ("TEA", "ANTE", "NOTE", "TONE", "EAT", "OATEN")
PLACES = ("beginning", "middle", "end")


def with_zeros(samples_N: np.ndarray, place: str, seconds: float, middle: int) -> np.ndarray:
    at = {"beginning": 0, "middle": middle, "end": len(samples_N)}[place]
    return np.insert(samples_N, np.full(round(seconds * RATE), at), np.float32(0))


@pytest.mark.parametrize("kind", ["base", "large", "base hourglass", "large linear"])
def test_scores_are_finite_wherever_zeros_are_and_where_there_is_nothing_else(kind):
    recognizer = Recognizer(ctc_model(kind))
    noise_N = np.random.default_rng(0).normal(0, 0.1, RATE // 2).astype(np.float32)
    for samples_N in (np.zeros(RATE, np.float32), *(with_zeros(noise_N, place, 1.0, 4000) for place in PLACES)):
        scored = recognizer.logits(torch.from_numpy(samples_N)[None], torch.tensor([len(samples_N)]))
        assert scored.logits_BSV.isfinite().all()


@pytest.mark.parametrize("seconds", [0.25, 1.0, 5.0])
def test_normalisation_makes_speech_louder_by_the_share_of_zeros_and_changes_nothing_else(seconds):
    samples_N = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    alone_BN = torch.from_numpy(samples_N - samples_N.mean())[None]
    beside_BN = F.pad(alone_BN, (0, round(seconds * RATE)))
    louder = (1 + seconds) ** 0.5
    expected_BN = normalized(alone_BN, None, 0.0) * louder
    torch.testing.assert_close(normalized(beside_BN, None, 0.0)[:, :RATE], expected_BN, atol=1e-5, rtol=1e-5)


def spoken(words: list[str], random: np.random.Generator) -> tuple[np.ndarray, int]:
    """Tones for letters, pauses between words, and faint noise; where the first word has ended."""

    def noise(seconds: float) -> np.ndarray:
        return 0.002 * random.standard_normal(int(seconds * RATE))

    parts, ends = [noise(random.uniform(0.02, 0.2))], []
    for word in words:
        for letter in word:
            tone_N = np.sin(np.arange(1280) * 0.03 * (4 + 3 * "ETAON".index(letter))) * np.hanning(1280) ** 0.25
            parts.append(0.3 * tone_N + noise(0.08))
        parts.append(noise(random.uniform(0.05, 0.2)))
        ends.append(sum(map(len, parts)) - 400)
    return np.concatenate(parts).astype(np.float32), ends[0]


def trained(steps: int) -> Recognizer:
    """A small model, group normalisation over time, that has learned to write such words in seconds."""
    torch.manual_seed(0)
    random, model = np.random.default_rng(0), Wav2Vec2ForCTC(small_config("base", layers=2), QUIET).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(steps):
        said = [random.choice(WORDS, size=random.integers(1, 4)).tolist() for _ in range(6)]
        clips = [torch.from_numpy(spoken(words, random)[0]) for words in said]
        output = model(torch.nn.utils.rnn.pad_sequence(clips, batch_first=True), torch.tensor(list(map(len, clips))))
        targets = [torch.tensor([LABELS.index(letter) for letter in "|".join([*words, ""])]) for words in said]
        log_probs_SBV = output.logits_BSV.log_softmax(2).transpose(0, 1)
        lengths = torch.tensor(list(map(len, targets)))
        optimizer.zero_grad()
        F.ctc_loss(log_probs_SBV, torch.cat(targets), output.frames_B, lengths).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return Recognizer(model.eval())


def test_a_trained_model_writes_the_same_with_few_zeros_and_most_of_it_with_more_of_them_than_speech():
    recognizer, random = trained(250), np.random.default_rng(9)
    said = [random.choice(WORDS, size=3).tolist() for _ in range(12)]
    clips = [spoken(words, random) for words in said]

    def wrong(samples: list[np.ndarray]) -> int:
        texts = [transcript.text for transcript in recognizer.transcribe(samples)]
        return sum(text != " ".join(words) for text, words in zip(texts, said, strict=True))

    assert wrong([clip for clip, _ in clips]) <= 1
    for seconds, most in ((0.05, 1), (0.25, 1), (1.0, 4), (5.0, 6)):
        for place in PLACES:
            found = wrong([with_zeros(clip, place, seconds, end) for clip, end in clips])
            assert found <= most, f"{seconds} s, {place}"
    (nothing,) = recognizer.transcribe([np.zeros(RATE, np.float32)])
    assert nothing.text == ""
