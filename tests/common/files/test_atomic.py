import os
from pathlib import Path

import pytest

from common.files import atomic
from common.files.atomic import check_writable, write_text


def test_a_text_takes_the_place_of_the_one_before(tmp_path):
    for text in ("before", "after é"):
        atomic.write_text(tmp_path / "a.txt", text)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "after é"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_after_an_error_the_file_of_before_is_untouched_and_nothing_is_left(tmp_path):
    atomic.write_text(tmp_path / "a.txt", "before")

    def write_half():
        with atomic.written_whole(tmp_path / "a.txt") as file:
            file.write(b"half")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_half()
    assert (tmp_path / "a.txt").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_of_the_system_names_the_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"(Not a directory|File exists): .*file/a.txt"):
        atomic.write_text(tmp_path / "file" / "a.txt", "text")


def test_a_file_that_is_open_is_written_to_by_the_name_that_the_system_has_for_it(tmp_path):
    with (tmp_path / "a.txt").open("w") as file:
        path = Path(f"/proc/self/fd/{file.fileno()}")
        check_writable(path)
        write_text(path, "hello")
    assert (tmp_path / "a.txt").read_text() == "hello"


def test_nothing_takes_the_place_of_a_device_or_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_writable(pipe)
    write_text(pipe, "hello")
    assert (os.read(reading, 9), pipe.is_fifo()) == (b"hello", True)
    os.close(reading)
    write_text(Path(os.devnull), "hello")
    assert Path(os.devnull).is_char_device()
