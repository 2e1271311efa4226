"""Beyond what the tests of scripts/data try with whole corpora."""

import hashlib
import io
import stat
import tarfile
import zipfile

import pytest

from common.data.archives import ArchiveError, check, unpack, unpack_zip


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


def zipped(path, **contents):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in contents.items():
            packed.writestr(name, content)
    return zipfile.ZipFile(path)


def test_of_a_zip_only_the_folder_that_is_asked_for_is_unpacked(tmp_path):
    path, target = tmp_path / "a.zip", tmp_path / "data/here"
    with zipped(path, **{"corpus/wavs/x": "x", "corpus/y": "y", "__MACOSX/z": "z", "../evil": "e"}) as packed:
        unpack_zip(packed, path, "corpus", target)
    assert sorted(str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*") if found.is_file()) == [
        "a.zip", "data/here/wavs/x", "data/here/y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"other/x": "x"}, r"a.zip: expected a folder corpus in it, found other/x"),
        ({"corpus/../../x": "x"}, r"a.zip: holds a link or a path that does not belong there, corpus/../../x"),
        ({"corpus/x": bytes(2**23)}, r"a.zip: refused: 8,388,608 bytes in a file of [\d,]+"),
    ],
)
def test_a_hostile_zip_is_refused_and_nothing_of_it_stays(tmp_path, contents, message):
    path = tmp_path / "a.zip"
    with zipped(path, **contents) as packed, pytest.raises(ArchiveError, match=message):
        unpack_zip(packed, path, "corpus", tmp_path / "data")
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_a_zip_is_refused(tmp_path):
    link = zipfile.ZipInfo("corpus/x")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr(link, "/etc/passwd")
    with zipfile.ZipFile(tmp_path / "a.zip") as packed, pytest.raises(ArchiveError, match="holds a link or a path"):
        unpack_zip(packed, tmp_path / "a.zip", "corpus", tmp_path / "data")
