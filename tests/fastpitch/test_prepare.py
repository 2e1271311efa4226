import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common.config import ConfigError
from common.data.manifest import ManifestError, read_manifest
from common.features import TTS, LogMel
from fastpitch import prepare
from fastpitch.acoustic.pitch import PitchConfig, extract_pitch
from fastpitch.front.symbols import TextConfig
from fastpitch.prepare import PrepareConfig, PreparedClip, main

REPOSITORY = Path(__file__).resolve().parents[2]
LETTERS = TextConfig(p_arpabet=0)
RATE = 22_050


def voice(seconds: float, hz: float = 150.0) -> np.ndarray:
    phase = 2 * np.pi * hz * np.arange(round(seconds * RATE)) / RATE
    return 0.1 * sum(np.sin(k * phase) / k for k in range(1, 5))


def corpus(folder: Path, clips: dict[str, tuple[np.ndarray, int, str]]) -> Path:
    """An LJSpeech folder of clips: samples, rate and text by id."""
    (folder / "wavs").mkdir(parents=True)
    for id, (samples, rate, _) in clips.items():
        subtype = "FLOAT" if not np.isfinite(samples).all() else "PCM_16"
        soundfile.write(folder / "wavs" / f"{id}.wav", samples, rate, subtype=subtype)
    (folder / "metadata.csv").write_text("".join(f"{id}|{text}|{text}\n" for id, (_, _, text) in clips.items()))
    return folder


def configured(tmp_path: Path, *inputs: Path, **settings: object) -> PrepareConfig:
    return PrepareConfig(inputs=inputs, output=tmp_path / "out", text=LETTERS, workers=1, **settings)


GOOD = {"a": (voice(0.5), RATE, "a short clip"), "b": (voice(0.4, 250.0), RATE, "another")}


def _slow(utterance: str, *_: object) -> PreparedClip:
    """Stands for preparing a clip: leaves a file where it began."""
    (Path(utterance).parent / f"begun_{Path(utterance).name}").touch()
    time.sleep(0.05)
    return PreparedClip(np.zeros(0))


def test_an_error_between_clips_does_not_wait_for_clips_that_are_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "prepare", _slow)
    clips = [str(tmp_path / f"{i:03d}") for i in range(400)]
    cfg = PrepareConfig(inputs=(tmp_path,), output=tmp_path / "out", text=LETTERS, workers=2)

    def consume() -> None:
        for _ in prepare.results(clips, cfg):
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        consume()
    assert len(list(tmp_path.glob("begun_*"))) <= 80


def test_pitch_mels_manifest_and_statistics_are_written(tmp_path, capsys):
    assert main(configured(tmp_path, corpus(tmp_path / "lj", GOOD))) == 0
    out = tmp_path / "out"
    samples = soundfile.read(tmp_path / "lj/wavs/a.wav", dtype="float32")[0]
    pitch_T, mel_MT = (torch.load(out / folder / "a.pt", weights_only=True) for folder in ("pitch", "mels"))
    frames = TTS.frames(len(samples))
    assert pitch_T.shape == (frames,)
    np.testing.assert_array_equal(pitch_T, extract_pitch(samples))
    expected = LogMel(TTS)(torch.from_numpy(samples)[None], torch.tensor([len(samples)])).features_BFT[0]
    assert mel_MT.shape == (80, frames)
    torch.testing.assert_close(mel_MT, expected[:, :frames], rtol=0, atol=0)
    assert [utterance.id for utterance in read_manifest(out / "manifest.jsonl").utterances] == ["a", "b"]
    statistics = json.loads((out / "pitch_statistics.json").read_text())
    voiced = np.concatenate([torch.load(out / f"pitch/{id}.pt", weights_only=True).numpy() for id in "ab"])
    assert statistics["mean"] == pytest.approx(voiced[voiced > 0].mean())
    assert statistics["std"] == pytest.approx(voiced[voiced > 0].std(), rel=1e-5)
    told = capsys.readouterr().out
    assert f"{out}: 2 clips, 0.00 hours" in told
    assert f"pitch of all: --data.pitch_mean {statistics['mean']:.2f} --data.pitch_std {statistics['std']:.2f}" in told


