# SPDX-License-Identifier: Apache-2.0
"""save against numpy.save and the reference safetensors package, byte by byte."""

from __future__ import annotations

import os
from io import BytesIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import headrace as hr
from headrace import errors

ml_dtypes = pytest.importorskip("ml_dtypes")
reference = pytest.importorskip("safetensors.numpy")

driven = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PLAIN = ["?", "u1", "i1", "<i2", "u2", "<i4", "<i8", "<f2", "<f4", "<f8", "<c8"]
DTYPES = [*PLAIN, ">u2", ">i8", ">f4", ">f8", ">c16", "<M8[ns]", ">m8[s]", "<U5", ">U3", "S7",
          [("a", "<i4"), ("b", ">f8", (2,))]]  # fmt: skip
dtypes = st.sampled_from([np.dtype(word) for word in DTYPES])
shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
chunk_sizes = st.sampled_from([0, 64, 1000, 4096, 65536])
endings = st.sampled_from(["", ".zst"])


def numbers(dtype, shape, order="C"):
    dtype = np.dtype(dtype)
    n = int(np.prod(shape))
    if dtype.names:
        return (np.arange(n * dtype.itemsize) % 100).astype("u1").view(dtype).reshape(shape)
    return (np.arange(n) % 100).astype(dtype).reshape(shape, order=order)


def decoded(path):
    """The bytes of a file, decoded where its name says so."""
    out = BytesIO()
    decode = "zstd" if str(path).endswith(".zst") else "none"
    hr.Pipeline(path, out, decode=decode).run()
    return out.getvalue()


def by_numpy(folder, array):
    np.save(folder / "wanted.npy", array)
    return (folder / "wanted.npy").read_bytes()


def by_reference(tensors, metadata=None):
    return reference.save({name: np.asarray(a, order="C") for name, a in tensors.items()}, metadata)


# ---- .npy ------------------------------------------------------------------------------------


@driven
@given(dtypes, shapes, st.sampled_from("CF"), chunk_sizes, endings)
def test_npy_is_what_numpy_saves(tmp_path, dtype, shape, order, chunk_size, ending):
    path = tmp_path / f"a.npy{ending}"
    array = numbers(dtype, shape, order)
    hr.save(path, array, chunk_size=chunk_size)
    assert decoded(path) == by_numpy(tmp_path, array)


@driven
@given(
    st.sampled_from(["u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8"]),
    st.sampled_from(["uint8", "i2", "int64", "f2", "f4", "f8"]),
    shapes,
    st.sampled_from("CF"),
    endings,
    st.sampled_from([".npy", ".raw"]),
)
def test_casts(tmp_path, source, target, shape, order, ending, kind):
    path = tmp_path / f"a{kind}{ending}"
    array = numbers(source, shape, order)
    hr.save(path, array, dtype=target, chunk_size=1000)
    native = array.dtype.newbyteorder("=") == np.dtype(target)
    wanted = array if native else array.astype(target)
    expected = by_numpy(tmp_path, wanted) if kind == ".npy" else wanted.tobytes()
    assert decoded(path) == expected


def test_arrays_with_gaps(tmp_path):
    array = numbers("f4", (20, 30))[::2, ::3]
    for name in ("a.npy", "a.raw"):
        hr.save(tmp_path / name, array)
    assert (np.load(tmp_path / "a.npy") == array).all()
    assert (tmp_path / "a.raw").read_bytes() == array.tobytes()


def test_types_that_npy_has_not(tmp_path):
    for array in (np.zeros(3, ml_dtypes.bfloat16), np.zeros(3, ml_dtypes.float8_e5m2)):
        with pytest.raises(ValueError, match=r"a\.npy.*safetensors"):
            hr.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a\.npy.*objects"):
        hr.save(tmp_path / "a.npy", np.array([print], dtype=object))
    assert not os.listdir(tmp_path)


# ---- .safetensors ----------------------------------------------------------------------------


models = st.dictionaries(
    st.text("abcdefg.", min_size=1, max_size=6),
    st.tuples(st.sampled_from([np.dtype(word) for word in PLAIN]), shapes, st.sampled_from("CF")),
    max_size=8,
)


@driven
@given(models, chunk_sizes, endings)
def test_safetensors_are_what_the_reference_saves(tmp_path, model, chunk_size, ending):
    tensors = {name: numbers(*of) for name, of in model.items()}
    path = tmp_path / f"m.safetensors{ending}"
    hr.save(path, tensors, chunk_size=chunk_size, metadata={"format": "np"})
    assert decoded(path) == by_reference(tensors, {"format": "np"})


@driven
@given(models, st.sampled_from(["f4", "f8", "f2"]), endings)
def test_floats_of_a_model_become_one_type(tmp_path, model, to, ending):
    tensors = {name: numbers(*of) for name, of in model.items()}
    path = tmp_path / f"m.safetensors{ending}"
    hr.save(path, tensors, dtype=to, chunk_size=1000)
    cast = {n: a.astype(to) if a.dtype.kind == "f" else a for n, a in tensors.items()}
    assert decoded(path) == by_reference(cast)


