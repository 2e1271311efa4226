import json
from pathlib import Path

import numpy as np
import pytest

from common.audio.silence import Cut
from common.config import ConfigError
from common.recognition.output import writing
from common.recognition.output.transcripts import Transcript, Word
from common.recognition.sources.inputs import InputRecording

ITEM = InputRecording(Path("a.wav"), "a", None)
REPOSITORY = Path(__file__).resolve().parents[4]
HELLO = Transcript(
    audio="a.wav",
    text="hello",
    words=[Word("hello", 0.5, 0.9, 1.0)],
    seconds=1.0,
    log_probs_SV=np.zeros((3, 2), np.float32),
    cuts=(Cut(0.0, 0.5),),
    seconds_per_frame=0.02,
)


def test_text_has_the_name_only_where_several_share_a_stream(tmp_path):
    path = tmp_path / "all.txt"
    for place, folder in ((path, None), (None, tmp_path)):
        with writing.output(place, "text", folder) as write:
            write(HELLO, "deeper/a")
    assert path.read_text() == "a.wav\thello\n"
    assert (tmp_path / "deeper" / "a.txt").read_text() == "hello\n"


def test_names_that_are_no_text_are_written_nevertheless(tmp_path):
    odd = HELLO._replace(audio="latin\udce9.wav")
    for style, whole in (("text", False), ("json", True)):
        with writing.output(tmp_path / style, style, whole=whole) as write:
            write(odd, "a")
    assert (tmp_path / "text").read_text(encoding="utf-8") == "latin\\udce9.wav\thello\n"
    assert json.loads((tmp_path / "json").read_text(encoding="utf-8"))["audio"] == odd.audio
    with writing.output(None, "text", tmp_path) as write:
        write(odd._replace(text=odd.audio), "a")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "latin\\udce9.wav\n"


def test_every_format_is_rendered():
    assert json.loads(writing.rendered(HELLO, "json", with_name=True))["words"][0]["start"] == 0.5
    assert writing.rendered(HELLO, "srt", with_name=True).startswith("1\n00:00:00,500")
    assert writing.rendered(HELLO, "vtt", with_name=True).startswith("WEBVTT\n")


def test_log_probs_have_times_and_labels(tmp_path):
    writing.save_log_probs(tmp_path, "deeper/a", HELLO, ("x", "y"))
    saved = np.load(tmp_path / "deeper" / "a.npz")
    np.testing.assert_allclose(saved["times"], [0.5, 0.52, 0.54])
    assert (saved["log_probs"].shape, saved["labels"].tolist()) == ((3, 2), ["x", "y"])


@pytest.mark.parametrize("style", ["text", "json", "srt", "vtt"])
def test_a_file_that_cannot_be_written_is_named(tmp_path, style):
    (tmp_path / "a").write_text("")
    with (
        pytest.raises(ConfigError, match=r"/a/b\.\w+: cannot be written to: (File exists|Not a directory)$"),
        writing.output(None, style, tmp_path) as write,
    ):
        write(HELLO, "a/b")
    with pytest.raises(ConfigError, match=r"/a/b\.npz: cannot be written to: (File exists|Not a directory)$"):
        writing.save_log_probs(tmp_path, "a/b", HELLO, ("x", "y"))
    with (
        pytest.raises(ConfigError, match=r"/b\.npy: cannot be written to: 80 requested and 0 written$"),
        writing.file_in(tmp_path, "b", ".npy"),
    ):
        raise OSError("80 requested and 0 written")  # numpy's words where the disk is full


def test_places_that_cannot_be_written_to_are_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"/file/out: cannot be written to: Not a directory$"):
        writing.make_folder(tmp_path / "file" / "out")
    monkeypatch.setattr(writing.os, "access", lambda path, mode: False)  # as of a folder that is read-only
    with pytest.raises(ConfigError, match=r"/read: cannot be written to: Permission denied$"):
        writing.make_folder(tmp_path / "read")
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r": cannot be written to: Is a directory$"), writing.output(tmp_path, "text"):
        pass
    with pytest.raises(ConfigError, match=r"^format srt: 2 recordings do not go into one file; set --output_dir$"):
        writing.check([], [ITEM, ITEM], "srt", None, None)
    writing.check([], [ITEM, ITEM], "srt", None, tmp_path)


def test_what_is_read_is_not_written_to(tmp_path):
    for name in ("a.wav", "a.txt"):
        (tmp_path / name).write_text("a.wav")
    recording, listed = tmp_path / "a.wav", tmp_path / "a.txt"
    item = ITEM._replace(source=recording)
    writing.check([listed], [item], "text", tmp_path / "b.txt", None)
    writing.check([recording], [item], "text", None, tmp_path)
    for inputs, output, folder in (
        ([recording], tmp_path / "sub" / ".." / "a.wav", None),
        ([listed], listed, None),
        ([listed], None, tmp_path),
    ):
        (tmp_path / "sub").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match=r"a\.(wav|txt): cannot be written to: it is read; name another output$"):
            writing.check(inputs, [item], "text", output, folder)


def test_a_full_disk_is_one_line(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    with (
        pytest.raises(ConfigError, match=r"^/dev/full: cannot be written to: No space left"),
        writing.output(full, "text") as write,
    ):
        write(HELLO, "a")


def test_a_file_is_checked_before_long_work(tmp_path):
    (tmp_path / "m.jsonl").write_text("{}")
    writing.check_file(tmp_path / "new" / "h.jsonl", [tmp_path / "m.jsonl"])
    with pytest.raises(ConfigError, match=r"m\.jsonl: cannot be written to: it is read; name another output$"):
        writing.check_file(tmp_path / "new" / ".." / "m.jsonl", [tmp_path / "m.jsonl"])
    with pytest.raises(ConfigError, match=r"new: cannot be written to: Is a directory$"):
        writing.check_file(tmp_path / "new", [])


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_what_is_read_is_not_written_to_by_another_name(link, tmp_path):
    recording, listed = tmp_path / "a.wav", tmp_path / "list.txt"
    recording.write_bytes(b"RIFF")
    listed.write_text("a.wav")
    for read, name in ((recording, "other.txt"), (listed, "third.txt")):
        link(tmp_path / name, read)
        with pytest.raises(ConfigError, match=rf"{name}: cannot be written to: it is read; name another output$"):
            writing.check([listed], [ITEM._replace(source=recording)], "text", tmp_path / name, None)
    (tmp_path / "out").mkdir()
    link(tmp_path / "out" / "a.txt", recording)
    with pytest.raises(ConfigError, match=r"a\.txt: cannot be written to"):
        writing.check([listed], [ITEM._replace(source=recording)], "text", None, tmp_path / "out")
    assert recording.read_bytes() == b"RIFF"


def test_a_name_of_several_lines_is_one_row():
    row = writing.rendered(HELLO._replace(audio="a\tb\nc.wav"), "text", with_name=True)
    assert row == f"a\\tb\\nc.wav\t{HELLO.text}\n"


def test_a_dash_is_standard_output(capsys):
    with writing.output(Path("-"), "text") as write:
        write(HELLO, "a")
    assert capsys.readouterr().out == "a.wav\thello\n"
