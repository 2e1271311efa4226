"""Durations by pocketsphinx: what becomes of pauses, and what cannot be aligned."""

from dataclasses import replace

import numpy as np
import pytest

from common.config import ConfigError
from fastpitch import align
from fastpitch.acoustic.config import Config, DataConfig
from fastpitch.acoustic.training.data import read_tensor
from fastpitch.align import TimeSpan, durations_of, phonemes_of
from fastpitch.front.symbols import TextConfig, TextError, TextProcessor
from tests.data import shared

TEXT = TextConfig(ambiguous_words="first", prepend_space=True, append_space=True)
SPANS = [[TimeSpan(0.2, 0.3), TimeSpan(0.3, 0.4), TimeSpan(0.4, 0.6)], [TimeSpan(0.8, 0.9), TimeSpan(0.9, 1.0)]]


def said(text: str, config: TextConfig = TEXT):
    return TextProcessor(config).encode(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat, he", [2, 1, 1, 2, 2, 0, 1, 1, 5]),  # the pause is the comma's, and the space after it has no frame
        ("cat he", [2, 1, 1, 2, 2, 1, 1, 5]),
        ("cat (he)!", [2, 1, 1, 2, 0, 2, 1, 1, 5, 0, 0]),
    ],
)
def test_pauses_belong_to_marks_else_to_spaces(text, expected):
    assert durations_of(said(text), SPANS, frames=15, seconds=0.1) == expected


def test_without_marks_and_spaces_a_pause_belongs_to_what_was_said_before():
    plain = said("cat-he", replace(TEXT, prepend_space=False, append_space=False))
    assert durations_of(plain, SPANS, frames=15, seconds=0.1)[0] == 3
    assert sum(durations_of(plain, SPANS, frames=15, seconds=0.1)) == 15


def test_frames_are_counted_to_the_end_of_the_clip_and_never_below_zero():
    durations = durations_of(said("cat, he"), SPANS, frames=7, seconds=0.1)
    assert sum(durations) == 7
    assert min(durations) == 0


def test_a_word_by_letters_is_refused():
    assert phonemes_of(said("cat")) == [["K", "AE", "T"]]
    with pytest.raises(TextError, match="'cat' has 'c', no phoneme; expected text.p_arpabet = 1"):
        phonemes_of(said("cat", replace(TEXT, p_arpabet=0.0)))


def test_without_a_folder_or_clips_there_is_nothing_to_align(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing to align: expected data.durations_dir, and clips in data.train"):
        align.main(Config(text=TEXT))


def test_without_pocketsphinx_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(align.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pocketsphinx is not installed; pip install pocketsphinx"):
        align.PhonemeAligner()


@pytest.fixture
def cfg(tmp_path) -> Config:
    """Two clips of a reader, the second with the text of another."""
    folder = shared("data/ljspeech-mini/LJSpeech-1.1/wavs")
    (tmp_path / "list.txt").write_text(
        f"{folder}/LJ001-0002.wav|in being comparatively modern.\n"
        f"{folder}/LJ001-0008.wav|Words that nobody has said here, far too many for so short a recording.\n"
    )
    data = DataConfig(train=(str(tmp_path / "list.txt"),), durations_dir=tmp_path / "durations")
    return Config(text=TEXT, data=data)


def test_phonemes_of_a_recording_are_found(cfg, capsys):
    pytest.importorskip("pocketsphinx")
    left_out = align.main(cfg)
    assert "1 written" in capsys.readouterr().out or not left_out
    tokens, durations = read_tensor(cfg.data.durations_dir / "LJ001-0002.pt").long().tolist()
    assert tokens == said("in being comparatively modern.").tokens
    # Words begin where pocketsphinx's own dictionary has them begin.
    starts = [0.0, 0.14, 0.41, 1.27]
    found = [sum(durations[: word.first]) * 256 / 22_050 for word in said("in being comparatively modern.").words]
    np.testing.assert_allclose(found, starts, atol=0.025)
    align.main(cfg)
    assert "0 written" in capsys.readouterr().out or left_out
