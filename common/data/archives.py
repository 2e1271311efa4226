"""Archives of corpora: downloaded with resumption, checked, and unpacked whole or not at all."""

import hashlib
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

MOST_GROWTH = 20  # of a zip with recordings; what grows more is made to fill the disk
DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What reading a damaged or encrypted zip raises."""


class ArchiveError(ValueError):
    """An archive cannot be had, checked or unpacked; the message says why and what to do."""


def unpack_checked(
    name: str, inside: str, target: Path, *, checksum: str, url: str, archives: Path | None, documents: str = ""
) -> None:
    """Unpacks the folder `inside` of an archive as `target`, once its checksum has been found to be right.

    The archive is downloaded from `url`/`name` into the folder of `target`, going on where an earlier attempt stopped,
    and removed afterwards; or it is taken from the folder `archives` and stays there. See `unpack` for `documents`.
    """
    if archives is not None:
        archive = archives / name
        if not archive.is_file():
            raise ArchiveError(f"{archive}: no such archive; put it there, or leave out --from to download it")
        check(archive, checksum, advice="download it again")
        unpack(archive, inside, target, documents=documents)
        return
    partial = target.parent / f"{name}.part"
    download(f"{url}/{name}", partial)
    try:
        check(partial, checksum, advice="it was removed; run this again")
    except ArchiveError:
        partial.unlink()
        raise
    unpack(partial, inside, target, documents=documents)
    partial.unlink()


def download(url: str, target: Path) -> None:
    """Fetches `url`, going on where an earlier attempt stopped. Raises ArchiveError."""
    if shutil.which("curl") is None:
        raise ArchiveError("curl is not installed; install it, or download the archives and give --from DIR")
    print(f"downloading {url}")
    progress = "--progress-bar" if sys.stderr.isatty() else "--no-progress-meter"
    options = ["--fail", "--location", "--retry", "5", progress, "--continue-at", "-"]
    result = subprocess.run(["curl", *options, "--output", target, url], check=False)
    if result.returncode:
        raise ArchiveError(f"{url}: curl failed with exit code {result.returncode}; run this again to go on")


def check(archive: Path, expected: str, *, advice: str) -> None:
    """Raises ArchiveError unless the checksum, MD5 or SHA256 by its length, is the expected one."""
    print(f"checking {archive}")
    kind = "md5" if len(expected) == 32 else "sha256"
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != expected:
        raise ArchiveError(f"{archive}: {kind.upper()} checksum is {found}; expected {expected}: damaged, {advice}")


def unpack(archive: Path, inside: str, target: Path, *, documents: str = "") -> None:
    """Unpacks the folder `inside` of a .tar archive, compressed in any way, as `target`, which appears when complete.

    Files beside that folder whose names match `documents` go beside `target`. Raises ArchiveError, and leaves nothing
    behind, for anything but plain files and folders below the first folder of `inside`.
    """
    print(f"unpacking {archive}")
    unfinished = target.parent / f".{target.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    root = PurePosixPath(inside).parts[0]
    try:
        with tarfile.open(archive, "r|*") as tar:  # as a stream: seeking in bzip2 begins at the start every time
            for member in tar:
                path = unfinished / _place_of(member, root, archive)
                _write(tar.extractfile(member), path)
        if not (unfinished / inside).is_dir():
            raise ArchiveError(f"{archive}: has no {inside} in it; is it the archive of another subset?")
        for document in sorted((unfinished / inside).parent.glob(documents)) if documents else ():
            document.replace(target.parent / document.name)
        (unfinished / inside).rename(target)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ArchiveError(f"{archive}: cannot be unpacked into {target.parent}: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def unpack_zip(packed: zipfile.ZipFile, archive: Path, inside: str, target: Path) -> None:
    """Puts what the folder `inside` of an open .zip has into `target`, its files after its folders; nothing beside it.

    `archive` is the file, for messages and its size. Raises ArchiveError, and leaves nothing behind, for a path that
    leaves the folder, a link, or more than MOST_GROWTH times the bytes of the archive; OSError and DAMAGED_ZIP.
    """
    print(f"unpacking {archive}")
    entries = [entry for entry in packed.infolist() if entry.filename.startswith(f"{inside}/")]
    if not entries:
        held = ", ".join(packed.namelist()[:5]) or "nothing"
        raise ArchiveError(f"{archive}: expected a folder {inside} in it, found {held}")
    for entry in entries:
        if ".." in PurePosixPath(entry.filename).parts or stat.S_ISLNK(entry.external_attr >> 16):
            raise ArchiveError(f"{archive}: holds a link or a path that does not belong there, {entry.filename}")
    size, held_bytes = archive.stat().st_size, sum(entry.file_size for entry in entries)
    if held_bytes > MOST_GROWTH * size + 2**20:
        raise ArchiveError(f"{archive}: refused: {held_bytes:,} bytes in a file of {size:,}")
    unfinished = target.parent / f".{target.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        packed.extractall(unfinished, entries)
        target.mkdir(parents=True, exist_ok=True)
        for found in sorted((unfinished / inside).iterdir(), key=lambda found: (found.is_file(), found.name)):
            found.replace(target / found.name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _place_of(member: tarfile.TarInfo, root: str, archive: Path) -> PurePosixPath:
    """Where a plain file or folder below `root` belongs, the only things a corpus holds. Raises ArchiveError."""
    place = PurePosixPath(member.name)
    plain = member.isreg() or member.isdir()
    if not plain or place.parts[:1] != (root,) or ".." in place.parts:
        found = f"{'a path' if plain else 'a link or device'} that does not belong there, {member.name}"
        raise ArchiveError(f"{archive}: holds {found}; nothing of it was kept")
    return place


def _write(file: IO[bytes] | None, path: Path) -> None:
    """The file of an archive, or without one a folder; owner and mode are those of anything this process writes."""
    if file is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        shutil.copyfileobj(file, target)
