"""Clients that go, and memory that goes back."""

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest

from trt.serving.admission.guard import Exchange, Guard, while_connected
from trt.serving.admission.limits import Budget, ClientGoneError, Limits, RequestError, give_memory_back
from trt.serving.metrics import Metrics


def test_memory_that_nobody_uses_goes_back_now_and_then_where_libc_can_do_that(monkeypatch):
    monkeypatch.setattr("trt.serving.admission.limits.TRIM_SECONDS", 0.01)

    async def twice() -> None:
        trimmed = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()

        def trim(left: int) -> None:
            loop.call_soon_threadsafe(trimmed.release)

        monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(malloc_trim=trim))
        job = asyncio.create_task(give_memory_back())
        for _ in range(2):
            await asyncio.wait_for(trimmed.acquire(), 60)
        job.cancel()

    asyncio.run(twice())
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace())
    asyncio.run(give_memory_back())  # ends at once


def test_work_whose_client_goes_is_cancelled_and_that_of_others_is_not():
    async def told(*, goes: bool, seconds: float) -> str:
        async def work() -> str:
            await asyncio.sleep(seconds)
            return "answer"

        async def receive() -> dict[str, str]:
            await asyncio.sleep(0.0 if goes else 60.0)
            return {"type": "http.disconnect"}

        return await while_connected(SimpleNamespace(receive=receive), work())

    assert asyncio.run(told(goes=False, seconds=0.01)) == "answer"
    with pytest.raises(ClientGoneError):
        asyncio.run(told(goes=True, seconds=60.0))

    async def ended_by_the_server() -> None:
        async with asyncio.timeout(0.01):
            await told(goes=False, seconds=60.0)

    with pytest.raises(TimeoutError):
        asyncio.run(ended_by_the_server())


def test_a_body_that_is_refused_does_not_stay_until_garbage_is_collected():
    guard = Guard(None, limits=Limits(max_body_mb=0.001), budget=Budget(1e9), metrics=Metrics())

    async def receive():
        return {"type": "http.request", "body": bytes(5_000), "more_body": True}

    async def refused() -> weakref.ref:
        try:
            await Exchange(guard, {}, receive, None).receive()
        except RequestError as error:
            return weakref.ref(error)

    gc.disable()
    try:
        assert asyncio.run(refused())() is None
    finally:
        gc.enable()
