# SPDX-License-Identifier: Apache-2.0
"""Arrays of a GPU over the fake driver, whose device memory the host can look at. Run by
test_array.py in a process of its own: other tests are not to see a GPU."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_libraries
import headrace as hr
from headrace import _array, _calls, _dlpack, _foreign, _memory, _streams
from headrace._library import ffi, native

cuda = ctypes.CDLL(os.environ["HR_LIBCUDA"])
cuda.fake_cuda_host.restype = ctypes.c_void_p
cuda.fake_cuda_host.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
for name in ("cuStreamSynchronize", "cuStreamDestroy_v2", "cuCtxPushCurrent_v2"):
    getattr(cuda, name).argtypes = [ctypes.c_void_p]
cuda.cuMemcpyDtoHAsync_v2.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_size_t,
    ctypes.c_void_p,
]
cuda.cuMemcpyHtoDAsync_v2.argtypes = [
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
]
cuda.cuDevicePrimaryCtxRetain.argtypes = [ctypes.c_void_p, ctypes.c_int]
cuda.cuStreamCreate.argtypes = [ctypes.c_void_p, ctypes.c_uint]

CHUNK = 4096
LATE_US = 60000  # each operation of a stream, at most


def device_bytes(array: Any) -> bytes:
    """What a GPU's array has in it now."""
    return ctypes.string_at(cuda.fake_cuda_host(array.ptr, array.nbytes), array.nbytes)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    gc.collect()
    with hr.Pipeline(b"", hr.NULL) as last:  # what sources lie in is given up by the next one
        last.run()
    gc.collect()
    assert native.hrp_n_holds() == 0
    cuda.fake_cuda_set_delay(0)


@pytest.fixture
def stream() -> Iterator[int]:
    context, made = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxPushCurrent_v2(context) == 0
    assert cuda.cuStreamCreate(ctypes.byref(made), 1) == 0
    yield int(made.value or 0)
    gc.collect()
    assert cuda.cuStreamSynchronize(made) == 0
    assert cuda.cuStreamDestroy_v2(made) == 0


