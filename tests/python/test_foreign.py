# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries: what is seen of them, and what is refused before anything starts.
Libraries for GPUs are played by classes with their interfaces."""

from __future__ import annotations

import array as arrays
import ctypes
import mmap
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _array, _foreign, _streams

from doubles import ByHand


def seen(obj: Any, writable: bool = False) -> Any:
    return _foreign.describe(obj, writable)


# ---- the host ----


@pytest.mark.parametrize(
    "obj, nbytes, readonly",
    [
        (b"abc", 3, True),
        (b"", 0, True),
        (bytearray(b"abc"), 3, False),
        (memoryview(b"abcd")[1:3], 2, True),
        (arrays.array("d", [1, 2]), 16, False),
        ((ctypes.c_int * 3)(), 12, False),
        (np.zeros((2, 3), "f4"), 24, False),
        (np.float64(1), 8, True),
        (np.zeros(3, "M8[s]"), 24, False),
        (np.zeros((0, 3)), 0, False),
    ],
)
def test_memory_of_the_host_is_seen(obj: Any, nbytes: int, readonly: bool) -> None:
    found = seen(obj)
    assert (found.nbytes, found.device, found.readonly, found.stream) == (
        nbytes,
        "host",
        readonly,
        None,
    )
    if readonly:
        with pytest.raises(BufferError, match="read-only"):
            seen(obj, writable=True)
    else:
        assert seen(obj, writable=True).nbytes == nbytes


def test_it_is_the_same_memory() -> None:
    data = np.arange(6, dtype="f4").reshape(2, 3)
    assert seen(data).ptr == data.ctypes.data and seen(data.T).order == "F"
    assert seen(data[1:]).ptr == data[1:].ctypes.data
    mapped = mmap.mmap(-1, 4096)
    assert seen(mapped, writable=True).nbytes == 4096


def test_a_bytearray_keeps_its_size_while_it_is_in_use() -> None:
    data = bytearray(10)
    found = seen(data, writable=True)
    with pytest.raises(BufferError):
        data.append(1)
    del found
    data.append(1)


@pytest.mark.parametrize("name", ["step", "backwards", "columns", "broadcast"])
def test_gaps_are_copied_from_and_refused_to(name: str) -> None:
    data = np.arange(24, dtype="i4").reshape(4, 6)
    view = {
        "step": data[::2],
        "backwards": data[::-1],
        "columns": data[:, 1:3],
        "broadcast": np.broadcast_to(data[0], (3, 6)),
    }[name]
    found = seen(view)
    assert found.nbytes == view.size * 4 and found.order == "C"
    assert np.array_equal(found.owner, view) and not np.shares_memory(found.owner, data)
    with pytest.raises((ValueError, BufferError)):
        seen(view, writable=True)
    out = bytearray(found.nbytes)
    hr.Pipeline(view, out).run()
    assert bytes(out) == np.ascontiguousarray(view).tobytes()


@given(st.lists(st.integers(0, 3), max_size=4), st.permutations(range(4)), st.data())
def test_order_is_what_numpy_says(shape: list[int], axes: list[int], data: Any) -> None:
    base = np.zeros(shape, "i2")
    view = base.transpose([axis for axis in axes if axis < len(shape)])
    cut = tuple(slice(data.draw(st.integers(0, 1)), None) for _ in shape)
    view = view[cut]
    order = _foreign.order_of(view.shape, view.strides, 2)
    if view.flags.c_contiguous:
        assert order == "C"
    elif view.flags.f_contiguous:
        assert order == "F"
    else:
        assert order is None


@pytest.mark.parametrize("obj", ["text", [1, 2], 3, None, object(), {1: 2}])
def test_what_is_no_array_is_refused(obj: Any) -> None:
    assert not _foreign.is_array(obj)
    with pytest.raises(TypeError, match="no array"):
        seen(obj)


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="objects"):
        seen(np.array([object()]))


def test_our_own_arrays_are_seen() -> None:
    data = np.arange(8, dtype="f4")
    found = seen(_array.of_numpy(data)[2:], writable=True)
    assert (found.ptr, found.nbytes, found.dtype.name) == (data.ctypes.data + 8, 24, "f32")


# ---- __cuda_array_interface__ ----


class OnGpu:
    def __init__(self, **interface: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (4, 6),
            "typestr": "<f4",
            "data": (0x7000, False),
            "version": 3,
            **interface,
        }


def test_arrays_of_a_gpu_are_seen() -> None:
    found = seen(OnGpu(), writable=True)
    assert (found.ptr, found.nbytes, found.shape, found.dtype.name) == (0x7000, 96, (4, 6), "f32")
    assert (found.device, found.order, found.stream) == ("cuda:0", "C", None)


@pytest.mark.parametrize("stream, waits_for", [(None, None), (1, 1), (2, 2), (0x5000, 0x5000)])
def test_its_stream_is_waited_for(stream: Any, waits_for: Any) -> None:
    assert seen(OnGpu(stream=stream)).stream == waits_for


@pytest.mark.parametrize("stream", [0, -1])
def test_streams_that_are_none_are_refused(stream: int) -> None:
    with pytest.raises(ValueError, match="stream"):
        seen(OnGpu(stream=stream))


@pytest.mark.parametrize(
    "interface, order",
    [
        ({"strides": None}, "C"),
        ({"strides": (24, 4)}, "C"),
        ({"strides": (4, 16)}, "F"),
        ({"shape": (1, 6), "strides": (999, 4)}, "C"),
        ({"shape": (0, 6), "strides": (1, 1), "data": (0, False)}, "C"),
        ({"shape": (0, 6), "data": (None, True)}, "C"),
        ({"shape": ()}, "C"),
    ],
)
def test_layouts_without_gaps_are_taken(interface: Any, order: str) -> None:
    assert seen(OnGpu(**interface)).order == order


@pytest.mark.parametrize("strides", [(48, 4), (-24, 4), (0, 4), (24, 8)])
@pytest.mark.parametrize("writable", [False, True])
def test_gaps_on_a_gpu_are_refused(strides: Any, writable: bool) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        seen(OnGpu(strides=strides), writable)


def test_read_only_and_masked_arrays_of_a_gpu_are_refused() -> None:
    assert seen(OnGpu(data=(0x7000, True))).readonly
    with pytest.raises(BufferError, match="read-only"):
        seen(OnGpu(data=(0x7000, True)), writable=True)
    with pytest.raises(ValueError, match="mask"):
        seen(OnGpu(mask=OnGpu()))


def test_records_on_a_gpu_are_seen() -> None:
    found = seen(OnGpu(shape=(3,), typestr="|V6", descr=[("a", "<f4"), ("b", "<i2")]))
    assert found.nbytes == 18 and found.dtype.numpy.names == ("a", "b")
    assert seen(OnGpu(descr=[("", "<f4")])).dtype.name == "f32"


def library_class(monkeypatch: Any, library: str, base: Any = OnGpu, **of_module: Any) -> Any:
    module = types.ModuleType(library)
    for name, value in of_module.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, library, module)
    return type("Array", (base,), {"__module__": f"{library}.core"})


@pytest.mark.parametrize("is_hip, device", [(False, "cuda:3"), (True, "hip:3")])
def test_cupy_tells_vendor_and_number(monkeypatch: Any, is_hip: bool, device: str) -> None:
    cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(is_hip=is_hip))
    obj = library_class(monkeypatch, "cupy", cuda=cuda)()
    obj.device = types.SimpleNamespace(id=3)
    assert seen(obj).device == device


def test_hip_python_is_of_rocm(monkeypatch: Any) -> None:
    assert seen(library_class(monkeypatch, "hip")()).device == "hip:0"


# ---- DLPack ----


@pytest.mark.parametrize(
    "device, name, asked, waits_for",
    [
        ((2, 1), "cuda:1", 1, 1),
        ((13, 0), "cuda:0", 1, 1),
        ((10, 0), "hip:0", 0, 1),
        ((1, 0), "host", None, None),
        ((3, 0), "host", None, None),
        ((11, 0), "host", None, None),
    ],
)
def test_dlpack_is_asked_on_the_default_stream(
    device: Any, name: str, asked: Any, waits_for: Any
) -> None:
    exporter = ByHand(device=device)
    found = seen(exporter)
    assert (found.device, exporter.stream, found.stream) == (name, asked, waits_for)
    assert (found.ptr, found.nbytes, found.shape) == (0x1000, 24, (2, 3))
    del found
    assert exporter.n_ended == 1


def test_read_only_tensors_are_refused_as_sinks(monkeypatch: Any) -> None:
    given_ = ByHand(flags=1)
    with pytest.raises(BufferError, match="read-only"):
        seen(given_, writable=True)
    assert given_.n_ended == 1
    of_jax = library_class(monkeypatch, "jaxlib", ByHand)()
    with pytest.raises(BufferError, match="read-only"):
        seen(of_jax, writable=True)


def test_gaps_in_a_tensor_are_refused() -> None:
    from headrace._library import ffi

    strides = ffi.new("int64_t[]", [6, 2])
    with pytest.raises(ValueError, match="contiguous"):
        seen(ByHand(strides=strides))


# ---- PyTorch, played ----


class Tensor:
    layout = "torch.strided"
    dtype = "torch.bfloat16"
    shape: tuple[int, ...] = (2, 3)
    device = types.SimpleNamespace(type="cuda", index=1)
    strides: tuple[int, ...] = (3, 1)

    def data_ptr(self) -> int:
        return 0x9000

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def element_size(self) -> int:
        return 2

    def numel(self) -> int:
        return 6

    def stride(self) -> tuple[int, ...]:
        return self.strides


def torch_class(monkeypatch: Any, hip: Any = None, stream: int = 0) -> Any:
    current = types.SimpleNamespace(cuda_stream=stream)
    cuda = types.SimpleNamespace(current_stream=lambda device: current, is_initialized=lambda: True)
    version = types.SimpleNamespace(hip=hip)
    return library_class(monkeypatch, "torch", Tensor, cuda=cuda, version=version)


@pytest.mark.parametrize("hip, device", [(None, "cuda:1"), ("6.2", "hip:1")])
@pytest.mark.parametrize("stream, waits_for", [(0, 1), (0x5000, 0x5000)])
def test_tensors_of_pytorch_are_seen(
    monkeypatch: Any, hip: Any, device: str, stream: int, waits_for: int
) -> None:
    found = seen(torch_class(monkeypatch, hip, stream)(), writable=True)
    assert (found.device, found.stream, found.dtype.name) == (device, waits_for, "bf16")
    assert (found.ptr, found.nbytes) == (0x9000, 12)


@pytest.mark.parametrize(
    "field, value, error",
    [
        ("layout", "torch.sparse_coo", TypeError),
        ("device", types.SimpleNamespace(type="mps", index=0), TypeError),
        ("strides", (6, 2), ValueError),
        ("dtype", "torch.quint8", ValueError),
        ("is_conj", lambda self: True, ValueError),
    ],
)
def test_tensors_that_are_no_plain_memory_are_refused(
    monkeypatch: Any, field: str, value: Any, error: Any
) -> None:
    kind = torch_class(monkeypatch)
    setattr(kind, field, value)
    with pytest.raises(error):
        seen(kind())


def test_real_tensors_are_seen() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32, requires_grad=True).reshape(2, 3)
    out = torch.zeros(6, dtype=torch.bfloat16)
    assert seen(tensor.T).order == "F" and seen(out).dtype.name == "bf16"
    hr.Pipeline(tensor, out, kernels="cast:f32,bf16", device="host").run()
    assert out.tolist() == [0, 1, 2, 3, 4, 5]
    gap = torch.arange(6)[::2]
    assert seen(gap).nbytes == 24
    with pytest.raises(ValueError, match="contiguous"):
        seen(gap, writable=True)
    chunk = next(iter(hr.Pipeline(iter([bytes(range(8))]))))
    assert torch.from_dlpack(chunk).tolist() == list(range(8))


# ---- streams ----


@pytest.mark.parametrize(
    "stream, number",
    [
        (0, 1),
        (7, 7),
        (types.SimpleNamespace(cuda_stream=0), 1),
        (types.SimpleNamespace(ptr=9), 9),
        (types.SimpleNamespace(handle=types.SimpleNamespace(value=None)), 1),
        (types.SimpleNamespace(__cuda_stream__=lambda: (0, 11)), 11),
    ],
)
def test_streams_of_all_libraries_have_numbers(stream: Any, number: int) -> None:
    assert _streams.handle(stream) == number


@pytest.mark.parametrize("stream", ["7", True, 1.5, object()])
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    with pytest.raises(TypeError, match="no stream|integer is wanted"):
        _streams.handle(stream)


@pytest.fixture
def no_libraries(monkeypatch: Any) -> Iterator[Any]:
    for name in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield monkeypatch


def test_current_streams_are_those_of_loaded_libraries(no_libraries: Any) -> None:
    assert _streams.current("cuda:0") == {_streams.LEGACY}
    torch_class(no_libraries, stream=0x5000)
    assert _streams.current("cuda:0") == {0x5000}


@pytest.mark.parametrize(
    "device, stream, number",
    [
        ("cuda:0", None, 1),
        ("cuda:0", 1, 1),
        ("cuda:0", 2, 2),
        ("cuda:0", -1, None),
        ("hip:0", None, 1),
        ("hip:0", 0, 1),
        ("hip:0", 77, 77),
    ],
)
def test_consumers_streams_are_understood(device: str, stream: Any, number: Any) -> None:
    assert _streams.of_consumer(stream, device) == number


@pytest.mark.parametrize(
    "device, stream", [("cuda:0", 0), ("hip:0", 1), ("hip:0", 2), ("cuda:0", -2)]
)
def test_consumers_streams_that_are_none_are_refused(device: str, stream: int) -> None:
    with pytest.raises(ValueError, match="not allowed|is possible"):
        _streams.of_consumer(stream, device)


def test_masked_arrays_are_refused(tmp_path):
    masked = np.ma.masked_equal(np.arange(6, dtype="f4"), 3)
    for call in (
        lambda: hr.Pipeline(masked, hr.NULL),
        lambda: hr.Pipeline(b"", masked),
        lambda: hr.Pipeline(iter([masked]), hr.NULL).run(),
        lambda: hr.stream(masked),
        lambda: hr.save(tmp_path / "a.npy", masked),
        lambda: hr.save(tmp_path / "a.npy", [masked], shape=6),
        lambda: hr.to_host(masked),
        lambda: hr.to_device(masked, "host"),
    ):
        with pytest.raises(TypeError, match=r"masked.*\.filled\("):
            call()
    assert hr.to_host(masked.filled(-1)).tolist() == [0, 1, 2, -1, 4, 5]
