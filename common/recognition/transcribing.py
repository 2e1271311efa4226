"""What every command that transcribes asks for, and does with transcripts: writes them, counts errors, says what
failed."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from tyro.conf import Positional, arg

from common.recognition.decoding import DecodingOptions
from common.recognition.metrics import word_errors
from common.recognition.output import sharding, writing
from common.recognition.output.transcripts import Transcript
from common.recognition.output.writing import Format, tell
from common.recognition.sources.inputs import FoundRecordings, InputRecording, find_recordings
from common.recognition.sources.recordings import Source, channel_number, of_channel

if TYPE_CHECKING:  # a runtime without torch transcribes too
    from common.devices.distributed import World

Result = TypeVar("Result", bound=Any)
"""What became of a recording: it has `seconds` and `error`."""


@dataclass(frozen=True, kw_only=True)
class OutputConfig:
    """Where transcripts go, and how they are written."""

    format: Format = "text"
    """Output format. text: name, tab, transcript; json: a JSON object per line with word times and confidence; srt,
    vtt: subtitles."""
    output: Path | None = None
    """File for the whole output; by default the terminal."""
    output_dir: Path | None = None
    """Folder for one output file per recording, in place of `output`."""

    @property
    def own_output(self) -> Path | None:
        """The file that this job writes."""
        return self.output


@dataclass(frozen=True, kw_only=True)
class TranscriptionConfig(OutputConfig):
    """What to transcribe, with which model, and where the result goes."""

    USUAL: ClassVar = {
        "Output": ("format", "output", "output_dir"),
        "Decoding": ("decoding.beam", "decoding.language_model", "decoding.hot_words"),
        "Recordings and machine": ("channel", "batch_size", "device", "precision", "threads"),
    }
    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, text files with one path per line, or - for an audio
    file on standard input."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest, or what a .tsv says."""
    max_seconds: float = math.inf
    """Longest utterance of manifests, in seconds; longer ones are left out."""
    channel: str = "mean"
    """Channel that is heard of recordings with several, such as telephone calls: their mean, left, right, or a number
    from 1."""
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    shard: str | None = None
    """Part of the recordings that is transcribed, as i/n: the i-th of n equal parts, written to a file of its own
    beside the output; --merge joins these files. A part whose file is there is not done again."""
    merge: bool = False
    """Whether the parts that jobs with --shard wrote are joined to the output; nothing is transcribed."""
    batch_size: int = 8
    """Recordings, or chunks of long ones, recognised at once; on a CPU half a minute of sound at most."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the model")
        if self.batch_size < 1:
            raise ValueError(f"batch_size = {self.batch_size}: expected above 0")
        channel_number(self.channel)
        sharding.check(self.shard, self.merge, self.output, self.output_dir)

    def find(self, *read: Path | None, folder: Path | None = None) -> FoundRecordings | None:
        """What this job has to transcribe; None where it has nothing to: it joins parts, or its part is there already.

        Makes the folders of the output. `read`: files that are read besides the model; `folder`: one that is written to
        besides the output. Raises ConfigError where transcripts of what was found cannot go where they should.
        """
        if self.merge:
            assert self.output is not None, "`sharding.check` wants it"
            sharding.merge_parts(self.output)
            return None
        found = find_recordings(self.inputs, root=self.root, max_seconds=self.max_seconds)
        read = (self.model, *read, *self.decoding.files, *self.inputs)
        writing.check(read, found.items, self.format, self.output, self.output_dir)
        for made in (self.output_dir, folder):
            writing.make_folder(made)
        return sharding.left_to_do(found, self.shard, self.format, self.output, self.output_dir)

    @property
    def own_output(self) -> Path | None:
        """The file that this job writes: `output`, or its part of it."""
        if self.output is None or self.shard is None:
            return self.output
        return sharding.parsed(self.shard).part(self.output)

    def sources(self, found: FoundRecordings, world: "World | None" = None) -> Iterable[Source]:
        """What this process hears: its share, and of it the channel that is asked for."""
        own = found.items if world is None else share(found.items, world)
        return of_channel((item.source for item in own), self.channel)


def share(items: Sequence[InputRecording], world: "World") -> list[InputRecording]:
    """The recordings of this process: every world.size-th."""
    return list(items[world.rank :: world.size])


def in_order(own: Iterable[Result], n_items: int, world: "World") -> Iterator[Result]:
    """The results of all processes' shares, in the order of the recordings; of one process as they come."""
    if world.size == 1:
        yield from own
        return
    parts = world.gather(list(own))
    for i in range(n_items):
        yield parts[i % world.size][i // world.size]


def write_all(
    found: FoundRecordings,
    own: Iterable[Transcript],
    cfg: OutputConfig,
    world: "World | None" = None,
    *,
    spelled: Callable[[str], str],
    heard: Callable[[str], str] = str,
    assumed: Sequence[str] = (),
    save_logits: Path | None = None,
    labels: Sequence[str] = (),
) -> Iterator[Transcript]:
    """Writes the transcripts of all processes' shares in the main one, and gives them; problems are lines on stderr.

    Where a reference is known, the word error rate is the last line: of references as `spelled` and hypotheses as
    `heard`. `assumed`: what the model does not say of itself, in lines for the user. `save_logits`: a folder for the
    log-probabilities of `labels`. Raises ConfigError.
    """
    is_main = world is None or world.is_main
    told = tell if is_main else _nothing
    for message in (*assumed, *found.problems):
        told(message)
    references, hypotheses = [], []
    every = own if world is None else in_order(own, len(found.items), world)
    path, is_part = cfg.own_output if is_main else None, cfg.own_output != cfg.output
    with writing.output(path, cfg.format, cfg.output_dir, whole=is_part) as write:
        for item, transcript in zip(found.items, every, strict=True):
            if transcript.error:
                told(transcript.error)
            elif is_main:
                if not transcript.words:
                    told(f"{transcript.audio}: no speech in its {transcript.seconds:.2f} s")
                if save_logits is not None:
                    writing.save_log_probs(save_logits, item.name, transcript, labels)
                write(transcript, item.name)
            if item.reference is not None and not transcript.error:
                references.append(spelled(item.reference))
                hypotheses.append(heard(transcript.text))
            yield transcript
    if references:
        errors = word_errors(references, hypotheses)
        count = f"{errors.errors} errors in {errors.length} words of {len(references)} utterances"
        told(f"WER {errors.rate:.2%}: {count}")


def status(
    found: FoundRecordings,
    results: Iterable[Result],
    world: "World | None" = None,
    *,
    done: str = "transcribed",
    timings: bool = False,
) -> int:
    """The exit status when all `results` have come: 1 where some could not be `done`, which a line says.

    `timings`: another line says how long it took.
    """
    start, seconds, failed = time.perf_counter(), 0.0, len(found.problems)
    for result in results:
        seconds += result.seconds
        failed += bool(result.error)
    told, spent = tell if world is None or world.is_main else _nothing, time.perf_counter() - start
    if timings:
        told(f"{seconds:.2f} s of audio in {spent:.2f} s: {seconds / spent:.1f} times real time, reading included")
    if failed:
        told(f"error: {failed} of {len(found.items) + len(found.problems)} could not be {done}")
    return 1 if failed else 0


def _nothing(message: str) -> None:
    """What processes other than the main one tell."""
