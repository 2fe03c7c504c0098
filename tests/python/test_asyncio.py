# SPDX-License-Identifier: Apache-2.0
"""asyncio: transfers and streams beside other tasks, and their end by cancellation."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import errors

DATA = np.arange(200_000, dtype="i4")


async def slowly(write: int, data: bytes, n: int = 20) -> None:
    """Writes data to a pipe in n parts, with pauses."""
    step = -(-len(data) // n)
    for at in range(0, len(data), step):
        os.write(write, data[at : at + step])
        await asyncio.sleep(0.002)
    os.close(write)


def test_a_stream_is_iterated(io: str) -> None:
    async def work() -> list[Any]:
        stream = hr.stream(DATA, "i4", shape=5, chunk_size=10_001, io=io)
        return [chunk.numpy().copy() async for chunk in stream]

    assert (np.concatenate(asyncio.run(work())).ravel() == DATA).all()


def test_several_streams_and_a_feeder_share_a_thread(io: str) -> None:
    """Were one of them to block the event loop, the feeder would never feed it."""

    async def total(source: int) -> int:
        stream = hr.stream(source, "i4", io=io)
        return sum([int(chunk.numpy().sum()) async for chunk in stream])

    async def work() -> None:
        data = DATA[:10_000]
        pipes = [os.pipe() for _ in range(4)]
        feeders = [slowly(write, data.tobytes()) for _, write in pipes]
        results = await asyncio.gather(*(total(read) for read, _ in pipes), *feeders)
        assert results[:4] == [data.sum()] * 4
        for read, _ in pipes:
            os.close(read)

    asyncio.run(asyncio.wait_for(work(), 30))


def test_the_event_loop_goes_on_meanwhile(io: str) -> None:
    async def work() -> int:
        read, write = os.pipe()
        ticks = 0
        transfer = asyncio.ensure_future(hr.Pipeline(read, hr.NULL, io=io).run_async())
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        assert not transfer.done()
        os.write(write, b"abc")
        os.close(write)
        stats = await transfer
        os.close(read)
        return stats.bytes_in

    assert asyncio.run(work()) == 3


@pytest.mark.parametrize("form", ["run", "iterate"])
def test_cancellation_of_the_task_ends_the_transfer(io: str, form: str, resources: Any) -> None:
    async def once() -> None:
        read, write = os.pipe()

        async def use() -> None:
            if form == "run":
                await hr.Pipeline(read, hr.NULL, io=io).run_async()
            else:
                async for _ in hr.stream(read, io=io):
                    pass

        task = asyncio.ensure_future(use())
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        os.close(read)
        os.close(write)

    asyncio.run(once())
    before = resources()
    for _ in range(10):
        asyncio.run(once())
    assert resources()[1:] == before[1:]


def test_a_failure_is_raised_in_the_task(io: str, tmp_path: Path) -> None:
    (tmp_path / "bad.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))

    async def work() -> None:
        with pytest.raises(hr.HeadraceError):
            async for _ in hr.stream(tmp_path / "bad.zst", io=io):
                pass
        with pytest.raises(errors.TransferError):
            await hr.Pipeline(tmp_path / "none", hr.NULL, io=io).run_async()

    asyncio.run(work())


def test_an_exception_of_a_kernel_is_raised_as_itself(io: str) -> None:
    class Wrong(Exception):
        pass

    def kernel(x: Any, out: Any, call: Any) -> None:
        raise Wrong

    async def work() -> None:
        stream = hr.stream(DATA, "i4", kernels=hr.Kernel.function(kernel, "i4"), io=io)
        with pytest.raises(Wrong):
            async for _ in stream:
                pass

    asyncio.run(work())
