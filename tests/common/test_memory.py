"""What the C library keeps goes back to the system, where it can do that."""

from types import SimpleNamespace

from common import memory


def test_freed_memory_goes_back_where_the_c_library_can_do_that(monkeypatch):
    kept: list[int] = []
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(malloc_trim=kept.append))
    assert memory.can_give_back()
    memory.give_back()
    assert kept == [0]


def test_other_c_libraries_keep_it(monkeypatch):
    def no_library(name: None) -> None:
        raise TypeError("bad argument type for built-in operation")

    for library in (lambda name: SimpleNamespace(), no_library):
        monkeypatch.setattr("ctypes.CDLL", library)
        assert not memory.can_give_back()
        memory.give_back()
