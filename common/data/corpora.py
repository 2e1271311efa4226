"""The utterances of several manifests, file lists or corpus folders, selected for training or as they are."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from common.data.manifest import ManifestError, Utterance, read_manifest, select


def read_utterances(
    sources: Iterable[str],
    *,
    root: Path | None,
    on_error: Literal["stop", "skip"],
    purpose: str,
    advice: str,
    speakers: Iterable[str] = (),
    min_seconds: float = 0.0,
    max_seconds: float = math.inf,
) -> tuple[list[Utterance], list[str]]:
    """The utterances of all `sources`, and one message for everything left out.

    Relative paths start from `root`. Those of other `speakers`, if any are named, and shorter or longer ones are left
    out. Raises ManifestError, also where nothing is left to `purpose` on, with `advice`.
    """
    utterances: list[Utterance] = []
    messages: list[str] = []
    sources = list(sources)
    for source in sources:
        path = root / source if root is not None else Path(source)
        manifest = read_manifest(path, root=root, on_error=on_error)
        utterances += manifest.utterances
        messages += manifest.skipped
    if speakers:
        utterances = [utterance for utterance in utterances if utterance.speaker in speakers]
    if min_seconds > 0 or max_seconds < math.inf:
        utterances, dropped = select(utterances, min_seconds=min_seconds, max_seconds=max_seconds)
        messages += [dropped] if dropped else []
    if not utterances:
        named = ", ".join(sources) or "none is named"
        raise ManifestError(f"no utterance to {purpose} on: {named}; {advice}")
    return utterances, messages
