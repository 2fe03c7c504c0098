# SPDX-License-Identifier: Apache-2.0
"""load and save with memory of a GPU, over the fake driver. Run by test_load.py in a process of its
own: other tests are not to see a GPU."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import struct
from typing import Any, Iterator

import numpy as np
import pytest

import headrace as hr
from headrace import _load_parts
from headrace._library import native

cuda = ctypes.CDLL(os.environ["HR_LIBCUDA"])
cuda.fake_cuda_host.restype = ctypes.c_void_p
cuda.fake_cuda_host.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
for name in ("cuStreamSynchronize", "cuStreamDestroy_v2", "cuCtxPushCurrent_v2"):
    getattr(cuda, name).argtypes = [ctypes.c_void_p]
cuda.cuMemcpyHtoDAsync_v2.argtypes = [
    ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
]  # fmt: skip
cuda.cuDevicePrimaryCtxRetain.argtypes = [ctypes.c_void_p, ctypes.c_int]
cuda.cuStreamCreate.argtypes = [ctypes.c_void_p, ctypes.c_uint]

HOW = ["raw", "table", "plain"]


def device_bytes(array: Any) -> bytes:
    """What a GPU's array has in it now."""
    if not array.nbytes:
        return b""
    return ctypes.string_at(cuda.fake_cuda_host(array.ptr, array.nbytes), array.nbytes)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
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


MODEL = {
    "odd": np.arange(100_003, dtype="u4").astype("u1"),
    "w": np.arange(70_000, dtype="f4").reshape(100, 700),
    "empty": np.zeros((0, 3), "f8"),
    "scalar": np.array(7, "i8"),
    "last": np.arange(33, dtype="f8"),
}