def test_speakers_have_statistics_of_their_own(tmp_path):
    folder = corpus(tmp_path / "lj", GOOD)
    (folder / "list.txt").write_text("wavs/a.wav|a clip|0\nwavs/b.wav|b clip|1\n")
    assert main(configured(tmp_path, folder / "list.txt", mels=False)) == 0
    speakers = json.loads((tmp_path / "out/pitch_statistics.json").read_text())["speakers"]
    assert speakers["0"]["mean"] == pytest.approx(150, rel=0.01)
    assert speakers["1"]["mean"] == pytest.approx(250, rel=0.01)
    assert not (tmp_path / "out/mels").exists()


def test_clips_that_cannot_be_used_are_told_and_the_others_prepared(tmp_path, capsys):
    noisy = voice(0.5)
    noisy[100] = np.nan
    folder = corpus(
        tmp_path / "lj",
        GOOD
        | {
            "wrong": (voice(0.5), 16_000, "at another rate"),
            "nan": (noisy, RATE, "damaged"),
            "silent": (np.zeros(RATE), RATE, "nothing"),
            "short": (voice(0.2), RATE, "a text that is far too long for such a clip"),
            "odd": (voice(0.5), RATE, "你好"),
            "gone": (voice(0.5), RATE, "no recording"),
        },
    )
    (folder / "wavs/gone.wav").unlink()
    assert main(configured(tmp_path, folder)) == 1
    told = capsys.readouterr().err
    for message in (
        "utterance wrong: {wavs}/wrong.wav: 16000 Hz; expected 22050; convert it, or take --resample true",
        "utterance nan: {wavs}/nan.wav: holds samples that are NaN or infinite",
        "utterance silent: {wavs}/silent.wav: silent: no sample above -80 dB",
        "utterance short: {wavs}/short.wav: 18 frames for 43 symbols: shorter than its text",
        "utterance odd: '你' (CJK UNIFIED IDEOGRAPH-4F60) in '你好' is no symbol of english_basic",
        "utterance gone: no such audio file: {wavs}/gone.wav",
        "6 clips cannot be used; 2 can",
    ):
        assert message.format(wavs=folder / "wavs") in told
    assert [utterance.id for utterance in read_manifest(tmp_path / "out/manifest.jsonl").utterances] == ["a", "b"]


def test_a_corpus_that_is_not_there_leaves_no_folder_behind(tmp_path):
    with pytest.raises(ManifestError, match="no such file or folder"):
        main(configured(tmp_path, tmp_path / "nowhere"))
    assert not (tmp_path / "out").exists()


def test_recordings_at_another_rate_are_resampled_if_asked_for(tmp_path):
    folder = corpus(tmp_path / "lj", {"a": (voice(0.5), 16_000, "a")})
    assert main(configured(tmp_path, folder, resample=True)) == 0
    pitch_T = torch.load(tmp_path / "out/pitch/a.pt", weights_only=True)
    assert len(pitch_T) == TTS.frames(round(len(voice(0.5)) * RATE / 16_000))


def test_two_recordings_of_one_name_are_told(tmp_path, capsys):
    first, second = corpus(tmp_path / "x", GOOD), corpus(tmp_path / "y", GOOD)
    assert main(configured(tmp_path, first, second)) == 1
    assert (
        f"utterance a: {second / 'wavs/a.wav'} has the id of {first / 'wavs/a.wav'}; give them"
        in capsys.readouterr().err
    )


