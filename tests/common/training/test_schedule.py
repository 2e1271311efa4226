import itertools
import math

import pytest

from common.training.schedule import ScheduleConfig, build_schedule, exponential, noam, polynomial, tri_stage

JASPER = ScheduleConfig(kind="exponential", warmup=2, hold=140, gamma=0.981, floor=1e-5)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 2 * 0.01 / 1089),  # published: 1.8e-5 in step 1, the first
        (1, 3 * 0.01 / 1089),
        (544, 5.0e-3),
        (2 * 544, 0.01),
        (142 * 544 - 1, 0.01),
        (142 * 544, 9.81e-3),
        (143 * 544 - 1, 9.81e-3),
        (300 * 544 - 1, 4.8e-4),
        (440 * 544 - 1, 3.3e-5),
        (2_000 * 544, 1e-5),
    ],
)
def test_jaspers_published_rates_come_out(step, rate):
    learning_rate = build_schedule(JASPER, lr=0.01, steps_per_epoch=544, total_steps=440 * 544)
    assert learning_rate(step) == pytest.approx(rate, rel=0.025)


def test_jaspers_schedule_of_2019_is_quadratic_with_a_floor():
    cfg = ScheduleConfig(kind="polynomial", power=2, floor=1e-5)
    learning_rate = build_schedule(cfg, lr=0.015, steps_per_epoch=10, total_steps=1_000)
    assert learning_rate(0) == pytest.approx(0.015 * 0.999**2)
    assert learning_rate(499) == pytest.approx(0.015 / 4)
    assert learning_rate(999) == 1e-5
    assert learning_rate(5_000) == 1e-5


def test_a_polynomial_continues_where_the_hold_ends():
    rates = [polynomial(step, lr=1.0, total=100, power=1, warmup=10, hold=20) for step in range(100)]
    assert rates[0] == pytest.approx(2 / 11)
    assert rates[9:30] == [1.0] * 21
    assert rates[30] == pytest.approx(69 / 70)
    assert max(abs(a - b) for a, b in itertools.pairwise(rates)) < 0.1
    assert polynomial(99, lr=1.0, total=100) == polynomial(100, lr=1.0, total=100) == 0


def test_where_the_original_counts_from_0_the_first_update_has_that_number():
    """Fairseq's wav2vec 2.0: after k updates the next has the rate of k."""
    cfg = ScheduleConfig(kind="polynomial", unit="steps", warmup=10, power=1.0, floor=0.0)
    learning_rate = build_schedule(cfg, lr=1.0, steps_per_epoch=7, total_steps=110, first=0)
    assert [learning_rate(step) for step in (0, 10, 60, 110)] == pytest.approx([1 / 11, 1.0, 0.5, 0.0])


def test_the_first_update_uses_the_rate_of_the_warm_up_not_the_peak():
    for kind in ("constant", "polynomial", "exponential", "tri_stage", "noam"):
        cfg = ScheduleConfig(kind=kind, warmup=1, hold=1)
        learning_rate = build_schedule(cfg, lr=1.0, steps_per_epoch=100, total_steps=1_000)
        assert 0 < learning_rate(0) <= 2 / 101
        assert learning_rate(50) > learning_rate(1) > learning_rate(0)


def test_a_tri_stage_schedule_warms_up_holds_and_decays():
    cfg = ScheduleConfig(kind="tri_stage", unit="fraction", warmup=0.1, hold=0.4, initial=0.01, final=0.05)
    learning_rate = build_schedule(cfg, lr=2.0, steps_per_epoch=7, total_steps=1_000)
    assert learning_rate(0) == pytest.approx(0.02)
    assert learning_rate(50) == pytest.approx(2.0 * 0.505)
    assert learning_rate(100) == learning_rate(499) == 2.0
    assert learning_rate(750) == pytest.approx(2.0 * math.sqrt(0.05))
    assert learning_rate(1_000) == learning_rate(9_999) == pytest.approx(0.1)
    assert tri_stage(0, lr=1.0, warmup=0, hold=0, decay=10) == 1.0


def test_noam_peaks_at_the_end_of_the_warm_up():
    rates = [noam(step, lr=0.1, warmup=1_000) for step in range(5_000)]
    assert rates.index(max(rates)) == 999
    assert rates[999] == pytest.approx(0.1 / math.sqrt(1_000))
    assert rates[3_999] == pytest.approx(0.1 / math.sqrt(4_000))
    assert noam(999, lr=1.0, warmup=1_000, width=256) == pytest.approx(1 / math.sqrt(1_000) / 16)
    assert noam(0, lr=1.0, warmup=0) == 1.0


def test_the_unit_of_the_warm_up_is_an_option():
    for unit, warmup in (("epochs", 0.5), ("steps", 25), ("fraction", 0.05)):
        cfg = ScheduleConfig(kind="constant", unit=unit, warmup=warmup)
        learning_rate = build_schedule(cfg, lr=1.0, steps_per_epoch=50, total_steps=500)
        assert learning_rate(12) == pytest.approx(14 / 26)
        assert learning_rate(25) == learning_rate(400) == 1.0


def test_without_warm_up_the_first_rate_is_the_peak():
    assert exponential(0, lr=1.0, gamma=0.5, steps_per_epoch=10, hold=10) == 1.0
    assert exponential(10, lr=1.0, gamma=0.5, steps_per_epoch=10, hold=10) == 0.5


def test_no_steps_left_to_decay_is_an_error():
    cfg = ScheduleConfig(kind="polynomial", warmup=3, hold=7)
    with pytest.raises(ValueError, match="30 steps of warm-up and 70 of hold leave none of 100 for the decay; train"):
        build_schedule(cfg, lr=1.0, steps_per_epoch=10, total_steps=100)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"warmup": -1}, "warmup = -1: expected a number of at least 0"),
        ({"hold": math.nan}, "hold = nan: expected a number of at least 0"),
        ({"floor": -1e-5}, "floor = -1e-05: expected a number of at least 0"),
        ({"power": math.inf}, "power = inf: expected a number of at least 0"),
        ({"initial": -0.1}, "initial = -0.1: expected a number of at least 0"),
        ({"final": -0.1}, "final = -0.1: expected a number of at least 0"),
        (
            {"unit": "fraction", "warmup": 0.6, "hold": 0.6},
            "warmup = 0.6, hold = 0.6: expected fractions of at most 1 together",
        ),
        ({"gamma": 1.5}, "gamma = 1.5: expected a factor above 0, at most 1"),
        ({"gamma": 0.0}, "gamma = 0.0: expected a factor above 0, at most 1"),
        ({"width": 0}, "width = 0: expected at least 1"),
    ],
)
def test_impossible_numbers_are_named(numbers, message):
    with pytest.raises(ValueError, match=rf"^{message}$"):
        ScheduleConfig(**numbers)
