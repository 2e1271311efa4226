"""The download of published checkpoints, from a server on this machine that knows ranges."""

import io
import zipfile
from pathlib import Path

import pytest

from common.data.archives import ArchiveError
from scripts.data.models import MODELS, ModelsConfig, main


def packed(**contents: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_weights_that_would_grow_without_end_are_refused(tmp_path, server):
    model = MODELS["quartznet-de"]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(model.checkpoint, bytes(10**6))
    server.contents[model.address] = stream.getvalue()
    with pytest.raises(ArchiveError, match=r"would become 1,000,000 bytes of [\d,]+: no weights shrink like that$"):
        main(ModelsConfig(models=("quartznet-de",), output=tmp_path, url=server.url))
    assert not (tmp_path / model.checkpoint).exists()


def test_a_checkpoint_is_downloaded_unpacked_and_its_checksum_noted(tmp_path, server, capsys):
    model = MODELS["quartznet-de"]
    server.contents[model.address] = packed(**{f"folder/{model.checkpoint}": b"weights", "../evil": b"x"})
    cfg = ModelsConfig(models=("quartznet-de",), output=tmp_path / "models", url=server.url)
    main(cfg)
    target = tmp_path / "models" / "stt_de_quartznet15x5.nemo"
    assert target.read_bytes() == b"weights"
    assert sorted(path.name for path in target.parent.iterdir()) == [target.name, f"{target.name}.sha256"]
    main(cfg)  # it is there already
    assert server.ranges == [""]
    target.write_bytes(b"other")
    with pytest.raises(ArchiveError, match=r"SHA256 is \w{64} and was \w{64}: remove both files and run this again"):
        main(cfg)
    assert "SHA256" in capsys.readouterr().out


def test_a_download_that_stopped_goes_on(tmp_path, server):
    model = MODELS["hifigan"]
    content = packed(**{model.checkpoint: bytes(5000)})
    server.contents[model.address] = content
    (tmp_path / f"{model.checkpoint}.zip.part").write_bytes(content[:2000])
    main(ModelsConfig(models=("hifigan",), output=tmp_path, url=server.url))
    assert server.ranges == ["bytes=2000-"]
    assert (tmp_path / model.checkpoint).read_bytes() == bytes(5000)


def test_what_is_damaged_missing_or_unknown_is_one_line(tmp_path, server):
    model = MODELS["waveglow"]
    cfg = ModelsConfig(models=("waveglow",), output=tmp_path, url=server.url)
    content = bytearray(packed(**{model.checkpoint: b"weights" * 100}))
    content[200] ^= 1
    server.contents[model.address] = bytes(content)
    with pytest.raises(ArchiveError, match=r"waveglow256pyt_fp16.pt.zip.part: damaged .* and removed; run this again"):
        main(cfg)
    assert list(tmp_path.iterdir()) == []
    server.contents[model.address] = packed(**{"other.pt": b"x"})
    with pytest.raises(ArchiveError, match=r"expected nvidia_waveglow256pyt_fp16.pt in it, found other.pt"):
        main(cfg)
    Path(tmp_path / f"{model.checkpoint}.zip.part").unlink()
    with pytest.raises(ArchiveError, match="curl failed with exit code 22; run this again to go on"):
        main(ModelsConfig(models=("fastpitch",), output=tmp_path, url=server.url))
    with pytest.raises(ValueError, match="model jasper: expected some of fastpitch, hifigan,"):
        ModelsConfig(models=("jasper",))
    with pytest.raises(ValueError, match="model none: expected some of"):
        ModelsConfig(models=())
