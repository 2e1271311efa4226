"""Where the model at a path, or of a name on the Hugging Face hub, lies: wherever the path of a checkpoint is taken,
facebook/wav2vec2-base-960h is, too.

`huggingface_hub` downloads and keeps files; it is imported when a name is met that is no path. HF_ENDPOINT,
HF_HUB_CACHE, HF_TOKEN and HF_HUB_OFFLINE mean what they mean there. Nothing that is downloaded is executed.
"""

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, NamedTuple

from common.files.downloads import listed, missing_by, missing_files
from common.published import model_folder
from common.published.nemo import archive
from common.runs.checkpoint import CheckpointError, UnreadableError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
SUFFIXES = (".pt", ".pth", ".nemo", ".bin", ".safetensors", ".ckpt", ".json", ".yaml")
"""What names with these ends are: files, even where there are none. "runs/best.pt" is no name of a model."""
_DESCRIPTIONS = ("*.json", "*.txt", "*.model")
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin", "*.nemo", "*.pt", "*.pth")  # the first that there are


class StoredModel(NamedTuple):
    """Where a model lies, and in which form: an archive of NeMo, packed or not, a folder, or another file."""

    path: Path
    form: Literal["archive", "folder", "file"]


def stored(path: str | Path, *, extra: Sequence[str] = ()) -> StoredModel:
    """The model at `path`, or of that name; `extra` and errors as of `located`. A folder may be named by a file in it,
    as "folder/model.safetensors" is.
    """
    path = located(path, extra=extra)
    try:
        if archive.is_archive(path):
            return StoredModel(path, "archive")
        folder = model_folder.folder_of(path)
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read: {error.strerror or error}") from None
    return StoredModel(path, "file") if folder is None else StoredModel(folder, "folder")


def is_name(path: str | Path) -> bool:
    """Whether `path` is the name of a model, with @REVISION or without, and no file or folder."""
    text = str(path)
    return _NAME.fullmatch(text) is not None and not text.endswith(SUFFIXES) and not Path(text).exists()


def located(path: str | Path, *, extra: Sequence[str] = ()) -> Path:
    """`path`, or where the files of the model of that name are, downloaded if they are not there yet.

    "owner/name@REVISION" pins a branch, a tag or a commit. Downloaded are descriptions, files that match `extra`, and
    weights in the first of these forms that the model has: safetensors, pickled, .nemo, .pt. Without a network, or
    with HF_HUB_OFFLINE=1, it is what was downloaded before. The folder of a model of transformers, else its one
    checkpoint. Raises CheckpointError.
    """
    if not is_name(path):
        return Path(path)
    name, _, revision = str(path).partition("@")
    return _checkpoint_in(_downloaded(name, revision or None, tuple(extra)), str(path))


def _downloaded(name: str, revision: str | None, extra: tuple[str, ...]) -> Path:
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
        )
    except ImportError:
        raise CheckpointError(
            f"{name}: no such file or folder; to look for it on the Hugging Face hub: pip install huggingface_hub"
        ) from None
    endpoint = os.environ.get("HF_ENDPOINT") or None
    shared: dict[str, Any] = {"repo_id": name, "revision": revision}
    keep: dict[str, Any] = {"cache_dir": os.environ.get("HF_HUB_CACHE") or None}

    def kept(otherwise: str) -> Path:
        missing = ""
        for pattern in _WEIGHTS:
            how: dict[str, Any] = {"allow_patterns": [*_DESCRIPTIONS, *extra, pattern], "ignore_patterns": "*/*"}
            try:
                folder = Path(snapshot_download(**shared, **keep, **how, local_files_only=True))
                missing = missing or listed(missing_files(folder, how["allow_patterns"]))
                if not missing and any(folder.glob(pattern)):
                    return folder
            except LocalEntryNotFoundError as error:
                missing = missing or missing_by(error)
        if missing:
            raise CheckpointError(f"{name}: {otherwise}, and its download broke off: missing are {missing}")
        raise CheckpointError(f"{name}: no such file or folder; {otherwise}, and it was not downloaded before")

    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return kept("HF_HUB_OFFLINE is set")
    try:
        info = HfApi(endpoint=endpoint).model_info(**shared)
        files = [sibling.rfilename for sibling in info.siblings or ()]
        chosen = [file for file in files if "/" not in file and any(fnmatch(file, p) for p in (*_DESCRIPTIONS, *extra))]
        weights = ([f for f in files if "/" not in f and fnmatch(f, pattern)] for pattern in _WEIGHTS)
        chosen += next((found for found in weights if found), [])
        return Path(snapshot_download(**shared, **keep, endpoint=endpoint, allow_patterns=chosen))
    except GatedRepoError:
        raise CheckpointError(
            f"{name}: its owner lets in only those who asked: accept its terms on its page, and set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise CheckpointError(f"{name}: no such file or folder, and no such model on the Hugging Face hub") from None
    except HfHubHTTPError as error:
        problem = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{name}{f'@{revision}' if revision else ''}: the hub refuses it: {problem}") from None
    except Exception as error:  # no network: whatever the HTTP client of the day raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return kept(f"the hub cannot be reached ({reason[:120]})")


def _checkpoint_in(folder: Path, name: str) -> Path:
    """The folder, if it describes its model, or its one checkpoint."""
    if (folder / "config.json").is_file() and any(path for pattern in _WEIGHTS[:2] for path in folder.glob(pattern)):
        return folder
    files = sorted(path for pattern in _WEIGHTS[2:] for path in folder.glob(pattern))
    if len(files) != 1:
        held = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
        raise CheckpointError(
            f"{name}: expected config.json with weights, or one .nemo or .pt; it has {len(files)} of them, and {held}"
        )
    return files[0]
