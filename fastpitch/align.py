"""Durations of symbols by pocketsphinx's forced alignment, for a training that need not learn them.

    pip install pocketsphinx
    python -m fastpitch.align configs/fastpitch/ljspeech_mini_voice.toml --data.root LJSpeech-1.1 \\
      --data.durations_dir durations

The configuration is that of the training, whose clips are aligned, those of validation too. Half an hour of a reader
teaches an aligner only roughly where phonemes are; pocketsphinx's model of English has heard many people. Words must be
given by phonemes (`text.p_arpabet = 1`). Each clip becomes <durations_dir>/<clip>.pt, [2, symbols]: the symbols and
their frames; those already there are left as they are. Clips that cannot be aligned are listed at the end, and the exit
status is then 1.
"""

import importlib
import importlib.util
import math
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from common import config
from common.audio import waveform
from common.config import ConfigError
from common.data.manifest import ManifestError, Utterance
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.data import ClipError, prepared_path, write_tensor
from fastpitch.front.symbols import EncodedText, TextError, TextProcessor

RATE = 16_000  # of pocketsphinx's model
FRAME_SECONDS = 0.01
LATE_SECONDS = 0.0078  # from where a frame of 25.6 ms starts to where it is nearer to its middle than the one before
PAUSE = 0.3  # probability of a pause between words; by the default of 0.005 pauses become long consonants


class TimeSpan(NamedTuple):
    """When a word or a phoneme is said, in seconds."""

    start: float
    end: float


def main(cfg: Config) -> list[str]:
    """Aligns what has no durations yet; returns why clips were left out. Raises ConfigError and ManifestError."""
    folder, sources = cfg.data.durations_dir, (*cfg.data.train, *cfg.data.validation)
    if folder is None or not sources:
        raise ConfigError("nothing to align: expected data.durations_dir, and clips in data.train")
    aligner, text = PhonemeAligner(), TextProcessor(cfg.text)
    utterances, left_out = data.read_utterances(dict.fromkeys(sources), cfg, training=False)
    missing = [utterance for utterance in utterances if not prepared_path(folder, utterance).is_file()]
    written = 0
    for utterance in missing:
        try:
            durations_2L = aligned(utterance, cfg, text, aligner)
        except ValueError as error:  # every error of audio and text is one
            left_out.append(f"utterance {utterance.id}: {error}")
            continue
        write_tensor(prepared_path(folder, utterance), durations_2L)
        written += 1
    print(f"{folder}: {written} written, {len(utterances) - len(missing)} were there")
    for message in left_out:
        print(f"left out: {message}")
    return left_out


def aligned(utterance: Utterance, cfg: Config, text: TextProcessor, aligner: "PhonemeAligner") -> torch.Tensor:
    """[2, L] int64: symbols and frames of a clip. Raises ClipError, TextError, AudioError."""
    encoded, features = text.encode(utterance.text), cfg.features
    samples_N = waveform.read(utterance.audio, sample_rate=features.sample_rate, **utterance.piece()).samples
    words = phonemes_of(encoded)
    spans = aligner.spans(waveform.resample(samples_N, features.sample_rate, RATE), words)
    frames = features.frames(len(samples_N))
    durations = durations_of(encoded, spans, frames, features.hop_samples / features.sample_rate)
    return torch.tensor([encoded.tokens, durations])


def phonemes_of(encoded: EncodedText) -> list[list[str]]:
    """The phonemes of every word, without stress. Raises TextError for a word that is given by letters."""
    words = []
    for word in encoded.words:
        symbols = encoded.symbols[word.first : word.last + 1]
        if letters := [symbol for symbol in symbols if not symbol.startswith("@")]:
            raise TextError(f"{word.text!r} has {letters[0]!r}, no phoneme; expected text.p_arpabet = 1")
        words.append([symbol[1:].rstrip("012") for symbol in symbols])
    return words