def source(n_chunks: int) -> Any:
    return np.arange(n_chunks * CHUNK // 8, dtype="u8").view("u1")


def lent(data: Any, depth: int = 3) -> hr.Pipeline:
    return hr.Pipeline(data, device="cuda:0", lend_device=True, chunk_size=CHUNK, depth=depth)


def test_a_chunk_says_where_it_is() -> None:
    data = source(2)
    with lent(data) as pipeline:
        chunk = next(iter(pipeline))
        assert (chunk.device, chunk.shape, chunk.dtype) == ("cuda:0", (CHUNK,), np.uint8)
        assert chunk.__dlpack_device__() == (2, 0)
        interface = chunk.__cuda_array_interface__
        assert interface["data"] == (chunk.ptr, False)
        assert (interface["version"], interface["stream"], interface["strides"]) == (3, None, None)
        assert not hasattr(chunk, "__array_interface__")
        assert device_bytes(chunk) == data[:CHUNK].tobytes()
        as_floats = chunk.view("f4").reshape(-1, 16)[3:5]
        assert as_floats.ptr == chunk.ptr + 3 * 64 and as_floats.nbytes == 128


def test_memory_is_used_again_only_behind_the_streams_that_were_named(stream: int) -> None:
    """Late copies by the user, who drops each chunk at once, in all the ways there are."""
    cuda.fake_cuda_set_delay(2000)
    data = source(24)
    got = np.zeros(data.size, "u1")
    for i, chunk in enumerate(lent(data, depth=2)):
        at = got[i * CHUNK :]
        ptr = chunk.ptr
        if i % 3 == 0:
            chunk.record_stream(stream)
        elif i % 3 == 1:
            capsule = chunk.__dlpack__(stream=stream, max_version=(1, 0))
        copied = cuda.cuMemcpyDtoHAsync_v2(at.ctypes.data, ptr, CHUNK, stream)
        assert copied == 0
        if i % 3 == 1:
            chunk.release()
            del capsule
        elif i % 3 == 2:
            chunk.release(stream)
        del chunk
    assert cuda.cuStreamSynchronize(stream) == 0
    assert (got == data).all()


def test_a_consumer_keeps_a_chunk_beyond_its_pipeline() -> None:
    data = source(3)
    pipeline = lent(data)
    chunks = list(pipeline)
    tensors = [_dlpack.consume(c.__dlpack__(max_version=(1, 0))) for c in chunks]
    pipeline.close()
    del pipeline, chunks
    gc.collect()
    assert native.hrp_n_holds() == 3
    assert (tensors[2].device, tensors[2].shape, tensors[2].readonly) == ("cuda:0", (CHUNK,), False)
    seen = ctypes.string_at(cuda.fake_cuda_host(tensors[2].ptr, CHUNK), CHUNK)
    assert seen == data[2 * CHUNK :].tobytes()
    thread = threading.Thread(target=tensors.clear)  # frees pipeline and loop, too
    thread.start()
    thread.join()
    assert native.hrp_n_holds() == 0


def test_gathered_memory_outlives_its_context() -> None:
    data = source(2)
    context = hr.Context(threads=1)
    pipeline = hr.Pipeline(data, hr.DeviceMemory(), device="cuda:0", context=context)
    pipeline.run()
    array = pipeline.gathered()
    pipeline.close()
    del pipeline, context
    gc.collect()
    assert device_bytes(array) == data.tobytes()
    assert array.device == "cuda:0"


@pytest.mark.parametrize("first", [1, 3, 4, 5])
def test_slices_that_begin_anywhere(tmp_path: Path, first: int) -> None:
    wanted = np.arange(5000, dtype="u4")
    part = hr.to_device(wanted, "cuda:0")[first:]
    assert np.array_equal(part.numpy(), wanted[first:])
    hr.save(tmp_path / "a.npy", part)
    assert np.array_equal(np.load(tmp_path / "a.npy"), wanted[first:])
    out = np.zeros(10, "u4")
    hr.Pipeline(hr.Range(part, 8, 40), out).run()
    assert np.array_equal(out, wanted[first + 2 : first + 12])


def test_parts_with_gaps_are_what_they_are_to_all() -> None:
    wanted = np.arange(240, dtype="u4").reshape(6, 5, 8)
    array = hr.to_device(wanted, "cuda:0")
    part, seen = array[::2, 1, 1::3], wanted[::2, 1, 1::3]
    assert np.array_equal(part.numpy(), seen) and part.tobytes() == seen.tobytes()
    assert part.tolist() == seen.tolist() and int(array[5, 4, 3]) == wanted[5, 4, 3]
    interface = part.__cuda_array_interface__
    assert interface["strides"] == seen.strides and interface["shape"] == seen.shape
    assert interface["data"][0] - array.ptr == seen.ctypes.data - wanted.ctypes.data
    exported = _dlpack.consume(part.__dlpack__(max_version=(1, 0)))
    assert exported.strides == tuple(n // 4 for n in seen.strides)
    for each, values in ((part, seen), (array.T, wanted.T), (array, wanted)):
        copied = each.copy()
        assert (copied.device, copied.order, copied.base) == ("cuda:0", "C", None)
        assert copied.ptr != each.ptr and device_bytes(copied) == values.tobytes()
    assert array[:0].copy().shape == array[:0].numpy().shape == (0, 5, 8)
    for use in (
        lambda: hr.Pipeline(part, hr.NULL),
        lambda: hr.to_device(wanted[::2, 1, 1::3].copy(), out=part),
        lambda: hr.to_host(part),
    ):
        with pytest.raises(ValueError, match="not contiguous"):
            use()


class Producer:
    """An array of another library whose work on a stream is not done yet."""

    def __init__(self, array: Any, data: Any, stream: int, named: Any) -> None:
        self.array = array
        self.kept: list[Any] = []
        for bytes_ in [np.zeros_like(data)] * 10 + [data]:  # the last copy comes late
            at = bytes_.ctypes.data
            assert cuda.cuMemcpyHtoDAsync_v2(array.ptr, at, data.nbytes, stream) == 0
            self.kept.append(bytes_)
        self.__cuda_array_interface__ = {
            "shape": (array.nbytes,),
            "typestr": "|u1",
            "data": (array.ptr, False),
            "version": 3,
            "stream": named,
        }


def device_array(nbytes: int) -> Any:
    context = hr.Context(threads=1)
    return _array.memory_array(_calls.allocated(context.handle, "cuda:0", nbytes), nbytes)


@pytest.mark.parametrize("lends", [False, True])
def test_a_sources_stream_is_waited_for(stream: int, lends: bool) -> None:
    cuda.fake_cuda_set_delay(LATE_US)
    data = source(3)
    producer = Producer(device_array(data.nbytes), data, stream, stream)
    if lends:
        chunks = list(lent(producer, depth=4))
        assert b"".join(map(device_bytes, chunks)) == data.tobytes()
    else:
        out = np.zeros(data.size, "u1")
        hr.Pipeline(producer, out).run()
        assert (out == data).all()


def test_a_default_stream_is_waited_for(stream: int) -> None:
    cuda.fake_cuda_set_delay(LATE_US)
    data = source(2)
    out = bytearray(data.nbytes)
    hr.Pipeline(Producer(device_array(data.nbytes), data, _streams.LEGACY, 1), out).run()
    assert out == data.tobytes()


def test_a_sinks_stream_is_waited_for(stream: int) -> None:
    cuda.fake_cuda_set_delay(LATE_US)
    new, old = source(2), np.full(2 * CHUNK, 9, "u1")
    sink = Producer(device_array(new.nbytes), old, stream, stream)
    read = np.zeros(new.nbytes, "u1")
    assert cuda.cuMemcpyDtoHAsync_v2(read.ctypes.data, sink.array.ptr, read.nbytes, stream) == 0
    hr.Pipeline(new, sink).run()
    assert device_bytes(sink.array) == new.tobytes()
    assert cuda.cuStreamSynchronize(stream) == 0
    assert (read == old).all()


def test_an_array_is_source_and_sink() -> None:
    data = source(2)
    array = device_array(data.nbytes)
    hr.Pipeline(data, array).run()
    assert device_bytes(array) == data.tobytes()
    out = bytearray(CHUNK)
    hr.Pipeline(array[CHUNK:], out).run()
    assert out == data[CHUNK:].tobytes()


def test_memory_of_a_call_is_of_no_use_after_it() -> None:
    array, memory = _array.lent_array("cuda:0", 4096, (8,), "f4", stream=77, readonly=True)
    assert array.__cuda_array_interface__["stream"] is None
    assert array.__cuda_array_interface__["data"] == (4096, True)
    capsule = array.__dlpack__(stream=77, max_version=(1, 0))
    assert _dlpack.consume(capsule).readonly
    with pytest.raises(BufferError, match="stream"):
        array.__dlpack__(stream=78, max_version=(1, 0))
    memory.end("the call is over")
    for use in (lambda: array.ptr, lambda: array[0], lambda: array.__cuda_array_interface__):
        with pytest.raises(ValueError, match="the call is over"):
            use()


def test_describing_an_array_keeps_its_memory() -> None:
    found = _foreign.describe(device_array(64), writable=True)
    gc.collect()
    assert native.hrp_n_holds() == 1
    assert (found.device, found.nbytes, found.stream) == ("cuda:0", 64, None)


def test_streams_of_loaded_libraries_are_noted(monkeypatch: Any) -> None:
    noted: list[int] = []
    monkeypatch.setattr(_memory.Memory, "note", lambda self, stream: noted.append(stream))
    array = device_array(64)
    _ = array.__cuda_array_interface__
    assert noted == [_streams.LEGACY]
    monkeypatch.setattr(_streams, "current", lambda device: {5, 6})
    _ = array.__cuda_array_interface__
    array.__dlpack__(stream=None)
    array.__dlpack__(stream=-1)
    assert sorted(noted[1:3]) == [5, 6] and noted[3:] == [_streams.LEGACY]
    for stream in (0, -2):
        with pytest.raises(ValueError, match="not allowed|is possible"):
            array.__dlpack__(stream=stream)


# ---- functions with arrays of other libraries, over doubles of these ----

ROWS = np.arange(5 * 3001, dtype="f4").reshape(-1, 5)


class Copies:
    """A kernel: out = x, by way of the host, on the call's stream. It notes what it gets."""

    def __init__(self, has_current: bool) -> None:
        self.has_current = has_current
        self.bounces: list[Any] = []
        self.arrays: weakref.WeakSet[Any] = weakref.WeakSet()
        self.by_place: dict[Any, int] = {}
        self.streams: dict[int, Any] = {}

    def __call__(self, x: Any, out: Any, call: Any) -> Any:
        stream = call.stream_object
        assert stream.number == call.stream != 0
        assert self.streams.setdefault(call.stream, stream) is stream  # made once
        assert fake_libraries.current[-1] is (stream if self.has_current else None)
        for array in (x, out):
            assert array.shape == (call.n_units, 5)
            self.arrays.add(array)
            made = self.by_place.setdefault((array is x, array.ptr, call.n_units), id(array))
            assert made == id(array)
        bounce = ctypes.create_string_buffer(x.nbytes)
        self.bounces.append(bounce)
        assert cuda.cuMemcpyDtoHAsync_v2(bounce, x.ptr, x.nbytes, call.stream) == 0
        assert cuda.cuMemcpyHtoDAsync_v2(out.ptr, bounce, x.nbytes, call.stream) == 0
        return out  # as those of the libraries, which is no fault


@pytest.mark.parametrize("word", ["torch", "cupy", "numba"])
def test_a_function_gets_a_librarys_own_arrays(word: str, monkeypatch: Any) -> None:
    fake_libraries.install(word, monkeypatch)
    cuda.fake_cuda_set_delay(200)
    function, out = Copies(word != "numba"), np.zeros_like(ROWS)
    kernel = hr.Kernel.function(function, ("f4", (5,)), arrays=word)
    gc.collect()
    gc.disable()
    try:
        pipeline = hr.Pipeline(ROWS, out, kernels=kernel, device="cuda:0", chunk_size=4000, depth=3)
        with pipeline:
            pipeline.run()
        assert np.array_equal(out, ROWS)
        assert not function.arrays  # they went with the pipeline: nothing waits for a collector
    finally:
        gc.enable()
    n_chunks = len(function.bounces)
    assert n_chunks == 16 and len(function.by_place) < n_chunks
    assert {n for _, _, n in function.by_place} == {200, 1}  # the last one is short
    assert fake_libraries.current == [None]


@pytest.mark.parametrize("word", ["torch", "cupy", "numba"])
def test_an_exception_in_a_librarys_stream_leaves_it(word: str, monkeypatch: Any) -> None:
    fake_libraries.install(word, monkeypatch)
    for function, error in ((lambda x, out, call: x[0], TypeError), (lambda *_: 3, TypeError)):
        with pytest.raises(error):
            kernel = hr.Kernel.function(function, "f4", arrays=word)
            hr.Pipeline(ROWS, hr.NULL, kernels=kernel, device="cuda:0").run()
        assert fake_libraries.current == [None]


def test_a_function_that_only_looks_and_one_that_counts(monkeypatch: Any) -> None:
    torch = fake_libraries.install("torch", monkeypatch)
    seen: list[Any] = []

    def looks(x: Any, out: Any, call: Any) -> None:
        seen.append((x.dtype, x.shape, out, call.count))

    def counts(x: Any, out: Any, call: Any) -> None:
        seen.append((call.count.dtype, call.count.shape))

    kernels = [
        hr.Kernel.function(looks, "bf16", 0, arrays="torch"),
        hr.Kernel.function(counts, "bf16", counted=True, arrays="torch"),
    ]
    hr.Pipeline(bytes(600), hr.NULL, kernels=kernels, device="cuda:0").run()
    assert seen == [(torch.bfloat16, (300,), None, None), (torch.int64, (1,))]


@pytest.mark.parametrize("word, unit", [("torch", "S3"), ("cupy", "bf16"), ("numba", "M8[s]")])
def test_types_that_a_library_lacks(word: str, unit: str, monkeypatch: Any) -> None:
    fake_libraries.install(word, monkeypatch)
    kernel = hr.Kernel.function(lambda x, out, call: None, unit, arrays=word)
    with pytest.raises(TypeError, match=r"(PyTorch|CuPy|Numba) has no type for"):
        hr.Pipeline(b"", hr.NULL, kernels=kernel, device="cuda:0")


def test_arrays_of_numpy_are_on_the_host() -> None:
    kernel = hr.Kernel.function(lambda x, out, call: None, "f4", arrays="numpy")
    with pytest.raises(ValueError, match="NumPy are on host, and the kernels run on cuda:0"):
        hr.Pipeline(b"", hr.NULL, kernels=kernel, device="cuda:0")


def test_only_so_many_arrays_are_kept(monkeypatch: Any) -> None:
    from headrace import _kernel_call

    places = _kernel_call._Places(lambda address, n: (address, n))
    for address in range(3 * _kernel_call._PLACES):
        assert places[address, 8] is places[address, 8]
        assert len(places) <= _kernel_call._PLACES
