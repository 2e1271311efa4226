import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common import config
from common.config import ConfigError
from common.runs import checkpoint
from fastpitch.acoustic.checkpoints.own import FORMAT
from fastpitch.acoustic.config import Config
from fastpitch.inference import command_line, main, read_mel
from fastpitch.speaking.voicing import Voice
from fastpitch.vocoders.vocoder import VocoderError, load_vocoder
from tests.data import shared
from tests.fastpitch.tiny import LETTERS, SMALL, tiny_model
from tests.fastpitch.vocoders.small import ISTFT, random_mel, save_hifigan
from tests.jasper.tiny import Said, run


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """A small model and a light vocoder with random weights."""
    folder = tmp_path_factory.mktemp("models")
    cfg = Config(model=SMALL, text=LETTERS)
    state = {"format": FORMAT, "config": config.to_dict(cfg), "weights": tiny_model().state_dict(), "ema": None}
    checkpoint.save(folder / "tts.pt", state)
    return {"fastpitch": folder / "tts.pt", "vocoder": save_hifigan(folder / "light.pt", ISTFT)}


@pytest.fixture
def say(files, tmp_path, capsys):
    def call(*arguments: object) -> Said:
        models = ["--fastpitch", files["fastpitch"], "--vocoder", files["vocoder"]]
        return run(capsys, "fastpitch.inference", *arguments, *models, "-o", tmp_path / "out", "--device", "cpu")

    return call


def written(folder: Path) -> dict[str, np.ndarray]:
    return {path.name: soundfile.read(path, dtype="int16")[0] for path in sorted((folder / "out").glob("*.wav"))}


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_files_have_the_names_and_the_order_of_the_lines_whatever_their_lengths(say, tmp_path):
    said = say(table(tmp_path / "p.txt", "Hi.", "A much longer sentence than the first.", "So so."), "--batch_size", 2)
    assert (said.status, said.err) == (0, [])
    sounds = written(tmp_path)
    assert list(sounds) == ["audio_0.wav", "audio_1.wav", "audio_2.wav"]
    assert len(sounds["audio_1.wav"]) == max(map(len, sounds.values()))
    info = soundfile.info(tmp_path / "out" / "audio_0.wav")
    assert (info.subtype, info.samplerate, info.channels) == ("PCM_16", 22_050, 1)
    say(table(tmp_path / "q.txt", "So so."))
    np.testing.assert_allclose(written(tmp_path)["audio_0.wav"], sounds["audio_2.wav"], atol=3)  # the dither differs


def test_bad_lines_are_named_and_the_others_are_said(say, tmp_path):
    rows = ["text\toutput\tspeaker\tpace\tmel", "Good one.\tgood.wav", "\tempty.wav", "What {☃} that\tsnow.wav"]
    rows += [
        '<prosody rate="slow">Hi\tssml.wav',
        "Hi.\tvoice.wav\t3",
        "Hi.\tpace.wav\t\tvery",
        "\tmel.wav\t\t\tnone.npy",
    ]
    rows += [f"{'a ' * 2500}\tlong.wav", "Last one.\tlast.wav"]
    path = table(tmp_path / "p.tsv", *rows)
    said = say(path)
    assert said.status == 1
    assert list(written(tmp_path)) == ["good.wav", "last.wav", "long.wav"]
    assert len(said.err) == 7
    expected = {3: "no text; expected something to say", 4: "in braces: '☃'", 5: "broken markup", 6: "speaker 3: "}
    expected |= {7: "expected a number", 8: "none.npy: no such file; expected a mel spectrogram"}
    for number, part in expected.items():
        (line,) = [line for line in said.err if line.startswith(f"{path}:{number}: ")]
        assert part in line
    assert said.err[-1] == "error: 6 of 9 phrases could not be said"


def test_texts_can_be_said_without_a_file_and_controls_change_them(say, tmp_path):
    say("Hello there, you.")
    plain = written(tmp_path)["audio_0.wav"]
    for flags in (["--pace", 0.5], ["--pitch_shift_hz", 80], ["--pitch_flatten"], ["--pitch-invert", "true"]):
        assert say("Hello there, you.", *flags).status == 0
        changed = written(tmp_path)["audio_0.wav"]
        if flags[0] == "--pace":
            assert len(changed) > 1.7 * len(plain)
        else:
            assert len(changed) == len(plain)
            assert np.abs(changed.astype(int) - plain).max() > 10
    say("Hello <break time='300ms'/> there, you.")
    assert len(written(tmp_path)["audio_0.wav"]) > 6615


