"""LibriSpeech: downloads its archives, checks them, unpacks them and writes a manifest for each.

Leaves DATA_DIR/<subset>/<speaker>/<chapter>/*.flac and DATA_DIR/librispeech-<subset>.jsonl. What is there already is
not made again, and an interrupted download goes on where it stopped.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, get_args

import tyro

from common.audio import AudioError
from common.data.manifest import ManifestError, read_manifest, write_jsonl
from common.data.speed import prepare_speeds

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


class LibriSpeechError(ValueError):
    """A subset cannot be made ready; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """LibriSpeech: download, check, unpack and list it."""

    data_dir: Path = Path("/datasets/LibriSpeech")
    """Where the subsets and their manifests go."""
    subsets: tuple[Subset, ...] = get_args(Subset)
    """Which parts."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Folder with archives that were downloaded before (dev-clean.tar.gz, ...); nothing is downloaded then."""
    speeds: tuple[float, ...] = ()
    """Speeds to make FLAC copies at, beside the original: 0.9 1.1 for the published offline perturbation."""
    url: str = "https://www.openslr.org/resources/12"
    """Where the archives are downloaded from; a mirror may be nearer."""


def main(cfg: Config) -> None:
    """Makes every subset ready; goes on after one that fails, and says at the end which did."""
    try:
        cfg.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{cfg.data_dir}: cannot be made ({error.strerror}); set DATA_DIR to a folder that you may write to")
    failures = []
    for subset in cfg.subsets:
        try:
            prepare(subset, cfg)
        except (LibriSpeechError, ManifestError, AudioError) as error:
            print(f"{subset}: {error}", file=sys.stderr)
            failures.append(subset)
    if failures:
        sys.exit(f"not ready: {' '.join(failures)}")


def prepare(subset: str, cfg: Config) -> None:
    """Downloads, unpacks and lists one subset, as far as that is not done."""
    data_dir = cfg.data_dir.absolute()
    folder, manifest = data_dir / subset, data_dir / f"librispeech-{subset}.jsonl"
    if not folder.is_dir():
        unpack_checked(subset, data_dir, cfg)
    elif is_listed(manifest, cfg.speeds):
        print(f"{subset}: ready, {manifest}")
        return
    utterances = read_manifest(folder).utterances
    if cfg.speeds:
        print(f"{subset}: making copies at speeds {' '.join(map(str, cfg.speeds))}")
        utterances = prepare_speeds(utterances, cfg.speeds, root=folder).utterances
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


def unpack_checked(subset: str, data_dir: Path, cfg: Config) -> None:
    """Unpacks the archive of a subset if its checksum is right; removes it afterwards if it was downloaded here."""
    name = f"{subset}.tar.gz"
    if cfg.from_ is not None:
        archive = cfg.from_ / name
        if not archive.is_file():
            raise LibriSpeechError(f"{archive}: no such archive; put it there, or leave out --from to download it")
        check(archive, MD5[subset], advice="download it again")
        unpack(archive, subset, data_dir)
        return
    partial = data_dir / f"{name}.part"
    download(f"{cfg.url}/{name}", partial)
    try:
        check(partial, MD5[subset], advice="it was removed; run this again")
    except LibriSpeechError:
        partial.unlink()
        raise
    unpack(partial, subset, data_dir)
    partial.unlink()


def download(url: str, target: Path) -> None:
    """Fetches `url`, going on where an earlier attempt stopped."""
    if shutil.which("curl") is None:
        raise LibriSpeechError("curl is not installed; install it, or download the archives and give --from DIR")
    print(f"downloading {url}")
    options = [
        "--fail",
        "--location",
        "--retry",
        "5",
        "--progress-bar" if sys.stderr.isatty() else "--no-progress-meter",
    ]
    result = subprocess.run(["curl", *options, "--continue-at", "-", "--output", target, url], check=False)
    if result.returncode:
        raise LibriSpeechError(f"{url}: curl failed with exit code {result.returncode}; run this again to go on")


def check(archive: Path, expected: str, *, advice: str) -> None:
    """Raises LibriSpeechError unless the MD5 checksum is the expected one."""
    print(f"checking {archive}")
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != expected:
        raise LibriSpeechError(f"{archive}: MD5 checksum is {found}; expected {expected}: damaged, {advice}")


def unpack(archive: Path, subset: str, data_dir: Path) -> None:
    """Unpacks LibriSpeech/<subset> of the archive as DATA_DIR/<subset>, which appears when it is complete."""
    print(f"unpacking {archive}")
    unfinished = data_dir / f".{subset}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(unfinished, filter=only_speech(archive))
        unpacked = unfinished / "LibriSpeech" / subset
        if not unpacked.is_dir():
            raise LibriSpeechError(
                f"{archive}: has no LibriSpeech/{subset} in it; is it the archive of another subset?"
            )
        for document in (unfinished / "LibriSpeech").glob("*.TXT"):
            document.replace(data_dir / document.name)
        unpacked.rename(data_dir / subset)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise LibriSpeechError(f"{archive}: cannot be unpacked into {data_dir}: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def only_speech(archive: Path) -> Callable[[tarfile.TarInfo, str], tarfile.TarInfo | None]:
    """A filter that stops at anything but plain files and folders below LibriSpeech/, the only things it holds."""

    def filter(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        parts = PurePosixPath(member.name).parts
        plain = member.isreg() or member.isdir()
        if not plain or parts[:1] != ("LibriSpeech",) or ".." in parts:
            found = f"{'a path' if plain else 'a link or device'} that does not belong there, {member.name}"
            raise LibriSpeechError(f"{archive}: holds {found}; nothing of it was kept")
        return tarfile.data_filter(member, os.fspath(path))

    return filter


if __name__ == "__main__":
    main(tyro.cli(Config))
