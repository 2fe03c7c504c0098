# SPDX-License-Identifier: Apache-2.0
"""Array: what it is, its views, and that its memory lives as long as any user of it."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import headrace as hr
from headrace import _array
from headrace._library import native

HERE = Path(__file__).parent
N = 1000


def array_of(shape: Any = (2, 3, 4), dtype: str = "f4", order: str = "C") -> Any:
    n = int(np.prod(shape))
    made = np.arange(n).astype(dtype).reshape(shape, order=order)  # type: ignore[call-overload]
    return made, _array.of_numpy(made)


# ---- what it is ----


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3, 4), (0,), (3, 0, 2), (1, 7, 1)])
def test_it_says_what_numpy_says(shape: Any, order: str) -> None:
    wanted, array = array_of(shape, order=order)
    assert (array.shape, array.dtype, array.ndim) == (wanted.shape, wanted.dtype, wanted.ndim)
    assert (array.size, array.nbytes, array.itemsize) == (wanted.size, wanted.nbytes, 4)
    assert array.device == "host" and array.base is wanted
    if wanted.size:
        assert array.ptr == wanted.ctypes.data
        assert np.array_equal(array.numpy(), wanted) and np.array_equal(np.asarray(array), wanted)
        assert np.shares_memory(np.asarray(array), wanted)
    assert np.asarray(array).shape == shape


@pytest.mark.parametrize("dtype", ["u1", "bool", "f2", "f8", "c8", "M8[ns]", "U5", ">f4"])
def test_types_of_numpy_stay(dtype: str) -> None:
    wanted = np.zeros(4, dtype)
    seen = np.asarray(_array.of_numpy(wanted))
    assert seen.dtype == wanted.dtype.newbyteorder("=") and seen.shape == (4,)


def test_records_stay_records() -> None:
    wanted = np.zeros(3, [("a", "<f4"), ("b", ">i2")])
    assert np.asarray(_array.of_numpy(wanted)).dtype == wanted.dtype


def test_bfloat16_stays_where_there_is_such_a_dtype() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = _array.of_numpy(np.arange(4).astype(ml_dtypes.bfloat16))
    assert array.dtype_name == "bf16"
    assert np.asarray(array).dtype == ml_dtypes.bfloat16
    assert array.view("uint16").view("bf16").dtype == ml_dtypes.bfloat16


def test_read_only_memory_stays_so() -> None:
    wanted = np.arange(4)
    wanted.flags.writeable = False
    array = _array.of_numpy(wanted)
    assert array.readonly
    assert not np.asarray(array).flags.writeable and not array.numpy().flags.writeable


def test_writing_through_a_view_is_seen() -> None:
    wanted, array = array_of((4,))
    array.numpy()[1] = 77
    np.asarray(array[2:])[0] = 78
    assert wanted.tolist() == [0, 77, 78, 3]


def test_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        _array.of_numpy(np.arange(10)[::2])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ is of Python 3.12")
def test_it_is_a_buffer() -> None:
    wanted, array = array_of((4,))
    assert memoryview(array).tobytes() == wanted.tobytes()


# ---- views ----


def test_parts_of_the_first_axis_are_views() -> None:
    wanted, array = array_of((4, 3))
    for part, seen in (
        (wanted[1:3], array[1:3]),
        (wanted[:-1], array[:-1]),
        (wanted[9:], array[9:]),
        (wanted[2], array[2]),
        (wanted[-1], array[-1]),
        (wanted[1][2], array[1][2]),
    ):
        assert np.array_equal(np.asarray(seen), part)
    assert [row.numpy().tolist() for row in array] == wanted.tolist()


@pytest.mark.parametrize("key", [4, -5])
def test_an_index_beyond_the_end_is_refused(key: int) -> None:
    with pytest.raises(IndexError):
        array_of((4, 3))[1][key]


@pytest.mark.parametrize("key", [slice(None, None, 2), (1, 2), "a", None, ...])
def test_other_keys_are_refused(key: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        array_of((4, 3))[1][key]


def test_the_same_bytes_have_other_types_and_shapes() -> None:
    wanted, array = array_of((2, 6))
    assert np.array_equal(array.view("u2").numpy(), wanted.view("u2"))
    assert np.array_equal(array.view("f8").numpy(), wanted.view("f8"))
    assert array.reshape(3, -1).shape == (3, 4) and array.reshape((12,)).shape == (12,)
    assert np.array_equal(array.reshape(4, 3).numpy(), wanted.reshape(4, 3))
    assert array.reshape(-1)[:0].reshape(0, 5).shape == (0, 5)


@pytest.mark.parametrize("shape", [(5,), (-1, 5), (-1, -1), (-2, -6), (0, -1)])
def test_shapes_that_do_not_fit_are_refused(shape: Any) -> None:
    with pytest.raises(ValueError):
        array_of((2, 6))[1].reshape(shape)


def test_types_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="whole elements"):
        array_of((2, 3))[1].view("f8")


def test_column_major_arrays_have_a_transpose_and_no_parts() -> None:
    wanted, array = array_of((2, 3), order="F")
    assert array.order == "F" and array.T.order == "C"
    assert np.array_equal(array.T[1].numpy(), wanted.T[1])
    assert array.strides == wanted.strides
    for use in (lambda: array[0], lambda: array.reshape(6), lambda: array.view("f8")):
        with pytest.raises(ValueError, match="column-major"):
            use()


# ---- life ----


def n_holds() -> int:
    gc.collect()
    return int(native.hrp_n_holds())


def chunks_of(n: int) -> Any:
    data = np.random.default_rng(1).integers(0, 256, n * N, dtype="u1")
    # not of bytes: their chunks would be the bytes themselves, and read-only
    pipeline = hr.Pipeline(iter([data.tobytes()]), chunk_size=N, depth=n + 2)
    return data, pipeline


@pytest.mark.parametrize("seed", range(8))
def test_users_go_in_any_order(seed: int) -> None:
    """Chunks, views, NumPy views, DLPack's users, capsules nobody consumed, and the pipeline."""
    before = n_holds()
    data, pipeline = chunks_of(4)
    chunks = list(pipeline)
    users: list[Any] = [pipeline, *chunks]
    del pipeline
    for i, chunk in enumerate(chunks):
        part = data[i * N : (i + 1) * N]
        users += [chunk[10:], np.asarray(chunk), chunk.numpy(), chunk.view("u4").numpy()]
        users += [np.from_dlpack(chunk), chunk.__dlpack__(), chunk.__dlpack__(max_version=(1, 0))]
        assert all(np.asarray(u).tobytes() == part.tobytes() for u in users[-7:-3] if len(u) == N)
    del chunks, chunk
    random.Random(seed).shuffle(users)
    arrays = [(u, u.copy()) for u in users if isinstance(u, np.ndarray)]
    while users:
        users.pop()
    gc.collect()
    for array, copy in arrays:
        assert np.array_equal(array, copy)
    assert native.hrp_n_holds() > before
    del arrays, array, copy
    gc.collect()
    assert native.hrp_n_holds() == before