def model(folder: Any, how: str) -> str:
    path = str(folder / "m.safetensors")
    header, data = {}, b""
    names = {"u1": "U8", "f4": "F32", "f8": "F64", "i8": "I64"}
    for name, array in MODEL.items():
        header[name] = {
            "dtype": names[array.dtype.str[1:]],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path if how == "raw" else encoded(path, how)


def encoded(path: str, how: str) -> str:
    out = f"{path}.zst"
    hr.Pipeline(path, out, encode="zstd", frame_size=4096).run()
    if how == "plain":
        with open(out, "ab") as file:
            file.write(struct.pack("<II", 0x184D2A50, 4) + b"none")
    return out


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("chunk_size", [0, 4096])
def test_a_model_goes_to_a_gpu(tmp_path: Any, how: str, chunk_size: int) -> None:
    got = hr.load(model(tmp_path, how), device="cuda:0", chunk_size=chunk_size)
    assert set(got) == set(MODEL)
    for name, array in got.items():
        assert (array.device, array.shape) == ("cuda:0", MODEL[name].shape)
        assert array.ptr % 256 == 0
        assert device_bytes(array) == MODEL[name].tobytes()
    assert native.hrp_n_holds() == 1
    kept = got["last"]
    del got, array
    gc.collect()
    assert device_bytes(kept) == MODEL["last"].tobytes()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pitch", [0, 1 << 18])
def test_slices_go_to_a_gpu(tmp_path: Any, how: str, pitch: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(_load_parts, "_RUN_PITCH", pitch)
    slices = {"w": (slice(3, 90), slice(100, 333)), "odd": slice(1, 50_000)}
    got = hr.load(model(tmp_path, how), slices=slices, device="cuda:0")
    for name, array in got.items():
        assert device_bytes(array) == MODEL[name][slices.get(name, ())].tobytes()


@pytest.mark.parametrize("how", HOW)
def test_an_npy_goes_to_a_gpu_and_back(tmp_path: Any, how: str) -> None:
    path = str(tmp_path / "a.npy")
    data = np.arange(60_000, dtype="f8").reshape(200, 300, order="F")
    np.save(path, data)
    array = hr.load(path if how == "raw" else encoded(path, how), device="cuda:0")
    assert (array.order, array.strides) == ("F", data.strides)
    assert device_bytes(array) == data.tobytes("A")
    hr.save(tmp_path / "b.npy", array)
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
    with pytest.raises(ValueError, match="column-major"):
        hr.save(tmp_path / "b.raw", array)


@pytest.mark.parametrize("how", HOW)
def test_into_arrays_of_a_gpu(tmp_path: Any, how: str) -> None:
    path = model(tmp_path, how)
    there = hr.load(path, device="cuda:0", keys=["w", "last"])
    before = {name: array.ptr for name, array in there.items()}
    for name, array in there.items():
        ctypes.memset(cuda.fake_cuda_host(array.ptr, array.nbytes), 0xFF, array.nbytes)
        assert device_bytes(array) != MODEL[name].tobytes()
    got = hr.load(path, out=there)
    assert all(got[name] is there[name] for name in there)
    for name, array in there.items():
        assert array.ptr == before[name] and device_bytes(array) == MODEL[name].tobytes()


@pytest.mark.parametrize("ending", ["", ".zst"])
def test_a_model_comes_from_a_gpu(tmp_path: Any, ending: str) -> None:
    on_gpu = hr.load(model(tmp_path, "raw"), device="cuda:0")
    mixed = {**on_gpu, "w": MODEL["w"], "row": on_gpu["w"][1]}
    path = tmp_path / f"n.safetensors{ending}"
    hr.save(path, mixed)
    got = hr.load(path)
    for name, array in got.items():
        assert array.numpy().tobytes() == {**MODEL, "row": MODEL["w"][1]}[name].tobytes()


def test_rows_of_a_gpus_array_as_items(tmp_path: Any) -> None:
    rows = hr.load(model(tmp_path, "raw"), device="cuda:0")["w"]
    hr.save(tmp_path / "b.npy", iter(rows), shape=(100, 700))
    assert (np.load(tmp_path / "b.npy") == MODEL["w"]).all()


class Producer:
    """An array of another library whose work on a stream is not done yet."""

    def __init__(self, array: Any, data: Any, stream: int) -> None:
        self.array = array
        self.data = data
        assert cuda.cuMemcpyHtoDAsync_v2(array.ptr, data.ctypes.data, data.nbytes, stream) == 0
        self.__cuda_array_interface__ = {
            "shape": data.shape,
            "typestr": data.dtype.str,
            "data": (array.ptr, False),
            "version": 3,
            "stream": stream,
        }


@pytest.mark.parametrize("name", ["a.npy", "a.raw.zst", "a.safetensors"])
def test_a_producers_stream_is_waited_for(tmp_path: Any, stream: int, name: str) -> None:
    memory = hr.load(model(tmp_path, "raw"), keys="w", device="cuda:0")["w"]
    cuda.fake_cuda_set_delay(20000)
    data = MODEL["w"] + 1
    array = Producer(memory, data, stream)
    hr.save(tmp_path / name, {"w": array} if "safetensors" in name else array)
    got = hr.load(tmp_path / name, **({"dtype": "f4"} if "raw" in name else {}))
    got = got["w"] if isinstance(got, dict) else got
    assert got.numpy().tobytes() == data.tobytes()


def test_what_fails_gives_the_memory_back(tmp_path: Any) -> None:
    path = model(tmp_path, "table")
    with open(path, "r+b") as file:
        file.seek(20_000)
        file.write(b"\xff" * 200)
    with pytest.raises(ValueError, match=r"m\.safetensors\.zst"):
        hr.load(path, device="cuda:0")


def test_a_device_that_is_not_there(tmp_path: Any) -> None:
    path = model(tmp_path, "raw")
    with pytest.raises(hr.HeadraceError, match="cuda:77"):
        hr.load(path, device="cuda:77")
    with pytest.raises((ValueError, hr.HeadraceError)):
        hr.load(path, device="nonsense")
