"""Word times that a voice gives with its sound, against forced alignment of that sound with espeak-ng's.

A voice that learned from espeak-ng says sentences that it never heard; espeak-ng says them too, with the true time of
each word. Dynamic time warping of their cepstra, every 5 ms, carries those times over to the voice's sound. How far
that method itself is off is measured between two voices of espeak-ng, both with true times. Distances are those of
where words begin.

    python benchmarks/word_times.py FASTPITCH VOCODER [--language en] [--sentences 60]

The checkpoints are those of scripts/quickstart.sh. Appends rows to benchmarks/results/fastpitch_word_times.jsonl.
"""

import argparse
from pathlib import Path

import librosa
import numpy as np
import torch

import fastpitch
from common.audio import espeak
from common.benchmark import append_row
from common.data.texts.sentences import sentences
from fastpitch.speaking import times

HOP = 110  # samples: 5 ms
WINDOW = 551
SILENCE_SECONDS = 0.1  # on both sides, as in the corpus of the quickstart
WORDS_PER_MINUTE = 160  # as there


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fastpitch", type=Path, help="checkpoint of FastPitch")
    parser.add_argument("vocoder", type=Path, help="checkpoint of its vocoder")
    parser.add_argument("--language", choices=("en", "de"), default="en", help="language of the voice (default en)")
    parser.add_argument("--sentences", type=int, default=60, help="number of sentences (default 60)")
    options = parser.parse_args()
    tts = fastpitch.load(options.fastpitch)
    vocoder = fastpitch.load_vocoder(options.vocoder)
    accent = {"en": "en-us", "de": "de"}[options.language]
    method, voice = [], []
    for text in sentences(options.sentences, subset="test", seed=1, language=options.language):
        true, starts_W = said(
            text, espeak.EspeakVoice(language=accent, variant="f2", words_per_minute=WORDS_PER_MINUTE)
        )
        other, other_W = said(text, espeak.EspeakVoice(language=accent, variant="f2", words_per_minute=180, pitch=55))
        method.append(carried(true, starts_W, other) - other_W)
        spoken = tts.say(text, vocoder)
        given_W = np.array([word.start for word in times.words(spoken)])
        voice.append(given_W - carried(true, starts_W, spoken.samples_N))
    report("the alignment against espeak-ng", method, options.language)
    report("the voice against the alignment", voice, options.language)


def said(text: str, voice: espeak.EspeakVoice) -> tuple[np.ndarray, np.ndarray]:
    """The sound of a sentence [N], with a whisper of noise, and where its words begin [W], in seconds."""
    speech = espeak.speak(text, voice)
    silence = np.zeros(round(SILENCE_SECONDS * espeak.SAMPLE_RATE), np.float32)
    samples_N = np.concatenate([silence, speech.samples / np.abs(speech.samples).max(), silence])
    noise_N = np.random.default_rng(0).standard_normal(len(samples_N), np.float32)
    return samples_N + 1e-4 * noise_N, SILENCE_SECONDS + np.array([word.start_seconds for word in speech.words])


def carried(true_N: np.ndarray, starts_W: np.ndarray, other_N: np.ndarray) -> np.ndarray:
    """The places in `other_N` that sound as those of `true_N` at `starts_W`, in seconds."""
    a, b = cepstra(true_N), cepstra(other_N)
    _, path = librosa.sequence.dtw(X=a, Y=b, metric="euclidean")
    matched_T = np.array([path[path[:, 0] == frame, 1].mean() for frame in range(a.shape[1])])
    seconds_per_frame = HOP / espeak.SAMPLE_RATE
    return np.interp(starts_W / seconds_per_frame, np.arange(len(matched_T)), matched_T) * seconds_per_frame


def cepstra(samples_N: np.ndarray) -> np.ndarray:
    """20 cepstral coefficients without their mean, and their slopes."""
    mel_MT = librosa.feature.melspectrogram(
        y=samples_N, sr=espeak.SAMPLE_RATE, n_fft=WINDOW, hop_length=HOP, n_mels=40, fmax=8000
    )
    cepstra_CT = librosa.feature.mfcc(S=np.log(mel_MT + 1e-4 * mel_MT.max()), n_mfcc=20)
    cepstra_CT -= cepstra_CT.mean(axis=1, keepdims=True)
    return np.vstack([cepstra_CT, 0.5 * librosa.feature.delta(cepstra_CT, width=5)])


def report(what: str, late: list[np.ndarray], language: str) -> None:
    """Appends the row of one comparison."""
    late_N = 1e3 * np.concatenate(late)
    apart_N = np.abs(late_N)
    row = {
        "metric": "distance_ms",
        "what": what,
        "language": language,
        "words": len(late_N),
        "p50": round(float(np.median(apart_N)), 1),
        "p90": round(float(np.percentile(apart_N, 90)), 1),
        "late": round(float(np.median(late_N)), 1),
    }
    print(row)
    append_row("fastpitch_word_times", row, device=torch.device("cpu"))


if __name__ == "__main__":
    main()
