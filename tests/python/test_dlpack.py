# SPDX-License-Identifier: Apache-2.0
"""Capsules of DLPack: made for others, taken from others, ended exactly once."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import _array, _dlpack, _dtypes
from headrace._library import ffi, native

from doubles import ByHand

N = 240


def chunk_of(data: bytes) -> Any:
    """In memory under a hold, as chunks are."""
    return next(iter(hr.Pipeline(iter([data]), chunk_size=len(data), depth=2)))


@pytest.fixture
def n_holds() -> Any:
    gc.collect()
    before = native.hrp_n_holds()

    def more() -> int:
        gc.collect()
        return int(native.hrp_n_holds() - before)

    return more


def name_of(capsule: Any) -> str:
    return repr(capsule).split('"')[1]


# ---- made ----


def test_numpy_takes_both_kinds(n_holds: Any) -> None:
    data = bytes(range(N))
    chunk = chunk_of(data)
    assert name_of(chunk.__dlpack__()) == "dltensor"
    assert name_of(chunk.__dlpack__(max_version=(0, 8))) == "dltensor"
    assert name_of(chunk.__dlpack__(max_version=(1, 0))) == "dltensor_versioned"
    assert name_of(chunk.__dlpack__(max_version=(9, 0))) == "dltensor_versioned"
    array = np.from_dlpack(chunk)
    assert array.tobytes() == data and array.ctypes.data == chunk.ptr
    assert chunk.__dlpack_device__() == (1, 0)
    assert n_holds() == 1


@pytest.mark.parametrize("dtype", ["int8", "u2", "f2", "f4", "f8", "c8", "bool"])
def test_types_and_shapes_come_through(dtype: str) -> None:
    array = chunk_of(bytes(N)).view(dtype).reshape(2, 3, -1)
    seen = np.from_dlpack(array)
    assert (seen.dtype, seen.shape) == (np.dtype(dtype), array.shape)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), (1, 24, 1), ()])
def test_odd_shapes_come_through(shape: Any) -> None:
    n = int(np.prod(shape))
    chunk = chunk_of(bytes(N))
    array = chunk[0] if shape == () else chunk[:n].reshape(shape)
    assert np.from_dlpack(array).shape == shape


def test_column_major_comes_through() -> None:
    array = chunk_of(bytes(range(N))).reshape(2, 12, 10).T
    seen = np.from_dlpack(array)
    assert seen.strides == array.strides == (1, 10, 120)
    assert np.array_equal(seen, array.numpy())


@pytest.mark.parametrize("word", ["bf16", "f8_e4m3", "f8_e5m2"])
def test_small_floats_have_their_codes(word: str) -> None:
    capsule = chunk_of(bytes(N)).view(word).__dlpack__(max_version=(1, 1))
    assert _dlpack.consume(capsule).dtype is _dtypes.find(word)


def test_types_that_dlpack_lacks_are_refused() -> None:
    with pytest.raises(BufferError, match="datetime64"):
        chunk_of(bytes(N)).view("M8[s]").__dlpack__(max_version=(1, 0))


def test_read_only_needs_a_capsule_that_says_so() -> None:
    memory = _array.of_numpy(np.arange(8))._memory
    memory.readonly = True
    data = np.arange(8)
    array = _array.Array(memory, data.ctypes.data, (8,), _dtypes.find("int64"))
    memory.base = None
    with pytest.raises(BufferError, match="read-only"):
        array.__dlpack__()
    assert _dlpack.consume(array.__dlpack__(max_version=(1, 0))).readonly


def test_another_device_is_a_copy_or_refused() -> None:
    chunk = chunk_of(bytes(range(N)))
    with pytest.raises(BufferError, match="copy"):
        chunk.__dlpack__(dl_device=(2, 0))
    assert name_of(chunk.__dlpack__(dl_device=(1, 0), copy=False)) == "dltensor"
    copied = _dlpack.consume(chunk.__dlpack__(copy=True, max_version=(1, 0)))
    assert copied.ptr != chunk.ptr and copied.shape == (N,)


def test_the_host_has_no_streams() -> None:
    with pytest.raises(BufferError, match="stream"):
        chunk_of(bytes(N)).__dlpack__(stream=1)


def test_memory_of_numpy_is_kept_by_numpy() -> None:
    array = _array.of_numpy(np.arange(12).reshape(3, 4))
    seen = [np.from_dlpack(array), np.from_dlpack(array.T), np.from_dlpack(array[1:])]
    where = seen[0].ctypes.data
    del array
    gc.collect()
    assert seen[0].tolist() == np.arange(12).reshape(3, 4).tolist()
    assert seen[2].ctypes.data == where + 32 and seen[1].shape == (4, 3)


# ---- taken ----


def test_a_used_capsule_is_refused() -> None:
    for versions in ({}, {"max_version": (1, 0)}):
        capsule = chunk_of(bytes(N)).__dlpack__(**versions)
        _dlpack.consume(capsule)
        assert name_of(capsule).startswith("used_")
        with pytest.raises(ValueError, match="before"):
            _dlpack.consume(capsule)


@pytest.mark.parametrize("given", [None, 3, "dltensor", object()])
def test_what_is_no_capsule_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="no capsule"):
        _dlpack.consume(given)


def test_arrays_of_numpy_are_taken() -> None:
    wanted = np.arange(24, dtype="f4").reshape(4, 6)
    for view in (wanted, wanted.T, wanted[1:, 2:4]):
        tensor = _dlpack.consume(_dlpack.request(view, None))
        assert tensor.ptr == view.ctypes.data and tensor.shape == view.shape
        c_order = (None,) if view.flags.c_contiguous else ()  # of some versions of NumPy
        assert tensor.strides in (tuple(s // 4 for s in view.strides), *c_order)
        assert tensor.dtype.name == "f32" and tensor.device == "host"


def test_the_exporters_memory_stays_until_the_owner_is_gone() -> None:
    class Watched(np.ndarray):  # type: ignore[type-arg]
        gone = False

        def __del__(self) -> None:
            Watched.gone = True

    array = np.arange(8).view(Watched)
    tensor = _dlpack.consume(_dlpack.request(array, None))
    del array
    gc.collect()
    assert not Watched.gone
    tensor.owner = None
    gc.collect()
    assert Watched.gone


def test_an_exporter_of_before_1_0_is_asked_in_its_way() -> None:
    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            return np.arange(3).__dlpack__()

    assert _dlpack.consume(_dlpack.request(Old(), None)).shape == (3,)


# ---- made by hand: what no library here can make ----


@pytest.mark.parametrize("versioned", [False, True])
def test_each_tensor_is_ended_once(versioned: bool) -> None:
    unused, used = ByHand(versioned), ByHand(versioned)
    capsule = unused.__dlpack__()
    del capsule
    capsule = used.__dlpack__()
    tensor = _dlpack.consume(capsule)
    del capsule
    gc.collect()
    assert (unused.n_ended, used.n_ended) == (1, 0)
    del tensor
    gc.collect()
    assert (unused.n_ended, used.n_ended) == (1, 1)


def test_a_tensor_without_deleter_needs_none() -> None:
    given = ByHand()
    given.managed.deleter = ffi.NULL
    tensor = _dlpack.consume(given.__dlpack__())
    del tensor
    gc.collect()
    assert given.n_ended == 0


@pytest.mark.parametrize(
    "device, name",
    [
        ((1, 0), "host"),
        ((2, 1), "cuda:1"),
        ((3, 0), "host"),
        ((10, 2), "hip:2"),
        ((11, 0), "host"),
        ((13, 0), "cuda:0"),
    ],
)
def test_devices_have_names(device: Any, name: str) -> None:
    assert _dlpack.consume(ByHand(device=device).__dlpack__()).device == name


def test_offsets_and_flags_are_read() -> None:
    tensor = _dlpack.consume(ByHand(byte_offset=64, flags=1).__dlpack__())
    assert tensor.ptr == 0x1040 and tensor.readonly and tensor.strides is None


@pytest.mark.parametrize(
    "fields", [{"device": (7, 0)}, {"major": 2}, {"code": 3, "bits": 64}, {"lanes": 4}]
)
def test_what_is_not_spoken_is_refused_and_ended_once(fields: Any) -> None:
    given = ByHand(**fields)
    capsule = given.__dlpack__()
    with pytest.raises(BufferError):
        _dlpack.consume(capsule)
    del capsule
    gc.collect()
    assert given.n_ended == 1


# ---- layout ----


def test_the_structs_are_laid_out_as_the_specification_has_them() -> None:
    """Against ctypes, which lays out structs as C does, by the fields of the specification."""

    class Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
        ]

    class Versioned(ctypes.Structure):
        _fields_ = [
            ("major", ctypes.c_uint32),
            ("minor", ctypes.c_uint32),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
            ("flags", ctypes.c_uint64),
            ("tensor", Tensor),
        ]

    for name, kind in (("hrp_dl_tensor", Tensor), ("hrp_dl_versioned", Versioned)):
        assert ffi.sizeof(f"struct {name}") == ctypes.sizeof(kind)
        for field in kind._fields_:
            offset = ffi.offsetof(f"struct {name}", field[0])
            assert offset == getattr(kind, field[0]).offset
    assert ffi.sizeof("struct hrp_dl_tensor") == 48


@pytest.mark.parametrize("word", ["bf16", "bool", "f8_e4m3", "i64", "c128"])
@pytest.mark.parametrize("versioned", [False, True])
def test_numpys_memory_has_its_true_type(word: str, versioned: bool) -> None:
    """Also those that NumPy does not export, or has an unsigned integer for."""
    width = _dtypes.find(word).numpy.itemsize
    array = _array.of_numpy(np.zeros(4 * width, "u1").view(_dtypes.find(word).numpy), word)
    found = _dlpack.consume(array[::2].__dlpack__(max_version=(1, 0) if versioned else None))
    assert (found.dtype.name, found.shape, found.ptr) == (word, (2,), array.ptr)
