# SPDX-License-Identifier: Apache-2.0
"""Headers of .npy and .npz against numpy: what it reads we read, byte for byte; lies are found."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats import FormatError, npy, npz
from headrace.formats.literal import LiteralError, parse
from headrace.formats.plan import plan

DTYPES = (
    ["<f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16", "?", "u1", "i1", "<u2", ">i4", "<i8"]
    + ["<M8[ns]", ">m8[us]", "<M8[25s]", "<U5", ">U5", "S7", "V3", "<g"]
    + [[("a", "<i4"), ("b", ">f8", (2,))], [("x", "u1"), ("in", [("y", "<f4"), ("z", "?")])]]
)
SHAPES = [(), (0,), (1,), (5,), (3, 0, 2), (3, 4), (2, 3, 5), (1, 4), (4, 1), (2, 1, 3, 1)]


def saved(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=False)
    return file.getvalue()


def loaded(data, info):
    """The array, from the bytes that the description names."""
    part = data[info.offset : info.end]
    assert len(part) == info.nbytes
    array = np.frombuffer(part, info.file_dtype) if part else np.zeros(0, info.file_dtype)
    array = array.reshape(info.stored_shape, order=info.order)
    return array.astype(info.dtype.numpy) if info.swap else array


def same(got, want):
    assert got.shape == want.shape
    assert got.tobytes() == want.astype(got.dtype).tobytes()


def values(dtype, shape):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    raw = np.arange(count * dtype.itemsize) % 97
    if dtype.kind == "b":
        raw %= 2
    if dtype.kind == "U":
        return np.array(["abc"] * count, dtype).reshape(shape)
    return np.frombuffer(raw.astype("u1").tobytes(), dtype).reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reads_what_numpy_writes(dtype, shape):
    for order in "CF":
        array = np.array(values(dtype, shape), order=order)
        data = saved(array)
        info = npy.parse_header(data, size=len(data))
        same(loaded(data, info), np.load(io.BytesIO(data)))
        assert info.file_dtype == array.dtype
        assert info.end == len(data)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_versions(version):
    data = saved(np.arange(6, dtype="<i2").reshape(2, 3), version)
    info = npy.parse_header(data, size=len(data))
    same(loaded(data, info), np.load(io.BytesIO(data)))


def many_fields(n):
    return np.dtype([(f"field_{i:05d}", "<f4") for i in range(n)])


def test_three_thousand_fields_take_version_2():
    array = np.zeros(2, many_fields(3000))
    with pytest.warns(UserWarning, match="2.0"):
        data = saved(array)
    info = npy.parse_header(data, size=len(data))
    assert data[6] == 2 and info.dtype.numpy == array.dtype
    assert npy.build_header(array.dtype, (2,)) == data[: info.offset]


def test_greek_names_take_version_3():
    array = np.zeros(2, [("\u03b1\u03b2", "<f4"), ("'\"\\\n\u2028", "u1")])
    with pytest.warns(UserWarning, match="3.0"):
        data = saved(array)
    info = npy.parse_header(data, size=len(data))
    assert data[6] == 3 and info.dtype.numpy == array.dtype
    assert npy.build_header(array.dtype, (2,)) == data[: info.offset]


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 4), max_size=4),
    st.sampled_from("CF"),
    st.binary(max_size=9),
)
def test_headers_are_numpys_and_trailing_bytes_are_left_alone(dtype, shape, order, trailing):
    array = np.array(values(dtype, tuple(shape)), order=order)
    data = saved(array)
    info = npy.parse_header(data + trailing, size=len(data) + len(trailing))
    same(loaded(data + trailing, info), np.load(io.BytesIO(data + trailing)))
    growth = tuple(map(int, np.__version__.split(".")[:2])) >= (1, 24)
    if growth:
        assert npy.build_header(array.dtype, array.shape, info.order) == data[: info.offset]


def test_header_arrives_byte_by_byte():
    data = saved(np.arange(5.0))
    have = 0
    asked = []
    while npy.bytes_needed(data[:have]) > have:
        asked.append(npy.bytes_needed(data[:have]))
        have += 1
    assert have == 128 and set(asked) == {10, 128}
    assert npy.parse_header(data[:have]).nbytes == 40


class Dribble(io.RawIOBase):
    """A pipe that gives one byte a time and cannot seek."""

    def __init__(self, data):
        self.inner = io.BytesIO(data)

    def readable(self):
        return True

    def read(self, n=-1):
        return self.inner.read(min(n, 1))


def test_reads_paths_files_and_pipes(tmp_path):
    data = saved(np.arange(7, dtype=">f4"))
    path = tmp_path / "a.npy"
    path.write_bytes(b"12345" + data)
    info = npy.read(path, offset=5)
    assert (info.offset, info.swap, info.path) == (133, 4, str(path))
    pipe = Dribble(data)
    assert npy.read(pipe).offset == 128
    assert pipe.inner.tell() == 128
    file = io.BytesIO(b"12345" + data)
    file.seek(5)
    assert npy.read(file).offset == 128 and file.tell() == 133


def test_objects_are_refused_and_not_unpickled():
    file = io.BytesIO()
    np.save(file, np.array([{}], object), allow_pickle=True)
    with pytest.raises(FormatError, match="does not unpickle"):
        npy.parse_header(file.getvalue())
    hidden = header("[('a', '<f4'), ('b', '|O')]", "False", "(1,)")
    with pytest.raises(FormatError, match="does not unpickle"):
        npy.parse_header(hidden)


def header(descr, fortran, shape, more="", version=1):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, {more}}}\n"
    encoded = text.encode("utf-8")
    length = struct.pack("<H" if version == 1 else "<I", len(encoded))
    return b"\x93NUMPY" + bytes([version, 0]) + length + encoded


LIES = {
    "call": ("__import__('os').getcwd()", "False", "(1,)", "not a literal"),
    "shape call": ("'<f4'", "False", "(len('a'),)", "not a literal"),
    "arithmetic": ("'<f4'", "False", "(1+1,)", "literal"),
    "negative": ("'<f4'", "False", "(-1,)", "negative dimension"),
    "two negative": ("'<f4'", "False", "(-2, -2)", "negative dimension"),
    "fraction": ("'<f4'", "False", "(1.0,)", "literal"),
    "bool in shape": ("'<f4'", "False", "(True,)", "tuple of integers"),
    "list as shape": ("'<f4'", "False", "[1]", "tuple of integers"),
    "int as shape": ("'<f4'", "False", "(1)", "tuple of integers"),
    "overflow": ("'<f4'", "False", "(4294967296, 4294967296)", "63 bits"),
    "overflow by width": ("'<f8'", "False", "(1152921504606846976,)", "63 bits"),
    "overflow behind a zero": ("'<f4'", "False", "(0, 4294967296, 4294967296)", "63 bits"),
    "long integer": ("'<f4'", "False", "(" + "9" * 5000 + ",)", "literal"),
    "order 1": ("'<f4'", "1", "(1,)", "not True or False"),
    "descr None": ("None", "False", "(1,)", "not a type"),
    "descr number": ("4", "False", "(1,)", "not a type"),
    "descr unknown": ("'<q9'", "False", "(1,)", "not a type"),
    "descr commas": ("'f4,f4'", "False", "(1,)", "not a type"),
    "descr subarray": ("('<f4', (2,))", "False", "(1,)", "not a type"),
    "descr empty": ("[]", "False", "(1,)", "not a type"),
    "descr bytes": ("b'<f4'", "False", "(1,)", "literal"),
    "field without type": ("[('a',)]", "False", "(1,)", "not \\(name, type\\)"),
    "field name number": ("[(1, '<f4')]", "False", "(1,)", "not a string"),
    "field twice": ("[('a', '<f4'), ('a', '<f4')]", "False", "(1,)", "not a type"),
    "field of huge shape": ("[('a', '<f4', (99999999999,))]", "False", "(1,)", "not a type"),
    "field of negative shape": ("[('a', '<f4', (-1,))]", "False", "(1,)", "has shape"),
    "deep": ("[" * 100 + "]" * 100, "False", "(1,)", "levels"),
    "many dimensions": ("'<f4'", "False", "(" + "1," * 65 + ")", "65 dimensions"),
    "not closed": ("'<f4'", "False", "(1,", "expected|unexpected|literal"),
    "short data": ("'<f4'", "False", "(5,)", "needs 20 bytes of data, the file has 16"),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_in_the_header_is_found(lie):
    descr, fortran, shape, said = LIES[lie]
    data = header(descr, fortran, shape) + bytes(16)
    with pytest.raises(FormatError, match=said) as caught:
        npy.parse_header(data, size=len(data), where="some.npy")
    assert str(caught.value).startswith("some.npy: ")


def test_keys_must_be_the_three():
    good = header("'<f4'", "False", "(4,)") + bytes(16)
    assert npy.parse_header(good, size=len(good)).shape == (4,)
    for more, said in (("'x': 1", "header wants"), ("'descr': '<f4'", "twice")):
        with pytest.raises(FormatError, match=said):
            npy.parse_header(header("'<f4'", "False", "(4,)", more))


def test_python_2_wrote_long_integers():
    assert npy.parse_header(header("'<f4'", "False", "(3L, 4L)")).shape == (3, 4)


@pytest.mark.parametrize(
    "data, said",
    [(b"", "needs 10 bytes, the file has 0"), (b"\x93NUMPY\x01\x00", "the file has 8")]
    + [(b"PK\x03\x04      ", "not a .npy file"), (b"\x93NUMPY\x04\x00\x10\x00", "version 4.0")]
    + [(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "4294967295 bytes, more than")]
    + [(b"\x93NUMPY\x02\x00\x00\x00\x08\x00", "needs 524300 bytes, the file has 12")]
    + [(b"\x93NUMPY\x01\x00\x02\x00\xff\xff", "literal|decode")],
)
def test_lengths_are_checked_before_anything_is_allocated(data, said):
    with pytest.raises(FormatError, match=said):
        npy.read(io.BytesIO(data))
    with pytest.raises(FormatError):
        npy.read(Dribble(data))


def test_utf8_is_wanted_in_version_3():
    data = header("[('\u03b1', '<f4')]", "False", "(1,)", version=3)
    assert npy.parse_header(data).dtype.numpy.names == ("\u03b1",)
    with pytest.raises(FormatError, match="decode"):
        npy.parse_header(data.replace("\u03b1".encode(), b"\xff\xfe"))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damaged_headers_never_do_more_than_fail(data):
    good = bytearray(saved(np.zeros(3, [("a", "<i4"), ("b", ">f8", (2,))])))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    try:
        info = npy.parse_header(bytes(good), size=len(good))
    except FormatError:
        return
    assert info.end <= len(good)


@pytest.mark.parametrize("descr", ["f4", "float32", "?", "=f4", "M8[D]"])
def test_short_names_of_types(descr):
    assert npy.parse_header(header(repr(descr), "False", "()")).file_dtype == np.dtype(descr)


def test_header_of_a_growing_array_can_be_overwritten():
    assert len(npy.build_header("f8", (0, 3))) == len(npy.build_header("f8", (10**20, 3)))
    assert len(npy.build_header("f8", (3, 0), "F")) == len(npy.build_header("f8", (3, 10**20), "F"))


def test_types_without_a_name_in_the_format_are_refused():
    from headrace import _dtypes

    for word in ("bf16", "F4", "F8_E4M3"):
        with pytest.raises(ValueError, match="no name for"):
            npy.build_header(_dtypes.find(word), (2,))
    with pytest.raises(ValueError, match="pointers"):
        npy.build_header(object, (2,))


@settings(deadline=None, max_examples=100)
@given(
    st.recursive(
        st.one_of(st.integers(-(10**19), 10**19), st.booleans(), st.none(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
        max_leaves=12,
    )
)
def test_literals_come_back(value):
    assert parse(repr(value)) == value
    assert repr(parse(repr(value))) == repr(value)


@pytest.mark.parametrize("text", ["", "1 1", "(1 2)", "{1: 2}", "[1", "]", "'a", "1_0", "0x1", "a"])
def test_what_is_no_literal(text):
    with pytest.raises(LiteralError):
        parse(text)


def archive(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_npz_members_are_byte_ranges():
    arrays = {"a": np.arange(5.0), "\u03b1": np.asfortranarray(np.ones((2, 3))), "e": np.zeros(0)}
    data = archive(arrays)
    members = npz.read(io.BytesIO(data))
    assert list(members) == list(arrays)
    for name, member in members.items():
        same(loaded(data, member.info), np.load(io.BytesIO(data))[name])
        whole = data[member.offset : member.offset + member.nbytes]
        assert member.info.name == name and member.crc32 == zipfile.crc32(whole)


def test_npz_from_a_path_and_with_zip64(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as file:
        with file.open("a.npy", "w", force_zip64=True) as member:
            np.save(member, np.arange(3))
        file.writestr("readme.txt", "no array")
    info = npz.read(path)["a"].info
    assert info.path == str(path)
    assert len(npz.read(path)) == 1
    same(loaded(path.read_bytes(), info), np.arange(3))


def test_npz_behind_other_bytes():
    data = b"#!/bin/sh\n" + archive({"a": np.arange(3)})
    same(loaded(data, npz.read(io.BytesIO(data))["a"].info), np.arange(3))


def test_npz_refusals():
    file = io.BytesIO()
    np.savez_compressed(file, a=np.zeros(10))
    with pytest.raises(FormatError, match='"a" is compressed .*not savez_compressed'):
        npz.read(file)
    with pytest.raises(FormatError, match="not a .npz archive"):
        npz.read(io.BytesIO(b"nothing"))
    with pytest.raises(FormatError, match="must be seekable"):
        npz.read(Dribble(b""))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped, pytest.warns(UserWarning, match="Duplicate"):
        zipped.writestr("a.npy", saved(np.zeros(1)))
        zipped.writestr("a.npy", saved(np.zeros(1)))
    with pytest.raises(FormatError, match='"a" stands twice'):
        npz.read(file)
    lying = archive({"a": np.zeros(1)}).replace(b"a.npy", b"b.npy", 1)
    with pytest.raises(FormatError, match="another name"):
        npz.read(io.BytesIO(lying))


def test_npz_members_that_share_bytes():
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        zipped.writestr("b.npy", saved(np.zeros(1)))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("a.npy", saved(np.frombuffer(inner.getvalue(), "u1")))
        entry = zipfile.ZipFile(inner).infolist()[0]
        entry.header_offset = 30 + len("a.npy") + 128
        zipped.filelist.append(entry)
    with pytest.raises(FormatError, match='"a" and "b" overlap'):
        npz.read(file)


@pytest.mark.parametrize("field", ["file_size", "compress_size"])
def test_npz_members_of_two_sizes(field):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("a.npy", saved(np.zeros(4)))
        setattr(zipped.filelist[0], field, 136)
    with pytest.raises(FormatError, match='"a" has 1.. bytes, and 1.. when compressed'):
        npz.read(file)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damaged_archives_never_do_more_than_fail(data):
    good = bytearray(archive({"a": np.arange(3.0), "b": np.arange(2)}))
    for _ in range(data.draw(st.integers(1, 4))):
        good[-data.draw(st.integers(1, 140))] = data.draw(st.integers(0, 255))
    try:
        members = npz.read(io.BytesIO(bytes(good)))
    except FormatError:
        return
    for member in members.values():
        assert 0 <= member.offset <= member.info.end <= len(good)


def test_a_plan_of_an_array_is_one_run():
    data = saved(np.asfortranarray(np.arange(12.0).reshape(3, 4)))
    info = npy.parse_header(data)
    whole = plan([info]).tensors[""].source
    assert (whole.begin, whole.run_bytes, whole.n_runs) == (128, 96, 1)
    part = plan([info], slices={"": (slice(None), slice(1, 3))}).tensors[""].source
    assert (part.begin, part.run_bytes, part.n_runs) == (128 + 24, 48, 1)
