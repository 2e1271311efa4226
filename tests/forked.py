"""Tests in several processes, forked once all of them are imported and collected: `pytest --processes 3`.

Each process has a run of them in order, and half of what is left of the longest run once its own is done, so that what
the tests of a file share is mostly made once. Those of the stand-in device have a process of their own. One that dies
fails the test that it was at; another, forked anew, goes on in its place.
"""

import contextlib
import itertools
import warnings
from collections import deque
from collections.abc import Iterable
from multiprocessing import connection, get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SHARED = pytest.StashKey[Path]()
"""The folder for temporary files of all processes, in each that was forked."""
DEVICE = Path(__file__).with_name("device")
PATIENCE = 60  # seconds until a process has ended that has nothing more to do


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="Number of processes that share the tests.")


def shares(items: list[pytest.Item], processes: int) -> list[tuple[list[int], bool]]:
    """Numbers of items for each process, and whether it runs these and no others."""
    of_device = [i for i, item in enumerate(items) if item.path.is_relative_to(DEVICE)]
    others = sorted(set(range(len(items))) - set(of_device))
    edges = [len(others) * part // processes for part in range(processes + 1)]
    parts = [(others[first:end], False) for first, end in itertools.pairwise(edges)]
    return [part for part in ((of_device, True), *parts) if part[0]]


class Lane:
    """A process, and the tests that it is to run."""

    def __init__(self, session: pytest.Session, numbers: Iterable[int], is_alone: bool, name: str):
        self.waiting, self.told, self.is_alone, self.ends = deque(numbers), deque[int](), is_alone, False
        self.connection, other = connection.Pipe()
        self.process = get_context("fork").Process(target=_run, args=(session, other, name), name=name)
        self.process.start()
        other.close()

    def tell(self, number: int | None) -> None:
        """Of the test to run after those that it knows; None: there is none."""
        if number is None:
            self.ends = True
        else:
            self.told.append(number)
        with contextlib.suppress(OSError):  # it is dead, which is noticed once all that it has told is read
            self.connection.send(number)


class Loop:
    """Hands out tests, and tells pytest what became of them as if they had run here."""

    def __init__(self, session: pytest.Session):
        self.session, self.made, self.lanes, self.over = session, 0, list[Lane](), list[Lane]()

    def start(self, numbers: Iterable[int], is_alone: bool) -> None:
        self.made += 1
        self.lanes.append(lane := Lane(self.session, numbers, is_alone, f"process-{self.made}"))
        for _ in range(2):  # which fixtures go on depends on the next one
            self.hand_to(lane)

    def hand_to(self, lane: Lane) -> None:
        if lane.ends:
            return
        if not lane.waiting and not lane.is_alone:
            longest = max((other for other in self.lanes if not other.is_alone), key=lambda other: len(other.waiting))
            half = -(-len(longest.waiting) // 2)
            lane.waiting.extendleft(longest.waiting.pop() for _ in range(half))
        lane.tell(lane.waiting.popleft() if lane.waiting else None)

    def run(self, parts: list[tuple[list[int], bool]], processes: int) -> None:
        """Lanes for all parts at once, or one after the other for one process."""
        try:
            while parts or self.lanes:
                while parts and (processes > 1 or not self.lanes):
                    self.start(*parts.pop(0))
                ready = connection.wait([lane.connection for lane in self.lanes], timeout=1)
                for lane in list(self.lanes):
                    if lane.connection in ready or not lane.process.is_alive():
                        self.hear(lane)
        finally:
            for lane in self.lanes:
                lane.process.terminate()
            for lane in (*self.over, *self.lanes):
                lane.process.join(PATIENCE)
                lane.process.kill()

    def hear(self, lane: Lane) -> None:
        try:
            came = lane.connection.recv() if lane.connection.poll() else None
        except (EOFError, OSError):
            came = None
        if came is None:
            self.lanes.remove(lane)
            self.over.append(lane)
            if lane.told:
                self.died(lane)
            return
        reports, told = came
        for given in told:
            self.session.ihook.pytest_warning_recorded.call_historic(kwargs=given)
        self.report(lane.told.popleft(), reports)
        if self.session.shouldfail or self.session.shouldstop:
            for each in self.lanes:
                each.waiting.clear()
        self.hand_to(lane)

    def died(self, lane: Lane) -> None:
        lane.process.join(PATIENCE)
        item = self.session.items[number := lane.told.popleft()]
        what = f"{lane.process.name} ended with exit status {lane.process.exitcode} in this test"
        self.report(number, [pytest.TestReport(item.nodeid, item.location, {}, "failed", what, "call")])
        self.start([*lane.told, *lane.waiting], lane.is_alone)

    def report(self, number: int, reports: list[Any]) -> None:
        config, item = self.session.config, self.session.items[number]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for each in reports:
            if isinstance(each, dict):
                each = config.hook.pytest_report_from_serializable(config=config, data=each)
            item.ihook.pytest_runtest_logreport(report=each)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    parts = shares(session.items, processes := session.config.getoption("processes"))
    if len(parts) < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    Loop(session).run(parts, processes)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


class Heard:
    """What pytest is told of the tests of a process."""

    def __init__(self, config: pytest.Config):
        self.config, self.reports, self.warnings = config, list[Any](), list[dict[str, Any]]()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    @pytest.hookimpl
    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        """What a test warns of may have a class of its own, which is named by its text."""
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        told = warnings.WarningMessage(Warning(text), Warning, warning_message.filename, warning_message.lineno)
        self.warnings.append({"warning_message": told, "when": when, "nodeid": nodeid, "location": location})


def _run(session: pytest.Session, parent: connection.Connection, name: str) -> None:
    """The tests whose numbers come, each with the next one in hand."""
    config, plugins = session.config, session.config.pluginmanager
    terminal = plugins.getplugin("terminalreporter")
    plugins.unregister(terminal)
    plugins.register(SimpleNamespace(_tw=terminal._tw), "terminalreporter")
    plugins.register(heard := Heard(config))
    heard.warnings.clear()  # those of collection, which all are told of
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # into a file that all processes have in common
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    config.stash[SHARED] = shared = factory.getbasetemp()
    factory._basetemp = shared / name
    factory._basetemp.mkdir(mode=0o700)
    number = parent.recv()
    while number is not None:
        following = parent.recv()
        item, after = session.items[number], None if following is None else session.items[following]
        config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        parent.send((heard.reports, heard.warnings))
        heard.reports, heard.warnings = [], []
        number = following
    parent.send(None)
