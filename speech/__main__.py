"""One command for every model; which model a file holds is found in the file.

    speech transcribe MODEL FILES...     transcripts, subtitles, or JSON with the times of words
    speech speak "A text." --voice V     sound files; V is a packed voice, or an acoustic model with --vocoder
    speech serve --asr MODEL --voice V   OpenAI's audio API over HTTP
    speech train CONFIG                  a training, as its configuration says
    speech export MODEL -o m.onnx        a file that runs without torch
    speech evaluate MODEL MANIFEST       error rates
    speech info MODEL                    what a model is, and what takes it
    speech data write MANIFEST --out D   shards: written, indexed in place, checked, repaired

Flags after these are those of the command that does the work, and `speech transcribe MODEL --help` or `speech train
jasper/toy --help` lists the usual ones, `--help-all` all of them.
"""

import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from common import config, starting
from common.config import ConfigError

TRANSCRIBE = {
    "jasper": "jasper.inference",
    "wav2vec2": "wav2vec2.inference",
    "fastconformer": "fastconformer.inference",
    "onnx": "trt.run",
}
# A command that transcribes ends with the error rate where there are references.
EVALUATE = TRANSCRIBE | {"jasper": "jasper.evaluation", "fastconformer": "fastconformer.evaluation"}
FLAGS = {"-o": "--out"}  # of the export
HELP = {"-h", "--help", "--help-all"}


def transcribe(arguments: list[str]) -> None:
    """Transcripts of recordings, by whatever family the model is of."""
    _by_family(TRANSCRIBE, "a recogniser", arguments)


def evaluate(arguments: list[str]) -> None:
    """Error rates of a model on manifests or corpora."""
    _by_family(EVALUATE, "a recogniser", arguments)


def speak(arguments: list[str]) -> None:
    """Texts to sound."""
    voice, rest = _taken(arguments, "--voice")
    if voice is None:
        if HELP & set(arguments):
            return _run("fastpitch.inference", arguments)
        raise ConfigError("speak: no voice; name one with --voice: a packed voice, or an acoustic model with --vocoder")
    if voice.endswith(".onnx"):
        return _run("trt.speak", [voice, *rest])
    vocoder = [] if "--vocoder" in rest else ["--vocoder", voice]
    return _run("fastpitch.inference", [*rest, "--fastpitch", voice, *vocoder])


def serve(arguments: list[str]) -> None:
    """Recognition and speech over HTTP."""
    voice, rest = _taken(arguments, "--voice")
    _run("trt.serve", rest if voice is None else [*rest, "--tts", voice, "--vocoder", voice])


def export(arguments: list[str]) -> None:
    """A checkpoint as an ONNX file."""
    _run("trt.export", [FLAGS.get(argument, argument) for argument in arguments])


def train(arguments: list[str]) -> None:
    """The training whose settings a configuration holds."""
    from speech.trainings import training_of

    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    if named is None:
        if HELP & set(arguments):
            print(__doc__)
            return
        raise ConfigError("train: no configuration; name one, such as jasper/toy or configs/jasper/digits.toml")
    _run(training_of(Path(named)), arguments)


def info(arguments: list[str]) -> None:
    """What a model is."""
    from speech.info import described

    if HELP & set(arguments):
        print(__doc__)
        return
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise ConfigError(f"info: found {' '.join(arguments) or 'nothing'}; expected one model")
    for name, value in described(arguments[0]):
        print(f"{name:<12} {value}")


def data(arguments: list[str]) -> None:
    """Data sets in few large files."""
    _run("common.data.shards", arguments)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    command.__name__: command for command in (transcribe, speak, serve, train, export, evaluate, info, data)
}


def _by_family(modules: dict[str, str], wanted: str, arguments: list[str]) -> None:
    """The command of the model's family; the model is the first argument."""
    if not arguments or arguments[0].startswith("-"):
        if HELP & set(arguments):
            return _run("jasper.inference" if modules is TRANSCRIBE else "jasper.evaluation", arguments)
        raise ConfigError(f"no model; name {wanted} as the first argument")
    from speech.models import find

    found = find(arguments[0])
    if found.family not in modules:
        raise ConfigError(f"{found.path}: of the family {found.family}; expected {wanted}")
    return _run(modules[found.family], arguments)


def _taken(arguments: Sequence[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of `flag`, and the other arguments."""
    for at, argument in enumerate(arguments):
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2], [*arguments[:at], *arguments[at + 1 :]]
        if argument == flag and at + 1 < len(arguments):
            return arguments[at + 1], [*arguments[:at], *arguments[at + 2 :]]
    return None, list(arguments)


def _run(module: str, arguments: list[str]) -> None:
    """What `python -m module` does, with these arguments."""
    sys.argv = [module, *arguments]
    starting.arm()  # what it imports turns an exception into others
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        starting.begin()


def main(arguments: list[str] | None = None) -> None:
    """Runs the command that the first argument names. Ends with status 2 for another word."""
    word, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if word in HELP:
        print(__doc__)
        return
    from common.runs.checkpoint import CheckpointError
    from trt.facts import ModelError

    with config.reported(CheckpointError, ModelError):
        if word not in COMMANDS:
            raise ConfigError(f"{word}: no such command; expected {', '.join(COMMANDS)}")
        COMMANDS[word](rest)


if __name__ == "__main__":
    main()
