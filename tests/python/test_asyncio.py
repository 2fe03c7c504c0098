# SPDX-License-Identifier: Apache-2.0
"""asyncio: transfers and streams beside other tasks, and their end by cancellation."""

from __future__ import annotations

import asyncio
import os
import threading
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


ENDLESS = Path("/dev/zero")


def iterated(**options: Any) -> Any:
    return hr.stream(ENDLESS, chunk_size=4096, **options)


def filtered(**options: Any) -> Any:  # there is always work and never a chunk
    return hr.stream(ENDLESS, kernels="filter:f32,gt,0", **options)


def copied(**options: Any) -> Any:
    return hr.Pipeline(ENDLESS, hr.NULL, **options)


async def _consume(transfer: Any) -> None:
    if isinstance(transfer, hr.Pipeline):
        await transfer.run_async()
    else:
        async for _ in transfer:
            pass


@pytest.mark.parametrize("make", [iterated, filtered, copied])
def test_what_is_always_ready_gives_turns(io: str, make: Any) -> None:
    """Else nothing but a signal would end it."""

    async def work() -> None:
        with make(io=io) as transfer:
            guard = threading.Timer(60, transfer.cancel)
            guard.start()
            task = asyncio.ensure_future(_consume(transfer))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not task.done()
            guard.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(work())


def test_a_chunk_a_turn(io: str) -> None:
    async def work() -> None:
        turns, chunks = 0, 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.ensure_future(count())
        async for _ in hr.stream(DATA, chunk_size=4096, io=io):
            chunks += 1
            assert turns >= chunks
        counter.cancel()
        assert chunks == -(-DATA.nbytes // 4096)

    asyncio.run(work())


@pytest.mark.parametrize("make", [hr.stream, hr.Pipeline])
def test_tasks_share_one_and_all_end(io: str, make: Any) -> None:
    got: dict[int, bytes] = {}

    async def take(chunks: Any) -> None:
        async for chunk in chunks:
            assert chunk.index not in got
            got[chunk.index] = chunk.numpy().tobytes()

    async def work() -> None:
        data = DATA[:20_000].tobytes()
        read, write = os.pipe()
        with make([DATA, read], chunk_size=4096, depth=8, io=io) as chunks:
            await asyncio.gather(*(take(chunks) for _ in range(4)), slowly(write, data))
        os.close(read)
        whole = b"".join(got[i] for i in sorted(got))
        assert whole == DATA.tobytes() + data

    asyncio.run(asyncio.wait_for(work(), 60))


def test_chunks_come_in_turn_and_closing_ends_all_who_wait(io: str) -> None:
    async def work() -> None:
        read, write = os.pipe()
        with hr.stream(read, chunk_size=4096, depth=8, io=io) as chunks:
            takers = [asyncio.ensure_future(chunks.__anext__()) for _ in range(3)]
            for _ in range(5):
                await asyncio.sleep(0)
            for i in range(3):
                os.write(write, bytes([i]) * 4096)
            firsts = [chunk.tobytes()[0] for chunk in await asyncio.gather(*takers)]
            assert firsts == [0, 1, 2]
            takers = [asyncio.ensure_future(chunks.__anext__()) for _ in range(2)]
            for _ in range(5):
                await asyncio.sleep(0)
            chunks.close()
            for taker in takers:
                with pytest.raises(ValueError, match="closed"):
                    await taker
        os.close(read)
        os.close(write)

    asyncio.run(asyncio.wait_for(work(), 60))


def test_tasks_run_the_same_and_all_return(io: str) -> None:
    async def work() -> None:
        read, write = os.pipe()
        pipeline = hr.Pipeline(read, hr.NULL, io=io)
        found = await asyncio.gather(
            *(pipeline.run_async() for _ in range(3)), slowly(write, DATA[:1000].tobytes())
        )
        assert [stats.bytes_in for stats in found[:3]] == [4000] * 3
        os.close(read)

    asyncio.run(asyncio.wait_for(work(), 60))


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