def durations_of(encoded: EncodedText, spans: Sequence[Sequence[TimeSpan]], frames: int, seconds: float) -> list[int]:
    """Frames, `seconds` apart, of every symbol, from the spans of the phonemes of every word.

    A pause belongs to the mark in it, else to the space; without either to what was said before. Other marks and spaces
    have no frames.
    """
    length = len(encoded.tokens)
    ends = [0.0] * length
    starts = [*(phonemes[0].start for phonemes in spans), math.inf]
    said = 0.0
    firsts = [*(word.first for word in encoded.words), length]
    lasts = [-1, *(word.last for word in encoded.words)]
    for number, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
        between = range(last + 1, first)
        marks = [i for i in between if encoded.symbols[i] != " "]
        pause = marks[0] if marks else last + 1
        for i in between:
            ends[i] = said if i < pause else starts[number]
        if not between and last >= 0:
            ends[last] = starts[number]
        if number < len(spans):
            for i, phoneme in enumerate(spans[number]):
                ends[first + i] = phoneme.end
            said = spans[number][-1].end
    before = np.clip(np.ceil(np.minimum(ends, frames * seconds) / seconds), 0, frames).astype(int)
    before = np.maximum.accumulate([0, *before])
    before[-1] = frames
    return [int(after - start) for start, after in pairwise(before)]


class PhonemeAligner:
    """pocketsphinx, with the words of each clip as they are pronounced in it. Raises ConfigError where it is absent."""

    def __init__(self) -> None:
        if importlib.util.find_spec("pocketsphinx") is None:
            raise ConfigError("pocketsphinx is not installed; pip install pocketsphinx")
        self._decoder = self._new()

    def spans(self, samples_N: np.ndarray, words: Sequence[Sequence[str]]) -> list[list[TimeSpan]]:
        """When the phonemes of every word are said in samples at RATE. Raises ClipError."""
        names = [self._named(phonemes) for phonemes in words]
        pcm = (np.clip(samples_N, -1, 1) * 32767).astype(np.int16).tobytes()
        self._decoder.set_align_text(" ".join(names))
        self._hear(pcm)
        if self._decoder.hyp() is None:
            raise ClipError("pocketsphinx cannot align it; is it the text of this recording?")
        self._decoder.set_alignment()  # again, down to phonemes
        self._hear(pcm)
        alignment = self._decoder.get_alignment()  # its entries point into it, and at one place only
        spans = [[_span(phoneme) for phoneme in word] for word in alignment if not re.match(r"[<(\[+]", word.name)]
        if [len(each) for each in spans] != [len(phonemes) for phonemes in words]:
            raise ClipError("pocketsphinx found other phonemes than those of the text")
        return spans

    def _new(self) -> Any:
        decoder = importlib.import_module("pocketsphinx").Decoder
        # What looks for better words in a lattice leaves words that the search for phonemes then cannot follow.
        return decoder(samprate=RATE, lm=None, loglevel="FATAL", silprob=PAUSE, bestpath=False, fwdflat=False)

    def _named(self, phonemes: Sequence[str]) -> str:
        name = "=".join(phonemes)
        if self._decoder.lookup_word(name) is None:
            self._decoder.add_word(name, " ".join(phonemes), True)
        return name

    def _hear(self, pcm: bytes) -> None:
        try:
            self._decoder.start_utt()
            self._decoder.process_raw(pcm, full_utt=True)
            self._decoder.end_utt()
        except RuntimeError:  # it reached no end, and does not go on with another clip
            self._decoder = self._new()
            raise ClipError("pocketsphinx cannot align it; is it the text of this recording?") from None


def _span(entry: Any) -> TimeSpan:
    start, end = (frame * FRAME_SECONDS + LATE_SECONDS for frame in (entry.start, entry.start + entry.duration))
    return TimeSpan(start, end)


if __name__ == "__main__":
    with config.reported(ConfigError, ManifestError):
        sys.exit(1 if main(config.command_line(Config, description=__doc__ or "")) else 0)
