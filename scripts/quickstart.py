"""Builds corpora of synthetic speech and trains on them, side by side, a small Jasper and a voice: a small FastPitch
and a light vocoder. Shows what the Jasper understands, lets the voice speak, and lets the Jasper transcribe it.

All is tested on sentences that are in neither the training nor the validation data, the recogniser on voices that are
not. An interrupted run goes on where it stopped; a finished one is shown again.
"""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from common import config
from common.data.manifest import Utterance
from common.data.synthetic import SyntheticConfig, build_librispeech
from common.data.texts.sentences import Language

# What needs torch is imported where it is used: every process that speaks the corpora imports this file.
if TYPE_CHECKING:
    from quickstart_voice import Runs

    from common.recognition.scoring import Evaluation
    from jasper.config import Config
    from jasper.recognizer import Recognizer

CONFIGS = Path(__file__).resolve().parent.parent / "configs" / "jasper"
CORPUS = {"full": SyntheticConfig(), "toy": SyntheticConfig(train_utterances=24, dev_utterances=8, test_utterances=8)}
TRAINING = {"full": CONFIGS / "quickstart.toml", "toy": CONFIGS / "toy.toml"}
LETTERS = {"de": "äöüß"}  # besides a to z
TEST = "test-clean"
SHOWN = 5
INTERRUPTED = 130  # exit status of a command that Ctrl-C ended


@dataclass(frozen=True, kw_only=True)
class Quickstart:
    """What scripts/quickstart.sh does."""

    fresh: bool = False
    """New training in place of the run that is there, which is deleted. The corpus is kept: it would be the same."""
    skip_tts: bool = False
    """The recogniser alone, without the second half, the voice."""
    language: Language = "en"
    """Language of the corpus, the recogniser and the voice: en or de."""
    size: Literal["full", "toy"] = "full"
    """Size of the models and the corpus. full: a recogniser and a voice; toy: the same steps in seconds."""
    data_dir: Path = Path("data")
    """Folder of corpora; this one gets a folder in it, named after the run."""
    run_dir: Path = Path("runs")
    """Folder of runs; this one gets a folder in it."""

    @property
    def name(self) -> str:
        """Name of the run and of its corpus."""
        name = "quickstart" if self.size == "full" else f"quickstart-{self.size}"
        return name if self.language == "en" else f"{name}-{self.language}"

    @property
    def corpus(self) -> SyntheticConfig:
        """What the recogniser learns from."""
        return replace(CORPUS[self.size], language=self.language, accents=())


def main(cfg: Quickstart) -> int:
    """Does it all; returns the exit status."""
    if cfg.skip_tts:
        say("1. The corpus: sentences of a small grammar, spoken by many voices, with noise")
        run = configuration(cfg, build_corpus(cfg))
        say("2. Training")
        if not trained(run, fresh=cfg.fresh):
            return INTERRUPTED
        evaluate(run)
        return 0
    import quickstart_voice as voice

    say("1. The corpora: sentences of a small grammar, spoken by many voices, with noise, and by one without")
    run = configuration(cfg, build_corpus(cfg))
    corpus = voice.build_corpus(cfg.data_dir / f"{cfg.name}-voice", cfg.size, cfg.language)
    runs = voice.configurations(cfg.run_dir, cfg.name, corpus, cfg.size, cfg.language)
    say("2. Training of the recogniser, of FastPitch and of a vocoder, side by side")
    if not all_trained(run, runs, fresh=cfg.fresh):
        return INTERRUPTED
    asr = evaluate(run)
    say("4. Sentences that the voice has never said, and what the recogniser hears")
    voice.summarise(runs, voice.listen(runs, asr, cfg.size, cfg.language), python(), cfg.language)
    return 0


def evaluate(run: "Config") -> "Recognizer":
    """Shows, reports and summarises what the trained recogniser understands; returns it."""
    import jasper
    from jasper import report

    say("3. Held-out sentences by held-out voices")
    best = run.output_dir / "jasper_best.pt"
    asr = jasper.load(best)
    utterances, evaluation = report.evaluated(asr, replace(run.data, validation=(TEST,)), workers=run.data.workers)
    show(asr, utterances)
    page = run.output_dir / "report.html"
    report.write(page, run.output_dir, asr, utterances, evaluation)
    summarise(evaluation, best, page)
    return asr


