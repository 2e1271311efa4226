"""What every command that transcribes does with transcripts: writes them, counts errors, and says what failed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from common.recognition import sharding, writing
from common.recognition.inputs import FoundRecordings, InputRecording
from common.recognition.metrics import word_errors
from common.recognition.transcripts import Transcript
from common.recognition.writing import Format, tell

if TYPE_CHECKING:  # a runtime without torch transcribes too
    from common.devices.distributed import World

Result = TypeVar("Result")


class Output(NamedTuple):
    """Where transcripts go, and how they are written."""

    style: Format
    output: Path | None = None
    output_dir: Path | None = None
    save_logits: Path | None = None
    labels: Sequence[str] = ()
    """What the log-probabilities that are saved are of."""
    shard: str | None = None
    """i/n where this job is one of several, see `common.recognition.sharding`."""

    def left_of(self, found: FoundRecordings) -> FoundRecordings | None:
        """What this job has to do of `found`; None where its part is there already."""
        return sharding.left_to_do(found, self.shard, self.style, self.output, self.output_dir)

    def check(self, inputs: Sequence[Path | None], found: FoundRecordings) -> None:
        """Raises ConfigError where transcripts of what was found cannot go there; makes the folders.

        `inputs`: the model and what else the user named to be read, None for what was not named.
        """
        writing.check(inputs, found.items, self.style, self.output, self.output_dir)
        for folder in (self.output_dir, self.save_logits):
            writing.make_folder(folder)


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
    world: "World",
    to: Output,
    *,
    spelled: Callable[[str], str],
    heard: Callable[[str], str] = str,
) -> Iterator[Transcript]:
    """Writes the transcripts of all processes' shares in the main one, and gives them; problems are lines on stderr.

    Where a reference is known, the word error rate is the last line: of references as `spelled` and hypotheses as
    `heard`. Raises ConfigError.
    """
    told = tell if world.is_main else _nothing
    for problem in found.problems:
        told(problem)
    references, hypotheses = [], []
    path = sharding.part_of(to.output, to.shard) if world.is_main else None
    with writing.output(path, whole=to.shard is not None) as stream:
        for item, transcript in zip(found.items, in_order(own, len(found.items), world), strict=True):
            if transcript.error:
                told(transcript.error)
            elif world.is_main:
                if not transcript.words:
                    told(f"{transcript.audio}: no speech in its {transcript.seconds:.2f} s")
                if to.save_logits is not None:
                    writing.save_log_probs(to.save_logits, item.name, transcript, to.labels)
                writing.write_transcript(transcript, item.name, to.style, stream, to.output_dir)
            if item.reference is not None and not transcript.error:
                references.append(spelled(item.reference))
                hypotheses.append(heard(transcript.text))
            yield transcript
    if references:
        errors = word_errors(references, hypotheses)
        count = f"{errors.errors} errors in {errors.length} words of {len(references)} utterances"
        told(f"WER {errors.rate:.2%}: {count}")


def status(found: FoundRecordings, failed: int, world: "World", *, done: str = "transcribed") -> int:
    """The exit status where `failed` of the recordings could not be `done`, which a line says."""
    failed += len(found.problems)
    if failed and world.is_main:
        tell(f"error: {failed} of {len(found.items) + len(found.problems)} could not be {done}")
    return 1 if failed else 0


def _nothing(message: str) -> None:
    """What processes other than the main one tell."""
