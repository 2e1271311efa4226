"""From the names in a configuration to utterances: lists and folders, several of them, and what is left out of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from common.ahead import in_threads
from common.audio import waveform
from common.audio.waveform import AudioError, AudioInfo
from common.data import manifest
from common.data.manifest import Manifest, ManifestError, Utterance, Utterances, is_index, read_manifest
from common.recognition.spelled import spelled
from common.text.language import Spelling
from wav2vec2.network.config import ModelConfig
from wav2vec2.run_config import SAMPLE_RATE, DataConfig, fewest_samples

SUFFIXES = (".flac", ".wav")


def read_utterances(
    sources: Sequence[str], data: DataConfig, model: ModelConfig, *, training: bool, spelling: Spelling | None = None
) -> Manifest:
    """The utterances of all `sources` (with `spelling`: and texts as it writes them), and what was left out.

    Raises ManifestError.
    """
    purpose, flag = ("train", "--data.train") if training else ("validate", "--data.validation")
    lists = [_read(located(source, data.root), data, with_text=spelling is not None) for source in sources]
    utterances = Utterances.joined([one.utterances for one in lists])
    messages = [message for one in lists for message in one.skipped]
    if spelling is not None:
        utterances, told = _spelled(utterances, spelling, data)
        messages += told
    least = data.min_samples if training else 0
    if spelling is None:
        least = max(least, fewest_samples(model))
    else:
        utterances, told = _without_too_long(utterances, data, training=training)
        messages += told
    is_long = _samples(utterances) >= least
    if short := int((~is_long).sum()):
        messages.append(f"{short} of {len(utterances)} utterances shorter than {least} samples")
        utterances = utterances[is_long]
    if not len(utterances):
        named = ", ".join(sources) or "none is named"
        raise ManifestError(f"no utterance to {purpose} on: {named}; name lists with {flag}")
    return Manifest(utterances, messages)


def _samples(utterances: Utterances) -> np.ndarray:
    return np.rint(utterances.seconds * SAMPLE_RATE)


def located(source: str, root: Path | None) -> Path:
    """Where `source` lies; a name stands for its .tsv where there is one."""
    path = manifest.located(source, root)
    listed = path.parent / f"{path.name}.tsv"
    return listed if listed.is_file() else path


def recordings_in(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> Iterator[tuple[Path, AudioInfo | AudioError]]:
    """All audio files below `folder`, in order, with what their headers say or why they cannot be read."""
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in suffixes)
    return in_threads(found, _header, threads=16)


def _read(path: Path, data: DataConfig, *, with_text: bool) -> Manifest:
    if path.is_dir() and not with_text and not is_index(path):
        return _listed(path, data)
    # The first line of a .tsv says where its recordings are; paths in other lists start from `root`.
    root = None if path.suffix == ".tsv" else data.root
    found = read_manifest(path, root=root, on_error=data.on_error)
    if with_text and not found.utterances.text_bytes.any():
        wanted = path.with_suffix(".ltr") if path.suffix == ".tsv" else "texts in it"
        raise ManifestError(f"{path}: none of its {len(found.utterances)} utterances has a text; expected {wanted}")
    return found


def _listed(folder: Path, data: DataConfig) -> Manifest:
    """All recordings below `folder`, whatever is said in them."""
    utterances, skipped = [], []
    for path, header in recordings_in(folder):
        if isinstance(header, AudioInfo):
            utterances.append(Utterance(id=path.stem, audio=path, seconds=header.seconds, text=""))
        elif data.on_error == "stop":
            raise ManifestError(f"utterance {path.stem}: {header}")
        else:
            skipped.append(f"utterance {path.stem}: {header}")
    if not utterances:
        raise ManifestError(f"{folder}: no {' or '.join(SUFFIXES)} in it that can be used")
    return Manifest(Utterances.of(utterances), skipped)


def _header(path: Path) -> tuple[Path, AudioInfo | AudioError]:
    try:
        return path, waveform.info(path)
    except AudioError as error:
        return path, error


def _spelled(utterances: Utterances, spelling: Spelling, data: DataConfig) -> tuple[Utterances, list[str]]:
    """With texts of labels alone, and a message for every text of which nothing is left."""
    found = spelled(utterances, spelling)
    is_lost = (found.text_bytes == 0) & (utterances.text_bytes > 0)
    told = [
        f"utterance {old.id}: nothing of its text {old.text!r} can be written with the labels; correct the text, or "
        "leave such utterances out with data.on_error skip"
        for old in utterances[is_lost]
    ]
    return _or_stop(found, is_lost, told, data)


def _without_too_long(utterances: Utterances, data: DataConfig, *, training: bool) -> tuple[Utterances, list[str]]:
    limit = data.max_tokens if training else data.max_tokens_valid
    name = "max_tokens" if training else "max_tokens_valid"
    is_long = _samples(utterances) > limit
    told = [
        f"utterance {u.id}: {round(u.seconds * SAMPLE_RATE)} samples do not fit into data.{name} = {limit}; "
        "raise it, cut the recording, or leave such utterances out with data.on_error skip"
        for u in utterances[is_long]
    ]
    return _or_stop(utterances, is_long, told, data)


def _or_stop(
    utterances: Utterances, is_bad: np.ndarray, told: list[str], data: DataConfig
) -> tuple[Utterances, list[str]]:
    if told and data.on_error == "stop":
        raise ManifestError(told[0])
    return utterances[~is_bad] if told else utterances, told
