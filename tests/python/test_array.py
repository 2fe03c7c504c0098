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
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace import _array, _dlpack
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


KEYS: list[Any] = [
    (1, 2),
    (-1, slice(None), 3),
    (slice(None, None, 2), 1),
    (..., slice(1, None, 3)),
    slice(3, 1),
    (None, 0, ..., None),
    (np.int64(2), np.uint8(1)),
    (),
    ...,
    (slice(9, None, 4), slice(None, 0)),
]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_are_views_that_all_users_see_as_numpy_does(key: Any, order: str) -> None:
    wanted, array = array_of((4, 3, 5), "i4", order)
    part, seen = wanted[key], array[key]
    assert np.array_equal(seen.numpy(), part) and seen.tolist() == part.tolist()
    assert np.array_equal(np.asarray(seen), part) and np.array_equal(np.from_dlpack(seen), part)
    if part.size:
        assert np.shares_memory(np.asarray(seen), wanted)
        assert seen.ptr == part.__array_interface__["data"][0]
    exported = _dlpack.consume(_dlpack.export(seen._tensor(), None, True))
    assert (exported.ptr, exported.shape) == (seen.ptr, part.shape)
    assert exported.strides == tuple(n // 4 for n in seen.strides)
    assert bytes(seen) == seen.tobytes() == part.tobytes()
    again = pickle.loads(pickle.dumps(seen))
    assert np.array_equal(again.numpy(), part) and np.array_equal(seen.copy().numpy(), part)
    assert np.array_equal(seen[None].T.numpy(), part[None].T)


@st.composite
def shapes_and_keys(draw: Any) -> Any:
    shape = draw(hnp.array_shapes(max_dims=3, max_side=5))
    key = draw(hnp.basic_indices(shape, allow_newaxis=True))
    whole = key if isinstance(key, tuple) else (key,)
    # steps of Arrays are positive
    return shape, tuple(
        slice(k.start, k.stop, abs(k.step or 1)) if isinstance(k, slice) else k for k in whole
    )


@settings(max_examples=50, deadline=None)
@given(shapes_and_keys(), st.booleans())
def test_any_index_is_numpys(drawn: Any, transposed: bool) -> None:
    shape, key = drawn
    wanted, array = array_of(shape[::-1] if transposed else shape, "u2")
    wanted, array = (wanted.T, array.T) if transposed else (wanted, array)
    assert np.array_equal(array[key].numpy(), wanted[key])
    assert np.array_equal(array[key].T.numpy(), wanted[key].T)


def test_elements_with_gaps_are_written_as_they_are_meant(tmp_path: Path) -> None:
    wanted, array = array_of((6, 5, 4), "f4")
    part = array[::2, 1:, 3]
    assert part.order is None
    hr.save(tmp_path / "a.npy", part)
    hr.save(tmp_path / "b.safetensors", {"x": part.view("u4"), "y": array.T})
    assert np.array_equal(np.load(tmp_path / "a.npy"), wanted[::2, 1:, 3])
    loaded = hr.load(tmp_path / "b.safetensors")
    assert np.array_equal(loaded["x"].view("f4").numpy(), wanted[::2, 1:, 3])
    assert np.array_equal(loaded["y"].numpy(), wanted.T)
    out = np.zeros(12, "f4")
    hr.Pipeline(part, out).run()
    assert np.array_equal(out, wanted[::2, 1:, 3].reshape(-1))
    assert np.array_equal(hr.to_host(part, dtype="f8"), wanted[::2, 1:, 3])
    narrow = _array.of_numpy(np.arange(6, dtype="u2")).view("bf16")[::2]
    assert hr.to_device(narrow, "host").dtype_name == "bf16"  # also where NumPy has a stand-in
    for use in (
        lambda: hr.Pipeline(b"", part),
        lambda: hr.to_host(np.zeros((3, 4), "f4"), out=part),
        lambda: hr.load(tmp_path / "a.npy", out=part),
    ):
        with pytest.raises(ValueError, match="not contiguous"):
            use()


def test_rows_that_are_no_whole_elements_apart_are_not_exported() -> None:
    rows = _array.of_numpy(np.zeros((3, 10), "u1"))[:, :8].view("f4")
    assert rows.numpy().strides == (10, 4)
    with pytest.raises(BufferError, match="copy"):
        _dlpack.export(rows._tensor(), None, True)


@pytest.mark.parametrize("key", [4, -5, (0, 3), (0, 0, 0), (..., ...), 2**70])
def test_an_index_beyond_the_end_is_refused(key: Any) -> None:
    with pytest.raises(IndexError):
        array_of((4, 3))[1][key]


@pytest.mark.parametrize(
    "key", [slice(None, None, -1), "a", [1, 2], True, np.True_, np.array([1]), 1.5, slice(1.5)]
)
def test_other_keys_are_refused(key: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"array\.numpy\(\)"):
        array_of((4, 3))[1][key]


# ---- values ----


def test_one_element_is_a_number() -> None:
    for dtype, value in (("f4", 2.5), ("i8", -3), ("bool", True), ("c8", 1 + 2j)):
        for shape in ((), (1,), (1, 1)):
            wanted = np.full(shape, value, dtype)
            array = _array.of_numpy(wanted)
            assert array.item() == value and type(array.item()) is type(wanted.item())
            assert bool(array) and complex(array) == value
            if dtype != "c8":
                assert float(array) == value and int(array) == int(value)
    with pytest.raises(TypeError):
        float(_array.of_numpy(np.ones(1, "c8")))


@pytest.mark.parametrize("what", [float, int, bool, complex, hr.Array.item])
@pytest.mark.parametrize("n", [0, 2])
def test_others_are_no_number(what: Any, n: int) -> None:
    with pytest.raises(ValueError, match=rf"{n} elements.*array\.numpy"):
        what(_array.of_numpy(np.zeros(n)))


def test_bits_of_a_stand_in_are_no_numbers() -> None:
    array = _array.of_numpy(np.full(1, 0x11, "u1"), "f4_e2m1")
    for use in (float, bool, hr.Array.item, hr.Array.tolist):
        with pytest.raises(TypeError, match="f4_e2m1"):
            use(array)
    assert repr(array) == "<headrace.Array (1,) f4_e2m1 on host>"
    assert array.tobytes() == b"\x11" and array.copy().dtype_name == "f4_e2m1"


def _setitem(array: Any) -> None:
    array[0] = 1


@pytest.mark.parametrize("device", ["host", "cuda:0"])
@pytest.mark.parametrize(
    "use",
    [
        lambda a: a == a,
        lambda a: a == 1,
        lambda a: a != None,  # noqa: E711
        lambda a: a < a,
        lambda a: a + 1,
        lambda a: 1 / a,
        lambda a: a @ a,
        lambda a: divmod(2, a),
        lambda a: -a,
        lambda a: abs(a),
        lambda a: a in [1],
        _setitem,
        lambda a: a.sum(),
        lambda a: a.astype("f8"),
        lambda a: a.cpu(),
    ],
)
def test_what_others_compute_is_refused_with_the_way_to_them(use: Any, device: str) -> None:
    array, memory = _array.lent_array(device, 4096, (8,), "f4", stream=None, readonly=True)
    hint = r"array\.numpy\(\) is NumPy's view" if device == "host" else r"torch\.from_dlpack"
    with pytest.raises((TypeError, AttributeError), match=hint):
        use(array)
    memory.end("over")
    with pytest.raises((TypeError, AttributeError), match=hint):  # not what `end` says
        use(array)


def test_identity_is_what_containers_go_by() -> None:
    one, other = array_of((2,))[1], array_of((2,))[1]
    assert {one: 1, other: 2}[one] == 1 and len({one, other, one}) == 2
    assert one in [one] and hash(one) == hash(one)
    assert not hasattr(one, "__array_ufunc__") and getattr(one, "_nothing", 1) == 1
    assert copy.copy(one).tolist() == one.tolist()


def test_numpy_computes_with_it() -> None:
    wanted, array = array_of((2, 3))
    assert np.array_equal(wanted + array, wanted * 2)
    assert np.array_equal(np.sin(array), np.sin(wanted))
    assert (wanted == array).all()


def test_an_element_is_no_index_and_no_count() -> None:
    """bytearray() of indices would be their values in silence, where there is no buffer."""
    array = _array.of_numpy(np.array([1, 2], "u4"))
    for use in (lambda: [1, 2, 3][array[0]], lambda: bytes(3)[array[1]]):
        with pytest.raises(TypeError, match="int"):
            use()
    if sys.version_info >= (3, 12):
        assert bytearray(array) == array.tobytes()
    else:
        with pytest.raises(TypeError, match="tobytes"):
            bytearray(array)
    assert bytes(array) == bytearray(array.numpy().data) == b"\1\0\0\0\2\0\0\0"


def test_a_copy_is_in_c_order_and_its_own() -> None:
    wanted, array = array_of((3, 4), order="F")
    copied = array[:, ::2].copy()
    assert (copied.order, copied.dtype, type(copied)) == ("C", wanted.dtype, hr.Array)
    copied.numpy()[:] = 9
    assert wanted.max() == 11 and copied.reshape(6).tolist() == [9.0] * 6
    _, pipeline = chunks_of(1)
    with next(pipeline) as chunk:
        kept = chunk.copy()
        value = chunk.tobytes()
    assert type(kept) is hr.Array and kept.tobytes() == value


def test_repr_shows_a_few_elements() -> None:
    assert repr(array_of((2, 2), "i4")[1]) == "<headrace.Array (2, 2) i32 on host: 0, 1, 2, 3>"
    _, array = array_of((4, 3), "i4", "F")
    assert repr(array[::2]).endswith("on host, with gaps: 0, 4, 8, 2, 6, 10>")
    assert repr(array).endswith("column-major: 0, 4, 8, 1, 5, 9, ...>")
    assert repr(array[:0]) == "<headrace.Array (0, 3) i32 on host>"
    _, pipeline = chunks_of(1)
    chunk = next(pipeline)
    chunk.release()
    assert repr(chunk) == f"<headrace.Chunk ({N},) u8 on host>"


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


def test_column_major_arrays_have_a_transpose_and_no_other_shape() -> None:
    wanted, array = array_of((2, 4), order="F")
    assert array.order == "F" and array.T.order == "C"
    assert np.array_equal(array.T[1].numpy(), wanted.T[1])
    assert array.strides == wanted.strides
    for use in (lambda: array.reshape(8), lambda: array.view("f8")):
        with pytest.raises(ValueError, match=r"\.copy\(\)"):
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


@pytest.mark.parametrize("memory", ["chunk's own", "source's"])
def test_a_forked_child_reads_what_it_inherits_and_gives_nothing_back(memory: str) -> None:
    data, pipeline = chunks_of(1)
    if memory == "source's":
        pipeline = hr.Pipeline(data)
    chunk = next(pipeline)
    view = chunk.numpy()
    child = os.fork()
    if child == 0:
        failed = True
        try:
            failed = not (np.array_equal(view, data) and np.array_equal(chunk.numpy(), data))
            chunk.release()
            del view, chunk
        finally:
            os._exit(failed or native.hrp_n_holds() != 1)
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


@pytest.mark.parametrize("key", [np.array([True, False]), [0, 1], np.array([0, 1]), True])
def test_masks_and_lists_are_numpys(key):
    array = hr.to_device(np.arange(2), "host")
    with pytest.raises(TypeError, match="masks and lists are for NumPy"):
        array[key]
    with pytest.raises(ValueError, match="must be above 0"):
        array[::-1]
