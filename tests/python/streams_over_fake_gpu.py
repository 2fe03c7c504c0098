# SPDX-License-Identifier: Apache-2.0
"""Streams and transfers over the fake driver, whose device memory the host can look at. Run by
test_transfer.py in a process of its own: other tests are not to see a GPU."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import _drive
from headrace._library import native

cuda = ctypes.CDLL(os.environ["HR_LIBCUDA"])
cuda.fake_cuda_host.restype = ctypes.c_void_p
cuda.fake_cuda_host.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
DATA = np.arange(30_000, dtype="f4").reshape(-1, 5)


def on_device(array: Any) -> Any:
    """What a GPU's array has in it now, as a NumPy array."""
    memory = ctypes.string_at(cuda.fake_cuda_host(array.ptr, array.nbytes), array.nbytes)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    gc.collect()
    _drive.close_left()  # what its last chunk has kept until now
    assert native.hrp_n_holds() == 0
    cuda.fake_cuda_set_delay(0)


@pytest.mark.parametrize("delay", [0, 500])
def test_chunks_are_records_in_device_memory(delay: int, tmp_path: Path) -> None:
    cuda.fake_cuda_set_delay(delay)
    np.save(tmp_path / "a.npy", DATA)
    got = []
    for chunk in hr.stream(tmp_path / "a.npy", device="cuda:0", chunk_size=1001):
        assert (chunk.device, chunk.shape[1:]) == ("cuda:0", (5,))
        got.append(on_device(chunk))
    assert np.array_equal(np.concatenate(got), DATA)


def test_chunks_may_come_back_to_the_host() -> None:
    chunks = hr.stream(DATA, "f4", "cuda:0", shape=5, chunk_size=4000, lend_device=False)
    got = [(chunk.device, chunk.numpy().copy()) for chunk in chunks]
    assert {device for device, _ in got} == {"host"}
    assert np.array_equal(np.concatenate([part for _, part in got]), DATA)


def test_the_device_of_the_source_is_that_of_the_stream() -> None:
    there = hr.to_device(DATA, "cuda:1")
    for source, rows in ((there, DATA), (hr.Range(there, 20 * 16, 20 * 64), DATA[16:80])):
        got = []
        for chunk in hr.stream(source, "f4", shape=5, chunk_size=4000):
            assert chunk.device == "cuda:1"
            got.append(chunk.numpy())
        assert np.array_equal(np.concatenate(got), rows)


def test_a_small_array_is_one_chunk() -> None:
    there = hr.to_device(DATA[:2], "cuda:0")
    for kernels in ((), hr.Kernel.function(lambda x, out, call: None, unit_out=0)):
        chunks = list(hr.stream(there, kernels=kernels))  # so that keeping all of them is possible
        assert [(c.shape, c.dtype) for c in chunks] == [((2, 5), DATA.dtype)]
        assert np.array_equal(on_device(chunks[0]), DATA[:2])
        del chunks


def test_a_function_gets_the_rows_of_an_array() -> None:
    seen = []

    def look(x: Any, out: Any, call: Any) -> None:
        seen.append((x.shape[1:], x.dtype, out.dtype))

    hr.Pipeline(hr.to_device(DATA, "cuda:0"), hr.NULL, kernels=look).run()
    assert set(seen) == {((5,), DATA.dtype, DATA.dtype)}
    with pytest.raises(TypeError, match="byte order"):
        hr.Pipeline(DATA.astype(">f4"), hr.NULL, kernels=look, device="cuda:0")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (300, 100)])
def test_there_and_back(shape: Any, order: Any) -> None:
    cuda.fake_cuda_set_delay(200)
    wanted = np.arange(int(np.prod(shape)), dtype="f8").reshape(shape, order=order)
    there = hr.to_device(wanted, "cuda:0")
    assert (there.device, there.shape) == ("cuda:0", shape)
    assert np.array_equal(hr.to_host(there), wanted) and np.array_equal(there.numpy(), wanted)
    out = np.ones(shape, "f8", order=order)
    assert hr.to_host(there, out=out) is out and np.array_equal(out, wanted)
    assert hr.to_device(-wanted, out=there) is there
    assert np.array_equal(hr.to_host(there), -wanted)


def test_from_one_gpu_to_another_and_to_itself() -> None:
    first = hr.to_device(DATA, "cuda:0")
    for device in ("cuda:0", "cuda:1"):
        other = hr.to_device(first, device)
        assert other.device == device and other.ptr != first.ptr
        assert np.array_equal(on_device(other), DATA)


def test_to_host_is_to_the_host() -> None:
    there = hr.to_device(DATA, "cuda:0")
    with pytest.raises(ValueError, match="to_device"):
        hr.to_host(DATA, out=there)


def test_the_arrays_of_a_function_are_taken_as_they_are() -> None:
    """Other libraries wait for a stream that is named, and PyTorch refuses what is read-only."""
    seen = []

    def look(x: Any, out: Any, call: Any) -> None:
        for array in (x, out):
            interface = array.__cuda_array_interface__
            seen.append((interface["stream"], interface["data"][1]))
        assert call.stream

    for _ in hr.stream(DATA, "f4", "cuda:0", hr.Kernel.function(look, "f4")):
        pass
    assert seen and set(seen) == {(None, False)}


def test_asyncio_iterates() -> None:
    cuda.fake_cuda_set_delay(2000)

    async def work() -> list[Any]:
        chunks = hr.stream(DATA, "f4", "cuda:0", shape=5, chunk_size=4000)
        return [on_device(chunk) async for chunk in chunks]

    assert np.array_equal(np.concatenate(asyncio.run(work())), DATA)