def test_big_endian_and_small_floats(tmp_path):
    tensors = {
        "big": numbers(">f4", (3, 5)),
        "bf16": np.arange(6).astype(ml_dtypes.bfloat16),
        "f8": np.arange(6).astype(ml_dtypes.float8_e4m3fn),
    }
    path = tmp_path / "m.safetensors"
    hr.save(path, tensors)
    got = hr.load(path)
    assert {name: array.dtype_name for name, array in got.items()} == {
        "big": "f32", "bf16": "bf16", "f8": "f8_e4m3",
    }  # fmt: skip
    for name, array in got.items():
        assert (array.numpy().astype("f4") == tensors[name].astype("f4")).all()


def test_types_that_share_bytes_come_back(tmp_path):
    path = tmp_path / "m.safetensors"
    packed = hr.load(_write(tmp_path / "x.bin", bytes(range(24))), dtype="f4_e2m1", shape=(4, 12))
    hr.save(path, {"a": packed})
    again = hr.load(path)["a"]
    assert (again.dtype_name, again.shape, again.numpy().tobytes()) == (
        "f4_e2m1", (4, 6), bytes(range(24)),
    )  # fmt: skip


def _write(path, data):
    path.write_bytes(data)
    return path


def test_what_was_loaded_is_saved_again(tmp_path, io):
    tensors = {
        "a": numbers("f8", (300, 70)),
        "b": numbers("u1", (1_000_003,)),
        "c": numbers("?", ()),
    }
    first, second = tmp_path / "m.safetensors", tmp_path / "n.safetensors.zst"
    hr.save(first, tensors, io=io)
    hr.save(second, hr.load(first, io=io), io=io)
    assert decoded(second) == first.read_bytes() == by_reference(tensors)


def test_wrong_tensors_are_named(tmp_path):
    path = tmp_path / "m.safetensors"
    wrong = [
        ({"a": [1, 2]}, None, TypeError, 'tensor "a".*no array'),
        ({"a": np.array([print], object)}, None, ValueError, 'tensor "a".*objects'),
        ({"a": np.zeros(3, "M8[s]")}, None, ValueError, 'tensor "a"'),
        ({"a": np.zeros(3, bool)}, {"a": "f4"}, ValueError, 'tensor "a".*no cast'),
        ({"a": np.zeros(3, "f4")}, {"b": "f4"}, KeyError, '"b"'),
        ({"__metadata__": np.zeros(3)}, None, ValueError, "__metadata__"),
        (np.zeros(3), None, TypeError, "dict"),
    ]
    for data, dtype, kind, said in wrong:
        with pytest.raises(kind, match=rf"m\.safetensors.*{said}"):
            hr.save(path, data, dtype=dtype)
    assert not os.listdir(tmp_path)


# ---- numbers without a header, and iterables -------------------------------------------------


@driven
@given(st.lists(st.integers(0, 3000), max_size=9), chunk_sizes, endings, st.booleans())
def test_iterables(tmp_path, lengths, chunk_size, ending, cast):
    items = [numbers("f8", (n,)) + n for n in lengths]
    wanted = np.concatenate([*items, np.zeros(0)]).astype("f4" if cast else "f8")
    dtype = "f4" if cast else None
    path = tmp_path / f"a.raw{ending}"
    hr.save(path, iter(items), dtype=dtype, chunk_size=chunk_size)
    assert decoded(path) == wanted.tobytes()
    path = tmp_path / f"a.npy{ending}"
    if items:
        hr.save(path, iter(items), dtype=dtype, shape=wanted.shape, chunk_size=chunk_size)
        assert decoded(path) == by_numpy(tmp_path, wanted)


def test_items_of_bytes_chunks_and_strided_arrays(tmp_path):
    hr.save(tmp_path / "a", (b"abc", bytearray(b"de"), memoryview(b"f")))
    assert (tmp_path / "a").read_bytes() == b"abcdef"
    data = numbers("u1", (100_000,))
    hr.save(tmp_path / "b", hr.Pipeline(data, chunk_size=1000))
    assert (tmp_path / "b").read_bytes() == data.tobytes()
    hr.save(tmp_path / "c", b"")
    assert (tmp_path / "c").read_bytes() == b""
    held = hr.to_device(np.arange(10, dtype="f4"), "host")
    hr.save(tmp_path / "d.npy", (held[::2], held[1::2]), shape=10)
    assert np.load(tmp_path / "d.npy").tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]


def test_few_chunks_and_one_worker_are_enough(tmp_path):
    data = numbers("f8", (20_000,))
    one = hr.Context(threads=1)
    hr.save(tmp_path / "a.npy", data, dtype="f4", context=one, depth=1, chunk_size=1000)
    assert (np.load(tmp_path / "a.npy") == data.astype("f4")).all()
    chunks = hr.Pipeline(data, chunk_size=1000, depth=2)
    hr.save(tmp_path / "b.raw", chunks, context=one, depth=1, chunk_size=1000)
    assert (tmp_path / "b.raw").read_bytes() == data.tobytes()


