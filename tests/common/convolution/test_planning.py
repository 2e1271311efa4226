import pytest

from common.convolution import planning
from common.convolution.planning import MACHINES, Shape, choices, within

FAST = MACHINES["avx512"]


def best(**shape) -> planning.Choice:
    return choices(Shape(**shape), machine=FAST)[0]


def test_many_taps_are_done_by_blocks_and_one_tap_or_a_stride_directly():
    assert best(taps=25, channels=768, filters=768).algorithm.halves is not None
    assert best(taps=3, channels=384, filters=1536).algorithm.halves is None
    assert best(taps=1, channels=768, filters=768).algorithm is None
    assert best(taps=11, channels=64, filters=256, stride=2).algorithm is None


def test_weights_that_are_read_from_memory_are_in_fixed_point_and_those_of_a_cache_in_floats():
    wide, narrow = best(taps=25, channels=768, filters=768, frames=400), best(taps=11, channels=64, filters=64)
    assert wide.weights == "fixed24"
    assert wide.weight_bytes == 0.75 * 4 * wide.algorithm.stored * 768 * 768
    assert narrow.weights == "float32"
    shape = Shape(taps=25, channels=768, filters=768, frames=400)
    assert all(choice.weights == "float32" for choice in choices(shape, machine=FAST, fixed=False))
    assert all(choice.weights == "bfloat16" for choice in choices(shape, machine=FAST, kind="bf16"))


def test_a_plan_is_for_shorter_calls_too(monkeypatch):
    shape = {"taps": 25, "channels": 768, "filters": 768, "frames": 400}
    planned = best(**shape)
    monkeypatch.setattr(planning, "CALLS", (1.0,))
    assert planned.weight_bytes < best(**shape).weight_bytes


def test_few_frames_take_shorter_blocks_because_reading_weights_decides():
    few, many = (best(taps=25, channels=768, filters=768, frames=frames) for frames in (50, 4000))
    assert few.weight_bytes < many.weight_bytes


def test_choices_are_faster_the_more_memory_they_need_and_end_with_the_least():
    found = choices(Shape(taps=25, channels=256, filters=256), machine=FAST)
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    assert [c.weight_bytes for c in found] == sorted((c.weight_bytes for c in found), reverse=True)
    assert found[-1].weight_bytes <= 25 * 256 * 256 * 4
    assert choices(Shape(taps=25, channels=256, filters=256), machine=FAST, fixed=False)[-1].algorithm is None


def test_a_limit_is_kept_by_the_layers_that_lose_least():
    options = [choices(Shape(taps=taps, channels=256, filters=256), machine=FAST) for taps in (11, 13, 25)]
    free = sum(layer[0].weight_bytes for layer in options)
    least = sum(layer[-1].weight_bytes for layer in options)
    assert [c.weight_bytes for c in within(options, None)] == [layer[0].weight_bytes for layer in options]
    seconds = []
    for limit in (free, (free + least) // 2, least):
        chosen = within(options, limit)
        assert sum(c.weight_bytes for c in chosen) <= limit
        seconds.append(sum(c.seconds for c in chosen))
    assert seconds == sorted(seconds)
    assert sum(c.weight_bytes for c in within(options, 0)) == least


def test_bfloat16_halves_the_weights():
    (full, *_), (half, *_) = (
        choices(Shape(taps=1, channels=64, filters=64), kind=k, machine=FAST) for k in ("fp32", "bf16")
    )
    assert half.weight_bytes == full.weight_bytes / 2


@pytest.fixture
def fresh():
    planning.this_machine.cache_clear()
    yield
    planning.this_machine.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "instructions", "expected"),
    [
        ("AuthenticAMD", "automatic", "avx512 of AMD"),
        ("AuthenticAMD", "avx512_bf16", "avx512_bf16 of AMD"),
        ("AuthenticAMD", "avx512_vnni", "avx512 of AMD"),
        ("AuthenticAMD", "avx2", "avx2"),
        ("GenuineIntel", "automatic", "avx512"),
        ("GenuineIntel", "avx512_bf16", "avx512"),
    ],
)
@pytest.mark.usefixtures("fresh")
def test_processors_have_constants_by_maker_and_instructions(vendor, instructions, expected, monkeypatch):
    monkeypatch.setattr(planning, "processor_vendor", lambda: vendor)
    monkeypatch.setattr(planning.native, "best_instructions", lambda: "avx512_bf16")
    assert planning.this_machine(instructions) is MACHINES[expected]


def test_layers_in_bfloat16_take_no_algorithm_that_rounds_more_than_twice_as_much():
    shape = Shape(taps=3, channels=256, filters=256, frames=800)
    full, half = (choices(shape, kind=kind, machine=FAST) for kind in ("fp32", "bf16"))
    assert full[0].algorithm is not None
    assert [choice.algorithm for choice in half] == [None]
