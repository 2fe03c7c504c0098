# SPDX-License-Identifier: Apache-2.0
"""load of .safetensors and of several files, plain and encoded, against the reference package."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _load_parts
from headrace.formats import FormatError, safetensors
from loading import (
    HOW,
    by_reference,
    chunk_sizes,
    driven,
    hand_made,
    index_of,
    shapes,
    sharded,
    stored,
)

ml_dtypes = pytest.importorskip("ml_dtypes")


# ---- .safetensors ----------------------------------------------------------------------------

KINDS = ["U8", "I8", "BOOL", "F16", "BF16", "F8_E4M3", "I32", "F32", "F64", "I64"]


models = st.dictionaries(
    st.text("abcdefg.", min_size=1, max_size=6),
    st.tuples(st.sampled_from(KINDS), shapes),
    max_size=8,
)


@driven
@given(models, st.integers(0, 9), st.sampled_from(HOW), chunk_sizes)
def test_safetensors_are_what_the_reference_loads(tmp_path, tensors, pad, how, chunk_size):
    path = tmp_path / "m.safetensors"
    hand_made(path, tensors, pad)
    got = hr.load(stored(path, how), chunk_size=chunk_size)
    wanted = by_reference(path)
    assert set(got) == set(wanted)
    for name, array in got.items():
        assert array.ptr % 256 == 0 or not array.nbytes
        assert (array.shape, array.dtype) == (wanted[name].shape, wanted[name].dtype)
        assert array.numpy().tobytes() == wanted[name].tobytes()


@driven
@given(models, st.sampled_from(HOW), st.sampled_from(["f4", "f8", "f2", "bf16"]))
def test_floats_of_a_model_become_one_type(tmp_path, tensors, how, to):
    tensors = {n: (k, s) for n, (k, s) in tensors.items() if k != "F8_E4M3"}
    path = tmp_path / "m.safetensors"
    hand_made(path, tensors)
    wanted = by_reference(path)
    with np.errstate(all="ignore"):
        for name, array in hr.load(stored(path, how), dtype=to).items():
            is_float = tensors[name][0] in ("F16", "BF16", "F32", "F64")
            target = hr._dtypes.find(to).numpy if is_float else wanted[name].dtype
            assert array.dtype == target
            cast = wanted[name].astype("f8").astype(target) if is_float else wanted[name]
            np.testing.assert_array_equal(array.numpy().astype("f8"), cast.astype("f8"))


@driven
@given(st.data())
def test_chosen_tensors_and_slices_of_a_model(tmp_path, monkeypatch, data):
    tensors = data.draw(models.filter(bool))
    path = tmp_path / "m.safetensors"
    hand_made(path, tensors)
    keys = data.draw(st.lists(st.sampled_from(sorted(tensors)), min_size=1, unique=True))
    slices = {}
    for name in keys:
        shape = tensors[name][1]
        slices[name] = tuple(data.draw(index_of(n)) for n in shape)
    monkeypatch.setattr(_load_parts, "_RUN_PITCH", data.draw(st.sampled_from([0, 50, 1 << 18])))
    how = data.draw(st.sampled_from(HOW))
    got = hr.load(stored(path, how), keys=keys, slices=slices)
    wanted = by_reference(path)
    assert set(got) == set(keys)
    for name in keys:
        assert got[name].numpy().tobytes() == np.asarray(wanted[name][slices[name]]).tobytes()


def test_names_by_pattern_and_unknown_names(tmp_path):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a.w": ("F32", (3,)), "a.b": ("U8", (1,)), "c.w": ("F64", (2,))})
    assert list(hr.load(path, keys="*.w")) == ["a.w", "c.w"]
    with pytest.raises(KeyError, match=r"m\.safetensors.*a\.x"):
        hr.load(path, keys=["a.x"])
    with pytest.raises(KeyError, match=r"m\.safetensors.*a\.x"):
        hr.load(path, dtype={"a.x": "f4"})
    with pytest.raises(ValueError, match=r"m\.safetensors.*a\.x"):
        hr.load(path, slices={"a.x": 0})


def test_tensors_share_one_allocation(tmp_path):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a": ("U8", (1_000_003,)), "b": ("F32", (9,)), "c": ("F64", (2,))})
    got = hr.load(path)
    a, b, c = got["a"], got["b"], got["c"]
    assert (b.ptr - a.ptr, c.ptr - b.ptr) == (1_000_192, 256)
    wanted = by_reference(path)
    del got, a, b
    assert c.numpy().tobytes() == wanted["c"].tobytes()


@pytest.mark.parametrize("how", HOW)
def test_data_longer_than_the_ring_at_odd_addresses(tmp_path, how, io):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a": ("U8", (1_000_003,)), "b": ("F32", (50_000,)), "c": ("BF16", (999,))}, 3)
    wanted = by_reference(path)
    for name, array in hr.load(stored(path, how), io=io, chunk_size=4096, depth=2).items():
        assert array.numpy().tobytes() == wanted[name].tobytes()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("header", [{}, {"__metadata__": {"format": "pt"}}])
def test_nothing_inside(tmp_path, how, header):
    path = tmp_path / "m.safetensors"
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    assert hr.load(stored(path, how)) == {}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("change", [-1, -300, 1, 70_000])
@pytest.mark.parametrize("aligned", [True, False])
def test_a_model_cut_short_or_too_long(tmp_path, how, change, aligned):
    path = tmp_path / "m.safetensors"
    n = 256 if aligned else 255
    hand_made(path, {"a": ("F64", (n,)), "b": ("F32", (n,)), "last": ("U8", (n + 1,))})
    data = path.read_bytes()
    path.write_bytes(data[:change] if change < 0 else data + bytes(change))
    with pytest.raises((FormatError, EOFError), match=r"m\.safetensors.*(last|belong|end)"):
        hr.load(stored(path, how))


@pytest.mark.parametrize("n", [512, 1 << 19])
@pytest.mark.parametrize("how", [{}, {"dtype": "f4"}, {"slices": {"last": (..., slice(3))}}])
def test_a_file_that_shrinks_meanwhile_names_the_tensor(tmp_path, monkeypatch, n, how):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"first": ("F64", (n,)), "last": ("F64", (n // 4, 4))})
    parse = safetensors.read

    def then_cut(file):
        found = parse(file)
        with open(path, "r+b") as cut:
            cut.truncate(path.stat().st_size - 100)
        return found

    monkeypatch.setattr(safetensors, "read", then_cut)
    with pytest.raises(EOFError, match=r'm\.safetensors: tensor "last"'):
        hr.load(path, **how)


def test_small_floats(tmp_path):
    path = tmp_path / "m.safetensors"
    kinds = ["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3"]
    data = hand_made(path, {kind: (kind, (4, 8)) for kind in kinds})
    got = hr.load(path)
    assert b"".join(got[kind].numpy().tobytes() for kind in kinds) == data
    assert got["BF16"].dtype == ml_dtypes.bfloat16 and got["F4"].shape == (4, 4)
    half = hr.load(path, slices={"F4": (slice(0, 2), slice(2, 6))}, keys=["F4"])["F4"]
    assert half.numpy().tobytes() == got["F4"].numpy()[:2, 1:3].tobytes()


def test_small_floats_without_ml_dtypes(tmp_path, python):
    path = tmp_path / "m.safetensors"
    data = hand_made(path, {"a": ("BF16", (4, 8)), "b": ("F8_E5M2", (5,))})
    program = python(
        """
        import sys
        sys.modules["ml_dtypes"] = None
        import headrace as hr
        got = hr.load(sys.argv[1])
        print(got["a"].dtype, got["a"].dtype_name, got["b"].dtype, got["b"].dtype_name)
        print((got["a"].numpy().tobytes() + got["b"].numpy().tobytes()).hex())
        print(hr.load(sys.argv[1], keys="a", dtype="f4")["a"].dtype)
        """,
        str(path),
    )
    said, wrong = program.communicate(timeout=60)
    assert (said.split("\n")[:3], wrong) == (
        ["uint16 bf16 uint8 f8_e5m2", data.hex(), "float32"],
        "",
    )


# ---- several files ---------------------------------------------------------------------------


def test_a_model_in_several_files(tmp_path, io):
    path, weights = sharded(tmp_path)
    got = hr.load(path, io=io)
    assert set(got) == set(weights)
    for name, array in got.items():
        assert array.numpy().tobytes() == weights[name].tobytes()
    part = hr.load(path, keys=["t0.*", "t2.1"], slices={"t2.1": (slice(1, 3), slice(3, 50))})
    assert set(part) == {"t0.0", "t0.1", "t0.2", "t2.1"}
    assert part["t2.1"].numpy().tobytes() == weights["t2.1"][1:3, 3:50].tobytes()
    narrow = hr.load(path, dtype="f2")
    assert (narrow["t1.1"].numpy() == weights["t1.1"].astype("f2")).all()


def test_a_missing_file_of_several(tmp_path):
    path, _ = sharded(tmp_path)
    (tmp_path / "m-1.safetensors").unlink()
    with pytest.raises(hr.TransferError, match=r"m-1\.safetensors") as caught:
        hr.load(path)
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.filename == str(tmp_path / "m-1.safetensors")
