# SPDX-License-Identifier: Apache-2.0
"""Sharded models, plans of byte ranges, raw files: what is read is what NumPy's indexing gives."""

from __future__ import annotations

import doctest
import importlib
import json
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import _dtypes
from headrace.formats import FormatError, index, raw, safetensors
from headrace.formats.plan import merged, plan
from headrace.formats.select import select
from headrace.formats.tensor import TensorInfo

F32, U8, F4 = (_dtypes.find(word) for word in ("f32", "uint8", "F4"))
MODULES = "tensor reading literal npy npz strict_json safetensors raw index plan select".split()


@pytest.mark.parametrize("module", ["_dtypes"] + ["formats." + name for name in MODULES])
def test_examples_in_the_documentation(module):
    told = doctest.testmod(importlib.import_module("headrace." + module))
    assert told.failed == 0


def shard(folder, name, tensors):
    header, _ = safetensors.build_header({n: (U8, (k,)) for n, k in tensors.items()})
    (folder / name).write_bytes(header + bytes(sum(tensors.values())))


def model(folder, weight_map, text=None):
    path = folder / "model.safetensors.index.json"
    metadata = {"total_size": 7.0, "other": [{"a": None}]}
    path.write_text(text or json.dumps({"metadata": metadata, "weight_map": weight_map}))
    return path


@pytest.fixture
def folder(tmp_path):
    shard(tmp_path, "1.safetensors", {"a": 3, "b": 4})
    shard(tmp_path, "2.safetensors", {"c": 5, "extra": 1})
    return tmp_path


GOOD = {"c": "2.safetensors", "a": "1.safetensors", "b": "1.safetensors"}


def test_tensors_of_all_shards(folder):
    found = index.read(model(folder, GOOD))
    assert list(found.tensors) == ["a", "b", "c"]
    assert found.tensors["c"].path == str(folder / "2.safetensors")
    assert list(found.shards) == [str(folder / f"{i}.safetensors") for i in (1, 2)]


def test_shards_stand_beside_a_link_to_the_index(folder, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    model(folder, GOOD).rename(cache / "blob")
    (folder / "model.safetensors.index.json").symlink_to(cache / "blob")
    assert len(index.read(folder / "model.safetensors.index.json").tensors) == 3


def test_an_index_in_the_working_directory(folder, monkeypatch):
    model(folder, GOOD)
    monkeypatch.chdir(folder)
    assert len(index.read("model.safetensors.index.json").tensors) == 3


@pytest.mark.parametrize(
    "name", ["../2.safetensors", "/etc/passwd", "..", ".", "", "a\\b", "C:x", "a/b", "x\0y"]
)
def test_shards_elsewhere_are_refused(folder, name):
    with pytest.raises(FormatError, match='tensor "a": .* not the plain name of a file'):
        index.read(model(folder, {"a": name}))


@pytest.mark.parametrize(
    "text, said",
    [
        ("{}", "weight_map"),
        ('{"weight_map": []}', "weight_map"),
        ('{"weight_map": {"a": 1}}', '"a": the file is a int'),
        ('{"weight_map": {"a": "x", "a": "y"}}', 'tensor "a" stands twice'),
        ('{"weight_map": {}, "weight_map": {}}', "stands twice"),
        ('{"metadata": ' + "[" * 9999 + "]" * 9999 + "}", "levels"),
        ("[]", "must begin"),
        ("", "must begin"),
    ],
)
def test_what_is_no_index(folder, text, said):
    path = folder / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=said):
        index.read(path)


def test_map_and_shards_must_agree(folder):
    with pytest.raises(FormatError, match='tensor "c" is not in ".*1.safetensors"'):
        index.read(model(folder, {**GOOD, "c": "1.safetensors"}))
    with pytest.raises(FileNotFoundError, match='file ".*3.safetensors" is missing') as caught:
        index.read(model(folder, {**GOOD, "d": "3.safetensors"}))
    assert caught.value.filename.endswith("3.safetensors")
    shard(folder, "3.safetensors", {"a": 3, "d": 1})
    with pytest.raises(FormatError, match='tensor "a" is in ".*1.safetensors" and ".*3.safet'):
        index.read(model(folder, {**GOOD, "d": "3.safetensors"}))


# Selection.


def test_selection():
    tensors = {"a.w": 1, "a.b": 2, "b.w": 3, "odd[0]": 4, "0": 5}
    assert select(tensors) == tensors
    assert list(select(tensors, "a.*")) == ["a.w", "a.b"]
    assert list(select(tensors, ["b.w", "a.w", "a.w"])) == ["a.w", "b.w"]
    assert list(select(tensors, "odd[0]")) == ["odd[0]"]
    assert list(select(tensors, "?.[w]")) == ["a.w", "b.w"]
    assert select(tensors, []) == {}
    with pytest.raises(KeyError, match="no tensor .*A.w.* among 5; near it: .*a.w"):
        select(tensors, "A.w")


# Plans: read the ranges with plain slices of bytes and compare with what NumPy cuts.