def build_corpus(cfg: Quickstart) -> Path:
    """The corpus, spoken now or before."""
    from tqdm import tqdm

    with tqdm(desc="speaking", unit="clip", leave=False, disable=not sys.stderr.isatty()) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        corpus = build_librispeech(cfg.data_dir / cfg.name, cfg.corpus, progress=progress)
    counts = cfg.corpus
    print(
        f"{corpus}: {counts.train_utterances} clips to train on, {counts.dev_utterances} to validate, "
        f"{counts.test_utterances} to test"
    )
    return corpus


def configuration(cfg: Quickstart, corpus: Path) -> "Config":
    """The run: a named configuration on this corpus."""
    from jasper.config import Config

    named = config.load(Config, TRAINING[cfg.size])
    model = (
        named.model if cfg.language == "en" else replace(named.model, labels=named.model.labels + LETTERS[cfg.language])
    )
    return replace(named, output_dir=cfg.run_dir / cfg.name, model=model, data=replace(named.data, root=corpus))


def trained(run: "Config", *, fresh: bool) -> bool:
    """Trains what is left to train; whether all is trained then. Raises ConfigError at a run of other settings."""
    from quickstart_together import needs_training

    from jasper import train
    from jasper.training.run import NAME

    if not needs_training(run, NAME, fresh=fresh):
        return True
    progress = train.main(run)
    if progress.epoch < run.epochs:
        print(f"stopped in epoch {progress.epoch + 1} of {run.epochs}; the same command goes on from there")
        return False
    return True


def all_trained(run: "Config", runs: "Runs", *, fresh: bool) -> bool:
    """Trains what is left of the recogniser and the voice, side by side; whether all is trained then.

    Raises ConfigError at a run of other settings, and where a training ends with an error.
    """
    import quickstart_voice as voice
    import torch
    from quickstart_together import TrainingJob, needs_training, train_together

    from jasper import train
    from jasper.training.run import NAME

    left = voice.left_to_train(runs, fresh=fresh)
    if needs_training(run, NAME, fresh=fresh):
        log = run.output_dir / "terminal.log"
        left.insert(0, TrainingJob("recogniser", train.main, run, log, run.epochs, share=0.44))
    if left and not train_together(left, cores=torch.get_num_threads()):
        print("stopped; the same command goes on from there")
        return False
    return True


def show(asr: "Recognizer", utterances: list[Utterance]) -> None:
    """A few clips across the voices: what was said beside what is recognised."""
    few = utterances[:: max(1, len(utterances) // SHOWN)][:SHOWN]
    for utterance, transcript in zip(few, asr.transcribe([u.audio for u in few]), strict=True):
        print(f"\n   {utterance.audio}\n   said        {utterance.text}\n   recognised  {transcript.text}")


def summarise(evaluation: "Evaluation", model: Path, page: Path) -> None:
    """The numbers, and where to go from here."""
    words, characters = evaluation.words, evaluation.characters
    print(
        f"\nWER      {words.rate:.2%} ({words.errors} of {words.length} words in {len(evaluation.ids)} clips)\n"
        f"CER      {characters.rate:.2%} ({characters.errors} of {characters.length} characters)\n"
        f"Report   {page}\n"
        f"Model    {model}; to use it: {python()} -m jasper.inference {model} AUDIO..."
    )


def python() -> str:
    """How a user types the interpreter that runs this."""
    return os.path.relpath(sys.executable) if sys.prefix != sys.base_prefix else "python"


def say(heading: str) -> None:
    """A heading of the output."""
    print(f"\n{heading}", flush=True)


if __name__ == "__main__":
    from common.runs.checkpoint import CheckpointError

    try:
        with config.reported(FileExistsError, CheckpointError):
            sys.exit(main(config.parse_flags(Quickstart, None, sys.argv[1:], description=__doc__ or "")))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
