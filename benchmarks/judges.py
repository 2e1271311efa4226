"""Judges of speech that know nothing of this repository: opinion scores, distances, a recogniser, a speaker's likeness.

All are optional: `pip install -r requirements-judges.txt`. A judge whose package is absent is left out by name. Every
judge hears mono float samples at any rate and resamples them itself, to 16 kHz.
"""

import importlib
import importlib.util
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from common.audio import waveform
from common.recognition.metrics import word_errors

RATE = 16_000
INSTALL = "pip install -r requirements-judges.txt"


class JudgedClip(NamedTuple):
    """Something said: samples at `rate`, its words, and the recording of the same words where there is one."""

    samples_N: np.ndarray
    rate: int
    text: str = ""
    reference_N: np.ndarray | None = None


class Judge(NamedTuple):
    """A judge of many clips: `packages` must be there; `needs_reference`: a recording that the samples copy."""

    name: str
    packages: tuple[str, ...]
    judge: Callable[[Sequence[JudgedClip], Sequence[JudgedClip]], float]
    needs_reference: bool = False


def available(judges: Iterable[Judge]) -> tuple[list[Judge], list[str]]:
    """Those that can judge, and why the others cannot."""
    found, missing = [], []
    for judge in judges:
        absent = [package for package in judge.packages if not is_there(package)]
        if absent:
            missing.append(f"{judge.name} is left out: {', '.join(absent)} not installed; {INSTALL}")
        else:
            found.append(judge)
    return found, missing


def is_there(package: str) -> bool:
    """Whether a package is installed; it is not imported."""
    return importlib.util.find_spec(package) is not None


def dnsmos(clips: Sequence[JudgedClip], _: Sequence[JudgedClip]) -> float:
    """Mean opinion score, 1 to 5, of a network trained on listeners' (DNSMOS P.835 overall, Reddy et al. 2022)."""
    module = importlib.import_module("speechmos.dnsmos")
    return _mean(module.run(_heard(clip, peak=0.99), RATE, return_df=False)["ovrl_mos"] for clip in clips)


def pesq(clips: Sequence[JudgedClip], _: Sequence[JudgedClip]) -> float:
    """Wide-band PESQ (ITU-T P.862.2) against the recordings, 1 to 4.64."""
    module = importlib.import_module("pesq")
    return _mean(module.pesq(RATE, *_pair(clip), "wb") for clip in clips)


def stoi(clips: Sequence[JudgedClip], _: Sequence[JudgedClip]) -> float:
    """Short-time objective intelligibility (Taal et al. 2011) against the recordings, up to 1."""
    module = importlib.import_module("pystoi")
    return _mean(module.stoi(*_pair(clip), RATE) for clip in clips)


def wer_percent(clips: Sequence[JudgedClip], _: Sequence[JudgedClip]) -> float:
    """Words that pocketsphinx, with its model of English, hears wrongly, in percent of those said."""
    errors_C, words_C = misheard(clips).T
    return 100 * float(errors_C.sum() / words_C.sum())


def wer_low(clips: Sequence[JudgedClip], _: Sequence[JudgedClip]) -> float:
    """Lower end of the 95 % interval of `wer_percent`, of clips drawn anew from these."""
    return _interval(misheard(clips))[0]


def wer_high(clips: Sequence[JudgedClip], _: Sequence[JudgedClip]) -> float:
    """Its upper end."""
    return _interval(misheard(clips))[1]


def wer_difference(clips: Sequence[JudgedClip], others: Sequence[JudgedClip]) -> tuple[float, float, float]:
    """How many more words are misheard of `clips` than of others that say the same, in percent of those said, and the
    95 % interval of clips drawn anew, both of a pair together."""
    ours_C2, theirs_C2 = misheard(clips), misheard(others)
    more_C2 = np.stack([ours_C2[:, 0] - theirs_C2[:, 0], ours_C2[:, 1]], 1)
    return 100 * float(more_C2[:, 0].sum() / more_C2[:, 1].sum()), *_interval(more_C2)


def misheard(clips: Sequence[JudgedClip]) -> np.ndarray:
    """[clips, 2] words that pocketsphinx hears wrongly, and words that are said."""
    counted = [word_errors([plain_words(clip.text)], [recognised(clip)]) for clip in clips]
    return np.array([(count.errors, count.length) for count in counted], float)


def _interval(counts_C2: np.ndarray, draws: int = 10_000) -> tuple[float, float]:
    """95 % of what clips drawn anew, as many and with repetition, would give: percent of the words that are said."""
    drawn_DC = np.random.default_rng(0).integers(len(counts_C2), size=(draws, len(counts_C2)))
    sums_D2 = counts_C2[drawn_DC].sum(1)
    low, high = np.percentile(100 * sums_D2[:, 0] / np.maximum(sums_D2[:, 1], 1), [2.5, 97.5])
    return float(low), float(high)