def test_silence_is_dithered_and_the_same_seed_gives_the_same_file(say, tmp_path):
    first, again, other = (
        (say("One. <break time='500ms'/> Two.", "--seed", seed), written(tmp_path)["audio_0.wav"])[1]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert 0.1 < np.mean(np.abs(first) == 1) < 0.6


def test_every_file_that_is_written_is_named_and_said_of_where_it_was_there_before(say, tmp_path):
    first, folder = say("Hi.", "So so."), tmp_path / "out"
    assert (first.out, first.err) == ([f"{folder}/audio_0.wav", f"{folder}/audio_1.wav"], [])
    again = say("Hi.", "So so.")
    told = f"{folder}/audio_0.wav and 1 more: written anew, in place of what an earlier run said"
    assert (again.out, again.err) == (first.out, [told])


def test_mel_spectrograms_are_saved_and_can_be_vocoded_later(say, files, tmp_path, capsys):
    say("Some words.", "--save_mels")
    saved = tmp_path / "out" / "audio_0.npy"
    direct = written(tmp_path)["audio_0.wav"]
    assert np.load(saved).shape == (len(direct) // 256, 80)
    listing = table(tmp_path / "m.tsv", "mel\toutput", f"{saved}\tagain.wav")
    said = run(capsys, "fastpitch.inference", listing, "--vocoder", files["vocoder"], "-o", tmp_path / "out")
    assert said.status == 0, said.err
    np.testing.assert_allclose(written(tmp_path)["again.wav"], direct, atol=3)


def test_without_a_vocoder_only_mel_spectrograms_are_written(files, tmp_path, capsys):
    flags = ["--fastpitch", files["fastpitch"], "--save_mels", "-o", tmp_path / "out"]
    said = run(capsys, "fastpitch.inference", "Some words.", *flags)
    assert (said.status, said.out) == (0, [f"{tmp_path}/out/audio_0.npy"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["audio_0.npy"]


def test_a_recording_is_said_again_by_the_vocoder(files, tmp_path, capsys):
    soundfile.write(tmp_path / "noise.wav", np.random.default_rng(0).normal(0, 0.1, 16_000), 16_000)
    listing = table(tmp_path / "m.tsv", "mel\toutput", "noise.wav\tagain.wav", "none.wav\tnone.wav")
    said = run(capsys, "fastpitch.inference", listing, "--vocoder", files["vocoder"], "-o", tmp_path / "out")
    assert said.status == 1
    assert said.err[0] == f"{listing}:3: {tmp_path}/none.wav: no such file; expected an audio file"
    assert len(written(tmp_path)["again.wav"]) == pytest.approx(22_050, abs=300)


def test_a_text_needs_a_model_and_a_mel_spectrogram_a_vocoder(files, tmp_path, capsys):
    said = run(capsys, "fastpitch.inference", "Hi.", "--vocoder", files["vocoder"], "-o", tmp_path / "out")
    assert said.err[0] == "text 1: a text, and no model to say it; name one with --fastpitch"
    with pytest.raises(VocoderError, match="x.npy: a mel spectrogram, and no vocoder for it; name one with --vocoder"):
        read_mel(Path("x.npy"), None)


def test_mel_files_are_read_whichever_way_they_lie(files, tmp_path):
    voice = Voice(load_vocoder(files["vocoder"], device="cpu"))
    mel_MT = random_mel(80, 7)
    np.save(tmp_path / "a.npy", mel_MT.T.numpy())
    torch.save(mel_MT, tmp_path / "b.pt")
    for name in ("a.npy", "b.pt"):
        assert torch.equal(read_mel(tmp_path / name, voice), mel_MT)
    np.save(tmp_path / "c.npy", np.zeros((7, 20)))
    with pytest.raises(VocoderError, match=r"c.npy: of shape \[7, 20\]; .*light.pt takes mel spectrograms of 80 bins"):
        read_mel(tmp_path / "c.npy", voice)
    np.save(tmp_path / "d.npy", np.full((7, 80), np.nan))
    with pytest.raises(VocoderError, match="d.npy: holds values that are NaN or infinite"):
        read_mel(tmp_path / "d.npy", voice)
    (tmp_path / "e.pt").write_bytes(b"\x80\x02.no tensor")
    with pytest.raises(VocoderError, match="e.pt: not a tensor of numbers; expected a mel spectrogram"):
        read_mel(tmp_path / "e.pt", voice)


def test_the_wrong_vocoder_is_told_before_anything_is_said(tmp_path, capsys):
    golden = shared("golden/tts")
    flags = ["--fastpitch", golden / "FastPitch_checkpoint_3.pt", "--vocoder", golden / "checkpoint_WaveGlow_9.pt"]
    said = run(capsys, "fastpitch.inference", "Hi.", *flags, "-o", tmp_path / "out")
    assert said.status == 2
    assert len(said.err) == 1
    assert "takes mel spectrograms with mel_bins 20, but" in said.err[0]
    assert not (tmp_path / "out").exists()


def test_published_checkpoints_speak(tmp_path, capsys):
    golden = shared("golden/tts")
    flags = ["--fastpitch", golden / "FastPitch_checkpoint_3.pt", "--hifigan", golden / "hifigan_gen_checkpoint_5.pt"]
    said = run(capsys, "fastpitch.inference", "Hello world.", *flags, "-o", tmp_path / "out", "--denoising", 0.01)
    assert (said.status, said.err) == (0, [])
    assert np.abs(written(tmp_path)["audio_0.wav"].astype(int)).max() > 1000


def test_the_report_shows_every_phrase_and_every_problem(say, tmp_path):
    said = say(table(tmp_path / "p.txt", "Well said.", "Not {☃} said."), "--report")
    assert said.status == 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<audio") == 1
    assert "in braces" in page
    assert say("Hi.", "--report", tmp_path / "deep" / "own.html").status == 0
    assert (tmp_path / "deep" / "own.html").is_file()


def test_how_texts_are_read_can_be_changed(say, tmp_path, caplog):
    said = say("What ☃ that.", "Broken \udcff byte.")
    assert said.status == 0
    assert caplog.messages == ["'What ☃ that.': skipped '☃' (SNOWMAN)"]
    said = say("What ☃ that.", "--unknown_characters", "error")
    assert said.status == 1
    assert "'☃' (SNOWMAN) in 'What ☃ that.' is no symbol" in said.err[1]
    (tmp_path / "lexicon").write_text("hello  HH AH0 L OW1\n")
    assert say("Hello.", "--p_arpabet", 1.0, "--lexicon", tmp_path / "lexicon").status == 0
    said = say("Hello.", "--lexicon", tmp_path / "none")
    assert said.status == 2
    assert said.err[0].startswith(f"error: {tmp_path}/none: cannot be read as a lexicon")
    said = say("Hello.", "--p_arpabet", 2.0)
    assert (said.status, said.err) == (2, ["error: p_arpabet = 2.0: expected a probability, 0 to 1"])


def test_flags_may_stand_alone():
    cfg = command_line(["Hi.", "--vocoder", "v.pt", "--save-mels", "--report", "-o", "x", "--pitch_flatten"])
    assert (cfg.save_mels, cfg.report, cfg.control.pitch_flatten) == (True, Path("x/report.html"), True)
    cfg = command_line(["Hi.", "--vocoder", "v.pt", "--save_mels", "false", "--report", "r.html"])
    assert (cfg.save_mels, cfg.report) == (False, Path("r.html"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to say; name phrase files, or write texts in quotes"),
        (["Hi."], "no vocoder; name one with --vocoder, or only save mel spectrograms with --save_mels true"),
        (["none.txt", "--vocoder", "v.pt"], "none.txt: cannot be read (No such file or directory)"),
        (["notes.md", "--vocoder", "v.pt"], "notes.md: cannot be read (No such file or directory)"),
        (["talk.pdf", "--vocoder", "v.pt"], "talk.pdf: not a file of text; expected .txt, .tsv, .ssml or another"),
        (["Hi.", "--vocoder", "v.pt", "-o", "-", "--save_mels"], "--output - writes samples alone; name a folder"),
        (["Hi.", "--fastpitch", "f.pt", "--save_mels", "--times", "json"], "times are those of sound; name a vocoder"),
        (["Hi.", "--vocoder", "v.pt", "--loudness", "3"], "loudness = 3: expected -70 to -5 LUFS, such as -23"),
        (["Hi.", "--vocoder", "v.pt", "--sample_rate", "1"], "sample_rate = 1: expected 4000 to 192000 Hz"),
        (["Hi.", "--vocoder", "v.pt", "--pace", "0"], "pace = 0.0: expected a number above 0"),
        (["Hi.", "--vocoder", "none.pt"], "none.pt: no such checkpoint"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(capsys, arguments, message):
    said = run(capsys, "fastpitch.inference", *arguments)
    assert said.status == 2
    assert len(said.err) == 1
    assert message in said.err[0]


def test_two_phrases_do_not_overwrite_each_other(say, tmp_path):
    (tmp_path / "b").mkdir()
    files = [table(tmp_path / name, "Hi.") for name in ("a.txt", "b.txt", "b/a.txt", "a.md", "b/a.ssml")]
    said = say(*files, "Hello.")
    assert (said.status, said.err) == (0, [])
    assert list(written(tmp_path)) == ["a-2.wav", "a.wav", "a_0-2.wav", "a_0.wav", "audio_5.wav", "b_0.wav"]


def test_documents_and_standard_input_are_said_as_a_whole(say, tmp_path, monkeypatch):
    (tmp_path / "a.ssml").write_text("<speak>Hello\n<break time='1s'/>\nthere.</speak>")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Well.\n\nSaid.\n")))
    said = say(tmp_path / "a.ssml", "-", "--times", "json", "srt", "textgrid", "vtt")
    assert (said.status, said.err) == (0, [])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("a.TextGrid", "a.json", "a.srt", "a.vtt", "a.wav"),
        *("audio_1.TextGrid", "audio_1.json", "audio_1.srt", "audio_1.vtt", "audio_1.wav"),
    ]
    found = json.loads((tmp_path / "out/a.json").read_text())
    assert [word["word"] for word in found["words"]] == ["hello", "there"]
    assert found["words"][1]["start"] - found["words"][0]["end"] > 0.99


def test_raw_samples_are_those_of_the_file(say, files, tmp_path, monkeypatch):
    say("One. Two.", "--denoising", 0)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO()))
    models = ["--fastpitch", str(files["fastpitch"]), "--vocoder", str(files["vocoder"]), "--device", "cpu"]
    assert main(command_line(["One. Two.", "{QQ}", *models, "-o", "-"])) == 1
    raw_N = np.frombuffer(sys.stdout.buffer.getvalue(), "<i2")
    np.testing.assert_allclose(raw_N, written(tmp_path)["audio_0.wav"], atol=3)  # the dither differs
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO()))
    assert main(command_line(["One. Two.", *models, "-o", "-", "--sample_rate", "8000"])) == 0
    assert abs(len(sys.stdout.buffer.getvalue()) // 2 - len(raw_N) * 8000 / 22_050) < 2
    with pytest.raises(ConfigError, match="loudness is that of a whole phrase, which a stream has not got yet"):
        main(command_line(["Hi.", *models, "-o", "-", "--loudness", "-23"]))


def test_sound_has_the_loudness_and_the_rate_that_are_asked_for(say, tmp_path):
    pyloudnorm = pytest.importorskip("pyloudnorm")
    assert say("Well said, all of you.", "--loudness", -23, "--sample_rate", 16000).status == 0
    samples_N, rate = soundfile.read(tmp_path / "out/audio_0.wav")
    assert rate == 16_000
    assert pyloudnorm.Meter(rate).integrated_loudness(samples_N) == pytest.approx(-23, abs=0.5)


def test_a_place_that_cannot_be_written_to_is_named(files, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    flags = ["--fastpitch", files["fastpitch"], "--vocoder", files["vocoder"]]
    said = run(capsys, "fastpitch.inference", "Hi.", *flags, "-o", tmp_path / "file" / "out")
    assert said.err == [f"error: {tmp_path}/file/out: cannot be written to: Not a directory"]
    (tmp_path / "out" / "audio_0.wav").mkdir(parents=True)
    said = run(capsys, "fastpitch.inference", "Hi.", *flags, "-o", tmp_path / "out")
    assert said.status == 1
    assert "text 1: " in said.err[0]
    assert "Is a directory" in said.err[0]
    said = run(
        capsys, "fastpitch.inference", "Hi.", *flags, "-o", tmp_path / "said", "--report", tmp_path / "file/r.html"
    )
    assert (tmp_path / "said/audio_0.wav").is_file()
    assert said.status == 2
    assert said.err[0].startswith(f"error: {tmp_path}/file/r.html: the report cannot be written: ")
