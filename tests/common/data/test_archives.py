"""Beyond what the tests of scripts/data try with whole corpora."""

import hashlib
import io
import tarfile

import pytest

from common.data.archives import ArchiveError, check, unpack


def archive(path, names):
    with tarfile.open(path, "w:xz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
    return path


def test_only_the_folder_that_is_asked_for_stays(tmp_path):
    path = archive(tmp_path / "a.tar.xz", ["corpus/part/x", "corpus/other/y", "corpus/LICENCE.txt", "corpus/notes.md"])
    unpack(path, "corpus/part", tmp_path / "here", documents="*.txt")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["LICENCE.txt", "a.tar.xz", "here"]
    assert (tmp_path / "here/x").read_bytes() == b"x"


def test_a_checksum_is_md5_or_sha256_by_its_length(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    check(path, hashlib.md5(b"content").hexdigest(), advice="")
    check(path, hashlib.sha256(b"content").hexdigest(), advice="")
    with pytest.raises(ArchiveError, match=r"a: SHA256 checksum is \w{64}; expected 0{64}: damaged, try again"):
        check(path, "0" * 64, advice="try again")
