"""When a training logs, validates, saves and stops. A `train.py` pulls the loop; it calls nothing back.

    with Loop(state, cfg.every, Course(epochs=cfg.epochs)) as loop:
        for epoch in loop.epochs():
            for batch in loop.steps(batches, steps_of(epoch)):
                losses = update(batch)
                loop.did(losses, batch, amount=batch.seconds)
                if loop.logs: loop.log_training(...)
                if loop.validates: ...; loop.validated(...)
                if loop.saves: state.save_step()

Shapes: K numbers of a step, the loss first.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from common.devices.distributed import World
from common.devices.host_copy import HostCopy
from common.interruption import Interrupted, Termination, termination
from common.runs.run_directory import check_same_settings
from common.training.course import Course, Decision, EveryConfig, Moment, decide, validation_is_due
from common.training.learner import Learner
from common.training.rescue import EXPECTED as EXPECTED
from common.training.rescue import rescued
from common.training.state import TrainingError, TrainingState
from common.training.validation import CuttableWorld

LEAST_SCALE = 1e-4  # of the loss in fp16: below it gradients overflow whatever the scale

Batch = TypeVar("Batch")


@dataclass(frozen=True)
class _Pending:
    """A step whose numbers have not been looked at."""

    step: int
    numbers: HostCopy
    told: Sequence[str]
    """Names of the last of the numbers, which learners told."""
    batches: Sequence[Any]


class Loop:
    """The loop of one training job, to be entered once.

    Signals end it after the step under way; an error between two steps, in loading or validation, leaves it with a
    checkpoint of the last step. `names` are those of the numbers of a step. `data` are data sets, of training and of
    validation (None for no validation), which note in `skipped` what they leave out; that is logged once. `learners`
    are the networks that learn, by what their norms are called in the log: "" and "discriminator_".
    """

    def __init__(
        self,
        state: TrainingState,
        every: EveryConfig,
        course: Course,
        *,
        names: Sequence[str] = ("loss",),
        unit: str = "samples/s",
        data: tuple[Any, Any | None],
        learners: Mapping[str, Learner] | None = None,
    ):
        self.state, self.every, self.course = state, every, course
        self.directory, self.progress = state.directory, state.progress
        self.world, self.log = self.directory.world, self.directory.log
        self.log.throughput_unit = unit
        self.names, self.data, self.has_validation = names, data, data[1] is not None
        self.where: tuple[int, ...] = ()
        """The place of the last step, for the log: epoch, step of it, steps of the epoch."""
        self.left_out: set[str] = set()
        """Messages of all processes about what could not be used."""
        self.is_cut = False
        """Whether a signal cut the last validation short."""
        self.learners = learners or {}
        self._told: dict[str, float] = {}  # what learners said last, where it was finite
        self._skipped_in_a_row = 0
        self._recent: list[list[float]] = []  # the numbers of the steps since the last line of the log
        self.decision = Decision(logs=False, validates=False, keeps=False, saves=False, stops=False)
        self._pending: _Pending | None = None
        self._signalled = self._save_is_due = False
        self.is_whole = True  # the state is that after a step, not within one
        self._in_hand: Any = None  # the batch of the step under way
        started, job = self.progress.epoch, course.epochs_this_job
        self._last_epoch = started + job if job else math.inf
        self._clock = self._did_at = self.saved_at = time.perf_counter()
        self._amount = 0.0
        self._spent: list[tuple[float, float]] = []  # amount and seconds of each line of the log
        self._signals = Termination()
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Raises CheckpointError for other data, ConfigError for other settings where the run is finished."""
        self.state.begin_with(self.data[0].utterances)
        if self.is_finished and self.directory.saved is not None:
            check_same_settings(self.directory.saved, self.state.cfg)
            if not self.owes_validation:
                self.log.event(f"finished at step {self.progress.step}: there is nothing to do")
        self._signals = self._exits.enter_context(termination())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        with self._exits:
            if error is None:
                try:
                    self._end()
                except Exception as at_the_end:
                    error = at_the_end
            if isinstance(error, Exception):
                raise rescued(error, self.state, is_whole=self.is_whole, batch=self._in_hand) from None

    @property
    def logs(self) -> bool:
        """Whether a line of the log is due."""
        return self.decision.logs

    @property
    def validates(self) -> bool:
        """Whether a validation is due, and no process was asked to stop meanwhile; by all processes together."""
        return self.decision.validates and self.has_validation and not self._is_asked_to_stop()

    @property
    def saves(self) -> bool:
        """Whether a checkpoint is due."""
        return self.decision.saves or self._signalled

    @property
    def is_finished(self) -> bool:
        """Whether the whole training is done."""
        return self.course.is_done(self.progress.step, self.progress.epoch)

    @property
    def owes_validation(self) -> bool:
        """Whether a validation belongs before the next step, which a signal or an error cut short in the job before.

        No longer if a process was asked to stop meanwhile; by all processes together.
        """
        progress = self.progress
        if not self.has_validation or not progress.step or progress.validated_at == progress.step:
            return False
        is_due = validation_is_due(self.every, self.course, progress.step, progress.epoch, progress.batch == 0)
        return is_due and not self._is_asked_to_stop()

    def epochs(self) -> Iterator[int]:
        """The epochs that are left for this job, from 0; the first may be partly done."""
        self._clock = self.saved_at = time.perf_counter()
        while not (self.is_finished or self.decision.stops or self._stops_early()):
            yield self.progress.epoch

    def plans(self, batches_of: Callable[[int], Sequence[Sequence[int]]]) -> Iterator[list[tuple[int, int]]]:
        """The batches of (epoch, index) that are left for this job, for a loader that works ahead.

        `batches_of` an epoch gives its batches of indices, one a step. Begins where training stands when the first is
        asked for, which is within `steps`.
        """
        for epoch, done in self.ahead():
            batches = batches_of(epoch)
            for step in range(done, len(batches)):
                yield [(epoch, index) for index in batches[step]]

    def ahead(self) -> Iterator[tuple[int, int]]:
        """The epochs that are left for this job, each with how many of its steps are done, for loaders ahead."""
        done, last = self.progress.batch, min(self.course.epochs or math.inf, self._last_epoch)
        for epoch in itertools.takewhile(lambda epoch: epoch < last, itertools.count(self.progress.epoch)):
            yield epoch, done
            done = 0

    def steps(self, batches: Iterable[Batch], count: int) -> Iterator[Batch]:
        """The batches of the steps that are left of this epoch, which has `count`. After each, `did` is called.

        Raises TrainingError if there are fewer, or none.
        """
        if count < 1:
            raise TrainingError(f"epoch {self.progress.epoch + 1} has no steps: expected at least 1")
        if moved := self.progress.begin_epoch(count):
            self.log.event(moved)
        for batch in itertools.islice(batches, count - self.progress.batch):
            self.is_whole, self._in_hand = False, batch
            yield batch
            self._clock += time.perf_counter() - self._did_at  # what was done after the step is no part of it
            if self.decision.stops or self._signalled:
                return
        if self.progress.steps_per_epoch:  # which is 0 between two epochs
            raise TrainingError(
                f"epoch {self.progress.epoch + 1} has data for {self.progress.batch} of its {count} steps; "
                f"{self.directory.safe_step()}"
            )

    def did(self, numbers_K: Tensor, *batches: Any, amount: float) -> None:
        """Counts a step and decides what follows.

        `numbers_K` [K] stay on the device and are looked at one step late, so that a GPU never waits; if one is not
        finite, the run ends with the `batches` of the step saved: named tuples that have `ids`. Where only a gradient
        was not finite, the step was skipped; it is logged with its utterances, and too many in a row end the run.
        `amount`: what throughput counts, of this process. By all processes together. Raises TrainingError.
        """
        progress, before = self.progress, self._pending
        told = {name + key: value for name, one in self.learners.items() for key, value in one.told.items()}
        numbers_K = torch.cat([numbers_K, *(value[None].to(numbers_K) for value in told.values())])
        self._pending = _Pending(progress.step, HostCopy(self._shared(numbers_K)), tuple(told), batches)
        self._amount += amount * self.world.size  # of the other processes about as much
        progress.batch += 1
        progress.step += 1
        self.where = (progress.epoch + 1, progress.batch, progress.steps_per_epoch)
        ends_epoch = progress.batch == progress.steps_per_epoch
        if ends_epoch:
            progress.epoch, progress.batch, progress.steps_per_epoch = progress.epoch + 1, 0, 0
        self.state.is_saved, self.is_whole = False, True
        self._did_at = time.perf_counter()
        self._settle(before)
        self.log.advance()
        if self.world.size == 1:
            self._signalled, self._save_is_due = self._signals.came, self._is_save_due()
        moment = Moment(
            step=progress.step, epoch=progress.epoch, ends_epoch=ends_epoch, last_epoch=self._last_epoch,
            signalled=self._signalled, save_is_due=self._save_is_due,
        )  # fmt: skip
        self.decision = decide(self.every, self.course, moment)
        if self.decision.keeps:
            progress.milestones.append(progress.step)
        if self.logs or self.validates or self.saves:
            pending, self._pending = self._pending, None
            self._settle(pending)
        if ends_epoch or self.saves:
            self.tell_left_out()
        if self.saves:
            self.saved_at, self._save_is_due = time.perf_counter(), False

    def log_training(self, values: Mapping[str, float], *, learning_rate: float) -> None:
        """A line of the log: `values` of the loss, throughput, the learning rate, norms of gradients, steps skipped."""
        skipped = {"skipped": self.progress.skipped} if self.progress.skipped else {}
        values = {**values, **self.speed(), "lrate": learning_rate, **self._told, **skipped}
        self.log.log("train", self.where, values, global_step=self.progress.step)

    def means(self) -> list[float]:
        """[K] means over processes and over the steps since this was last asked for."""
        steps = len(self._recent) * self.world.size
        return [total / steps for total in self.totals()]

    def totals(self) -> list[float]:
        """[K] sums over processes and over the steps since this was last asked for."""
        recent, self._recent = self._recent, []
        return [math.fsum(column) for column in zip(*recent, strict=True)]

    def speed(self) -> dict[str, float]:
        """Throughput of all processes and seconds of the steps since this was last asked for."""
        amount, took = self._amount, self._did_at - self._clock
        self._amount, self._clock = 0.0, self._did_at
        self._spent.append((amount, took))
        return {"throughput": amount / took, "took": took}

    @contextlib.contextmanager
    def validation(self, *, can_be_cut: bool = True) -> Iterator[World]:
        """A validation, to be computed with the processes it gives; a signal ends it at once in all of them.

        Then `is_cut` is set, and the next job owes it. Not where what is computed needs all processes at every moment:
        `can_be_cut`. Raises TrainingError if a number in a network is not finite.
        """
        self.state.check_finite()
        self.is_cut = False
        if not can_be_cut:
            yield self.world
            return
        world = CuttableWorld(**vars(self.world), signals=self._signals)
        try:
            with self._signals.raising():
                yield world
            world.gather(None)  # no longer raising: who has sent this may not say something else afterwards
        except Interrupted as cut:
            if not cut.is_agreed:
                world.say_cut()
            self.is_cut = self._signalled = True
            self.log.event(f"validation of step {self.progress.step} cut short by a signal; the next job does it")

    def validated(
        self,
        found: Mapping[str, Mapping[str, float]],
        *,
        score: str,
        counts: bool = True,
        names: Iterable[str] | None = None,
    ) -> None:
        """Logs the values of "dev" and of the average, "dev_ema"; keeps the best checkpoint by the lesser `score`.

        Nothing of a validation that a signal cut short. `counts` and `names` are for `TrainingState.save_best`.
        """
        if self.is_cut:
            return
        for phase, values in found.items():
            self.log.log(phase, (self.progress.epoch,), values, global_step=self.progress.step)
        scores = {"average" if phase == "dev_ema" else "raw": values[score] for phase, values in found.items()}
        self.state.save_best(scores, counts=counts, names=names)

    def tell_left_out(self) -> None:
        """Logs, once, what some process had to leave out; by all processes together."""
        own = [message for read in self.data if read is not None for message in read.skipped.values()]
        found = {message for share in self.world.gather(own) for message in share}
        for message in sorted(found - self.left_out):
            self.log.event(f"left out: {message}")
        self.left_out |= found

    def _stops_early(self) -> bool:
        """Whether this job is over before its next step."""
        if self.world.size == 1:
            self._signalled = self._signals.came
        is_past = 0 < self.course.stop_at <= self.progress.step or self.progress.epoch >= self._last_epoch
        return self._signalled or is_past

    def _is_asked_to_stop(self) -> bool:
        """Whether some process was, up to now; by all processes together."""
        self._signalled = self.world.any(self._signalled or self._signals.came)
        return self._signalled

    def _is_save_due(self) -> bool:
        minutes = self.every.save_minutes
        return 0 < minutes <= (time.perf_counter() - self.saved_at) / 60

    def _shared(self, numbers_K: Tensor) -> Tensor:
        """Sums over all processes, and how many of them want to stop and to save: asking by itself would wait."""
        if self.world.size == 1:
            return numbers_K
        wishes = [torch.full_like(numbers_K[:1], float(wish)) for wish in (self._signals.came, self._is_save_due())]
        return self.world.sum(torch.cat([numbers_K, *wishes]))

    def _settle(self, pending: _Pending | None) -> None:
        """Looks at the numbers of a step, if there was one."""
        if pending is None:
            return
        numbers = pending.numbers.tolist()
        if self.world.size > 1:
            *numbers, stop, save = numbers
            self._signalled |= bool(stop)
            self._save_is_due |= bool(save)
        split = len(numbers) - len(pending.told)
        told = {name: value / self.world.size for name, value in zip(pending.told, numbers[split:], strict=True)}
        numbers = numbers[:split]
        if not all(map(math.isfinite, numbers)):
            self.is_whole = False
            named = zip(self.names, numbers, strict=True)
            bad = ", ".join(f"{name} is {number}" for name, number in named if not math.isfinite(number))
            ids, saved = self.directory.keep_batches(pending.step, pending.batches)
            raise TrainingError(
                f"the {bad} at step {pending.step}; utterances {', '.join(ids)}; {saved}; "
                f"{self.directory.safe_step()}: lower the learning rate or leave out the bad utterance"
            )
        self._recent.append(numbers)
        self._told = {name: value for name, value in (self._told | told).items() if math.isfinite(value)}
        scale = told.get("loss_scale")
        if scale is not None and scale < LEAST_SCALE:
            raise TrainingError(
                f"gradients overflow in fp16 at update {pending.step + 1} even with a loss scale of {scale:g}: "
                "lower the learning rate, or train in bf16"
            )
        bad = ", ".join(f"{name} is {value}" for name, value in told.items() if not math.isfinite(value))
        self._skipped_in_a_row = self._skipped_in_a_row + 1 if bad and scale is None else 0
        if bad:
            self._tell_skipped(pending, bad, "" if scale is None else f"the loss scale is {scale:g} now")

    def _tell_skipped(self, pending: _Pending, bad: str, remedy: str) -> None:
        """Tells of a step that changed nothing, because its loss was finite, but its norm of gradients was not.

        In fp16 that is how a loss scale is found; otherwise too many in a row end the run, with the weights before
        them saved. By all processes together. Raises TrainingError.
        """
        self.progress.skipped += 1
        skipped = f"step {pending.step} was skipped: its loss is finite, but its {bad}"
        if remedy:
            self.log.event(f"{skipped}; {remedy}")
            return
        ids, saved = self.directory.keep_batches(pending.step, pending.batches)
        everyone = ", ".join(id_ for share in self.world.gather(ids) for id_ in share)
        self.log.event(f"{skipped}; utterances {everyone}; {saved}")
        if self._skipped_in_a_row >= self.state.cfg.optim.max_skipped:
            self.state.save_step()
            raise TrainingError(
                f"{self._skipped_in_a_row} steps in a row were skipped, because their gradients are not finite, up to "
                f"step {pending.step}: its {bad}; utterances {everyone}; {saved}; {self.directory.safe_step()}, with "
                "the weights from before: lower the learning rate, or leave out the bad utterances"
            )

    def _end(self) -> None:
        if self.progress.step:
            self.state.save_step()
        if counted := self._spent[1:]:  # the first line has the warm-up
            amount, took = (sum(part) for part in zip(*counted, strict=True))
            values = {"throughput": amount / took, "took": took}
            self.log.log("train_avg", (), values, global_step=self.progress.step)
        if self.left_out:
            self.log.event(f"left out: {len(self.left_out)} utterances")
        if self.progress.skipped:
            self.log.event(f"skipped: {self.progress.skipped} steps whose gradients were not finite")
