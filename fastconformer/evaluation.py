"""Error rates of a model on a data set: `python -m fastconformer.evaluation MODEL MANIFEST…`.

Manifests, file lists and corpus folders of every format are taken. Run by torchrun, the processes share the utterances;
none is counted twice or missing. What cannot be read is named in one line each and makes the exit status 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.data.loading import SpeechDataset
from common.data.manifest import ManifestError, read_sources
from common.devices import distributed
from common.devices.precision import Precision
from common.recognition import writing
from common.recognition.scoring import Evaluation, EvaluationError, report
from common.recognition.spelled import spelled
from common.runs.checkpoint import CheckpointError
from common.text.language import Language, Spelling
from fastconformer.attending import AttentionRecognizer
from fastconformer.attention.prompt import Wanted
from fastconformer.listening import Listener
from fastconformer.recognizer import Head, load
from fastconformer.transducer.decoder import check_max_symbols
from fastconformer.validation import evaluate


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Which model to evaluate on what."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model: a .nemo archive, a folder of transformers, a checkpoint of this repository, or a name of the hub."""
    manifests: Annotated[tuple[Path, ...], Positional, arg(metavar="MANIFEST")]
    """Manifests, file lists or corpus folders with transcripts."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    max_seconds: float = math.inf
    """Longest utterance, in seconds; longer ones are left out."""
    normalize_text: bool = True
    """Whether words are compared in lower case without punctuation, as `language` says, or as they are."""
    language: Language = "english"
    """Language of the texts that are compared. english: numbers and symbols are spelled out; none: letters stay."""
    hypotheses: Path | None = None
    """File for one JSON object per utterance: id, reference, hypothesis."""
    head: Head = "auto"
    """Head that decodes in hybrid models: transducer, attention or ctc; by default not ctc."""
    source_language: str | None = None
    """Language that is spoken, of models with an attention decoder, where an utterance has no source_lang."""
    target_language: str | None = None
    """Language that is written, where an utterance has no target_lang; by default the one that is spoken. Of
    translations BLEU and chrF are printed as well."""
    punctuation: bool = True
    """Whether an attention decoder writes capitals and punctuation, where an utterance has no pnc."""
    max_symbols: int = 10
    """Most pieces that a transducer emits at one frame."""
    ema: bool | None = None
    """Whether the averaged weights of our checkpoints are used. Default: where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Precision = "fp32"
    """Arithmetic of the encoder; features and heads are always fp32."""
    batch_size: int = 16
    """Utterances per process recognised at once."""
    workers: int = 2
    """Loader processes per process; 0 loads in the process itself."""

    def __post_init__(self) -> None:
        if not self.manifests:
            raise ValueError("nothing to evaluate on; name manifests or corpus folders after the model")
        if self.batch_size < 1 or self.workers < 0 or self.max_symbols < 1:
            raise ValueError(
                f"batch_size = {self.batch_size}, max_symbols = {self.max_symbols}, workers = {self.workers}: "
                "expected above 0, above 0, at least 0"
            )
        check_max_symbols(self.max_symbols)


def main(cfg: EvaluationConfig) -> int:
    """Prints the error rates that `cfg` asks for; returns the exit status, 1 if anything was left out for an error.

    Raises ConfigError, CheckpointError and ManifestError.
    """
    with distributed.start(cfg.device) as world:
        writing.check_file(cfg.hypotheses, (cfg.model, *cfg.manifests))
        asr = load(cfg.model, device=str(world.device), precision=cfg.precision, ema=cfg.ema, head=cfg.head)
        compared = Spelling(None, language=cfg.language, unknown_letters="latin")
        normalized = compared if cfg.normalize_text else _stripped
        wanted = Wanted(
            source_language=cfg.source_language, target_language=cfg.target_language, punctuation=cfg.punctuation
        )
        dataset, problems = _dataset(asr, cfg, normalized)
        (result,) = evaluate(
            asr,
            dataset,
            world,
            normalized=normalized,
            batch_size=cfg.batch_size,
            workers=cfg.workers,
            max_symbols=cfg.max_symbols,
            wanted=wanted,
        )
        if isinstance(asr, AttentionRecognizer) and world.is_main:
            _print_translations(result, dataset, wanted)
        return report(result, dataset, problems, world, hypotheses=cfg.hypotheses)


def _print_translations(result: Evaluation, dataset: SpeechDataset, wanted: Wanted) -> None:
    """BLEU and chrF of the utterances whose text is in another language than the speech. Raises ConfigError."""
    own = [wanted.with_entry(dict(dataset.utterances[row].wanted)) for row in result.rows]
    pairs = [
        (hypothesis, reference)
        for hypothesis, reference, one in zip(result.hypotheses, result.references, own, strict=True)
        if one.is_translation
    ]
    if not pairs:
        return
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise ConfigError("scores of translations need the package sacrebleu: pip install sacrebleu") from None
    hypotheses, references = (list(texts) for texts in zip(*pairs, strict=True))
    for metric in (BLEU(), CHRF()):
        print(f"{metric.corpus_score(hypotheses, [references])}, of {len(pairs)} translations")


def _stripped(text: str) -> str:
    return " ".join(text.split())


def _no_labels(_text: str) -> list[int]:
    """For references that are compared as texts; workers get it by pickle where they are not forked."""
    return []


def _dataset(asr: Listener, cfg: EvaluationConfig, normalized: Callable[[str], str]) -> tuple[SpeechDataset, list[str]]:
    sources = [str(path.absolute()) for path in cfg.manifests]
    advice = "name others after the model"
    utterances, problems = read_sources(sources, root=cfg.root, on_error="skip", training=False, advice=advice)
    fitting = spelled(utterances[utterances.seconds <= cfg.max_seconds], normalized)
    rate = asr.feature_config.sample_rate
    return SpeechDataset(fitting, encode=_no_labels, sample_rate=rate, trim=False, on_error="skip"), problems


if __name__ == "__main__":
    config.run(main, EvaluationConfig, __doc__, CheckpointError, EvaluationError, ManifestError)
