import threading

import pytest

from common.ahead import in_threads, one_ahead


def numbers(work):
    return in_threads(range(9), work, threads=1)


def fetched(work):
    return one_ahead(map(work, range(9)))


@pytest.mark.parametrize("made", [numbers, fetched])
def test_items_come_in_order_and_an_error_in_its_turn(made):
    assert list(made(str)) == list("012345678")
    found = made(lambda number: 6 // (3 - number))
    assert [next(found), next(found), next(found)] == [2, 3, 6]
    with pytest.raises(ZeroDivisionError):
        next(found)


@pytest.mark.parametrize("made", [numbers, fetched])
def test_a_generator_that_is_closed_waits_for_no_thread(made):
    """Whatever thread collects the garbage closes it, perhaps within the start of another, and would wait for ever."""
    begun, closed, waited = threading.Event(), threading.Event(), []

    def work(number):
        if number:
            begun.set()
            waited.append(closed.wait(100))
        return number

    before = {*threading.enumerate()}
    found = made(work)
    assert next(found) == 0
    assert begun.wait(100)
    found.close()
    closed.set()
    for thread in {*threading.enumerate()} - before:
        thread.join(100)
        assert not thread.is_alive()
    assert all(waited)
