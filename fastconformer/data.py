"""From the manifests of a configuration to utterances, pieces, and batches of audio and targets."""

from collections.abc import Callable, Sequence

from common.data.loading import SpeechDataset
from common.data.manifest import Utterance, Utterances, read_sources
from common.recognition.spelled import spelled
from common.text.language import Spelling
from common.text.pieces import Pieces
from fastconformer.config import Config, DataConfig


def spelling_of(data: DataConfig, pieces: Pieces | None, *, is_prompted: bool = False) -> Callable[[str], str]:
    """What writes transcripts as pieces, the `pieces` where they are known already, are cut from them.

    Where prompts say what is written (`is_prompted`), texts may be of several languages, with punctuation or without.
    """
    normalizes = data.normalize_text
    if normalizes is None:
        normalizes = not is_prompted and (pieces is None or not pieces.are_cased)
    if not normalizes:
        return _stripped
    return Spelling(None, language=data.language, unknown_letters=data.unknown_letters)


def read_utterances(cfg: Config, *, training: bool, spelling: Callable[[str], str]) -> tuple[Utterances, list[str]]:
    """The utterances to train or validate on, texts as `spelling` writes them, and a message for all left out.

    Durations and speakers are selected in training only. Raises ManifestError.
    """
    data = cfg.data
    sources = data.train if training else data.validation
    utterances, messages = read_sources(
        sources, root=data.root, on_error=data.on_error, training=training,
        speakers=data.speakers, min_seconds=data.min_seconds, max_seconds=data.max_seconds,
    )  # fmt: skip
    return spelled(utterances, spelling), messages


def _stripped(text: str) -> str:
    return " ".join(text.split())


def speech_dataset(
    utterances: Sequence[Utterance], cfg: Config, pieces: Pieces | None, *, training: bool
) -> SpeechDataset:
    """Audio of `utterances`, and their targets where there are `pieces`; perturbed and joined in training only."""
    return SpeechDataset(
        utterances,
        encode=pieces.encode if pieces is not None else None,
        sample_rate=cfg.features.sample_rate,
        keep=cfg.features.keeper(),
        speed=cfg.data.speed if training else None,
        perturbation=cfg.data.perturbation if training else None,
        silence=cfg.data.silence if training else None,
        join=cfg.data.join if training else None,
        seed=cfg.seed,
        on_error=cfg.data.on_error,
    )
