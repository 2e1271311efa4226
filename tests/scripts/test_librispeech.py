"""The script that makes LibriSpeech ready, on small archives: good, damaged and malicious ones."""

import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.manifest import read_manifest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def librispeech(monkeypatch):
    """The script as a module that checks against checksums of our own."""
    spec = importlib.util.spec_from_file_location("librispeech", REPOSITORY / "scripts/data/librispeech.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "MD5", dict.fromkeys(module.MD5, ""))
    return module


def flac(seconds: float) -> bytes:
    content = io.BytesIO()
    soundfile.write(content, 0.1 * np.sin(np.arange(round(16000 * seconds)) * 0.1), 16000, format="FLAC")
    return content.getvalue()


GOOD = {
    "LibriSpeech/README.TXT": b"about",
    "LibriSpeech/dev-clean/1/2/1-2-0000.flac": flac(0.5),
    "LibriSpeech/dev-clean/1/2/1-2-0001.flac": flac(0.25),
    "LibriSpeech/dev-clean/1/2/1-2.trans.txt": b"1-2-0000 HELLO YOU\n1-2-0001 BYE\n",
}


def archive(librispeech, folder: Path, files: dict[str, bytes | tarfile.TarInfo], subset: str = "dev-clean") -> Path:
    """An archive of `files` (or special members) whose checksum the script takes for the right one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{subset}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    librispeech.MD5[subset] = hashlib.md5(path.read_bytes()).hexdigest()
    return path


def config(librispeech, folder: Path, **options):
    return librispeech.LibriSpeechConfig(
        data_dir=folder / "data", **{"subsets": ("dev-clean",), "from_": folder / "archives", **options}
    )


def test_archives_that_are_there_become_folders_and_manifests(librispeech, tmp_path, capsys):
    path = archive(librispeech, tmp_path / "archives", GOOD)
    librispeech.main(config(librispeech, tmp_path))
    assert "dev-clean: 2 utterances, 0.00 hours" in capsys.readouterr().out
    utterances = read_manifest(tmp_path / "data/librispeech-dev-clean.jsonl").utterances
    assert [(u.id, u.text, u.seconds, u.speaker) for u in utterances] == [
        ("1-2-0000", "HELLO YOU", 0.5, "1"),
        ("1-2-0001", "BYE", 0.25, "1"),
    ]
    assert utterances[0].audio == tmp_path / "data/dev-clean/1/2/1-2-0000.flac"
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == [
        "README.TXT",
        "dev-clean",
        "librispeech-dev-clean.jsonl",
    ]
    assert path.is_file()


def test_the_second_time_nothing_is_done_again(librispeech, tmp_path, capsys):
    path = archive(librispeech, tmp_path / "archives", GOOD)
    librispeech.main(config(librispeech, tmp_path))
    path.unlink()
    capsys.readouterr()
    librispeech.main(config(librispeech, tmp_path))
    assert capsys.readouterr().out == f"dev-clean: ready, {tmp_path}/data/librispeech-dev-clean.jsonl\n"
    (tmp_path / "data/librispeech-dev-clean.jsonl").unlink()
    librispeech.main(config(librispeech, tmp_path))
    assert (tmp_path / "data/librispeech-dev-clean.jsonl").is_file()


def test_speeds_add_copies_and_list_them(librispeech, tmp_path, capsys):
    archive(librispeech, tmp_path / "archives", GOOD)
    librispeech.main(config(librispeech, tmp_path))
    librispeech.main(config(librispeech, tmp_path, speeds=(0.9, 1.1)))
    utterance = read_manifest(tmp_path / "data/librispeech-dev-clean.jsonl").utterances[0]
    assert [speed for speed, _ in utterance.speeds] == [0.9, 1.1]
    assert utterance.speeds[0][1] == tmp_path / "data/dev-clean-speed0.9/1/2/1-2-0000.flac"
    assert soundfile.info(utterance.speeds[1][1]).duration == pytest.approx(0.5 / 1.1, abs=1e-3)
    capsys.readouterr()
    librispeech.main(config(librispeech, tmp_path, speeds=(0.9, 1.1)))
    assert "dev-clean: ready" in capsys.readouterr().out


def member(name: str, type: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = type, target
    return info


@pytest.mark.parametrize(
    "malicious",
    [
        member("../evil"),
        member("/tmp/evil"),
        member("elsewhere/evil"),
        member("LibriSpeech/../../evil"),
        member("LibriSpeech/dev-clean/../../../evil"),
        member("LibriSpeech/link", tarfile.SYMTYPE, "/etc"),
        member("LibriSpeech/dev-clean/link", tarfile.SYMTYPE, "1"),
        member("LibriSpeech/link", tarfile.LNKTYPE, "../../evil"),
        member("LibriSpeech/pipe", tarfile.FIFOTYPE),
        member("LibriSpeech/device", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name} {info.type.decode()}",
)
def test_a_malicious_archive_leaves_nothing_behind(librispeech, tmp_path, capsys, malicious):
    archive(librispeech, tmp_path / "archives", {**GOOD, "evil": malicious})
    with pytest.raises(SystemExit, match="not ready: dev-clean"):
        librispeech.main(config(librispeech, tmp_path))
    assert re.search(
        r"^dev-clean: .*dev-clean\.tar\.gz: holds (a path|a link or device) that does not belong there, "
        + re.escape(malicious.name)
        + "; nothing of it was kept$",
        capsys.readouterr().err,
        re.MULTILINE,
    )
    assert list((tmp_path / "data").iterdir()) == []
    assert list(tmp_path.rglob("*evil*")) == []


def test_a_damaged_archive_is_refused_by_its_checksum(librispeech, tmp_path, capsys):
    path = archive(librispeech, tmp_path / "archives", GOOD)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SystemExit, match="not ready: dev-clean"):
        librispeech.main(config(librispeech, tmp_path))
    error = capsys.readouterr().err
    assert f"{path}: MD5 checksum is " in error
    assert f"; expected {librispeech.MD5['dev-clean']}: damaged, download it again" in error
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("content", [b"no archive at all", None], ids=["no archive", "cut off"])
def test_an_archive_that_cannot_be_unpacked_leaves_nothing_behind(librispeech, tmp_path, capsys, content):
    path = archive(librispeech, tmp_path / "archives", GOOD)
    path.write_bytes(content or path.read_bytes()[:300])
    librispeech.MD5["dev-clean"] = hashlib.md5(path.read_bytes()).hexdigest()
    with pytest.raises(SystemExit):
        librispeech.main(config(librispeech, tmp_path))
    assert f"{path}: cannot be unpacked into {tmp_path}/data: " in capsys.readouterr().err
    assert list((tmp_path / "data").iterdir()) == []


def test_one_bad_subset_does_not_keep_the_others_from_being_made(librispeech, tmp_path, capsys):
    archive(librispeech, tmp_path / "archives", GOOD)
    archive(librispeech, tmp_path / "archives", GOOD, subset="dev-other")
    subsets = ("dev-other", "test-clean", "dev-clean")
    with pytest.raises(SystemExit, match="not ready: dev-other test-clean"):
        librispeech.main(config(librispeech, tmp_path, subsets=subsets))
    output = capsys.readouterr()
    assert "has no LibriSpeech/dev-other in it; is it the archive of another subset?" in output.err
    assert "test-clean.tar.gz: no such archive; put it there, or leave out --from to download it" in output.err
    assert "dev-clean: 2 utterances" in output.out


@pytest.mark.parametrize("already", [0, 100, None], ids=["from the start", "resumed", "complete but unchecked"])
def test_a_download_goes_on_where_it_stopped(librispeech, tmp_path, server, already):
    content = archive(librispeech, tmp_path / "archives", GOOD).read_bytes()
    server.contents["dev-clean.tar.gz"] = content
    (tmp_path / "data").mkdir()
    if already != 0:
        (tmp_path / "data/dev-clean.tar.gz.part").write_bytes(content[:already])
    librispeech.main(config(librispeech, tmp_path, from_=None, url=server.url))
    assert server.ranges == ["" if already == 0 else f"bytes={already or len(content)}-"]
    assert len(read_manifest(tmp_path / "data/librispeech-dev-clean.jsonl").utterances) == 2
    assert not (tmp_path / "data/dev-clean.tar.gz.part").exists()


def test_a_damaged_download_is_removed_and_a_failed_one_can_go_on(librispeech, tmp_path, server, capsys):
    server.contents["dev-clean.tar.gz"] = archive(librispeech, tmp_path / "archives", GOOD).read_bytes()
    librispeech.MD5["dev-clean"] = "0" * 32
    with pytest.raises(SystemExit):
        librispeech.main(config(librispeech, tmp_path, from_=None, url=server.url))
    assert (
        "expected 00000000000000000000000000000000: damaged, it was removed; run this again" in capsys.readouterr().err
    )
    assert list((tmp_path / "data").iterdir()) == []
    with pytest.raises(SystemExit):
        librispeech.main(config(librispeech, tmp_path, from_=None, url=server.url, subsets=("test-other",)))
    assert "/test-other.tar.gz: curl failed with exit code 22; run this again to go on" in capsys.readouterr().err


def test_without_curl_it_says_what_to_do(librispeech, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit):
        librispeech.main(config(librispeech, tmp_path, from_=None))
    assert "curl is not installed; install it, or download the archives and give --from DIR" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(librispeech, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(
        SystemExit, match=r"data: cannot be made \(File exists\); set DATA_DIR to a folder that you may"
    ):
        librispeech.main(config(librispeech, tmp_path))


def test_the_shell_script_passes_its_variables_and_arguments_on(tmp_path):
    (tmp_path / "archives").mkdir()
    variables = {"DATA_DIR": str(tmp_path / "my data"), "SUBSETS": "dev-clean test-other", "SPEEDS": "0.9 1.1"}
    environment = {**os.environ, **variables, "SPEECH_PYTHON": sys.executable}
    command = ["bash", REPOSITORY / "scripts/data/librispeech.sh", "--from", tmp_path / "archives"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    for line, subset in zip(lines, ("dev-clean", "test-other"), strict=False):
        assert line.startswith(f"{subset}: {tmp_path}/archives/{subset}.tar.gz: no such archive; put it there")
    assert lines[2:] == ["not ready: dev-clean test-other"]
    assert (tmp_path / "my data").is_dir()
