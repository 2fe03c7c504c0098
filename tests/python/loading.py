# SPDX-License-Identifier: Apache-2.0
"""What tests of load share: types and shapes to draw from, files made by others, comparisons."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import headrace as hr

pytest.importorskip("ml_dtypes")
reference = pytest.importorskip("safetensors.numpy")
deserialize = pytest.importorskip("safetensors").deserialize

driven = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DTYPES = [
    "?",
    "u1",
    "i1",
    "<i2",
    ">u2",
    "<i4",
    ">i8",
    "<f2",
    ">f4",
    "<f8",
    ">f8",
    "<c8",
    ">c16",
    "<M8[ns]",
    ">m8[s]",
    "<U5",
    ">U3",
    "S7",
    [("a", "<i4"), ("b", ">f8", (2,))],
]
dtypes = st.sampled_from([np.dtype(word) for word in DTYPES])
shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
chunk_sizes = st.sampled_from([0, 64, 1000, 4096, 65536])


def filled(dtype, shape, order="C"):
    """Bytes that differ from place to place; of strings only ASCII."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape)) * dtype.itemsize
    data = (np.arange(n, dtype="u4") * 7 % 101 + 1).astype("u1")
    if dtype.kind == "b":
        data %= 2
    if dtype.kind == "U":
        return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape, order=order)
    return data.view(dtype)[: int(np.prod(shape))].reshape(shape, order=order)


def by_reference(path):
    """The tensors as the reference package finds them; its load_file has no floats of 8 bits."""
    found = deserialize(path.read_bytes())
    return {
        name: np.frombuffer(t["data"], hr._dtypes.from_safetensors(t["dtype"]).numpy).reshape(
            t["shape"]
        )
        for name, t in found
    }


def encoded(path, how):
    """The same file as zstd; "table" has a seek table and small frames, "plain" has none."""
    out = f"{path}.zst"
    hr.Pipeline(path, out, encode="zstd", frame_size=4096).run()
    if how == "plain":  # a skippable frame at the end, but not one that is a table
        with open(out, "ab") as file:
            file.write(struct.pack("<II", 0x184D2A50, 4) + b"none")
    return out


HOW = ["raw", "table", "plain"]


def stored(path, how):
    return str(path) if how == "raw" else encoded(str(path), how)


def same(got, wanted):
    """Equal to an array of NumPy's, but for byte order: value by value, and in the same order."""
    array = got.numpy()
    native = wanted if wanted.dtype.names else wanted.astype(wanted.dtype.newbyteorder("="))
    assert (got.shape, array.dtype) == (wanted.shape, native.dtype)
    assert array.tobytes("A") == native.tobytes("A")
    if wanted.size and sum(n > 1 for n in wanted.shape) > 1:
        assert got.strides == wanted.strides


def index_of(n):
    if n == 0:
        return st.slices(n).filter(lambda s: s.step is None or s.step > 0)
    return st.one_of(
        st.integers(-n, n - 1), st.slices(n).filter(lambda s: s.step is None or s.step > 0)
    )


def hand_made(path, tensors, pad=0):
    """A file with tensors as they come, also at odd addresses: name -> (kind, shape)."""
    header, data = {}, b""
    for i, (name, (kind, shape)) in enumerate(tensors.items()):
        n = int(np.prod(shape)) * hr._dtypes.from_safetensors(kind).bits // 8
        header[name] = {
            "dtype": kind,
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + n],
        }
        data += (
            ((np.arange(n, dtype="u4") * (2 * i + 7)) % (2 if kind == "BOOL" else 53))
            .astype("u1")
            .tobytes()
        )
    text = json.dumps(header).encode() + b" " * pad
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return data


def sharded(folder):
    weights = {}
    for i in range(3):
        tensors = {f"t{i}.{j}": filled("i2", (i + 1, 100 + j)).astype("f4") for j in range(3)}
        reference.save_file(tensors, folder / f"m-{i}.safetensors")
        weights.update(tensors)
    path = folder / "m.safetensors.index.json"
    names = {name: f"m-{name[1]}.safetensors" for name in weights}
    path.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return path, weights
