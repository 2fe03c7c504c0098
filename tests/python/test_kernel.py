# SPDX-License-Identifier: Apache-2.0
"""Kernels: built in, and Python functions on the host device."""

import asyncio
import functools
import os
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

hr = pytest.importorskip("headrace")

VALUES = np.random.default_rng(2).normal(size=100_003).astype("f4")


def run(source, out, kernels, **options):
    return hr.Pipeline(source, out, kernels=kernels, device="host", **options).run()


def double(x, out, call):
    np.multiply(x, 2, out=out)


def test_words_and_kernels_are_the_same(io):
    for kernels in ("cast:f32,f64", ["cast:f32,f64"], hr.Kernel.builtin("cast:f32,f64")):
        out = np.empty(VALUES.shape, "f8")
        run(VALUES, out, kernels, io=io)
        assert (out == VALUES.astype("f8")).all()


@pytest.mark.parametrize("chunk_size", [4096, 4097, 65536, 0])
def test_a_function_gets_whole_units(io, chunk_size):
    out = np.empty_like(VALUES)
    run(VALUES, out, hr.Kernel.function(double, "f4"), chunk_size=chunk_size, io=io)
    assert (out == VALUES * 2).all()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097])
def test_functions_of_every_size(size):
    data = np.arange(size, dtype="u2")
    out = np.empty_like(data)
    run(data, out, hr.Kernel.function(double, "u2"), chunk_size=4096)
    assert (out == data * 2).all()


def test_a_plain_function_gets_bytes():
    out = bytearray(5)
    run(b"\1\2\3\4\5", out, lambda x, out, call: np.add(x, 1, out=out))
    assert out == b"\2\3\4\5\6"


@pytest.mark.parametrize("dtype", ["i1", "?", "u1", "bfloat16", "float8_e4m3fn", "f2"])
def test_what_comes_of_an_array(dtype):
    if "float" in dtype:
        dtype = getattr(pytest.importorskip("ml_dtypes"), dtype)
    rows, seen = np.arange(60).reshape(20, 3).astype(dtype), []

    def look(x, out, call):
        seen.append((x.dtype, x.shape[1:]))

    unit = (rows.dtype, (3,))
    for given in (None, rows.dtype, unit):
        run(rows, hr.NULL, hr.Kernel.function(look, given, 0))
    said = np.dtype(dtype) not in (np.int8, np.uint8, np.bool_)  # those are bytes
    assert seen == [unit if said else (np.uint8, ()), (rows.dtype, ()), unit]
    with hr.stream(rows) as stream:
        chunk = next(iter(stream)).numpy()
        assert (chunk.dtype, chunk.shape) == ((rows.dtype, (20, 3)) if said else ("u1", (60,)))
    if rows.dtype.name == "bfloat16":
        with hr.Pipeline(rows.astype("f4"), kernels="cast:f32,bf16", device="host") as cast:
            assert next(cast).numpy().dtype == rows.dtype


def test_one_stream_has_calls_one_by_one_and_in_order():
    seen, inside = [], threading.Lock()

    def look(x, out, call):
        assert inside.acquire(blocking=False)  # nobody else is here
        seen.append(call.first_unit)
        inside.release()

    kernel = hr.Kernel.function(look, "f4", 0)
    run(VALUES, hr.NULL, kernel, chunk_size=4096, streams=1)
    assert len(seen) > 90 and seen == sorted(seen)


def test_units_of_bytes_are_rows():
    shapes = []

    def reverse(x, out, call):
        shapes.append((x.dtype, x.shape, out.shape))
        out[:] = x[:, ::-1]

    out = bytearray(9)
    run(b"abcdefghi", out, hr.Kernel.function(reverse, 3))
    assert out == b"cbafedihg"
    assert {(str(t), *ins[1:], *outs[1:]) for t, ins, outs in shapes} == {("uint8", 3, 3)}
    assert sum(ins[0] for _, ins, _ in shapes) == sum(outs[0] for *_, outs in shapes) == 3


def test_records_and_other_sizes_of_output():
    record = np.dtype([("key", "<i4"), ("value", ">f8")])
    rows = np.zeros(1000, record)
    rows["key"] = np.arange(1000)
    rows["value"] = np.arange(1000) / 4
    out = np.empty(1000, "f4")

    def values(x, out, call):
        out[:] = x["value"]

    run(rows, out, hr.Kernel.function(values, record, "f4"), chunk_size=4096)
    assert (out == rows["value"]).all()


