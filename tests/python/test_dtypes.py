# SPDX-License-Identifier: Apache-2.0
"""Names and widths of types: each from every name it has, and nothing guessed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from headrace import _dtypes


def test_each_type_is_found_by_every_name_it_has():
    for dtype in _dtypes.known():
        assert _dtypes.find(dtype) is dtype
        if dtype.name not in ("u8", "i8"):
            assert _dtypes.find(dtype.name) is dtype
        if dtype.safetensors is not None:
            assert _dtypes.find(dtype.safetensors) is dtype
            assert _dtypes.from_safetensors(dtype.safetensors) is dtype
        if dtype.torch is not None:
            assert _dtypes.from_torch("torch." + dtype.torch) is dtype
            assert _dtypes.find(dtype.torch) is dtype
        assert _dtypes.from_dlpack(*dtype.dlpack) is dtype


def test_widths_agree_with_numpy():
    for dtype in _dtypes.known():
        elements, n_bytes = dtype.group
        assert elements * dtype.bits == 8 * n_bytes
        if dtype.bits >= 8:
            assert dtype.numpy.itemsize * 8 == dtype.bits


def test_words_of_kernels_have_the_widths_that_they_name():
    words = {t.kernel: t for t in _dtypes.known() if t.kernel}
    assert set(words) == set("u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64".split())
    for word, dtype in words.items():
        assert dtype.bits == int(word.lstrip("uibf"))


@pytest.mark.parametrize(
    "word, name",
    [("f4", "f32"), ("F4", "f4_e2m1"), ("<f8", "f64"), (">i8", "i64"), ("|u1", "u8")]
    + [("f16", "f16"), ("f2", "f16"), ("?", "bool"), ("double", "f64"), (np.uint32, "u32")]
    + [("bfloat16", "bf16"), ("F8_E8M0", "f8_e8m0"), (np.dtype(">f4"), "f32"), ("c16", "c128")],
)
def test_words_that_users_write(word, name):
    assert _dtypes.find(word).name == name


@pytest.mark.parametrize("word", ["i8", "u8"])
def test_words_with_two_meanings_are_refused(word):
    with pytest.raises(ValueError, match=f'"{word}" is 8 bits to kernels and 8 bytes to NumPy'):
        _dtypes.find(word)


@pytest.mark.parametrize("word", ["f4_e9m9", "F9_E4M3", "U512X", "complex65"])
def test_unknown_words_are_named(word):
    with pytest.raises(ValueError, match=f'"{word}"'):
        _dtypes.find(word)


def test_unknown_names_of_others_are_refused():
    with pytest.raises(ValueError, match='"F7_E1M5"'):
        _dtypes.from_safetensors("F7_E1M5")
    with pytest.raises(ValueError, match='"f32"'):
        _dtypes.from_safetensors("f32")
    with pytest.raises(ValueError, match="qint8"):
        _dtypes.from_torch("torch.qint8")
    with pytest.raises(ValueError, match="lanes"):
        _dtypes.from_dlpack(2, 32, 4)


def test_dlpack_packs_two_floats_of_4_bits_in_a_byte():
    assert _dtypes.from_dlpack(17, 4, 2).name == "f4_e2m1"
    assert _dtypes.from_dlpack(17, 4, 1).name == "f4_e2m1"


def test_dlpack_codes_agree_with_numpy():
    codes = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
    for dtype in _dtypes.known():
        if not dtype.is_standin and dtype.numpy.kind in codes and dtype.numpy.isbuiltin == 1:
            assert dtype.dlpack == (codes[dtype.numpy.kind], dtype.bits), dtype


def test_numpy_types_without_a_name_keep_their_description():
    record = np.dtype([("a", "<i4"), ("b", ">f8", (2,))], align=True)
    found = _dtypes.from_numpy(record)
    assert found.numpy == record and found.bits == 8 * record.itemsize
    assert found.kernel is None and found.safetensors is None and not found.is_standin
    assert _dtypes.from_numpy("U5").bits == 160
    with pytest.raises(ValueError, match="pointers"):
        _dtypes.from_numpy([("a", "O")])


@pytest.mark.parametrize(
    "text, width",
    [(">f4", 4), ("<f4", 0), (">c16", 8), (">c8", 4), (">U3", 4), ("S3", 0), (">i2", 2)]
    + [(">M8[ns]", 8), ("u1", 0), (">f8", 8)],
)
def test_width_of_the_swap(text, width):
    assert _dtypes.swap_width(np.dtype(text)) == width


def test_casts():
    assert _dtypes.cast_kernel(_dtypes.find("bf16"), _dtypes.find("f32")) == "cast:bf16,f32"
    assert _dtypes.cast_kernel(_dtypes.find("F4"), _dtypes.find("F4")) == ""
    with pytest.raises(ValueError, match="no cast from f8_e4m3 to f32"):
        _dtypes.cast_kernel(_dtypes.find("F8_E4M3"), _dtypes.find("f32"))


STANDINS = """
import sys
sys.modules["ml_dtypes"] = None
from headrace import _dtypes
for dtype in _dtypes.known():
    if dtype.is_standin:
        print(dtype.name, dtype.numpy)
assert _dtypes.from_numpy("uint16").name == "u16"
"""


def test_standins_without_ml_dtypes():
    told = subprocess.run([sys.executable, "-c", STANDINS], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    standins = dict(line.split() for line in told.stdout.splitlines())
    assert standins.pop("bf16") == "uint16"
    assert len(standins) == 8 and set(standins.values()) == {"uint8"}


def test_dtypes_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert _dtypes.find("bf16").numpy == np.dtype(ml_dtypes.bfloat16)
    assert _dtypes.from_numpy(ml_dtypes.float8_e4m3fn).safetensors == "F8_E4M3"
    standins = [t.name for t in _dtypes.known() if t.is_standin]
    assert standins == ["f4_e2m1", "f6_e2m3", "f6_e3m2"]
