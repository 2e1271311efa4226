"""benchmarks/voices.py and judges.py with stand-ins for the judges: what is said, what is left out, what is a row."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import judges, voices
from benchmarks.judges import Judge, JudgedClip
from common.audio import waveform
from common.benchmark import append_row
from tests.fastpitch.vocoders.small import ISTFT, save_hifigan

RATE = 22_050


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Five clips of noise, and rows that go to the test's own folder."""
    draw = np.random.default_rng(0)
    (tmp_path / "wavs").mkdir()
    for number in range(5):
        waveform.write(tmp_path / "wavs" / f"{number}.wav", 0.1 * draw.standard_normal(RATE).astype(np.float32), RATE)
    (tmp_path / "test.txt").write_text("wavs/0.wav|One.\nwavs/3.wav|Two.\n", encoding="utf-8")
    monkeypatch.setattr(voices, "append_row", lambda *row, **how: append_row(*row, **how, folder=tmp_path))
    return tmp_path


def test_every_side_is_judged_and_a_judge_that_is_not_there_is_left_out_by_name(corpus, monkeypatch, capsys):
    heard = []

    def first(clips, reader):
        heard.append((len(clips), len(reader)))
        return float(np.abs(clips[0].samples_N[:RATE] - clips[0].reference_N[: len(clips[0].samples_N[:RATE])]).max())

    stand_ins = (Judge("near", (), first, needs_reference=True), Judge("absent", ("no_such_package",), first))
    monkeypatch.setattr(voices, "JUDGES", stand_ins)
    monkeypatch.setattr(judges, "is_there", lambda package: "no_such" not in package and package != "pyworld")
    vocoder = save_hifigan(corpus / "light.pt", ISTFT)
    found = voices.main([str(corpus), "--clips", str(corpus / "test.txt"), "--vocoder", f"light={vocoder}"])
    assert [each.side for each in found] == ["recordings", "Griffin-Lim", "light"]
    assert heard == [(2, 3)] * 3  # two clips each, beside the three that nobody is judged on
    assert found[0].row["near"] == pytest.approx(0, abs=1e-3)
    assert "times_real_time" in found[1].row
    assert "times_real_time" not in found[0].row
    told = capsys.readouterr()
    assert "absent is left out: no_such_package not installed; pip install -r requirements-judges.txt" in told.err
    assert "WORLD is left out: pyworld not installed" in told.err
    rows = [json.loads(line) for line in (corpus / "voices.jsonl").read_text().splitlines()]
    assert [row["side"] for row in rows] == ["recordings", "Griffin-Lim", "light"]


def test_fastpitch_without_a_vocoder_is_an_error_of_one_line(corpus, monkeypatch):
    monkeypatch.setattr(voices, "JUDGES", ())
    argument = ["--texts", str(corpus / "test.txt"), "--sides", "recordings"]
    assert [each.side for each in voices.main([str(corpus), *argument])] == ["recordings"]
    assert voices.main([str(corpus), "--texts", str(corpus / "test.txt"), "--sides", "nobody"]) == []
    with pytest.raises(voices.CheckpointError, match="--fastpitch: expected a --vocoder too"):
        voices.main([str(corpus), "--texts", str(corpus / "test.txt"), "--fastpitch", "x.pt"])


def test_rows_of_another_voice_have_its_name(corpus, monkeypatch):
    monkeypatch.setattr(voices, "JUDGES", (Judge("near", (), lambda clips, _: 1.0, needs_reference=True),))
    argument = [str(corpus), "--clips", str(corpus / "test.txt"), "--sides", "recordings", "--voice", "quickstart"]
    (found,) = voices.main([*argument, "--judges", "near"])
    assert found.row["part"] == "copy synthesis, quickstart"
    assert found.row["near"] == 1


def test_a_verdict_that_there_is_none_is_no_number_of_a_row(corpus, monkeypatch):
    monkeypatch.setattr(voices, "JUDGES", (Judge("hum", (), lambda clips, _: float("nan")),))
    (found,) = voices.main([str(corpus), "--texts", str(corpus / "test.txt")])
    assert "hum" not in found.row


def test_nothing_to_judge_is_said(corpus, capsys):
    with pytest.raises(SystemExit):
        voices.main([str(corpus)])
    assert "nothing to judge: expected --clips, --texts or both" in capsys.readouterr().err


def test_vocoders_of_the_same_name_do_not_hide_each_other(corpus, capsys):
    with pytest.raises(SystemExit):
        voices.main([str(corpus), "--clips", "test.txt", "--vocoder", "a/vocoder.pt", "--vocoder", "b/vocoder.pt"])
    assert "--vocoder: two of the same name" in capsys.readouterr().err