def test_a_function_that_only_looks():
    seen = []
    lock = threading.Lock()

    def look(x, out, call):
        assert out is None and not x.flags.writeable
        with lock:
            seen.append((call.chunk, call.first_unit, call.n_units, int(x.sum())))

    data = np.arange(10_000, dtype="i4")
    out = np.empty_like(data)
    run(data, out, hr.Kernel.function(look, "i4", 0), chunk_size=4096)
    assert (out == data).all()
    assert sum(n for _, _, n, _ in seen) == len(data)
    assert sum(total for *_, total in seen) == data.sum()
    assert sorted(first for _, first, _, _ in seen)[:2] == [0, 1024]
    assert sorted(chunk for chunk, *_ in seen) == list(range(10))


@pytest.mark.parametrize("returns", [True, False])
def test_counted_functions_keep_what_they_like(returns):
    def evens(x, out, call):
        kept = x[x % 2 == 0]
        out[: len(kept)] = kept
        if returns:
            return len(kept)
        call.count[0] = len(kept)
        return None

    data = np.arange(10_001, dtype="u4")
    kernel = hr.Kernel.function(evens, "u4", counted=True)
    with hr.Pipeline(data, kernels=[kernel], device="host", chunk_size=4096) as pipeline:
        parts = [chunk.numpy().view("u4").copy() for chunk in pipeline]
    assert (np.concatenate(parts) == data[::2]).all()


def test_a_count_is_not_added_to():
    def adds(x, out, call):
        call.count[0] += len(x)

    with pytest.raises(ValueError, match="count of .*adds, .* is nothing to add to"):
        run(b"abc", bytearray(3), hr.Kernel.function(adds, "u1", counted=True))


@pytest.mark.parametrize("told", [None, 1.0, "1", True, np.bool_(True), VALUES[:2]])
def test_a_count_is_an_int_and_told(told):
    def whole(x, out, call):
        out[:] = x
        return told

    with pytest.raises(TypeError, match=r"^the count of \S+\.whole, .* call.count"):
        run(b"abc", bytearray(3), hr.Kernel.function(whole, "u1", counted=True))


def test_numbers_of_numpy_and_none_are_counts():
    out = bytearray(3)
    for n in (np.int64(2), np.uint8(0), 3):
        kernel = hr.Kernel.function(lambda x, out, call, n=n: n, "u1", counted=True)
        assert run(b"abc", out, kernel).bytes_out == n


def test_a_count_that_is_too_high_is_an_error():
    kernel = hr.Kernel.function(lambda x, out, call: call.n_units + 1, "u1", counted=True)
    with pytest.raises(hr.HeadraceError):
        run(b"abc", hr.NULL, kernel)


def test_chains_of_functions_and_words():
    out = np.empty(VALUES.shape, "f2")
    kernels = [hr.Kernel.function(double, "f4"), "sum:f32", "cast:f32,f16"]
    pipeline = hr.Pipeline(VALUES, out, kernels=kernels, device="host", chunk_size=4096)
    pipeline.run()
    assert (out == (VALUES * 2).astype("f2")).all()
    assert pipeline.results() == {1: pytest.approx(float((VALUES * 2).astype("f8").sum()))}


def test_results_of_reductions(io):
    bins = "histogram:f32,-4,4,16"
    kernels = ["sum:f32", "mean:f32", "min:f32", "max:f32", bins, "count:f32,gt,0", "crc32"]
    with hr.Pipeline(VALUES, hr.NULL, kernels=kernels, device="host", io=io) as pipeline:
        with pytest.raises(ValueError, match="not done"):
            pipeline.result(0)
        assert pipeline.results() == {}
        stats = pipeline.run()
        found = pipeline.results()
    assert found[0] == pytest.approx(VALUES.astype("f8").sum())
    assert found[1] == pytest.approx(VALUES.astype("f8").mean())
    assert found[2] == VALUES.min() and found[3] == VALUES.max()
    assert (found[4] == np.histogram(VALUES, 16, (-4, 4))[0]).all()
    assert found[5] == (VALUES > 0).sum()
    assert found[6] == zlib.crc32(VALUES.tobytes()) == stats.crc32
    assert {i: str(value) for i, value in pipeline.results().items()} == {
        i: str(value) for i, value in found.items()
    }  # also when it is closed
    with pytest.raises(ValueError, match="no kernel 7 among the 7"):
        pipeline.result(7)
    with pytest.raises(ValueError, match='kernel 0, "bswap:2", is no reduction'):
        hr.Pipeline(b"", hr.NULL, kernels="bswap:2", device="host").result(0)
    stream = hr.stream(VALUES.astype(">f4"), kernels=["scale:f32,2,0"])  # behind one of its own
    for index, told in ((0, 'kernel 0, "scale:f32,2,0", is no'), (1, "no kernel 1 among the 1")):
        with pytest.raises(ValueError, match=told):
            stream.result(index)
    stream.close()