def fetch(data, placed):
    grid = placed.source
    offsets = grid.offsets()
    assert len(offsets) == grid.n_runs and list(offsets) == sorted(offsets)
    read = b"".join(data[at : at + grid.run_bytes] for at in offsets)
    begin, end = grid.covering
    cut = grid.cut(np.frombuffer(data, "u1")[begin:end]).tobytes()
    assert read == cut and len(read) == grid.nbytes
    return read


@st.composite
def cuts(draw):
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    parts = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        bound = st.none() | st.integers(-n - 2, n + 2)
        part = st.builds(slice, bound, bound, st.none() | st.integers(1, 3))
        parts.append(draw(part | st.integers(-n, n - 1) if n else part))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    if len(parts) == 1 and draw(st.booleans()):
        return shape, parts[0]
    return shape, tuple(parts)


def array_of(shape, order):
    return np.array(np.arange(math.prod(shape), dtype="<f4").reshape(shape), order=order)


@settings(deadline=None, max_examples=250)
@given(cuts(), st.sampled_from("CF"), st.integers(0, 3))
def test_ranges_are_what_numpy_cuts(cut, order, offset):
    shape, part = cut
    array = array_of(shape, order)
    data = bytes(offset) + array.tobytes(order="A" if shape else "C") + b"rest"
    info = TensorInfo("w", F32, shape, offset, array.nbytes, order)
    try:
        want = array[part]
    except IndexError:  # an integer behind an Ellipsis may be out of range
        with pytest.raises(IndexError, match='"w"'):
            plan([info], slices={"w": part})
        return
    placed = plan([info], slices={"w": part}).tensors["w"]
    read = np.frombuffer(fetch(data, placed), "<f4").reshape(placed.shape, order=order)
    assert placed.shape == want.shape and placed.nbytes == want.nbytes
    assert np.array_equal(read, want)


def test_runs_are_as_long_as_can_be():
    info = TensorInfo("w", F32, (8, 6, 4), 0, 768)

    def runs(*part):
        grid = plan([info], slices={"w": part}).tensors["w"].source
        return grid.n_runs, grid.run_bytes

    assert runs() == (1, 768)
    assert runs(slice(2, 6)) == (1, 384)
    assert runs(3) == (1, 96)
    assert runs(3, slice(1, 3)) == (1, 32)
    assert runs(slice(None), slice(0, 3)) == (8, 48)
    assert runs(..., slice(0, 2)) == (48, 8)
    assert runs(slice(0, 8, 2)) == (4, 96)
    assert runs(slice(0, 0)) == (0, 0)


@pytest.mark.parametrize(
    "part, error, said",
    [
        (slice(None, None, -1), ValueError, "positive steps"),
        (slice(None, None, 0), ValueError, "zero"),
        ((0, 0, 0), IndexError, "3 indices for 2"),
        ((..., ...), IndexError, "2 indices"),
        (4, IndexError, "out of range for a dimension of 4"),
        (-5, IndexError, "out of range"),
        (True, TypeError, "truth value"),
        (None, TypeError, "NoneType"),
        ([0, 1], TypeError, "list"),
        (1.0, TypeError, "float"),
    ],
)
def test_cuts_that_cannot_be_read(part, error, said):
    with pytest.raises(error, match=f'tensor "w": .*{said}'):
        plan([TensorInfo("w", F32, (4, 6), 0, 96)], slices={"w": part})


def test_cuts_of_4_bit_tensors():
    info = TensorInfo("w", F4, (4, 6), 0, 12)
    data = bytes(range(12))
    placed = plan([info], slices={"w": (slice(1, 3), slice(2, 6))}).tensors["w"]
    assert placed.shape == (2, 4) and placed.stored_shape == (2, 2) and placed.nbytes == 4
    assert fetch(data, placed) == bytes([4, 5, 7, 8])
    assert fetch(data, plan([info], slices={"w": 1}).tensors["w"]) == bytes([3, 4, 5])
    for part in (slice(1, 3), slice(0, 3), slice(0, 6, 2), 2):
        with pytest.raises(ValueError, match="multiples of 2 only"):
            plan([info], slices={"w": (..., part)})


def test_layout_follows_the_files_and_is_aligned():
    infos = [
        TensorInfo("late", F32, (3,), 100, 12, path="a"),
        TensorInfo("other", U8, (1000,), 0, 1000, path="b"),
        TensorInfo("early", F32, (2,), 50, 8, path="a"),
        TensorInfo("none", F32, (0,), 60, 0, path="a"),
    ]
    made = plan(infos, casts={"late": _dtypes.find("f64")})
    assert list(made.tensors) == ["early", "none", "late", "other"]
    assert [t.offset for t in made.tensors.values()] == [0, 256, 256, 512]
    assert made.tensors["late"].nbytes == 24 and made.nbytes == 1512
    assert (made.n_runs, made.bytes_read) == (3, 1020)
    groups = made.groups()
    assert list(groups) == [("a", ()), ("a", ("cast:f32,f64",)), ("b", ())]
    assert plan([]).nbytes == 0 and plan([], align=8).groups() == {}