def test_the_last_user_may_go_on_another_thread() -> None:
    before = n_holds()
    _, pipeline = chunks_of(3)
    arrays = [np.from_dlpack(chunk) for chunk in pipeline]
    del pipeline
    gc.collect()
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert native.hrp_n_holds() == before


def test_a_released_chunk_is_refused_but_its_numpy_views_stay() -> None:
    data, pipeline = chunks_of(2)
    chunk = next(pipeline)
    view = np.asarray(chunk)
    rows = chunk.reshape(10, -1)
    chunk.release()
    chunk.release()
    for use in (lambda: chunk.ptr, lambda: chunk.numpy(), lambda: rows[1], chunk.__dlpack__):
        with pytest.raises(ValueError, match="released"):
            use()
    rest = [c.numpy().copy() for c in pipeline]
    assert np.array_equal(view, data[:N]) and np.array_equal(rest[0], data[N:])


def test_a_chunk_is_released_by_with() -> None:
    _, pipeline = chunks_of(1)
    with next(pipeline) as chunk:
        assert len(chunk) == N
    with pytest.raises(ValueError, match="released"):
        chunk.numpy()


def test_views_of_a_chunk_know_where_it_was() -> None:
    _, pipeline = chunks_of(2)
    second = list(pipeline)[1].view("u2")
    assert (second.index, second.stream_offset, second.source) == (1, N, 0)
    assert not second.first


def test_thousand_exports_leave_nothing() -> None:
    before = n_holds()
    _, pipeline = chunks_of(1)
    chunk = next(pipeline)
    actions: list[Callable[[Any], Any]] = [
        lambda c: c.__dlpack__(),
        np.from_dlpack,
        lambda c: np.asarray(c[3:]),
        lambda c: c.numpy(),
    ]
    for i in range(1000):
        actions[i % 4](chunk)
    assert native.hrp_n_holds() == before + 1
    del chunk, pipeline
    gc.collect()
    assert native.hrp_n_holds() == before


def test_a_forked_child_gives_nothing_back() -> None:
    data, pipeline = chunks_of(1)
    chunk = next(pipeline)
    view = chunk.numpy()
    child = os.fork()
    if child == 0:
        try:
            chunk.release()
            del view, chunk
        finally:
            os._exit(0 if native.hrp_n_holds() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(view, data) and np.array_equal(chunk.numpy(), data)


def test_the_program_may_end_with_chunks_out() -> None:
    program = (
        "import sys, threading, numpy, headrace\n"
        "pipeline = headrace.Pipeline(iter([bytes(5000)]), chunk_size=1000, depth=8)\n"
        "chunks = list(pipeline)\n"
        "kept = [numpy.from_dlpack(chunks[0]), chunks[1].__dlpack__(), numpy.asarray(chunks[2])]\n"
        "sys.stderr.flush()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("how", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
@pytest.mark.parametrize("order", ["C", "F"])
def test_copies_have_memory_of_their_own(how: Callable[[Any], Any], order: str) -> None:
    wanted, array = array_of((3, 4), dtype="u2", order=order)
    copied = how(array.view("bf16"))
    assert (copied.shape, copied.order, copied.dtype_name) == ((3, 4), order, "bf16")
    assert not np.shares_memory(copied.numpy(), wanted)
    assert np.array_equal(copied.view("u2").numpy(), wanted)


def test_a_copy_of_a_chunk_outlives_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with hr.Pipeline(tmp_path / "a") as pipeline:
        copied = copy.deepcopy(next(pipeline))
    gc.collect()
    assert copied.numpy().tobytes() == b"abc" and native.hrp_n_holds() == 0


def test_gpus_over_the_fake_driver() -> None:
    folder = os.environ.get("HEADRACE_LIBRARY_DIR", "")
    driver = Path(folder, "tests/fake_cuda/libcuda.so.1").resolve()
    if not folder or not driver.exists():
        pytest.skip("the fake driver is not built")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*run, str(HERE / "over_fake_gpu.py")],
        env={**os.environ, "HR_LIBCUDA": str(driver)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=280,
        text=True,
    )
    assert done.returncode == 0, done.stdout