def test_what_is_there_is_kept_and_what_is_damaged_made_again(tmp_path):
    cfg = configured(tmp_path, corpus(tmp_path / "lj", GOOD))
    assert main(cfg) == 0
    paths = sorted((tmp_path / "out").glob("*/*.pt"))
    contents = [path.read_bytes() for path in paths]
    for path in paths:
        os.utime(path, (1, 1))
    paths[0].write_bytes(contents[0][: len(contents[0]) // 2])
    assert main(cfg) == 0
    assert [path.read_bytes() for path in paths] == contents
    assert [path.stat().st_mtime == 1 for path in paths] == [False, True, True, True]


def heard(terminal: int) -> bytes:
    """What was written to a terminal, once there is something; nothing when all that could write have ended."""
    ready, _, _ = select.select([terminal], [], [], 500)
    assert ready, "neither progress nor an end for minutes"
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux's end of a terminal
        return b""


def test_a_run_that_was_killed_goes_on(tmp_path):
    clips = {f"clip{i:02d}": (voice(2.0, 100 + 2 * i), RATE, "a clip") for i in range(72)}
    folder = corpus(tmp_path / "lj", clips)
    command = [sys.executable, "-m", "fastpitch.prepare", str(folder), "--output", str(tmp_path / "out")]
    command += ["--workers", "2", "--text.p-arpabet", "0"]
    terminal, its_end = pty.openpty()  # the bar of progress is for terminals
    termios.tcsetwinsize(its_end, (24, 80))
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=its_end, start_new_session=True)
    os.close(its_end)
    shown = b""
    while not re.search(rb"\b[1-9]\d*/72 ", shown):
        more = heard(terminal)
        assert more, shown
        shown += more
    process.send_signal(signal.SIGKILL)
    process.wait()
    while heard(terminal):  # workers that outlived the process would hold the terminal open
        pass
    os.close(terminal)
    killed = {path: path.read_bytes() for path in (tmp_path / "out").glob("*/clip*.pt")}
    assert 3 <= len(killed) < 144
    assert not (tmp_path / "out/manifest.jsonl").exists()
    assert main(configured(tmp_path, folder)) == 0
    assert len(list((tmp_path / "out").glob("*/clip*.pt"))) == 144
    assert all(path.read_bytes() == content for path, content in killed.items())
    assert len(read_manifest(tmp_path / "out/manifest.jsonl").utterances) == 72


def test_several_processes_prepare_the_same(tmp_path):
    folder = corpus(tmp_path / "lj", GOOD)
    for workers in (1, 2):
        assert main(PrepareConfig(inputs=(folder,), output=tmp_path / str(workers), text=LETTERS, workers=workers)) == 0
    for path in (tmp_path / "1").glob("*/*.pt"):
        assert path.read_bytes() == (tmp_path / "2" / path.relative_to(tmp_path / "1")).read_bytes()


def test_other_settings_are_refused_unless_everything_is_to_be_made_anew(tmp_path):
    folder = corpus(tmp_path / "lj", GOOD)
    assert main(configured(tmp_path, folder)) == 0
    other = configured(tmp_path, folder, pitch=PitchConfig(highest_hz=500))
    with pytest.raises(
        ConfigError, match=r"settings.json: what is there was made with pitch.highest_hz = 2093.0045, not 500"
    ):
        main(other)
    assert main(configured(tmp_path, folder, pitch=PitchConfig(highest_hz=500), overwrite=True)) == 0


def test_a_damaged_settings_file_is_told(tmp_path):
    (tmp_path / "out").mkdir()
    settings = configured(tmp_path, corpus(tmp_path / "lj", GOOD))
    for content in (b"{", b"\xff", b"[]", b"[" * 50_000):
        (tmp_path / "out/settings.json").write_bytes(content)
        with pytest.raises(ConfigError, match="settings.json: cannot be used"):
            main(settings)
    (tmp_path / "out/settings.json").write_text('{"pitch": 3}')
    with pytest.raises(ConfigError, match=r"settings.json: what is there was made with features\.\w+ = None"):
        main(settings)


def test_wrong_configurations_are_told():
    with pytest.raises(ValueError, match="nothing to prepare; name corpus folders, manifests or file lists"):
        PrepareConfig(inputs=())
    with pytest.raises(ValueError, match="pitch.sample_rate = 16000, pitch.hop_samples = 256: expected 22050 and 256"):
        PrepareConfig(inputs=(Path("x"),), pitch=PitchConfig(sample_rate=16_000))