def test_results_of_nothing_and_of_single_bins():
    kernels = ["min:i64", "histogram:u8,0,256,1", "sum:i64"]
    pipeline = hr.Pipeline(b"", hr.NULL, kernels=kernels, device="host")
    pipeline.run()
    assert pipeline.result(0) is None
    assert pipeline.result(1).tolist() == [0]
    assert pipeline.result(2) == 0


ERRORS = [KeyError("x"), KeyboardInterrupt(), SystemExit(3), MemoryError()]


@pytest.mark.parametrize("error", ERRORS)
def test_an_exception_of_a_function_is_raised_as_itself(io, error):
    def fails(x, out, call):
        if call.first_unit > 8000:
            raise error

    kernel = hr.Kernel.function(fails, 4, 0)
    pipeline = hr.Pipeline(VALUES, hr.NULL, kernels=kernel, device="host", chunk_size=4096, io=io)
    with pytest.raises(type(error)) as caught:
        pipeline.run()
    assert caught.value is error
    assert caught.value.__context__ is None
    for again in (pipeline.run, lambda: asyncio.run(pipeline.run_async())):
        with pytest.raises(ValueError, match="has failed, and runs once: make another"):
            again()


def test_an_exception_of_a_function_is_raised_by_iteration(io):
    error = KeyError("x")

    def fails(x, out, call):
        if call.chunk == 3:
            raise error

    kernel = hr.Kernel.function(fails, 4, 0)
    got = []
    pipeline = hr.Pipeline(VALUES, kernels=kernel, device="host", chunk_size=4096, io=io)
    with pytest.raises(KeyError) as caught:
        for chunk in pipeline:
            got.append(chunk.index)
    assert caught.value is error
    assert got == [0, 1, 2]  # everything before it was delivered
    for _ in range(2):  # it never ends as if all had gone well
        with pytest.raises(hr.HeadraceError):
            next(pipeline)


@pytest.mark.parametrize("keep", [lambda x: x, lambda x: x[2:5], memoryview])
def test_a_view_that_is_kept_is_told(keep):
    kept = []

    def keeps(x, out, call):
        kept.append(keep(x))

    with pytest.raises(BufferError, match=r"function \S+\.keeps kept a view .* copy"):
        run(VALUES, hr.NULL, hr.Kernel.function(keeps, "f4", 0))


def test_views_in_a_cycle_are_no_fault():
    def cycles(x, out, call):
        cycle = [x]
        cycle.append(cycle)

    run(VALUES, hr.NULL, hr.Kernel.function(cycles, "f4", 0), chunk_size=65536)


def test_a_function_that_starts_a_transfer():
    def transfers(x, out, call):
        inner = np.empty_like(x)
        hr.Pipeline(x.copy(), inner, kernels="scale:f32,2,0", device="host").run()
        out[:] = inner

    out = np.empty_like(VALUES)
    context = hr.Context(threads=1)
    kernel = hr.Kernel.function(transfers, "f4")
    run(VALUES, out, kernel, chunk_size=1 << 16, context=context)
    assert (out == VALUES * 2).all()


def test_a_function_cannot_run_its_own_pipeline():
    def recurses(x, out, call):
        pipeline.stats()
        pipeline.run()

    pipeline = hr.Pipeline(
        VALUES, hr.NULL, kernels=hr.Kernel.function(recurses, "f4", 0), device="host"
    )
    with pytest.raises(RuntimeError, match="function that it calls"):
        pipeline.run()


