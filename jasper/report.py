"""A picture of a run: `python -m jasper.report RUN_DIR --data.validation MANIFEST -o report.html`.

Curves of loss and error, what was heard when, the worst errors with their sound, errors by speaker, words taken for
others, the settings: one HTML file that needs nothing else, neither network nor other files.

Shapes: N samples, F mel bands, T feature frames, K frequencies of the Fourier transform, S output frames, V labels.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from tyro.conf import Positional, arg

import ctc
from common import config
from common.audio import waveform
from common.audio.waveform import AudioError
from common.config import ConfigError
from common.data.manifest import ManifestError, Utterance
from common.devices import distributed
from common.features import LogMel
from common.recognition.metrics import ErrorCount, align_words, word_errors
from common.recognition.output import writing
from common.recognition.output.transcripts import Transcript
from common.recognition.scoring import Evaluation
from common.runs.checkpoint import CheckpointError
from common.runs.logging import read_events
from common.runs.report_page import to_flac, to_png
from common.text.vocabulary import VocabularyError
from jasper import data
from jasper.config import DataConfig
from jasper.recognizer import Recognizer, load
from jasper.report_page import HeardClip, PitchMark, Points, RecogniserReport, Timed, render
from jasper.training.validation import evaluate

QUANTILES = (0.1, 0.998)  # of the log-mel energies: the darkest and the brightest colour


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Data to evaluate on; by default those of the run."""

    root: Path | None = None
    """Folder that relative paths of manifests, and in manifests, start from."""
    validation: tuple[str, ...] = ()
    """Manifests, file lists or corpus folders with transcripts."""


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Which run to report on."""

    run_dir: Annotated[Path, Positional, arg(metavar="RUN_DIR")]
    """Run directory of jasper.train, with nvlog.json and checkpoints."""
    data: ReportData = field(default_factory=ReportData)
    output: Annotated[Path | None, arg(aliases=["-o"])] = None
    """File of the report; by default report.html in RUN_DIR."""
    checkpoint: Path | None = None
    """Checkpoint of the model to evaluate; by default the best of RUN_DIR."""
    clips: int = 8
    """Number of clips, those with the most errors, that are shown and can be heard."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    batch_size: int = 16
    """Utterances recognised at once."""
    workers: int = 1
    """Loader processes; 0 loads in the process itself."""


def main(cfg: ReportConfig) -> Path:
    """Evaluates the run, writes the report and returns its path.

    Raises ConfigError, CheckpointError, ManifestError and AudioError.
    """
    checkpoint = cfg.checkpoint or cfg.run_dir / "jasper_best.pt"
    writing.check_file(cfg.output, [checkpoint, cfg.run_dir / "nvlog.json"])
    asr = load(checkpoint, device=cfg.device)
    own = asr.config.data
    chosen = replace(own, root=cfg.data.root or own.root, validation=cfg.data.validation or own.validation)
    if not chosen.validation:
        raise ConfigError(f"{cfg.run_dir}: the run has no validation data; name some with --data.validation")
    path = cfg.output or cfg.run_dir / "report.html"
    writing.check_apart([path], [(chosen.root or Path()) / source for source in chosen.validation])
    utterances, evaluation = evaluated(asr, chosen, batch_size=cfg.batch_size, workers=cfg.workers)
    write(path, cfg.run_dir, asr, utterances, evaluation, clips=cfg.clips)
    return path


def evaluated(
    asr: Recognizer, which: DataConfig, *, batch_size: int = 16, workers: int = 0
) -> tuple[Sequence[Utterance], Evaluation]:
    """The utterances of `which.validation`, and what the model makes of them. Raises ManifestError and AudioError."""
    utterances, _ = data.read_utterances(which.validation, which, data.spelling_of(asr.config), training=False)
    dataset = data.speech_dataset(utterances, asr.config, training=False, lenient=True)
    with distributed.start(str(asr.device)) as world:
        evaluation = evaluate(
            asr.model, asr.log_mel, dataset, world, vocabulary=asr.vocabulary, batch_size=batch_size, workers=workers
        )
    return utterances, evaluation


