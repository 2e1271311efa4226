"""Downloads NVIDIA's published checkpoints: `python scripts/data/models.py quartznet-de hifigan --output models`.

The table below has all addresses. They are those of DeepLearningExamples' own download scripts; no checksums are
published with them. So an archive is unpacked only where the checksum that it has of its contents is right, and the
SHA256 of each checkpoint is written beside it when it is first downloaded, and compared whenever the command is run
again. A download that stopped goes on where it was.
"""

import hashlib
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import Positional, arg

from common import config
from common.data.archives import DAMAGED_ZIP, ArchiveError, download
from common.files import atomic

NGC = "https://api.ngc.nvidia.com/v2/models/nvidia"


class Published(NamedTuple):
    """Where an archive is, and the checkpoint in it."""

    address: str
    checkpoint: str


MOST_GROWTH = 4  # weights do not shrink to a quarter
QUARTZNET = "nemo/stt_{0}_quartznet15x5/versions/1.0.0rc1/zip"
MODELS: dict[str, Published] = {
    "fastpitch": Published("fastpitch_pyt_fp32_ckpt_v1_1/versions/21.05.0/zip", "nvidia_fastpitch_210824.pt"),
    "hifigan": Published(
        "dle/hifigan__pyt_ckpt_ds-ljs22khz/versions/21.08.0_amp/zip", "hifigan_gen_checkpoint_6500.pt"
    ),
    "hifigan-finetuned-fastpitch": Published(
        "dle/hifigan__pyt_ckpt_mode-finetune_ds-ljs22khz/versions/21.08.0_amp/zip", "hifigan_gen_checkpoint_10000_ft.pt"
    ),
    "waveglow": Published("waveglow_ckpt_amp_256/versions/20.01.0/zip", "nvidia_waveglow256pyt_fp16.pt"),
    "quartznet-en": Published("quartznet_pyt_ckpt_amp/versions/21.03.0/zip", "nvidia_quartznet_210504.pt"),
    **{
        f"quartznet-{language}": Published(QUARTZNET.format(language), f"stt_{language}_quartznet15x5.nemo")
        for language in ("ca", "de", "es", "fr", "it", "pl", "ru", "zh")
    },
}


@dataclass(frozen=True, kw_only=True)
class ModelsConfig:
    """Published checkpoints, and where they go."""

    models: Annotated[tuple[str, ...], Positional, arg(metavar="MODEL")]
    """Names: fastpitch, hifigan, hifigan-finetuned-fastpitch, waveglow, quartznet-en, and quartznet- with ca, de, es,
    fr, it, pl, ru or zh."""
    output: Path = Path("pretrained_models")
    """Folder for the checkpoints."""
    url: str = NGC
    """Address that those of the table are below."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.models if name not in MODELS] or ([] if self.models else ["none"]):
            raise ValueError(f"model {unknown[0]}: expected some of {', '.join(MODELS)}")


def main(cfg: ModelsConfig) -> None:
    """Downloads what `cfg` names and is not there yet. Raises ArchiveError."""
    cfg.output.mkdir(parents=True, exist_ok=True)
    for name in cfg.models:
        published = MODELS[name]
        target = cfg.output / published.checkpoint
        if not target.is_file():
            archive = target.with_name(f"{target.name}.zip.part")
            download(f"{cfg.url}/{published.address}", archive)
            take_out(archive, target)
            archive.unlink()
        print(f"{target}: SHA256 {checked(target)}")


def take_out(archive: Path, target: Path) -> None:
    """Writes the file of the zip `archive` that is called like `target`; nothing else. Raises ArchiveError."""
    try:
        with zipfile.ZipFile(archive) as packed:
            inside = [name for name in packed.namelist() if name.rpartition("/")[2] == target.name]
            if len(inside) != 1:
                held = ", ".join(packed.namelist()[:5]) or "nothing"
                raise ArchiveError(f"{archive}: expected {target.name} in it, found {held}")
            found = packed.getinfo(inside[0])
            if found.file_size > MOST_GROWTH * found.compress_size:
                size = f"{found.file_size:,} bytes of {found.compress_size:,}"
                raise ArchiveError(f"{archive}: {target.name} in it would become {size}: no weights shrink like that")
            with packed.open(inside[0]) as content, atomic.written_whole(target) as file:
                shutil.copyfileobj(content, file)  # which ends with a check of the checksum in the archive
    except DAMAGED_ZIP as error:
        archive.unlink()
        raise ArchiveError(f"{archive}: damaged ({error}) and removed; run this again") from None


def checked(target: Path) -> str:
    """The SHA256 of `target`, which must be the one noted when it was downloaded. Raises ArchiveError."""
    with target.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    note = target.with_name(f"{target.name}.sha256")
    if not note.is_file():
        atomic.write_text(note, f"{found}  {target.name}\n")
    elif (before := note.read_text(encoding="utf-8").split()[0]) != found:
        raise ArchiveError(f"{target}: SHA256 is {found} and was {before}: remove both files and run this again")
    return found


if __name__ == "__main__":
    with config.reported(ArchiveError, OSError):
        main(config.parse_flags(ModelsConfig, None, sys.argv[1:], description=__doc__ or ""))