def likeness(clips: Sequence[JudgedClip], reader: Sequence[JudgedClip]) -> float:
    """Cosine of the speaker's embedding (resemblyzer, GE2E) with the mean one of other recordings of the reader."""
    mean_E = np.mean([_embedding(clip) for clip in reader], axis=0)
    return _mean(float(_embedding(clip) @ mean_E) / float(np.linalg.norm(mean_E)) for clip in clips)


JUDGES = (
    Judge("dnsmos", ("speechmos", "librosa", "onnxruntime"), dnsmos),
    Judge("pesq", ("pesq",), pesq, needs_reference=True),
    Judge("stoi", ("pystoi",), stoi, needs_reference=True),
    Judge("wer_percent", ("pocketsphinx",), wer_percent),
    Judge("wer_low", ("pocketsphinx",), wer_low),
    Judge("wer_high", ("pocketsphinx",), wer_high),
    Judge("likeness", ("resemblyzer", "webrtcvad"), likeness),
)


def world(clip: JudgedClip) -> np.ndarray:
    """The clip said again by WORLD (Morise et al. 2016): Harvest, CheapTrick, D4C, synthesis, as `pyworld` has them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports pkg_resources
        module = importlib.import_module("pyworld")
    samples_N = clip.samples_N.astype(np.float64)
    pitch_T, time_T = module.harvest(samples_N, clip.rate)
    envelope = module.cheaptrick(samples_N, pitch_T, time_T, clip.rate)
    aperiodicity = module.d4c(samples_N, pitch_T, time_T, clip.rate)
    return module.synthesize(pitch_T, envelope, aperiodicity, clip.rate)[: len(samples_N)].astype(np.float32)


def recognised(clip: JudgedClip) -> str:
    """What pocketsphinx hears."""
    return _recognised(_pcm(clip))


@lru_cache(1000)  # several judges ask for the same
def _recognised(pcm: bytes) -> str:
    decoder = _decoder()
    decoder.start_utt()
    decoder.process_raw(pcm, full_utt=True)
    decoder.end_utt()
    said = decoder.hyp()
    return said.hypstr if said is not None else ""


def word_starts(clip: JudgedClip, words: Sequence[str]) -> list[float] | None:
    """Where each of `words` starts, in seconds, by pocketsphinx's forced alignment; None where it cannot align them."""
    decoder = _aligner()
    if not words or any(decoder.lookup_word(word) is None for word in words):
        return None
    decoder.set_align_text(" ".join(words))
    decoder.start_utt()
    decoder.process_raw(_pcm(clip), full_utt=True)
    decoder.end_utt()
    found = [segment for segment in decoder.seg() or () if not segment.word.startswith(("<", "(", "["))]
    if [segment.word.split("(")[0] for segment in found] != list(words):
        return None
    return [segment.start_frame / 100 for segment in found]


def plain_words(text: str) -> str:
    """Words as pocketsphinx writes them: small letters, apostrophes, no other marks."""
    return " ".join(re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")))


@cache
def _decoder() -> Any:
    return importlib.import_module("pocketsphinx").Decoder(samprate=RATE, loglevel="FATAL")


@cache
def _aligner() -> Any:
    return importlib.import_module("pocketsphinx").Decoder(samprate=RATE, lm=None, loglevel="FATAL")


@cache
def _encoder() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports scipy by a name of the past
        return importlib.import_module("resemblyzer").VoiceEncoder("cpu", verbose=False)


def _embedding(clip: JudgedClip) -> np.ndarray:
    encoder = _encoder()
    heard_N = importlib.import_module("resemblyzer").preprocess_wav(_heard(clip))
    return encoder.embed_utterance(heard_N)


def _heard(clip: JudgedClip, peak: float = 0.0) -> np.ndarray:
    samples_N = waveform.resample(clip.samples_N, clip.rate, RATE).astype(np.float32)
    if peak and np.abs(samples_N).max() > peak:
        samples_N = samples_N * (peak / np.abs(samples_N).max())
    return samples_N


def _pair(clip: JudgedClip) -> tuple[np.ndarray, np.ndarray]:
    assert clip.reference_N is not None
    reference_N = waveform.resample(clip.reference_N, clip.rate, RATE).astype(np.float32)
    heard_N = _heard(clip)
    common = min(len(reference_N), len(heard_N))
    return reference_N[:common], heard_N[:common]


def _pcm(clip: JudgedClip) -> bytes:
    return (_heard(clip, peak=0.99) * 32767).astype("<i2").tobytes()


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
