"""Error rates of a model on a data set: `python -m fastconformer.evaluation MODEL MANIFEST…`.

Manifests, file lists and corpus folders of every format are taken. Run by torchrun, the processes share the utterances;
none is counted twice or missing. What cannot be read is named in one line each and makes the exit status 1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.data.loading import SpeechDataset
from common.data.manifest import ManifestError, read_sources
from common.devices import distributed
from common.devices.precision import InferencePrecision
from common.recognition.decoding import DecodingOptions
from common.recognition.output import writing
from common.recognition.scoring import Evaluation, EvaluationError, report
from common.recognition.spelled import spelled
from common.runs.checkpoint import CheckpointError
from common.text.language import Language, Spelling
from fastconformer.attending import AttentionRecognizer
from fastconformer.attention.config import DecoderPrecision
from fastconformer.attention.prompt import Wanted
from fastconformer.attention.training.targets import askable
from fastconformer.hearing.prompted.decoding import AttentionDecoding
from fastconformer.listening import Listener
from fastconformer.recognizer import Head, load
from fastconformer.training.tasks import Task, by_task, in_wrong_language, loops, of_places, task_of, translated
from fastconformer.training.validation import evaluate
from fastconformer.transducer.decoder import check_labels


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """Which model to evaluate on what."""

    USUAL: ClassVar = {
        "Comparison": ("language", "normalize_text", "hypotheses"),
        "Translation": ("source_language", "target_language"),
        "Decoding": ("head", "beam"),
        "Machine": ("device", "precision", "batch_size"),
    }
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
    """Language of the texts that are compared. english: numbers and symbols are spelled out; none: letters stay. Where
    utterances have a target_lang, that counts: English texts are compared as English, others by their letters."""
    hypotheses: Path | None = None
    """File for one JSON object per utterance: id, reference, hypothesis."""
    head: Head = "auto"
    """Head that decodes in hybrid models: transducer, attention or ctc; by default not ctc."""
    source_language: str | None = None
    """Language that is spoken, of models with an attention decoder, where an utterance has no source_lang."""
    target_language: str | None = None
    """Language that is written, where an utterance has no target_lang; by default the one that is spoken.
    Translations have BLEU and chrF (sacrebleu) of texts as they are, and no part in the error rates."""
    punctuation: bool = True
    """Whether an attention decoder writes capitals and punctuation, where an utterance has no pnc."""
    decoder_precision: DecoderPrecision = "fp32"
    """Arithmetic of an attention decoder's weights on a CPU."""
    beam: int = 1
    """Texts that an attention decoder's search keeps; 1 is greedy."""
    ctc_weight: float = 0.0
    """Share of a CTC head in the scores of the transcripts that a beam has found."""
    max_symbols: int = 10
    """Most pieces that a transducer emits at one frame."""
    ema: bool | None = None
    """Whether the averaged weights of our checkpoints are used. Default: where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: InferencePrecision = "fp32"
    """Arithmetic of the encoder, and of decoders' matrices on a GPU; all else is fp32. int8: on a CPU alone, fastest
    with AVX-512 VNNI."""
    batch_size: int = 16
    """Utterances per process recognised at once."""
    workers: int = 2
    """Loader processes per process; 0 loads in the process itself."""

    def __post_init__(self) -> None:
        if not self.manifests:
            raise ValueError("nothing to evaluate on; name manifests or corpus folders after the model")
        if self.batch_size < 1 or self.workers < 0:
            raise ValueError(f"batch_size = {self.batch_size}, workers = {self.workers}: expected above 0, at least 0")
        check_labels(self.max_symbols)

    @property
    def wanted(self) -> Wanted:
        """What an attention decoder is to write, where an utterance does not say itself."""
        return Wanted(
            source_language=self.source_language, target_language=self.target_language, punctuation=self.punctuation
        )


def main(cfg: EvaluationConfig) -> int:
    """Prints the error rates that `cfg` asks for; returns the exit status, 1 if anything was left out for an error.

    Raises ConfigError, CheckpointError and ManifestError.
    """
    with distributed.start(cfg.device) as world:
        writing.check_file(cfg.hypotheses, (cfg.model, *cfg.manifests))
        asr = load(
            cfg.model, device=str(world.device), precision=cfg.precision, ema=cfg.ema, head=cfg.head,
            max_symbols=cfg.max_symbols, decoder_precision=cfg.decoder_precision,
        )  # fmt: skip
        spelling = _spelling(cfg, cfg.language)
        normalized = _stripped if isinstance(asr, AttentionRecognizer) else spelling  # a translation is scored as it is
        wanted = cfg.wanted
        dataset, problems = evaluated(asr, cfg, normalized)
        (result,) = evaluate(
            asr,
            dataset,
            world,
            normalized=normalized,
            batch_size=cfg.batch_size,
            workers=cfg.workers,
            wanted=wanted,
            decoder=_decoder(asr, cfg),
        )
        if isinstance(asr, AttentionRecognizer):
            found = [task_of(dataset.utterances[row], asr.prompts.languages, wanted) for row in result.rows]
            if world.is_main:
                _print_tasks(result, found, cfg)
            of_speech = of_places(result, [one.source == one.target for one in found], _by_language(found, cfg))
            result = result._replace(words=of_speech.words, characters=of_speech.characters)
        return report(result, dataset, problems, world, hypotheses=cfg.hypotheses)


def _decoder(asr: Listener, cfg: EvaluationConfig) -> AttentionDecoding | None:
    """What an attention decoder decodes with. Raises ConfigError."""
    if isinstance(asr, AttentionRecognizer):
        return asr.decoder(DecodingOptions(beam=cfg.beam if cfg.beam > 1 else 0), ctc_weight=cfg.ctc_weight)
    if cfg.beam > 1 or cfg.ctc_weight:
        raise ConfigError(f"{cfg.model}: beam and ctc_weight are for attention decoders; this is a model without")
    return None


def _print_tasks(result: Evaluation, tasks: Sequence[Task], cfg: EvaluationConfig) -> None:
    """A line for each task, the texts in a wrong language, and those that repeated themselves. Raises ConfigError."""
    for task, own in by_task(result, tasks):
        if task.source != task.target:
            scores = translated(own)
            print(f"{task}: BLEU {scores.bleu:.1f}, chrF {scores.chrf:.1f} of {len(own.ids)} translations")
        elif len(set(tasks)) > 1:
            words = of_places(own, [True] * len(own.ids), _by_language([task] * len(own.ids), cfg)).words
            print(f"{task}: WER {words.rate:.2%} ({words.errors} of {words.length}) in {len(own.ids)} utterances")
    if (wrong := in_wrong_language(result, tasks)) is not None:
        print(f"in a wrong language: {wrong} of {len(tasks)}")
    print(f"repeated themselves, or did not end: {loops(result)} of {len(tasks)}")


def _by_language(tasks: Sequence[Task], cfg: EvaluationConfig) -> Callable[[str, int], str]:
    """How texts are compared, told the place of each: as those of its language."""
    spellings = {task.target: _spelling(cfg, cfg.language if task.target == "en" else "none") for task in tasks}
    return lambda text, place: spellings[tasks[place].target](text)


def _spelling(cfg: EvaluationConfig, language: Language) -> Callable[[str], str]:
    return Spelling(None, language=language, unknown_letters="latin") if cfg.normalize_text else _stripped


def _stripped(text: str) -> str:
    return " ".join(text.split())


def _no_labels(_text: str) -> list[int]:
    """For references that are compared as texts; workers get it by pickle where they are not forked."""
    return []


def evaluated(
    asr: Listener, cfg: EvaluationConfig, normalized: Callable[[str], str]
) -> tuple[SpeechDataset, list[str]]:
    """The utterances to evaluate on, their texts as they are compared, and what could not be read or asked for.

    Raises ConfigError for a language that the model does not know.
    """
    sources = [str(path.absolute()) for path in cfg.manifests]
    advice = "name others after the model"
    utterances, problems = read_sources(sources, root=cfg.root, on_error="skip", training=False, advice=advice)
    fitting = spelled(utterances[utterances.seconds <= cfg.max_seconds], normalized)
    if isinstance(asr, AttentionRecognizer):
        try:
            if cfg.source_language:
                asr.prompt_for(cfg.wanted)
        except ValueError as error:
            raise ConfigError(f"{cfg.model}: {error}") from None
        fitting, left_out = askable(fitting, asr.prompt_for, cfg.wanted)
        problems = [*problems, *left_out]
    rate = asr.feature_config.sample_rate
    return SpeechDataset(fitting, encode=_no_labels, sample_rate=rate, keep=asr.keep, on_error="skip"), problems


if __name__ == "__main__":
    config.run(main, EvaluationConfig, __doc__, CheckpointError, EvaluationError, ManifestError)