def test_items_that_do_not_fit(tmp_path):
    path = tmp_path / "a.npy"
    three = [np.zeros(3), np.zeros(3)]
    with pytest.raises(ValueError, match=r"a\.npy.*shape="):
        hr.save(path, iter(three))
    for n in (5, 7):
        with pytest.raises(ValueError, match=r"a\.npy.*(40|56) bytes|a\.npy.*has (40|56)"):
            hr.save(path, iter(three), shape=(n,))
    with pytest.raises(ValueError, match=r"a\.npy: item 1 is of float32"):
        hr.save(path, iter([np.zeros(3), np.zeros(3, "f4")]), shape=(6,))
    for data in ("text", 7, {"a": np.zeros(3)}):
        with pytest.raises(TypeError, match=r"a\.npy"):
            hr.save(path, data)
    with pytest.raises(TypeError, match="item 1"):
        hr.save(path, iter([np.zeros(3), 7]), shape=(6,))
    rows = [np.zeros((1, 3)), np.zeros(3), np.zeros((0, 3))]
    for wrong in (np.zeros((3, 1)), np.zeros((1, 3, 1)), np.zeros(())):
        with pytest.raises(ValueError, match=r"a\.npy: item 3 has shape .* a row .*is \(3,\)"):
            hr.save(path, iter([*rows, wrong]), shape=(3, 3))
    hr.save(tmp_path / "rows.npy", iter([*rows, *rows[:1]]), shape=[3, 3])
    assert np.load(tmp_path / "rows.npy").shape == (3, 3)
    hr.save(tmp_path / "rows.npy", iter([b"abcd", bytearray(b"ef")]), shape=(2, 3))
    assert np.load(tmp_path / "rows.npy").tobytes() == b"abcdef"
    os.unlink(tmp_path / "rows.npy")

    class Oops(Exception):
        pass

    def fails():
        yield np.zeros(3)
        raise Oops

    with pytest.raises(Oops):
        hr.save(path, fails(), shape=(6,))
    assert not os.listdir(tmp_path)


# ---- files -----------------------------------------------------------------------------------


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.npy"
    hr.save(path, np.zeros(3))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="bytes"):
        hr.save(path, iter([np.zeros(30000)]), shape=(40000,))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.npy"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        hr.save(tmp_path / "nowhere" / "a.npy", np.zeros(3))
    with pytest.raises(errors.HeadraceError, match="/dev/full"):
        hr.save("/dev/full", np.zeros(30000))


def test_compression_is_told(tmp_path):
    data = np.zeros(300_000, "u1")
    for name, compress, is_small in [
        ("a.raw", None, False),
        ("b.raw.zst", None, True),
        ("c.raw", "zstd", True),
        ("d.raw", ("zstd", 9), True),
        ("e.raw.zst", "none", False),
    ]:
        hr.save(tmp_path / name, data, compress=compress)
        assert ((tmp_path / name).stat().st_size < 9000) == is_small
    before = os.listdir(tmp_path)
    for compress in ("gzip", "auto", ("none", 3), ("zstd", 23), ("zstd", -1 << 18)):
        with pytest.raises(ValueError, match="compress is|zstd level"):
            hr.save(tmp_path / "f", data, compress=compress)
    with pytest.raises(TypeError, match="zstd level is 2.5"):
        hr.save(tmp_path / "f", data, compress=("zstd", 2.5))
    with pytest.raises(ValueError, match="zstd level 99"):
        hr.Pipeline(data, tmp_path / "f", encode=("zstd", 99))
    for given in ({"frame_size": 1000}, {"frame_size": 1000, "compress": "none"}):
        with pytest.raises(ValueError, match="frame_size="):
            hr.save(tmp_path / "f", data, **given)
    assert os.listdir(tmp_path) == before


def test_formats_that_are_not_written(tmp_path):
    for name in ("a.npz", "m.safetensors.index.json"):
        with pytest.raises(ValueError, match=name):
            hr.save(tmp_path / name, {"a": np.zeros(3)})
    for name in ("a.npy", "a"):
        with pytest.raises(ValueError, match="metadata"):
            hr.save(tmp_path / name, np.zeros(3), metadata={})
        with pytest.raises(ValueError, match="shape="):
            hr.save(tmp_path / name, np.zeros(3), shape=(3,))
    with pytest.raises(ValueError, match="shape="):
        hr.save(tmp_path / "a.safetensors", {"a": np.zeros(3)}, shape=(3,))
    hr.save(tmp_path / "model", {"a": np.zeros(3)}, format="safetensors")
    assert hr.load(tmp_path / "model", format="safetensors")["a"].shape == (3,)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_a_folder_that_takes_no_files_is_not_said_to_be_missing():
    with pytest.raises(FileNotFoundError, match="the folder /proc is not there, or takes no files"):
        hr.save("/proc/headrace.npy", np.zeros(3))