def test_what_is_no_kernel():
    for wrong in (3, None, b"crc32"):
        with pytest.raises(TypeError):
            hr.Pipeline(b"", hr.NULL, kernels=[wrong])
    with pytest.raises(TypeError):
        hr.Kernel.function("crc32")
    for wrong, told in (("O", "pointers"), ("i8", '"int64"'), ("float13", "known are"), (-1, "-1")):
        with pytest.raises(ValueError, match=told):
            hr.Kernel.function(double, wrong)
    assert hr.Kernel.function(double, "bf16", (">f4", (3,))).unit_bytes == (2, 12)
    for nothing in ("S", "V0", ("f4", (0,)), np.dtype([])):
        for units in ((nothing,), ("f4", nothing)):
            with pytest.raises(ValueError, match=" 0 bytes"):
                hr.Kernel.function(double, *units)
    with pytest.raises(ValueError, match="unit_in is 0"):
        hr.Kernel.function(double, 0)
    for dud in ((), ("sum:f32",)):
        with pytest.raises(TypeError, match="made by Kernel.builtin"):
            hr.Kernel(*dud)


@pytest.mark.parametrize("args", [b"", b"a"])
def test_compiled_kernels_need_a_gpu(args):
    text, image = hr.Kernel.source("t", "f", 4, 4, args), hr.Kernel.image(b"\0\1", "f", 4, 4, args)
    for kernel in (text, image):
        assert "f" in repr(kernel)
        with pytest.raises(hr.HeadraceError, match="GPU"):
            hr.Pipeline(b"", hr.NULL, kernels=kernel, device="host")


@pytest.mark.parametrize(
    "function, told",
    [
        (lambda x, out, call: x * 2, r"function <lambda> returned something \(ndarray\), .* out\["),
        (lambda x, out, call: len(x), r"returned something \(int\), "),
        (functools.partial(lambda value, *_: value, "x"), r"functools.partial\(.*returned something \(str\), "),
    ],
)
def test_a_function_that_returns_its_result_is_told(function, told):
    with pytest.raises(TypeError, match=told):
        run(VALUES, hr.NULL, hr.Kernel.function(function, "f4"))


def test_a_partial_unit_at_the_end_is_truncated():
    with pytest.raises(EOFError):
        run(b"12345", hr.NULL, hr.Kernel.function(double, "f4"))


def test_arrays_of_a_gpu_are_valid_during_the_call_only():
    from headrace import _kernel_call
    from headrace._library import ffi

    kept = []

    def look(x, out, call):
        told = x.__cuda_array_interface__
        told.pop("descr", None)  # optional
        assert told == {
            "shape": (10,),
            "typestr": "<f4",
            "data": (4096, False),  # else PyTorch would not take it
            "strides": None,
            "version": 3,
            "stream": None,  # else CuPy and Numba would wait for it
        }
        assert (x.nbytes, x.size, len(x), x.device, x.stream) == (40, 10, 10, "cuda:0", 77)
        told.clear()  # it is the caller's own
        assert x.__cuda_array_interface__["data"] == (4096, False)
        assert (out.ptr, call.n_units, call.first_unit, call.chunk) == (8192, 10, 30, 3)
        assert (call.stream, call.count.ptr, call.count.dtype) == (77, 64, np.uint64)
        kept.append(x)

    inputs = ffi.new("uint64_t *", 4096)
    call = ffi.new("struct hr_kernel_call *", [0, 1, ffi.cast("void *", inputs)])
    call.n_units, call.first_unit, call.chunk = 10, 30, 3
    call.out, call.stream = ffi.cast("void *", 8192), ffi.cast("void *", 77)
    call.count = ffi.cast("uint64_t *", 64)
    function = hr.Kernel.function(look, "f4", counted=True).bound(None)._function
    assert _kernel_call.DeviceCalls(function, "cuda:0")(call) == 0
    with pytest.raises(ValueError, match="during the call"):
        kept[0].__cuda_array_interface__  # noqa: B018


def test_arrays_of_numpy_may_be_asked_for():
    out = np.empty_like(VALUES)
    run(VALUES, out, hr.Kernel.function(double, "f4", arrays="numpy"), chunk_size=4096)
    assert (out == VALUES * 2).all()


