"""LibriSpeech: downloads its archives, checks them, unpacks them and writes a manifest for each.

Leaves DATA_DIR/<subset>/<speaker>/<chapter>/*.flac and DATA_DIR/librispeech-<subset>.jsonl. What is there already is
not made again, and an interrupted download goes on where it stopped.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from tyro.conf import arg

from common import config
from common.audio.waveform import AudioError
from common.data.archives import ArchiveError, unpack_checked
from common.data.manifest import ManifestError, read_manifest, write_jsonl
from common.data.variation.speed import prepare_speeds

Subset = Literal[
    "dev-clean", "dev-other", "test-clean", "test-other", "train-clean-100", "train-clean-360", "train-other-500"
]

MD5 = {  # from openslr.org/resources/12/md5sum.txt
    "dev-clean": "42e2234ba48799c1f50f24a7926300a1",
    "dev-other": "c8d0bcc9cca99d4f8b62fcc847357931",
    "test-clean": "32fa31d27d2e1cad72775fff3f4849a9",
    "test-other": "fb5a50374b501bb3bac4815ee91d3135",
    "train-clean-100": "2a93770f6d5c6c964bc36631d331a522",
    "train-clean-360": "c0e676e450a7ff2f54aeade5171606fa",
    "train-other-500": "d1a0fd59409feb2c614ce4d30c387708",
}


@dataclass(frozen=True, kw_only=True)
class LibriSpeechConfig:
    """LibriSpeech: download, check, unpack and list it."""

    data_dir: Path = Path("/datasets/LibriSpeech")
    """Folder of the subsets and their manifests."""
    subsets: tuple[Subset, ...] = get_args(Subset)
    """Parts of the corpus."""
    from_: Annotated[Path | None, arg(name="from")] = None
    """Folder with archives that were downloaded before (dev-clean.tar.gz, ...); nothing is downloaded then."""
    speeds: tuple[float, ...] = ()
    """Speeds of additional FLAC copies: 0.9 1.1 for the published offline perturbation."""
    url: str = "https://www.openslr.org/resources/12"
    """Address that the archives are downloaded from; a mirror may be nearer."""


def main(cfg: LibriSpeechConfig) -> None:
    """Makes every subset ready; goes on after one that fails, and says at the end which did."""
    try:
        cfg.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{cfg.data_dir}: cannot be made ({error.strerror}); set DATA_DIR to a folder that you may write to")
    failures = []
    for subset in cfg.subsets:
        try:
            prepare(subset, cfg)
        except (ArchiveError, ManifestError, AudioError) as error:
            print(f"{subset}: {error}", file=sys.stderr)
            failures.append(subset)
    if failures:
        sys.exit(f"not ready: {' '.join(failures)}")


def prepare(subset: str, cfg: LibriSpeechConfig) -> None:
    """Downloads, unpacks and lists one subset, as far as that is not done."""
    data_dir = cfg.data_dir.absolute()
    folder, manifest = data_dir / subset, data_dir / f"librispeech-{subset}.jsonl"
    if not folder.is_dir():
        unpack_checked(
            f"{subset}.tar.gz",
            f"LibriSpeech/{subset}",
            folder,
            checksum=MD5[subset],
            url=cfg.url,
            archives=cfg.from_,
            documents="*.TXT",
        )
    elif is_listed(manifest, cfg.speeds):
        print(f"{subset}: ready, {manifest}")
        return
    utterances = read_manifest(folder).utterances
    if cfg.speeds:
        print(f"{subset}: making copies at speeds {' '.join(map(str, cfg.speeds))}")
        utterances = prepare_speeds(utterances, cfg.speeds, root=folder)
    write_jsonl(manifest, utterances)
    hours = sum(utterance.seconds for utterance in utterances) / 3600
    print(f"{subset}: {len(utterances)} utterances, {hours:.2f} hours, {manifest}")


def is_listed(manifest: Path, speeds: tuple[float, ...]) -> bool:
    """Whether the manifest is there and its utterances have copies at these speeds."""
    if not manifest.is_file():
        return False
    with manifest.open(encoding="utf-8") as file:
        first = json.loads(file.readline())
    return {f"{speed:g}" for speed in speeds} <= set(first.get("speeds", {}))


if __name__ == "__main__":
    config.run(main, LibriSpeechConfig, __doc__)