def write(
    path: Path,
    run_dir: Path,
    asr: Recognizer,
    utterances: Sequence[Utterance],
    evaluation: Evaluation,
    *,
    clips: int = 8,
) -> None:
    """Writes the report on `run_dir`, whose model `asr` made `evaluation` of `utterances`, to `path`.

    Raises ConfigError where there is no log of a training, AudioError where a clip to show cannot be read.
    """
    page = render(collect(run_dir, asr, utterances, evaluation, clips=clips))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def collect(
    run_dir: Path, asr: Recognizer, utterances: Sequence[Utterance], evaluation: Evaluation, *, clips: int
) -> RecogniserReport:
    """All that the report shows."""
    log = run_dir / "nvlog.json"
    if not log.is_file():
        raise ConfigError(f"{log}: no such file; expected the folder of a run of jasper.train")
    events = read_events(log)
    heard = _heard(utterances, evaluation)
    wrong = sorted((each for each in heard if each.errors.errors), key=lambda each: -each.errors.rate)
    worst = [each.utterance for each in wrong[:clips]]
    correct = [each.utterance for each in heard if not each.errors.errors]
    shown = sorted(correct or worst, key=lambda u: u.seconds)[len(correct or worst) // 2]
    pictures = make_clips(asr, [shown, *worst])
    return RecogniserReport(
        title=run_dir.resolve().name,
        tested=", ".join(name for name, _ in getattr(utterances, "corpora", ())),
        validated=", ".join(Path(source).name for source in asr.config.data.validation),
        evaluation=evaluation,
        loss=curves(events, "loss"),
        wer=curves(events, "wer"),
        shown=pictures[0],
        worst=pictures[1:],
        pitches=_pitches(asr.log_mel),
        speakers=_by_speaker(heard),
        confusions=_confusions(wrong),
        facts=_facts(run_dir, events, asr),
        settings=config.to_toml(asr.config),
    )


def curves(events: Sequence[dict[str, Any]], name: str) -> dict[str, Points]:
    """(epochs, value) of every phase that logged `name`; where a resumed run logged a step twice, the later one."""
    found: dict[str, dict[float, float]] = {}
    for event in events:
        if not isinstance(event["step"], list) or not event["step"]:
            continue
        epoch, *within = event["step"]
        position = epoch - 1 + within[0] / within[1] if within else float(epoch)
        for phase in ("train", "dev", "dev_ema"):
            if f"{phase}_{name}" in event["data"]:
                found.setdefault(phase, {})[position] = event["data"][f"{phase}_{name}"]
    return {phase: sorted(points.items()) for phase, points in found.items()}


def make_clips(asr: Recognizer, utterances: Sequence[Utterance]) -> list[HeardClip]:
    """What there is to see and hear of each utterance. Raises AudioError."""
    log_mel = LogMel(replace(asr.config.features, normalize="none")).eval()
    transcripts = asr.transcribe(utterances, keep_log_probs=True)
    return [_clip(asr, log_mel, u, t) for u, t in zip(utterances, transcripts, strict=True)]


def _clip(asr: Recognizer, log_mel: LogMel, utterance: Utterance, transcript: Transcript) -> HeardClip:
    rate = asr.config.features.sample_rate
    samples_N = waveform.read(utterance.audio, sample_rate=rate, **utterance.piece()).samples
    aligned = align_words(utterance.text, transcript.text)
    recognised_kinds = [pair.kind for pair in aligned if pair.hypothesis]
    spoken = _spoken(asr, utterance.text, transcript)
    spoken_kinds = [pair.kind for pair in aligned if pair.reference]
    return HeardClip(
        id=utterance.id,
        seconds=transcript.seconds,
        errors=word_errors([utterance.text], [transcript.text]),
        aligned=aligned,
        recognised=[Timed(*w[:3], kind) for w, kind in zip(transcript.words, recognised_kinds, strict=True)],
        spoken=[Timed(*w, kind) for w, kind in zip(spoken, spoken_kinds, strict=bool(spoken))],
        spectrogram_png=_picture(log_mel, samples_N),
        flac=to_flac(samples_N, rate),
    )


def _spoken(asr: Recognizer, text: str, transcript: Transcript) -> list[tuple[str, float, float]]:
    """The words of the reference where the model would have to have heard them."""
    if transcript.log_probs_SV is None:
        return []
    try:
        labels = asr.vocabulary.encode(text)
        log_probs_BSV = transcript.log_probs_SV[None]
        (alignment,) = ctc.align(log_probs_BSV, [labels], [log_probs_BSV.shape[1]], blank=asr.vocabulary.blank)
    except (ValueError, VocabularyError):
        return []  # the transcript has more labels than there are frames, or other labels than the model
    words, first = [], 0
    for word in text.split():
        last = first + len(word) - 1
        start = transcript.time_of(alignment.start_frames[first])
        end = transcript.time_of(alignment.end_frames[last], is_end=True)
        words.append((word, start, min(end, transcript.seconds)))
        first = last + 2  # beyond the space
    return words


def _picture(log_mel: LogMel, samples_N: np.ndarray) -> bytes:
    """The log-mel energies as PNG."""
    with torch.no_grad():
        features_BFT, frames_B = log_mel(torch.from_numpy(samples_N)[None], torch.tensor([len(samples_N)]))
    features_FT = features_BFT[0, :, : int(frames_B[0])].numpy()
    darkest, brightest = np.quantile(features_FT, QUANTILES)
    return to_png(features_FT, darkest=darkest, brightest=brightest)


def _pitches(log_mel: LogMel) -> list[PitchMark]:
    """Where in the spectrogram round frequencies lie, read off the mel filters themselves."""
    cfg = log_mel.cfg
    peaks_F = log_mel.filters_FK.argmax(dim=1).cpu().numpy() * cfg.sample_rate / cfg.n_fft
    wanted = [hertz for hertz in (500, 1000, 2000, 4000) if peaks_F[0] < hertz < peaks_F[-1]]
    return [
        PitchMark(hertz, float(np.interp(hertz, peaks_F, np.arange(len(peaks_F)) / len(peaks_F)))) for hertz in wanted
    ]


class _Heard(NamedTuple):
    """An utterance, what the model made of it, and the errors in that."""

    utterance: Utterance
    reference: str
    hypothesis: str
    errors: ErrorCount


def _heard(utterances: Sequence[Utterance], evaluation: Evaluation) -> list[_Heard]:
    """By their places, since two recordings may have one name."""
    rows = evaluation.rows or range(len(evaluation.ids))
    texts = zip(rows, evaluation.references, evaluation.hypotheses, strict=True)
    return [_Heard(utterances[row], said, heard, word_errors([said], [heard])) for row, said, heard in texts]


def _by_speaker(heard: Sequence[_Heard]) -> dict[str, ErrorCount]:
    """The errors of each speaker that is named, highest error rate first."""
    found: dict[str, ErrorCount] = {}
    for each in heard:
        if name := each.utterance.speaker:
            found[name] = found[name] + each.errors if name in found else each.errors
    return dict(sorted(found.items(), key=lambda item: -item[1].rate))


def _confusions(wrong: Sequence[_Heard]) -> Counter[tuple[str, str]]:
    """How often each word was taken for which other."""
    pairs = (pair for each in wrong for pair in align_words(each.reference, each.hypothesis))
    return Counter((pair.reference, pair.hypothesis) for pair in pairs if pair.kind == "substitution")


def _facts(run_dir: Path, events: Sequence[dict[str, Any]], asr: Recognizer) -> dict[str, str]:
    """What a reader asks first about a run, by name."""
    cfg = asr.config
    facts = {
        "checkpoint": asr.origin,
        "parameters": f"{asr.n_parameters:,}",
        "data": next((e["data"]["event"].split("; ", 1)[1] for e in events if _describes_data(e)), ""),
        "epochs": str(cfg.epochs),
        "batch size": str(cfg.batch_size),
        "optimiser": f"{cfg.optim.kind}, learning rate {cfg.optim.lr:g}, weight decay {cfg.optim.weight_decay:g}",
        "schedule": cfg.schedule.kind,
        "averaging (EMA)": f"{cfg.ema:g}" if cfg.ema else "none",
        "precision": cfg.precision,
        "seed": str(cfg.seed),
    }
    environment = run_dir / "environment.json"
    if environment.is_file():
        told = json.loads(environment.read_text(encoding="utf-8"))
        facts |= {name: str(value) for name, value in told.items() if value is not None}
    return {name: value for name, value in facts.items() if value}


def _describes_data(event: dict[str, Any]) -> bool:
    return " parameters; " in event["data"].get("event", "")


if __name__ == "__main__":
    with config.reported(CheckpointError, ManifestError, AudioError):
        print(main(config.parse_flags(ReportConfig, None, sys.argv[1:], description=__doc__ or "")))