def test_kernels_swap_before_they_cast():
    info = TensorInfo("w", F32, (3,), 0, 12, swap=4)
    assert plan([info]).tensors["w"].kernels == ("bswap:4",)
    cast = plan([info], casts={"w": _dtypes.find("bf16")}).tensors["w"]
    assert cast.kernels == ("bswap:4", "cast:f32,bf16")


def test_what_is_not_among_the_tensors():
    info = TensorInfo("w", F32, (3,), 0, 12)
    with pytest.raises(ValueError, match='slices name "v"'):
        plan([info], slices={"v": 0})
    with pytest.raises(ValueError, match='casts name "v"'):
        plan([info], casts={"v": F32})
    with pytest.raises(ValueError, match='"w": no cast from f32 to f4_e2m1'):
        plan([info], casts={"w": F4})
    with pytest.raises(ValueError, match="twice"):
        plan([info, info])


def test_a_plan_of_very_many_runs_is_small_until_asked():
    n = 2**31
    info = TensorInfo("w", U8, (n, 4), 0, 4 * n)
    grid = plan([info], slices={"w": (..., 1)}).tensors["w"].source
    assert (grid.n_runs, grid.run_bytes, grid.covering) == (n, 1, (1, 4 * n - 2))


@settings(deadline=None, max_examples=80)
@given(st.lists(cuts(), max_size=4), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_merged_ranges_cover_the_same_bytes(many, gaps):
    infos, slices, at = [], {}, 0
    for number, ((shape, part), gap) in enumerate(zip(many, gaps)):
        info = TensorInfo(str(number), F32, shape, at + gap, 4 * math.prod(shape))
        try:
            plan([info], slices={info.name: part})
        except IndexError:
            continue
        slices[info.name] = part
        infos.append(info)
        at = info.end
    made = plan(infos, slices=slices)
    wanted = np.zeros(at + 1, bool)
    for placed in made.tensors.values():
        for offset in placed.source.offsets():
            wanted[offset : offset + placed.source.run_bytes] = True
    offsets, lengths = merged(made.tensors.values())
    got = np.zeros(at + 1, bool)
    for offset, length in zip(offsets, lengths):
        got[offset : offset + length] = True
    assert np.array_equal(got, wanted) and lengths.sum() == made.bytes_read
    assert all(offsets[1:] > offsets[:-1] + lengths[:-1])


# Raw files.


@pytest.mark.parametrize(
    "size, dtype, shape, want",
    [
        (0, "f4", None, (0,)),
        (24, "f4", None, (6,)),
        (24, "f4", (2, -1), (2, 3)),
        (24, "f4", 6, (6,)),
        (24, "F4", (-1, 4), (12, 4)),
        (24, "bf16", (-1, 3), (4, 3)),
        (8, "f8", (), ()),
    ],
)
def test_shapes_of_raw_files(size, dtype, shape, want):
    info = raw.describe(size, dtype, shape)
    assert info.shape == want and info.end <= size


@pytest.mark.parametrize(
    "size, dtype, shape, error, said",
    [
        (25, "f4", None, FormatError, "no whole number"),
        (24, "f4", (5, -1), FormatError, "no whole number"),
        (24, "f4", (7,), FormatError, "needs 28 bytes, the file has 24$"),
        (24, "f4", (5,), FormatError, "needs 20 bytes, the file has 24; length=20 leaves the rest"),
        (24, "f4", (-1, -1), ValueError, "only one"),
        (24, "f4", (0, -1), ValueError, "tells nothing"),
        (24, "f4", (-2,), FormatError, "negative"),
        (24, "i8", None, ValueError, "write"),
        (3, "F4", (-1, 3), FormatError, "multiple of 2"),
    ],
)
def test_raw_files_that_do_not_fit(size, dtype, shape, error, said):
    with pytest.raises(error, match=said):
        raw.describe(size, dtype, shape)


def test_byte_order_and_place_of_raw_files():
    info = raw.describe(30, ">f8", offset=6, path="x")
    assert (info.swap, info.shape, info.offset, info.path) == (8, (3,), 6, "x")
    with pytest.raises(FormatError, match="offset 31"):
        raw.describe(30, "u1", offset=31)
    assert raw.describe(30, "f4", offset=6, length=8).shape == (2,)
    assert raw.describe(None, "f4", (-1, 2), length=16).shape == (2, 2)
    assert raw.describe(None, "f4", 9).end == 36
    for shape, length, said in [
        (None, 25, "25 bytes from byte 6 on do not lie within the file of 30"),
        ((3,), 8, "needs 12 bytes, length= has 8 from byte 6 on"),
        (None, -1, "length -1"),
    ]:
        with pytest.raises(ValueError, match=said):
            raw.describe(30, "f4", shape, offset=6, length=length)


def test_paths_may_be_of_any_kind(folder):
    found = safetensors.read(os.fspath(folder / "1.safetensors"))
    assert found == safetensors.read(folder / "1.safetensors")