def test_a_judge_hears_16_khz_and_no_more_than_full_scale(monkeypatch):
    heard = []

    def run(samples_N, rate, *, return_df):
        heard.append((len(samples_N), rate, float(np.abs(samples_N).max())))
        return {"ovrl_mos": 3.0 + len(heard)}

    monkeypatch.setitem(sys.modules, "speechmos.dnsmos", SimpleNamespace(run=run))
    loud_N = np.clip(3 * np.random.default_rng(0).standard_normal(RATE), -1, 1).astype(np.float32)
    assert judges.dnsmos([JudgedClip(loud_N, RATE), JudgedClip(loud_N[: RATE // 2], RATE)], []) == 4.5
    assert [(count, rate) for count, rate, _ in heard] == [(16_000, 16_000), (8_000, 16_000)]
    assert all(peak <= 0.9901 for *_, peak in heard)


def test_copies_are_compared_over_what_they_have_in_common(monkeypatch):
    pairs = []
    monkeypatch.setitem(
        sys.modules, "pystoi", SimpleNamespace(stoi=lambda a, b, rate: pairs.append((len(a), len(b))) or 1)
    )
    clip = JudgedClip(np.zeros(RATE, np.float32), RATE, "", np.zeros(RATE + 500, np.float32))
    assert judges.stoi([clip], []) == 1
    assert pairs == [(16_000, 16_000)]


def test_words_are_counted_without_marks(monkeypatch):
    monkeypatch.setattr(judges, "recognised", lambda clip: "the governor's hall is")
    clip = JudgedClip(np.zeros(10), RATE, "The governor’s hall; was?")
    assert judges.plain_words(clip.text) == "the governor's hall was"
    assert judges.wer_percent([clip], []) == 25.0


def test_the_interval_of_words_misheard_is_that_of_clips_drawn_anew(monkeypatch):
    monkeypatch.setattr(judges, "recognised", lambda clip: "one two" if clip.rate == 1 else "one three")
    right, wrong = JudgedClip(np.zeros(1), 1, "One two."), JudgedClip(np.zeros(1), 2, "One two.")
    assert (judges.wer_low([right] * 9, []), judges.wer_high([wrong] * 9, [])) == (0, 50)
    half = [right, wrong] * 50
    assert judges.wer_percent(half, []) == 25
    # Of 100 clips a share of one half has a deviation of 5 %, and half of the words of each is misheard.
    assert judges.wer_low(half, []) == pytest.approx(25 - 1.96 * 2.5, abs=0.6)
    assert judges.wer_high(half, []) == pytest.approx(25 + 1.96 * 2.5, abs=0.6)
    assert judges.wer_difference(half, half) == (0, 0, 0)
    assert judges.wer_difference([wrong] * 9, [right] * 9) == (50, 50, 50)


def test_sides_are_compared_in_what_is_misheard(corpus, monkeypatch, capsys):
    monkeypatch.setattr(voices, "JUDGES", (Judge("wer_percent", (), judges.wer_percent),))
    monkeypatch.setattr(judges, "is_there", lambda package: False)
    monkeypatch.setattr(judges, "recognised", lambda clip: "one")
    voices.main([str(corpus), "--clips", str(corpus / "test.txt")])
    told = "misheard of Griffin-Lim less recordings: +0.0 % of the words (95 % interval +0.0 to +0.0)"
    assert told in capsys.readouterr().out


def test_the_likeness_is_that_to_the_mean_of_the_reader(monkeypatch):
    monkeypatch.setattr(judges, "_embedding", lambda clip: np.array([1.0, 0.0]) if clip.text else np.array([0.0, 1.0]))
    assert judges.likeness([JudgedClip(np.zeros(1), 1, "a")], [JudgedClip(np.zeros(1), 1, "b")]) == 1.0
    assert judges.likeness([JudgedClip(np.zeros(1), 1, "a")], [JudgedClip(np.zeros(1), 1)]) == 0.0


def test_words_that_pocketsphinx_cannot_align_are_left_out(monkeypatch):
    def segment(word, start):
        return SimpleNamespace(word=word, start_frame=start)

    said = [segment("<s>", 0), segment("and(2)", 12), segment("<sil>", 30), segment("then", 45)]
    decoder = SimpleNamespace(
        lookup_word=lambda word: None if word == "xyzzy" else "", set_align_text=lambda text: None,
        start_utt=lambda: None, process_raw=lambda pcm, full_utt: None, end_utt=lambda: None, seg=lambda: said,
    )  # fmt: skip
    monkeypatch.setattr(judges, "_aligner", lambda: decoder)
    clip = JudgedClip(np.zeros(RATE, np.float32), RATE)
    assert judges.word_starts(clip, ["and", "then"]) == [0.12, 0.45]
    assert judges.word_starts(clip, ["and", "xyzzy"]) is None
    assert judges.word_starts(clip, ["then", "and"]) is None
    assert judges.word_starts(clip, []) is None
