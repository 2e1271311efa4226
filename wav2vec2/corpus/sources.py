"""From the names in a configuration to utterances: lists and folders, several of them, and what is left out of them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from common.audio import waveform
from common.audio.waveform import AudioError, AudioInfo
from common.data.manifest import Manifest, ManifestError, Utterance, read_manifest
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
    utterances: list[Utterance] = []
    messages: list[str] = []
    for source in sources:
        manifest = _read(located(source, data.root), data, with_text=spelling is not None)
        utterances += manifest.utterances
        messages += manifest.skipped
    if spelling is not None:
        utterances, told = _spelled(utterances, spelling, data)
        messages += told
    least = data.min_samples if training else 0
    if spelling is None:
        least = max(least, fewest_samples(model))
    else:
        utterances, told = _without_too_long(utterances, data, training=training)
        messages += told
    long_enough = [u for u in utterances if round(u.seconds * SAMPLE_RATE) >= least]
    if short := len(utterances) - len(long_enough):
        messages.append(f"{short} of {len(utterances)} utterances shorter than {least} samples")
    if not long_enough:
        named = ", ".join(sources) or "none is named"
        raise ManifestError(f"no utterance to {purpose} on: {named}; name lists with {flag}")
    return Manifest(long_enough, messages)


def located(source: str, root: Path | None) -> Path:
    """Where `source` lies; a name stands for its .tsv where there is one."""
    path = root / source if root is not None else Path(source)
    listed = path.parent / f"{path.name}.tsv"
    return listed if listed.is_file() else path


def recordings_in(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> Iterator[tuple[Path, AudioInfo | AudioError]]:
    """All audio files below `folder`, in order, with what their headers say or why they cannot be read."""
    with ThreadPoolExecutor(max_workers=16) as threads:
        yield from threads.map(_header, sorted(p for p in folder.rglob("*") if p.suffix.lower() in suffixes))


def _read(path: Path, data: DataConfig, *, with_text: bool) -> Manifest:
    if path.is_dir() and not with_text:
        return _listed(path, data)
    # The first line of a .tsv says where its recordings are; paths in other lists start from `root`.
    root = None if path.suffix == ".tsv" else data.root
    manifest = read_manifest(path, root=root, on_error=data.on_error)
    if with_text and not any(u.text for u in manifest.utterances):
        wanted = path.with_suffix(".ltr") if path.suffix == ".tsv" else "texts in it"
        raise ManifestError(f"{path}: none of its {len(manifest.utterances)} utterances has a text; expected {wanted}")
    return manifest


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
    return Manifest(utterances, skipped)


def _header(path: Path) -> tuple[Path, AudioInfo | AudioError]:
    try:
        return path, waveform.info(path)
    except AudioError as error:
        return path, error


def _spelled(utterances: list[Utterance], spelling: Spelling, data: DataConfig) -> tuple[list[Utterance], list[str]]:
    """With texts of labels alone, and a message for every text of which nothing is left."""
    spelled = [replace(u, text=spelling(u.text)) for u in utterances]
    kept = [new for old, new in zip(utterances, spelled, strict=True) if new.text or not old.text]
    told = [
        f"utterance {old.id}: nothing of its text {old.text!r} can be written with the labels; correct the text, or "
        "leave such utterances out with data.on_error skip"
        for old, new in zip(utterances, spelled, strict=True)
        if old.text and not new.text
    ]
    return _or_stop(kept, told, data)


def _without_too_long(
    utterances: list[Utterance], data: DataConfig, *, training: bool
) -> tuple[list[Utterance], list[str]]:
    limit = data.max_tokens if training else data.max_tokens_valid
    fitting = [u for u in utterances if round(u.seconds * SAMPLE_RATE) <= limit]
    name = "max_tokens" if training else "max_tokens_valid"
    told = [
        f"utterance {u.id}: {round(u.seconds * SAMPLE_RATE)} samples do not fit into data.{name} = {limit}; "
        "raise it, cut the recording, or leave such utterances out with data.on_error skip"
        for u in utterances
        if round(u.seconds * SAMPLE_RATE) > limit
    ]
    return _or_stop(fitting, told, data)


def _or_stop(kept: list[Utterance], told: list[str], data: DataConfig) -> tuple[list[Utterance], list[str]]:
    if told and data.on_error == "stop":
        raise ManifestError(told[0])
    return kept, told