def test_tensors_of_the_host(monkeypatch):
    import fake_libraries

    torch, kept = fake_libraries.install("torch", monkeypatch), []

    def double_tensors(x, out, call):
        assert (x.dtype, x.shape[1:], call.stream_object) == (torch.float32, (7,), None)
        np.multiply(x.values, 2, out=out.values)
        return out

    rows, out = VALUES[:7000].reshape(-1, 7), np.empty((1000, 7), "f4")
    kernel = hr.Kernel.function(double_tensors, ("f4", (7,)), arrays="torch")
    run(rows, out, kernel, chunk_size=4096)
    assert (out == rows * 2).all()
    kernel = hr.Kernel.function(lambda x, out, call: kept.append(x), "f4", arrays="torch")
    with pytest.raises(BufferError, match="copy"):
        run(VALUES, hr.NULL, kernel)
    with pytest.raises(TypeError, match="machine's byte order"):
        kernel = hr.Kernel.function(double, ">f4", arrays="torch")
        run(VALUES.astype(">f4"), hr.NULL, kernel)


def test_libraries_that_are_not_there(monkeypatch):
    import sys

    import fake_libraries

    with pytest.raises(ValueError, match="'tensorflow', not one of 'torch', 'cupy', 'numba'"):
        hr.Kernel.function(double, arrays="tensorflow")
    fake_libraries.install("cupy", monkeypatch)
    with pytest.raises(ValueError, match="CuPy are on cuda or hip, .* run on host"):
        run(VALUES, hr.NULL, hr.Kernel.function(double, "f4", arrays="cupy"))
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="CuPy .* cupy cannot be imported"):
        hr.Kernel.function(double, arrays="cupy")


FAKE_GPU = Path(os.environ.get("HEADRACE_LIBRARY_DIR", "")) / "tests/fake_cuda/libcuda.so.1"


@pytest.mark.skipif(not FAKE_GPU.exists(), reason="no fake driver: build with -DHR_TESTS=ON")
@pytest.mark.parametrize("way", ["copies", "fails", "keeps", "returns"])
def test_functions_on_a_gpu_get_its_arrays_and_a_stream(python, monkeypatch, way):
    monkeypatch.setenv("HR_LIBCUDA", str(FAKE_GPU))
    program = python(
        """
        import ctypes, os, sys, threading, headrace as hr, numpy as np
        cuda = ctypes.CDLL(os.environ["HR_LIBCUDA"])
        void, u64, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
        cuda.cuMemcpyDtoHAsync_v2.argtypes = [void, u64, size, void]
        cuda.cuMemcpyHtoDAsync_v2.argtypes = [u64, void, size, void]
        way, error, kept, bounces = sys.argv[1], KeyError("x"), [], []

        def work(x, out, call):  # out = x, by way of the host, on the stream
            assert threading.current_thread() is threading.main_thread()
            assert call.device == "cuda:0" and call.stream == x.stream != 0
            a, b = x.__cuda_array_interface__, out.__cuda_array_interface__
            assert a["typestr"] == "<f4" and a["shape"] == b["shape"] == (call.n_units,)
            bounce = ctypes.create_string_buffer(x.nbytes)
            bounces.append(bounce)
            cuda.cuMemcpyDtoHAsync_v2(bounce, a["data"][0], x.nbytes, call.stream)
            cuda.cuMemcpyHtoDAsync_v2(b["data"][0], bounce, x.nbytes, call.stream)
            if way == "fails" and call.chunk == 2:
                raise error
            kept.append(x)
            return 3 if way == "returns" else None

        data = np.arange(100_001, dtype="f4")
        out = np.zeros_like(data)
        kernel = hr.Kernel.function(work, "f4", counted=way == "returns")
        pipeline = hr.Pipeline(data, out, kernels=kernel, device="cuda:0", chunk_size=40000)
        try:
            pipeline.run()
            assert (out == data).all()
        except KeyError as caught:
            assert way == "fails" and caught is error
        except TypeError as caught:
            assert way == "returns", caught
        for x in kept:
            try:
                x.__cuda_array_interface__
            except ValueError as told:
                assert "during the call" in str(told)
            else:
                raise AssertionError("a view is valid after the call")
        print("done")
        """,
        way,
    )
    out, err = program.communicate(timeout=60)
    assert (out, err, program.returncode) == ("done\n", "", 0)
