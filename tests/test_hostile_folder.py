"""A folder of recordings as people have them, some of which are damaged or made to do harm: all others are transcribed.

The forty are of many formats, under names that are hard to handle; each of the ten costs a line and nothing else.
"""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.jasper.tiny import run
from tests.toys import KINDS, save_toy

FORMS = (
    ("wav", "PCM_16", 16_000, 1), ("wav", "PCM_24", 44_100, 2), ("wav", "PCM_U8", 8_000, 1),
    ("wav", "ALAW", 8_000, 1), ("wav", "ULAW", 8_000, 2), ("wav", "FLOAT", 48_000, 6),
    ("wav", "IMA_ADPCM", 22_050, 1), ("flac", "PCM_24", 96_000, 1), ("flac", "PCM_S8", 16_000, 2),
    ("mp3", "MPEG_LAYER_III", 44_100, 2), ("mp3", "MPEG_LAYER_III", 16_000, 1), ("ogg", "VORBIS", 22_050, 1),
    ("oga", "VORBIS", 16_000, 2), ("opus", "OPUS", 48_000, 1), ("aiff", "PCM_16", 11_025, 1),
    ("aif", "PCM_32", 16_000, 1), ("au", "ULAW", 8_000, 1), ("caf", "PCM_16", 32_000, 2), ("w64", "PCM_16", 16_000, 1),
    ("WAV", "DOUBLE", 16_000, 1),
)  # fmt: skip
CONTAINERS = {"oga": "OGG", "opus": "OGG", "aif": "AIFF"}
NAMES = (
    "plain",
    "with spaces ",
    "tab\tand\nnewline",
    "ümlaut-мир-世界",
    "-dash",
    "quote\"'",
    ".hidden",
    "percent%s{}",
    "a" * 200,
)


def write_good(folder: Path, number: int) -> None:
    suffix, subtype, rate, channels = FORMS[number % len(FORMS)]
    seconds = (0.7, 1.3, 2.1, 0.4)[number % 4]
    draw = np.random.default_rng(number)
    samples_NC = 0.2 * draw.standard_normal((round(seconds * rate), channels)).clip(-3, 3)
    path = folder / f"sub {number % 3}" / f"{NAMES[number % len(NAMES)]}{number}.{suffix}"
    path.parent.mkdir(exist_ok=True)
    container = CONTAINERS.get(suffix, suffix.upper())
    soundfile.write(path, samples_NC, rate, format=container, subtype=subtype)


def write_bad(folder: Path) -> list[str]:
    """Ten recordings that are none; words of the line that each costs."""
    sound = 0.2 * np.random.default_rng(99).standard_normal(16_000)
    wav, flac = folder / "sub 0" / "model.wav", folder / "sub 0" / "model.flac"
    for path in (wav, flac):
        soundfile.write(path, sound, 16_000)
    promised, whole = bytearray(flac.read_bytes()), wav.read_bytes()
    promised[21:26] = bytes([promised[21] & 0xF0 | 0x0F]) + b"\xff" * 4  # STREAMINFO: 2^36 - 1 samples
    slow = bytearray(whole)
    slow[24:28] = (1).to_bytes(4, "little")
    mp3 = folder / "model.mp3"
    soundfile.write(mp3, sound, 16_000)
    files = {
        "a empty.wav": b"",
        "b text.mp3": b"this is no sound\n" * 100,
        "c cut.flac": flac.read_bytes()[:-5_000],
        "d promise.flac": bytes(promised),
        "e slow.wav": bytes(slow),
        "f cut.wav": whole[: len(whole) // 2],
        "g video.caf": b"\x00\x00\x00\x20ftypmp42" + random.Random(0).randbytes(3000),
        "h none.wav": whole[:40] + (0).to_bytes(4, "little"),
        "i mixed.mp3": mp3.read_bytes()[:64] + np.random.default_rng(3).bytes(3_000),
    }
    for path in (wav, flac, mp3):
        path.unlink()
    for name, content in files.items():
        (folder / "sub 1" / name).write_bytes(content)
    soundfile.write(
        folder / "sub 2" / "j nan.wav", np.where(np.arange(16_000) == 9, np.nan, sound), 16_000, subtype="FLOAT"
    )
    return [*files, "j nan.wav"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(40):
        write_good(folder, number)
    return folder


@pytest.fixture(scope="module")
def hostile(folder, tmp_path_factory) -> tuple[Path, list[str]]:
    both = tmp_path_factory.mktemp("hostile")
    for path in folder.rglob("*.*"):
        (both / path.relative_to(folder)).parent.mkdir(exist_ok=True)
        os.link(path, both / path.relative_to(folder))
    names = write_bad(both)
    (both / "sub 0" / "folder.wav").mkdir()
    (both / "sub 0" / "dangling.wav").symlink_to(both / "nowhere.wav")
    (both / "sub 0" / "round.wav").symlink_to(both / "sub 0" / "round.wav")
    os.mkfifo(both / "sub 0" / "pipe.wav")
    return both, [*names, "dangling.wav", "round.wav", "pipe.wav"]


@pytest.mark.parametrize("kind", KINDS)
def test_forty_transcripts_are_those_without_the_ten(kind, folder, hostile, tmp_path, capsys):
    toy = save_toy(kind, tmp_path / "toy.pt")
    both, names = hostile
    arguments = ("--device", "cpu", "--batch_size", "4", "--format", "json")
    run(capsys, f"{kind}.inference", toy, folder, *arguments)  # native libraries are built once, which a line says
    alone = run(capsys, f"{kind}.inference", toy, folder, *arguments, "--output", tmp_path / "alone.jsonl")
    assert (alone.status, alone.err) == (0, [])
    among = run(capsys, f"{kind}.inference", toy, both, *arguments, "--output", tmp_path / "among.jsonl")
    expected, found = ((tmp_path / f"{name}.jsonl").read_text().splitlines() for name in ("alone", "among"))
    assert len(expected) == len(found) == 40
    assert [line.replace(str(both), str(folder)) for line in found] == expected
    assert among.status == 1
    assert among.err[-1] == "error: 13 of 53 could not be transcribed"
    assert len(among.err) == 14
    for name in names:
        assert sum(name in line for line in among.err) == 1, name
