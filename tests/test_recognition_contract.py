"""What every recogniser promises, and the command that transcribes with it, whatever the family of the model."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import ctc
import speech
from common.audio.waveform import AudioError
from common.config import ConfigError
from common.data.manifest import Utterance, write_jsonl
from ctc.ngram import estimate
from tests.jasper.tiny import Said
from tests.jasper.tiny import run as run_command
from tests.processes import fork_module
from tests.toys import KINDS, save_toy

RATE = 16_000


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def toy(kind, tmp_path_factory) -> Path:
    return save_toy(kind, tmp_path_factory.mktemp(kind) / "toy.pt")


@pytest.fixture(scope="module")
def asr(toy):
    return speech.load(toy, device="cpu")


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


CLIPS = [noise(seconds, seed) for seed, seconds in enumerate((1.0, 0.3, 2.017, 0.05, 1.4, 0.7))]


def test_an_utterance_is_the_same_alone_and_among_others_in_the_order_given(asr):
    together = asr.transcribe(CLIPS, batch_size=3)
    assert [t.seconds for t in together] == [len(clip) / RATE for clip in CLIPS]
    assert len({t.text for t in together}) > 2
    for clip, transcript in zip(CLIPS, together, strict=True):
        (alone,) = asr.transcribe([clip], batch_size=1)
        assert [word[:3] for word in alone.words] == [word[:3] for word in transcript.words]
        assert transcript.text == " ".join(word.text for word in transcript.words)
        edges = [edge for word in transcript.words for edge in (word.start, word.end)]
        assert edges == sorted(edges)
        assert all(0 <= edge <= transcript.seconds for edge in edges)
        assert all(0 < word.confidence <= 1 for word in transcript.words)
    assert [t.text for t in asr.stream(iter(CLIPS))] == [t.text for t in together]
    assert asr.transcribe([]) == []


def test_a_stream_reads_only_a_few_recordings_ahead(asr):
    taken = []

    def endless():
        for i in range(10_000):
            taken.append(i)
            yield noise(0.2)

    stream = asr.stream(endless(), batch_size=2)
    next(stream)
    stream.close()
    assert len(taken) <= 2 * 16 + 8  # two windows, and what the readers are ahead


def test_files_have_any_rate_and_channels_and_utterances_are_the_pieces_they_name(asr, tmp_path):
    soundfile.write(tmp_path / "stereo.wav", np.stack([noise(1.0)[::2]] * 2, 1), RATE // 2)
    soundfile.write(tmp_path / "a.wav", noise(4.0), RATE, subtype="FLOAT")
    piece = Utterance(id="a@1", audio=tmp_path / "a.wav", seconds=1.5, text="", offset_seconds=1.0)
    stereo, found, whole = asr.transcribe([str(tmp_path / "stereo.wav"), piece, tmp_path / "a.wav"])
    assert (stereo.audio, stereo.seconds) == (str(tmp_path / "stereo.wav"), 1.0)
    assert (found.audio, found.seconds, whole.seconds) == ("a@1", 1.5, 4.0)
    assert found.words == asr.transcribe([noise(4.0)[RATE : RATE + RATE * 3 // 2]])[0].words


@pytest.mark.parametrize("level", [0.0, 1e-7])
def test_silence_has_no_words(asr, level):
    (transcript,) = asr.transcribe([np.full(RATE, level, np.float32)])
    assert (transcript.text, transcript.words, transcript.seconds, transcript.error) == ("", [], 1.0, "")


def test_what_cannot_be_used_stops_or_is_told_in_its_place(asr, tmp_path):
    missing = tmp_path / "missing.wav"
    with pytest.raises(AudioError, match=r"missing\.wav: no such file"):
        asr.transcribe([CLIPS[0], missing])
    good, bad, also_good = asr.transcribe([CLIPS[0], missing, CLIPS[1]], on_error="skip")
    assert bad.error == f"{missing}: no such file; expected an audio file"
    assert (bad.text, bad.words, bad.seconds) == ("", [], 0.0)
    assert (good.error, also_good.error) == ("", "")
    for array in (np.zeros((2, 8), np.float32), np.zeros(0, np.float32), np.full(9, np.nan)):
        with pytest.raises(AudioError, match=r"array of shape .*: expected finite mono samples \[N\] at 16000 Hz"):
            asr.transcribe([array])
    with pytest.raises(TypeError, match=r"expected a list of recordings, found one str; put it in \[ \]"):
        asr.transcribe("a.flac")


def test_a_network_that_gives_nan_is_told(toy):
    asr = speech.load(toy, device="cpu")
    for tensor in asr.model.state_dict().values():
        if tensor.is_floating_point():
            tensor.fill_(torch.nan)
    (transcript,) = asr.transcribe([CLIPS[0]])
    assert transcript.error == "array: the network gives NaN in fp32; its weights are damaged"


def test_a_model_is_loaded_in_bf16_and_on_no_unknown_device(toy):
    reduced = speech.load(toy, device="cpu", precision="bf16")
    assert [t.error for t in reduced.transcribe(CLIPS, batch_size=4)] == [""] * len(CLIPS)
    with pytest.raises(ConfigError, match="device 'gpu': expected auto, cpu, cuda or cuda:N"):
        speech.load(toy, device="gpu")


@pytest.fixture
def files(tmp_path) -> list[Path]:
    """A FLAC file, a deeper WAV file at 8 kHz and something that is no audio, in one folder."""
    folder = tmp_path / "speech"
    (folder / "deeper").mkdir(parents=True)
    soundfile.write(folder / "a.flac", noise(2.0), RATE)
    soundfile.write(folder / "deeper" / "b.WAV", noise(0.75, seed=1), 8_000)
    (folder / "notes.md").write_text("no audio")
    return [folder / "a.flac", folder / "deeper" / "b.WAV"]


@pytest.fixture
def infer(kind, toy, capsys):
    """The command on the CPU, with the toy."""

    def ran(*arguments: object) -> Said:
        return run_command(capsys, f"{kind}.inference", toy, *arguments, "--device", "cpu")

    return ran


@pytest.fixture
def texts(asr, files) -> list[str]:
    return [t.text for t in asr.transcribe(files)]


def test_a_line_per_recording_has_its_name_and_text_in_the_order_given(infer, files, texts):
    said = infer(files[1], files[0], "--batch_size", 2)
    assert (said.status, said.err) == (0, [])
    assert said.out == [f"{files[1]}\t{texts[1]}", f"{files[0]}\t{texts[0]}"]
    assert texts[0] != texts[1]


def test_folders_and_lists_stand_for_their_recordings(infer, files, tmp_path):
    (tmp_path / "list.txt").write_text("speech/deeper/b.WAV\n\nspeech/a.flac\n")
    said = infer(files[0].parent, tmp_path / "list.txt")
    assert [line.split("\t")[0] for line in said.out] == [str(file) for file in (*files, *reversed(files))]
    (tmp_path / "list.txt").write_text("deeper/b.WAV\n")
    assert infer(tmp_path / "list.txt", "--root", files[0].parent).out[0].startswith(f"{files[1]}\t")


def test_json_lines_are_the_records_of_transcripts(infer, asr, files):
    found = [json.loads(line) for line in infer(*files, "--format", "json").out]
    for record, expected in zip(found, asr.transcribe(files), strict=True):
        words, others = record.pop("words"), json.loads(json.dumps(expected.record()))
        for word, other in zip(words, others.pop("words"), strict=True):
            assert word.pop("confidence") == pytest.approx(other.pop("confidence"), abs=1e-3)
            assert word == other
        assert record | {"confidence": 0} == others | {"confidence": 0}
    assert [record["duration"] for record in found] == [2.0, 1.5]


def test_subtitles_of_several_recordings_need_a_folder(infer, files, tmp_path):
    assert infer(files[0], "--format", "vtt").out[:2] == ["WEBVTT", ""]
    said = infer(*files, "--format", "srt")
    assert said.status == 2
    assert said.err == ["error: format srt: 2 recordings do not go into one file; set --output_dir"]
    said = infer(files[0].parent, "--format", "srt", "--output_dir", tmp_path / "out")
    assert (said.status, said.out) == (0, [])
    written = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.srt"))
    assert written == [Path("a.srt"), Path("deeper/b.srt")]
    assert " --> " in (tmp_path / "out" / "a.srt").read_text()


@pytest.mark.parametrize("format", ["text", "json"])
def test_every_format_can_be_one_file_per_recording_or_one_for_all(infer, files, tmp_path, format):
    assert infer(*files, "--format", format, "--output_dir", tmp_path / "out").out == []
    suffix = {"text": "txt", "json": "json"}[format]
    a, b = ((tmp_path / "out" / f"{name}.{suffix}").read_text() for name in "ab")
    infer(*files, "--format", format, "--output", tmp_path / "new" / "all.txt")
    together = a + b if format == "json" else f"{files[0]}\t{a}{files[1]}\t{b}"
    assert (tmp_path / "new" / "all.txt").read_text() == together


def test_manifests_with_transcripts_end_in_a_word_error_rate_of_what_could_be_read(infer, files, texts, tmp_path):
    (a, b), bad = texts, tmp_path / "bad.wav"
    bad.write_text("no audio")
    listed = {"right": (files[0], a.upper()), "wrong": (files[1], f"zzzz {b}"), "unknown": (files[1], "")}
    rows = [Utterance(id=id, audio=audio, seconds=1.6, text=text) for id, (audio, text) in listed.items()]
    write_jsonl(tmp_path / "m.jsonl", rows)
    said = infer(tmp_path / "m.jsonl")
    assert (said.status, said.out) == (0, [f"right\t{a}", f"wrong\t{b}", f"unknown\t{b}"])
    words, errors = len(f"{a} {b}".split()) + 1, 1 + len(b.split())  # every word of where nobody spoke
    assert said.err == [f"WER {errors / words:.2%}: {errors} errors in {words} words of 3 utterances"]
    write_jsonl(tmp_path / "m.jsonl", [rows[0], Utterance(id="bad", audio=bad, seconds=1.0, text="tea")])
    said = infer(tmp_path / "m.jsonl")
    assert (said.status, len(said.out)) == (1, 1)
    assert said.err[1:] == [
        f"WER 0.00%: 0 errors in {len(a.split())} words of 1 utterances",
        "error: 1 of 2 could not be transcribed",
    ]
    assert infer(tmp_path / "m.jsonl", "--max_seconds", 0.5).out == []


def test_silence_is_no_error(infer, tmp_path):
    soundfile.write(tmp_path / "s.wav", np.zeros(RATE), RATE)
    said = infer(tmp_path / "s.wav")
    assert (said.status, said.out) == (0, [f"{tmp_path}/s.wav\t"])
    assert said.err == [f"{tmp_path}/s.wav: no speech in its 1.00 s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to transcribe; name audio files, folders or manifests after the "),
        (["a.wav", "--batch_size", "0"], "batch_size = 0: expected above 0"),
        (["a.wav", "--output", "x", "--output_dir", "y"], "output and output_dir: expected one of them, found both"),
        (["a.wav", "--decoding.language_model", "no.arpa"], "no.arpa"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(infer, arguments, message):
    said = infer(*arguments)
    assert (said.status, len(said.err)) == (2, 1)
    assert message in said.err[0]


def test_places_that_cannot_be_written_to_are_named(infer, toy, files, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "out" / "a.txt").mkdir(parents=True)  # in the way
    lm = tmp_path / "lm.arpa"
    ctc.write_arpa(lm, estimate([["a", "b"]], order=1))
    for flags, expected in (
        (["--output_dir", tmp_path / "file" / "out"], f"{tmp_path}/file/out: cannot be written to: Not a directory"),
        (["--output_dir", tmp_path / "out"], f"{tmp_path}/out/a.txt: cannot be written to: Is a directory"),
        (["--output", tmp_path], f"{tmp_path}: cannot be written to: Is a directory"),
        (["--output", toy], f"{toy}: cannot be written to: it is read; name another output"),
        (
            ["--decoding.language_model", lm, "--output", lm],
            f"{lm}: cannot be written to: it is read; name another output",
        ),
    ):
        said = infer(files[0], *flags)
        assert (said.status, said.out, said.err) == (2, [], [f"error: {expected}"])


def test_log_probs_are_saved_with_the_times_of_their_frames_and_their_labels(kind, infer, asr, files, tmp_path):
    if kind == "fastconformer":
        pytest.skip("this command saves none")
    infer(*files, "--save_logits", tmp_path / "logits")
    for file, expected in zip(files, asr.transcribe(files, keep_log_probs=True), strict=True):
        saved = np.load(tmp_path / "logits" / f"{file.stem}.npz")
        torch.testing.assert_close(torch.from_numpy(saved["log_probs"]), expected.log_probs_SV, atol=1e-5, rtol=0)
        np.testing.assert_allclose(saved["times"], np.arange(len(expected.log_probs_SV)) * 0.02)
        assert len(saved["labels"]) + (kind == "jasper") == expected.log_probs_SV.shape[1]  # its blank has no name
        assert "a" in saved["labels"] or "A" in saved["labels"]


def test_processes_share_the_recordings_and_one_writes(kind, toy, tmp_path):
    paths = [tmp_path / f"{i}.wav" for i in range(5)]
    for i, path in enumerate(paths):
        soundfile.write(path, noise(0.4 + 0.2 * i, seed=i), RATE)
    paths[2].write_bytes(b"no audio")
    words = (f"{kind}.inference", toy, *paths, "--device", "cpu", "--output")
    one, two = (fork_module(*words, tmp_path / f"{n}.txt", processes=n) for n in (1, 2))
    assert (one.statuses, two.statuses) == ([1], [1, 1])
    assert (tmp_path / "2.txt").read_text() == (tmp_path / "1.txt").read_text()
    assert (tmp_path / "2.txt").read_text().count("\n") == 4
    assert two.told[0][-1] == "error: 1 of 5 could not be transcribed"
    assert not [line for line in two.told[1] if "2.wav" in line or line.startswith("error:")]


def test_help_is_the_manual(kind, capsys):
    said = run_command(capsys, f"{kind}.inference", "--help")
    assert said.status == 0
    assert any("--decoding.language" in line for line in said.out)
