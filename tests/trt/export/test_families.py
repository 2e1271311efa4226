"""Which package reads a checkpoint."""

import tarfile

from tests.fastconformer.checkpoints import archives
from trt.export import families


def test_an_archive_is_of_the_same_family_packed_and_unpacked(tmp_path):
    packed = archives.write(tmp_path / "a.nemo", archives.files())
    assert families.located(packed) == (packed, "fastconformer")
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    assert families.located(tmp_path / "unpacked") == (tmp_path / "unpacked", "fastconformer")
