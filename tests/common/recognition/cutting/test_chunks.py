import gc
import threading
import time

import numpy as np
import pytest
import torch

from common.audio.waveform import AudioError
from common.recognition.cutting.chunks import AudioChunk, Chunk, by_length, chunks, long_batches
from common.recognition.cutting.chunks import in_batches as chunks_in_batches
from common.recognition.cutting.tensors import in_batches, padded, side_by_side
from common.recognition.sources.recordings import Recording
from common.threads import torch_threads
from tests.timing import until


@pytest.mark.parametrize("n_frames", [1, 99, 100, 101, 1000, 1003])
@pytest.mark.parametrize(("longest", "context", "multiple"), [(100, 20, 1), (100, 90, 4), (1, 5, 1), (7, 2, 3)])
def test_every_frame_counts_once_and_has_its_context(n_frames, longest, context, multiple):
    found = chunks(n_frames, longest=longest, context=context, multiple=multiple)
    kept = [frame for chunk in found for frame in range(chunk.first, chunk.end)]
    assert kept == list(range(n_frames))
    context = min(context, longest // 3)
    for start, first, end, stop in found:
        assert start % multiple == 0
        assert start <= max(0, first - context)
        assert stop == (min(n_frames, end + context) if len(found) > 1 else n_frames)
        assert stop - start < longest + multiple
    sizes = [chunk.end - chunk.first for chunk in found]
    assert max(sizes) - min(sizes) <= 1


def test_what_fits_is_one_chunk():
    assert chunks(100, longest=100, context=20) == [Chunk(0, 0, 100, 100)]
    assert chunks(0, longest=100, context=20) == []


def recording(length: int) -> Recording:
    return Recording(str(length), np.arange(length, dtype=np.float32), length / 10)


def in_threes(samples: int) -> list[AudioChunk]:
    return [AudioChunk(i, min(samples, i + 3), 0, min(3, samples - i)) for i in range(0, samples, 3)]


def test_results_are_in_order_whatever_the_lengths_and_empty_ones_have_none():
    seen = []

    def run(samples):
        seen.append([len(samples_N) for samples_N in samples])
        return padded(samples)[0].unsqueeze(2)

    lengths = (7, 1, 0, 12, 2, 5, 3, 4)
    found = list(in_batches(map(recording, lengths), in_threes, run, batch_size=2))
    assert [item.name for item, _ in found] == [str(length) for length in lengths]
    for length, (_, parts) in zip(lengths, found, strict=True):
        assert [value for x_SX in parts for value in x_SX.flatten().tolist()] == list(range(length))
    assert all(len(batch) <= 2 for batch in seen)
    assert max(max(batch) - min(batch) for batch in seen) <= 1  # of similar length


def test_at_most_a_fifth_of_a_batch_is_padding():
    seen = []

    def run(samples):
        seen.append([len(samples_N) for samples_N in samples])
        return padded(samples)[0].unsqueeze(2)

    lengths = [10, 11, 12, 30, 31, 200, 9, 33, 1]
    whole = [Recording("", np.zeros(length, np.float32), 1.0) for length in lengths]
    assert len(list(in_batches(whole, lambda samples: [AudioChunk(0, samples, 0, samples)], run, batch_size=4))) == len(
        lengths
    )
    assert seen == [[1], [9, 10, 11, 12], [30, 31, 33], [200]]
    for batch in seen:
        assert sum(batch) >= 0.8 * len(batch) * max(batch)


@pytest.mark.parametrize(("threads", "windows"), [(1, 2), (2, 3)])
def test_no_more_recordings_are_taken_than_some_batches_need(threads, windows):
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield recording(2)

    with torch_threads(threads):
        found = in_batches(endless(), in_threes, lambda samples: padded(samples)[0].unsqueeze(2), batch_size=2)
        next(found)
    expected = windows * 16  # those of a window, of the next one, and of the one that threads begin with
    until(lambda: len(taken) >= expected)
    time.sleep(0.02)
    assert len(taken) == expected


def test_the_next_recordings_are_read_while_the_network_is_at_work():
    read, seen = threading.Event(), []

    def recordings():
        yield from (recording(2) for _ in range(16))
        read.set()
        yield recording(5)

    def run(samples):
        assert read.wait(timeout=100)
        seen.append(len(samples))
        return padded(samples)[0].unsqueeze(2)

    assert len(list(in_batches(recordings(), in_threes, run, batch_size=2))) == 17
    assert sum(seen) == 16 + 2


def test_what_goes_wrong_while_reading_is_raised_in_its_turn():
    def recordings():
        yield from (recording(2) for _ in range(8))
        raise AudioError("x.wav: no such file")

    found = in_batches(recordings(), in_threes, lambda samples: padded(samples)[0].unsqueeze(2), batch_size=1)
    assert [len(next(found)[0].samples_N) for _ in range(8)] == [2] * 8
    with pytest.raises(AudioError, match=r"^x\.wav: no such file$"):
        next(found)


def test_what_a_batch_gives_is_taken_when_the_next_one_was_begun():
    done = []

    def run(samples):
        number = sum(name.startswith("begun") for name in done)
        done.append(f"begun {number}")

        def rows():
            done.append(f"taken {number}")
            yield from padded(samples)[0].unsqueeze(2)

        return rows()

    whole = chunks_in_batches((recording(2) for _ in range(3)), in_threes, run, batch_size=1)
    assert len(list(whole)) == 3
    assert done == ["begun 0", "begun 1", "taken 0", "begun 2", "taken 1", "taken 2"]


@pytest.mark.parametrize("threads", [2, 3])
def test_batches_are_computed_side_by_side_and_come_in_order(threads):
    """Batches wait for each other: with fewer at a time the barrier would break."""
    together, used = threading.Barrier(threads, timeout=100), []

    def run(samples):
        used.append(torch.get_num_threads())
        together.wait()
        return padded(samples)[0].unsqueeze(2)

    lengths = [4] * 12 * threads
    with torch_threads(threads):
        found = in_batches(map(recording, lengths), whole, run, batch_size=3)
        texts = [[value for x_SX in parts for value in x_SX.flatten().tolist()] for _, parts in found]
        assert torch.get_num_threads() == threads
    assert texts == [list(range(length)) for length in lengths]
    assert set(used) == {1}


def test_one_batch_has_all_threads():
    used = []

    def run(samples):
        used.append(torch.get_num_threads())
        return padded(samples)[0].unsqueeze(2)

    with torch_threads(3):
        assert len(list(in_batches([recording(4), recording(5)], whole, run, batch_size=2))) == 2
    assert used == [3]


@pytest.mark.parametrize(("threads", "items", "each"), [(1, 5, 1), (2, 5, 1), (4, 2, 2), (4, 1, 4)])
def test_side_by_side_is_a_map_that_shares_the_cores(threads, items, each):
    used = []

    def work(i):
        used.append(torch.get_num_threads())
        return i * i

    with torch_threads(threads):
        assert list(side_by_side(work, list(range(items)))) == [i * i for i in range(items)]
        assert list(side_by_side(work, [])) == []
        assert torch.get_num_threads() == threads
    assert used == [each] * items


def test_an_error_of_the_network_ends_it_and_leaves_no_thread():
    def run(samples):
        if len(samples[0]) == 5:
            raise RuntimeError("too long")
        return padded(samples)[0].unsqueeze(2)

    before = {*threading.enumerate()}  # of which some, of other tests, may end meanwhile
    with torch_threads(2):
        found = in_batches((recording(1 + i) for i in range(9)), whole, run, batch_size=1)
        with pytest.raises(RuntimeError, match="too long"):
            list(found)
        stopped = in_batches((recording(2) for _ in range(99)), whole, run, batch_size=1)
        next(stopped)
        stopped.close()
    gc.collect()  # the error's traceback holds what was at work
    for thread in {*threading.enumerate()} - before:
        thread.join(100)
        assert not thread.is_alive()


def whole(samples: int) -> list[AudioChunk]:
    return [AudioChunk(0, samples, 0, samples)] if samples else []


def test_a_batch_of_none_is_refused():
    with pytest.raises(ValueError, match=r"^batch_size = 0: expected at least 1$"):
        next(in_batches([recording(2)], in_threes, lambda samples: padded(samples)[0], batch_size=0))


def test_several_pieces_have_no_more_samples_than_are_allowed_together():
    lengths = [9, 2, 30, 2, 10, 2]
    assert list(by_length(lengths, 8)) == [[1, 3, 5], [0, 4], [2]]
    assert list(by_length(lengths, 8, 18)) == [[1, 3, 5], [0], [4], [2]]
    sizes = []

    def run(samples):
        sizes.append(len(samples))
        return padded(samples)[0].unsqueeze(2)

    recordings = [recording(2) for _ in range(7)]
    assert len(list(chunks_in_batches(recordings, whole, run, batch_size=4, most_samples=6))) == 7
    assert sizes == [3, 3, 1]


def test_shorter_samples_are_followed_by_zeros():
    audio_BN, samples_B = padded([np.ones(2, np.float32), np.ones(3, np.float32)])
    assert audio_BN.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert torch.equal(samples_B, torch.tensor([2, 3]))


def test_memory_that_was_freed_goes_back_after_every_eighth_batch_of_a_long_recording(monkeypatch):
    gave_back_after = []
    batches = 0
    monkeypatch.setattr("common.devices.memory.give_back", lambda: gave_back_after.append(batches))
    pieces = [AudioChunk(start, start + 10, 0, 1) for start in range(0, 170, 10)]
    for batch, samples in long_batches(np.arange(170, dtype=np.float32), pieces, 1):
        assert samples[0].tolist() == list(range(batch[0].start, batch[0].stop))
        batches += 1
    assert gave_back_after == [8, 16]
