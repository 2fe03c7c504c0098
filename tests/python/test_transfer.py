# SPDX-License-Identifier: Apache-2.0
"""to_device and to_host, on the host device; over the fake driver in over_fake_gpu.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr


def made(shape: Any, dtype: Any, order: Any = "C") -> Any:
    n = int(np.prod(shape))
    return np.arange(n).astype(dtype).reshape(shape, order=order)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 6), max_size=4).map(tuple),
    dtype=st.sampled_from(["u1", "i2", ">i2", "f4", ">f8", "c16", "bool", "M8[ns]", "U3"]),
    order=st.sampled_from("CF"),
)
def test_there_and_back(shape: tuple[int, ...], dtype: str, order: str) -> None:
    wanted = made(shape, dtype, order)
    there = hr.to_device(wanted, "host")
    back = hr.to_host(there)
    assert there.shape == shape and back.dtype == wanted.dtype.newbyteorder("=")
    assert np.array_equal(back, wanted)
    assert back.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"]
    assert np.array_equal(there.numpy(), wanted)
    assert not np.shares_memory(there.numpy(), wanted)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 5_000_001])
def test_sizes(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype="u1")
    assert np.array_equal(hr.to_host(hr.to_device(data, "host")), data)


@pytest.mark.parametrize("there, name", [("f4", "f32"), ("bf16", "bf16"), ("int64", "i64")])
def test_casts(there: str, name: str) -> None:
    wanted = made((7, 5), ">f8")
    array = hr.to_device(wanted, "host", dtype=there)
    assert array.dtype_name == name and array.shape == (7, 5)
    assert np.array_equal(hr.to_host(array, dtype="f8"), wanted)


def test_into_an_array_that_is_there() -> None:
    wanted = made((4, 6), "f8")
    out = np.zeros((4, 6), ">f4")
    assert hr.to_host(wanted, out=out) is out
    assert np.array_equal(out, wanted)
    out2 = np.zeros((4, 6), "f4", order="F")
    assert hr.to_device(np.asfortranarray(wanted), out=out2) is out2
    assert np.array_equal(out2, wanted)
    holds = bytearray(8)
    hr.to_host(np.arange(8, dtype="u1"), out=holds)
    assert holds == bytes(range(8))


def test_gaps_on_the_host_are_closed() -> None:
    wanted = made((8, 8), "i4")[::2, 1::3]
    assert np.array_equal(hr.to_host(hr.to_device(wanted, "host")), wanted)


def test_out_that_does_not_fit_is_refused() -> None:
    data = made((4, 6), "f8")
    for out in (np.zeros((6, 4)), np.zeros(24), np.zeros((4, 6), order="F")):
        with pytest.raises(ValueError, match="out is"):
            hr.to_host(data, out=out)
    with pytest.raises(ValueError, match="out is"):
        hr.to_device(data, out=np.zeros((4, 6), "f4"), dtype="f8")
    with pytest.raises(ValueError, match="out is on host, device= names cuda:0"):
        hr.to_device(data, "cuda:0", out=np.zeros((4, 6)))
    readonly = np.zeros((4, 6))
    readonly.flags.writeable = False
    with pytest.raises(BufferError):
        hr.to_host(data, out=readonly)
    with pytest.raises(ValueError, match="contiguous"):
        hr.to_host(data, out=np.zeros((4, 12))[:, ::2])


def test_what_has_no_cast_is_refused() -> None:
    with pytest.raises(ValueError, match="no cast"):
        hr.to_device(np.zeros(3, "c8"), "host", dtype="f4")
    with pytest.raises(ValueError, match="objects"):
        hr.to_device(np.array([None]), "host")
    with pytest.raises(TypeError):
        hr.to_device([1, 2, 3], "host")
    with pytest.raises(NotImplementedError):
        hr.to_device(np.zeros(3), "hip:99")


def test_nothing_is_left(resources: Any) -> None:
    data = np.zeros(100_000)

    def once() -> None:
        hr.to_host(hr.to_device(data, "host"))

    once()
    resources()  # collects what tests before left,
    once()  # and this ends it
    before = resources()
    for _ in range(100):
        once()
    after = resources()
    assert after[1:] == before[1:] and after[0] < before[0] + 10_000


def test_buffers_have_their_byte_order() -> None:
    wanted = np.arange(5, dtype=">f4")
    assert np.array_equal(hr.to_host(memoryview(wanted)), wanted)
    assert np.array_equal(hr.to_device(memoryview(wanted), "host").numpy(), wanted)
    out = np.zeros(5, ">f4")
    hr.to_host(wanted.astype("f4"), out=memoryview(out))
    assert np.array_equal(out, wanted)


def test_streams_and_transfers_over_the_fake_driver() -> None:
    folder = os.environ.get("HEADRACE_LIBRARY_DIR", "")
    driver = Path(folder, "tests/fake_cuda/libcuda.so.1").resolve()
    if not folder or not driver.exists():
        pytest.skip("the fake driver is not built")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(Path(__file__).parent / "streams_over_fake_gpu.py")],
        env={**os.environ, "HR_LIBCUDA": str(driver)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=280,
        text=True,
    )
    assert done.returncode == 0, done.stdout
