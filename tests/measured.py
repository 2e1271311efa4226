"""Which tests are slow, by measuring: `python -m pytest -p tests.measured [FILES]`, in one process, writes it down.

`tests/slow.txt` has the names of tests that take more than `SLOW` seconds of a processor, children included, in the
mean of its parameters; `tests/conftest.py` marks them. What was slow stays so until it takes less than half of
that, for machines differ. Of tests that a run leaves out nothing changes.
"""

import resource
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("slow.txt")
SLOW = 0.1
TAKEN: dict[str, list[float]] = defaultdict(list)


def named(item: pytest.Item) -> str:
    """A test without its parameters."""
    return item.nodeid.partition("[")[0]


def on_record() -> set[str]:
    """The tests that are slow."""
    return set(FILE.read_text(encoding="utf-8").splitlines())


def _seconds() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _seconds()
    found = yield
    TAKEN[named(item)].append(_seconds() - before)
    return found


def pytest_sessionfinish() -> None:
    known = on_record()
    means = {name: sum(seconds) / len(seconds) for name, seconds in TAKEN.items()}
    slow = {name for name, mean in means.items() if mean > (SLOW / 2 if name in known else SLOW)}
    FILE.write_text("".join(f"{name}\n" for name in sorted(known - means.keys() | slow)), encoding="utf-8")
