import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.training.course import Course, Decision, EveryConfig, Moment, course_in_epochs, decide
from common.training.settings import EpochSettings

EPOCHS = Course(epochs=10, keep_epochs=(4,), keep_steps=(33,))


def after(step: int, epoch: int = 1, *, ends=False, signalled=False, due=False, last=math.inf) -> Moment:
    return Moment(step=step, epoch=epoch, ends_epoch=ends, last_epoch=last, signalled=signalled, save_is_due=due)


def letters(decision: Decision) -> str:
    """The initials of what is decided."""
    return "".join(name[0] for name, value in vars(decision).items() if value).replace("ss", "Ss")


@pytest.mark.parametrize(
    ("every", "course", "moment", "expected"),
    [
        # within an epoch
        ({}, EPOCHS, after(7), ""),
        ({}, EPOCHS, after(25), "l"),
        ({"save_steps": 7}, EPOCHS, after(14), "s"),
        ({"validate_steps": 7}, EPOCHS, after(14), "v"),
        ({}, EPOCHS, after(33), "ks"),
        ({}, EPOCHS, after(7, due=True), "s"),
        # at the end of an epoch, of which `epoch` are completed
        ({}, EPOCHS, after(7, 1, ends=True), "lvs"),
        ({"validate_epochs": 2}, EPOCHS, after(7, 1, ends=True), "ls"),
        ({"save_epochs": 2}, EPOCHS, after(7, 1, ends=True), "lv"),
        ({"save_epochs": 0}, EPOCHS, after(7, 1, ends=True), "lv"),
        ({"save_epochs": 3}, EPOCHS, after(7, 4, ends=True), "lvks"),
        ({"validate_steps": 4}, EPOCHS, after(7, 1, ends=True), "ls"),
        # the end of the training, whatever the periods
        ({"validate_epochs": 7, "save_epochs": 7}, EPOCHS, after(70, 10, ends=True), "lvSs"),
        ({"validate_steps": 9, "save_epochs": 7}, Course(steps=71), after(71, 3), "lvSs"),
        # the end of the job alone: no validation that is not due
        ({}, EPOCHS, after(8, last=2), ""),
        ({"save_epochs": 7, "validate_epochs": 7}, EPOCHS, after(14, 2, ends=True, last=2), "lSs"),
        ({}, Course(epochs=10, stop_at=9), after(9), "lSs"),
        ({}, Course(epochs=10, stop_at=9), after(8), ""),
        ({}, Course(epochs=10, stop_at=9), after(9, 1, ends=True), "lvSs"),
        # a signal: saved and stopped, never validated
        ({}, EPOCHS, after(7, signalled=True), "lSs"),
        ({}, EPOCHS, after(7, 1, ends=True, signalled=True), "lSs"),
        ({}, EPOCHS, after(70, 10, ends=True, signalled=True), "lSs"),
    ],
)
def test_the_table_of_decisions(every, course, moment, expected):
    assert letters(decide(EveryConfig(**every), course, moment)) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log_steps": 0}, "log_steps = 0: expected at least 1"),
        ({"validate_epochs": -1}, "validate_epochs = -1: expected at least 1"),
        ({"save_minutes": math.nan}, "save_minutes = nan: expected a number of at least 0"),
        ({"save_steps": -2}, "save_steps = -2: expected a number of at least 0"),
    ],
)
def test_periods_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        EveryConfig(**settings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "batch_size = 0: expected at least 1"),
        ({"batch_size": 4, "grad_accumulation": 3}, "batch_size = 4 is not a multiple of grad_accumulation = 3"),
        ({"ema": 1.0}, "ema = 1.0: expected a decay from 0, for none, to below 1"),
        ({"ema": math.nan}, "ema = nan: expected a decay"),
    ],
)
def test_batches_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        EpochSettings(**{"output_dir": Path(), "epochs": 1, "batch_size": 1} | given)


def test_a_training_that_counts_epochs_stops_this_job_by_its_own_settings():
    cfg = SimpleNamespace(epochs=10, epochs_this_job=2, steps=7, keep_epochs=(4,))
    assert course_in_epochs(cfg) == Course(epochs=10, epochs_this_job=2, stop_at=7, keep_epochs=(4,))
