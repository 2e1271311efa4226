import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from common.threads import cores, torch_threads


def in_new_thread(work):
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def test_operations_have_so_many_threads_inside_and_those_before_after_it():
    before = cores()
    with torch_threads(3):
        assert (cores(), torch.get_num_threads()) == (3, 3)
        with torch_threads(2):
            assert (cores(), torch.get_num_threads()) == (2, 2)
        assert torch.get_num_threads() == 3
    with pytest.raises(KeyError), torch_threads(2):
        raise KeyError
    assert torch.get_num_threads() == before == in_new_thread(torch.get_num_threads)


def test_a_thread_that_begins_while_others_compute_on_one_core_has_all_of_them():
    def alone():
        with torch_threads(1):
            entered.set()
            left.wait(100)

    def shares():
        found = cores()
        with torch_threads(1):
            pass
        return found, torch.get_num_threads()

    entered, left, before = threading.Event(), threading.Event(), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        other = threading.Thread(target=alone)
        other.start()
        entered.wait(100)
        late = ThreadPoolExecutor(1)
        assert late.submit(shares).result() == (3, 3)
        left.set()
        other.join()
        late.shutdown()
        assert in_new_thread(torch.get_num_threads) == 3
        assert torch.get_num_threads() == 3
    finally:
        left.set()
        torch.set_num_threads(before)
