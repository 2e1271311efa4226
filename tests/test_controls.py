"""Every control that the README of FastPitch names, measured in the sound: of texts and words, in both runtimes.

Levels and durations of every shipped configuration, with weights that learned nothing; those and the pitch of the
quickstart's voice, where it has been trained: QUICKSTART_VOICE names its packed folder.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import fastpitch
from common import config
from fastpitch import pack
from fastpitch.acoustic.config import Config
from fastpitch.acoustic.pitch import PitchConfig, extract_pitch
from fastpitch.acoustic.training.run import build_model
from fastpitch.front.symbols import TextProcessor
from fastpitch.speaking.synthesizer import Synthesizer
from fastpitch.speaking.voicing import Voice, VoicingConfig
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.networks.config import IstftConfig
from fastpitch.vocoders.vocoder import Vocoder
from tests.fastpitch.vocoders.small import ISTFT
from trt.export.command import ExportConfig
from trt.export.command import main as export
from trt.runtime import voice as speech

ROOT = Path(__file__).parents[1]
SHIPPED = sorted((ROOT / "configs" / "fastpitch").glob("*.toml"))
QUICKSTART = Path(os.environ.get("QUICKSTART_VOICE", ROOT / "runs" / "quickstart-voice" / "packed"))
TEXT, WORD = "Oliver painted the old bridge.", "painted"
COMBS = PitchConfig(method="combs", lowest_hz=60, highest_hz=500)
QUIET, LOUDNESS = 1e-4, (0.25, 0.5, 2, 4)  # below full scale, which bends what is louder
PACES = (0.5, 0.8, 1.25, 2.0)


class Said(NamedTuple):
    """The sound, that of the word, and the pitch that every frame was given."""

    samples_N: np.ndarray
    word_N: np.ndarray
    hertz_T: np.ndarray


def said(tts: Any, voice: Any, **how: Any) -> Said:
    plan = tts.plan(TEXT, **how)
    if isinstance(tts, Synthesizer):
        (sentence,) = tts.sentences(plan, batch_size=1)
        (spoken,) = tts.speak([plan], voice)
        samples_N, hop = spoken.samples_N, spoken.hop_samples
    else:
        sentence, samples_N, hop = tts.sentence(plan[0]), tts.say(TEXT, **how).samples, tts.hop_samples
    ends_L = np.cumsum(sentence.frames_L)
    own = next(word for word in sentence.encoded.words if word.text.lower() == WORD)
    # Frames are centred at multiples of the hop: each begins half a hop before its centre.
    first, last = (ends_L[own.first] - sentence.frames_L[own.first]) * hop, ends_L[own.last] * hop
    return Said(
        samples_N,
        samples_N[max(0, first - hop // 2) : last - hop // 2],
        np.repeat(sentence.pitch_hz_L, sentence.frames_L),
    )


def decibels(found_N: np.ndarray, plain_N: np.ndarray) -> float:
    return 10 * np.log10(np.square(found_N).sum() / np.square(plain_N).sum())


def assert_levels_and_durations(tts: Any, voice: Any) -> None:
    plain = said(tts, voice, energy=QUIET)
    for energy in LOUDNESS:
        asked = 20 * np.log10(energy)
        louder = said(tts, voice, energy=QUIET * energy)
        assert decibels(louder.samples_N, plain.samples_N) == pytest.approx(asked, abs=0.1)
        of_word = said(tts, voice, energy=QUIET, words=f"{WORD}: energy={energy}")
        assert decibels(of_word.word_N, plain.word_N) == pytest.approx(asked, abs=1.0)  # it begins and ends smoothly
    assert not said(tts, voice, energy=0).samples_N.any()
    assert not said(tts, voice, words=f"{WORD}: energy=0").word_N[1024:-1024].any()
    for pace in PACES:
        assert len(plain.samples_N) / len(said(tts, voice, pace=pace).samples_N) == pytest.approx(pace, rel=0.06)
        of_word = said(tts, voice, words=f"{WORD}: pace={pace}")
        assert len(plain.word_N) / len(of_word.word_N) == pytest.approx(pace, rel=0.15)  # in whole frames
        rest = len(plain.samples_N) - len(plain.word_N)
        assert len(of_word.samples_N) - len(of_word.word_N) == rest


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=() if p.stem == "quickstart" else pytest.mark.slow) for p in SHIPPED]
)
def test_level_and_duration_of_every_shipped_configuration(path):
    cfg = config.load(Config, path)
    torch.manual_seed(0)
    one_layer = {side: replace(getattr(cfg.model, side), layers=1) for side in ("encoder", "decoder")}
    model = build_model(replace(cfg, model=replace(cfg.model, **one_layer))).eval().requires_grad_(False)
    model.duration.out.bias.fill_(2.5)
    text = replace(cfg.text, p_arpabet=0.0, cleaners="basic_cleaners")
    tts = Synthesizer(model, TextProcessor(text), cfg.features)
    istft = IstftConfig(channels=16, layers=2, n_fft=cfg.features.n_fft)
    generator = build_generator(replace(ISTFT, features=cfg.features, istft=istft)).eval()
    assert_levels_and_durations(tts, Voice(Vocoder(generator, cfg.features), VoicingConfig(fade_out=0)))


@pytest.fixture(scope="module")
def quickstart() -> Path:
    if not QUICKSTART.is_dir():
        pytest.skip(f"{QUICKSTART} is not here: scripts/quickstart.sh trains it")
    return QUICKSTART


@pytest.fixture(scope="module", params=["torch", "onnx"])
def trained(request, quickstart, tmp_path_factory) -> tuple[Any, Any]:
    """The voice in a runtime; ONNX files have no pulses, and corrections would take minutes to export."""
    if request.param == "torch":
        vocoder = fastpitch.load_vocoder(quickstart, device="cpu")
        return fastpitch.load(quickstart, device="cpu"), Voice(vocoder, VoicingConfig(fade_out=0))
    folder = tmp_path_factory.mktemp("onnx")
    plain = pack.main(
        pack.PackConfig(
            name="plain", fastpitch=quickstart / "fastpitch.pt", vocoder=quickstart / "vocoder.pt", corrections=0,
            phases="network", folder=folder,
        )
    )  # fmt: skip
    for part in ("fastpitch", "vocoder"):
        export(ExportConfig(checkpoint=plain / f"{part}.pt", out=folder / f"{part}.onnx"))
    return speech.Synthesizer(folder / "fastpitch.onnx", speech.Vocoder(folder / "vocoder.onnx")), None


def semitones(found_N: np.ndarray, other: np.ndarray) -> float:
    """How much higher the sound is than `other`, a sound as long or the pitch of every frame: the median."""
    hertz_T = extract_pitch(found_N, COMBS)
    other_T = extract_pitch(other, COMBS) if len(other) == len(found_N) else other
    frames = min(len(hertz_T), len(other_T))
    is_voiced_T = (hertz_T[:frames] > 0) & (other_T[:frames] > 0)
    assert is_voiced_T.mean() > 0.4
    return float(np.median(12 * np.log2(hertz_T[:frames][is_voiced_T] / other_T[:frames][is_voiced_T])))


def test_controls_of_the_trained_voice(trained, caplog):
    tts, voice = trained
    assert_levels_and_durations(tts, voice)
    plain = said(tts, voice)
    for asked in (-3.0, -2.0, -1.0, 1.0):  # above, the highest words meet the limit
        found = said(tts, voice, pitch_ratio=2 ** (asked / 12))
        assert semitones(found.samples_N, plain.samples_N) == pytest.approx(asked, abs=0.35)
    for asked in (-2.0, -1.0, 1.0):  # the highest word of the sentence
        of_word = said(tts, voice, words=f"{WORD}: pitch_ratio={2 ** (asked / 12)}")
        assert semitones(of_word.word_N, plain.word_N) == pytest.approx(asked, abs=0.5)
    mean = (tts.voices() if callable(tts.voices) else tts.voices)[0].pitch_mean
    hertz = "pitch_shift_hz", "pitch_amplify", "pitch_flatten", "pitch_invert", "pitch_curve_hz"
    for name, value in zip(hertz, (20.0, 1.3, True, True, ((0.0, mean - 25), (1.0, mean + 15))), strict=True):
        found = said(tts, voice, **{name: value})
        assert abs(semitones(found.samples_N, found.hertz_T)) < 0.35, name
    caplog.clear()
    for asked in (4.0, 8.0, -12.0):  # beyond the range it says so, and what it says of the pitch is true
        found = said(tts, voice, pitch_ratio=2 ** (asked / 12))
        assert "which it has learned" in caplog.records[-1].getMessage()
        assert abs(semitones(found.samples_N, found.hertz_T)) < 0.7
