# SPDX-License-Identifier: Apache-2.0
"""Host kernels against NumPy.

The environment variable HR_KERNELS_SO names a shared object of backends/host alone (the
library hides these names): cc -O3 -ffp-contract=off -fPIC -shared; without it, or without
NumPy, everything here is skipped.
"""

import ctypes
import math
import os
import zlib
from fractions import Fraction

import pytest

np = pytest.importorskip("numpy")
if not os.environ.get("HR_KERNELS_SO"):
    pytest.skip("HR_KERNELS_SO is not set", allow_module_level=True)
if np.finfo(np.longdouble).nmant < 63:
    pytest.skip("the reference needs a long double of 64 bits", allow_module_level=True)

LIB = ctypes.CDLL(os.environ["HR_KERNELS_SO"])
LIB.hr__kernel_filter.restype = ctypes.c_uint64

INTS = {"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16, "i32": np.int32, "i64": np.int64}
# word: (storage, significand bits, exponent of the least subnormal, first power of 2 that overflows)
FLOATS = {
    "f16": (np.uint16, 11, -24, 16),
    "bf16": (np.uint16, 8, -133, 128),
    "f32": (np.uint32, 24, -149, 128),
    "f64": (np.uint64, 53, -1074, 1024),
}
CANONICAL = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}
TYPES = [*INTS, *FLOATS]
RNG = np.random.default_rng(5)
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered")


class Result(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("n_values", ctypes.c_uint32),
        ("n_units", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
    ]


def parse(text):
    spec = ctypes.create_string_buffer(512)
    why = ctypes.create_string_buffer(256)
    assert LIB.hr__kernel_parse(text.encode(), spec, why, ctypes.c_size_t(256)) == 0, why.value
    return spec


def storage(word):
    return np.dtype(INTS[word] if word in INTS else FLOATS[word][0])


def odd(n_bytes):
    """A byte array that starts at an odd address."""
    raw = np.zeros(n_bytes + 2, np.uint8)
    return raw[1 + (raw.ctypes.data & 1) :][:n_bytes]


def at_odd(bits):
    copy = odd(bits.nbytes)
    copy[:] = np.ascontiguousarray(bits).view(np.uint8)
    return copy


def run_map(text, bits, to):
    source = at_odd(bits)
    target = odd(len(bits) * storage(to).itemsize)
    LIB.hr__kernel_map(
        parse(text), ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(target.ctypes.data), ctypes.c_size_t(len(bits))
    )
    return np.frombuffer(target.tobytes(), storage(to))


def reduce(text, bits, value_type, cuts=()):
    spec = parse(text)
    state = (ctypes.c_uint64 * 100000)()
    LIB.hr__reduce_init(spec, state)
    ends = sorted({0, len(bits), *cuts})
    for first, end in reversed(list(zip(ends, ends[1:]))):
        piece = at_odd(bits[first:end])
        LIB.hr__reduce_fold(
            spec, state, ctypes.c_void_p(piece.ctypes.data), ctypes.c_size_t(end - first), ctypes.c_uint64(first)
        )
    result = Result()
    LIB.hr__reduce_finish(spec, state, ctypes.byref(result))
    n_bytes = result.n_values * np.dtype(value_type).itemsize
    return np.frombuffer(ctypes.string_at(result.data, n_bytes), value_type)


def inputs(word):
    dtype = storage(word)
    if dtype.itemsize <= 2:
        return np.arange(1 << (8 * dtype.itemsize), dtype=np.uint32).astype(f"u{dtype.itemsize}").view(dtype)
    n_bits = 8 * dtype.itemsize
    parts = [RNG.integers(0, 1 << 64, 60000, np.uint64) >> np.uint64(64 - n_bits)]
    if word in INTS:
        width = RNG.integers(0, n_bits, 60000).astype(np.uint64)
        parts.append(RNG.integers(0, 1 << 64, 60000, np.uint64) >> (np.uint64(63) - width))
        near = [s * (1 << b) + d for b in range(n_bits - 1) for s in (1, -1) for d in (-1, 0, 1)]
        ties = [s * ((1 << b) + (1 << b - k) + d) for b in range(12, n_bits - 1) for k in (8, 9, 11, 12, 24, 25, 53, 54)
                if k <= b for s in (1, -1) for d in (-1, 0, 1)]
        parts.append(np.array([v % (1 << 64) for v in near + ties], np.uint64))
        return np.concatenate(parts).astype(f"u{dtype.itemsize}").view(dtype)
    float_type = np.float32 if word == "f32" else np.float64
    with np.errstate(all="ignore"):
        ints = np.concatenate([np.arange(-70000, 70000) / 2, *(np.ldexp(RNG.uniform(-1, 1, 400), e) for e in range(-160, 140))])
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
        brains = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
        edges = np.concatenate([halves, brains, (halves[1:] + halves[:-1]) / 2, (brains[1:] + brains[:-1]) / 2])
        edges = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
        edges = np.concatenate([edges, [2.0**31, 2.0**31 - 1, 2.0**31 - 0.5, -(2.0**31), -(2.0**31) - 0.5, 2.0**63, -(2.0**63)]])
        extra = np.concatenate([ints, edges]).astype(float_type).view(dtype)
    return np.concatenate([parts[0].astype(dtype), extra])


def wide(word, bits):
    """The exact values, as long doubles."""
    if word in INTS:
        return bits.astype(np.longdouble)
    if word == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.longdouble)
    return bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[word]).astype(np.longdouble)


def narrow(word, x):
    """Round long doubles once, and give the bits."""
    if word in INTS:
        info = np.iinfo(INTS[word])
        r = np.clip(np.rint(np.where(np.isnan(x), 0, x)), np.longdouble(info.min), np.longdouble(info.max))
        return r.astype(np.int64).astype(INTS[word])
    bits_type, precision, least, overflow = FLOATS[word]
    finite = np.isfinite(x)
    safe = np.where(finite, x, 0)
    grid = np.maximum(np.frexp(safe)[1] - precision, least)
    rounded = np.ldexp(np.rint(np.ldexp(safe, -grid)), grid)
    rounded = np.where(np.abs(rounded) >= np.ldexp(np.longdouble(1), overflow), np.copysign(np.inf, safe), rounded)
    rounded = np.where(finite, rounded, x)
    if word == "bf16":
        bits = (rounded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        bits = rounded.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[word]).view(bits_type)
    return np.where(np.isnan(x), bits_type(CANONICAL[word]), bits)


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("origin", TYPES)
def test_cast(origin, to):
    bits = inputs(origin)
    with np.errstate(all="ignore"):
        expected = bits if origin == to else narrow(to, wide(origin, bits))
    np.testing.assert_array_equal(run_map(f"cast:{origin},{to}", bits, to), expected)


@pytest.mark.parametrize("mul,add", [(0.1, -3.25), (-1e30, 7), (1, 0), (0.5, 0.5), (math.inf, 1)])
@pytest.mark.parametrize("word", TYPES)
def test_scale(word, mul, add):
    bits = inputs(word)
    own = np.float64 if word in INTS or word == "f64" else np.float32
    with np.errstate(all="ignore"):
        scaled = wide(word, bits).astype(own) * own(mul) + own(add)
        expected = narrow(word, scaled.astype(np.longdouble))
    np.testing.assert_array_equal(run_map(f"scale:{word},{mul!r},{add!r}", bits, word), expected)


def finite(word, n):
    bits = RNG.choice(inputs(word), n)
    return bits[np.isfinite(wide(word, bits))]


@pytest.mark.parametrize("n", [0, 1, 7, 4097])
@pytest.mark.parametrize("word", FLOATS)
def test_float_sum_and_mean(word, n):
    bits = finite(word, n)
    values = wide(word, bits).astype(np.float64)
    exact = sum((Fraction(v) for v in values.tolist()), Fraction(0))
    cuts = RNG.integers(0, len(bits) + 1, 5).tolist()

    def rounded(fraction):
        try:
            return float(fraction)
        except OverflowError:
            return math.copysign(math.inf, fraction)

    assert reduce(f"sum:{word}", bits, np.float64, cuts)[0] == rounded(exact)
    if len(bits):
        assert reduce(f"mean:{word}", bits, np.float64, cuts)[0] == rounded(exact / len(bits))


@pytest.mark.parametrize("n", [1, 7, 4097])
@pytest.mark.parametrize("word", INTS)
def test_integer_sum_and_mean(word, n):
    bits = RNG.choice(inputs(word), n)
    exact = sum(bits.tolist())
    result = np.uint64 if word in ("u8", "u16") else np.int64
    assert int(reduce(f"sum:{word}", bits, result, [n // 3])[0]) % 2**64 == exact % 2**64
    assert reduce(f"mean:{word}", bits, np.float64, [n // 3])[0] == float(Fraction(exact, n))


@pytest.mark.parametrize("word", TYPES)
def test_min_and_max(word):
    bits = RNG.choice(inputs(word), 4097)
    values = wide(word, bits)
    assert wide(word, reduce(f"min:{word}", bits, storage(word), [5, 77]))[0] == np.fmin.reduce(values)
    assert wide(word, reduce(f"max:{word}", bits, storage(word), [5, 77]))[0] == np.fmax.reduce(values)


@pytest.mark.parametrize("lo,hi,n_bins", [(0, 1, 10), (-3, 7, 100), (-0.1, 0.3, 7), (0, 256, 256), (-1000, 1000, 997)])
@pytest.mark.parametrize("word", TYPES)
def test_histogram(word, lo, hi, n_bins):
    bits = inputs(word)
    values = wide(word, bits).astype(np.float64)
    values = values[np.isfinite(values)]
    expected = np.histogram(values, bins=n_bins, range=(lo, hi))[0]
    actual = reduce(f"histogram:{word},{lo},{hi},{n_bins}", bits, np.uint64, [100])
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("word", TYPES)
def test_count_and_filter(word, op):
    import operator

    bits = inputs(word)
    mask = getattr(operator, op)(wide(word, bits), 3)
    assert reduce(f"count:{word},{op},3", bits, np.uint64, [9])[0] == mask.sum()
    source, target = at_odd(bits), odd(bits.nbytes)
    n = LIB.hr__kernel_filter(
        parse(f"filter:{word},{op},3"),
        ctypes.c_void_p(source.ctypes.data),
        ctypes.c_void_p(target.ctypes.data),
        ctypes.c_size_t(len(bits)),
    )
    np.testing.assert_array_equal(np.frombuffer(target.tobytes(), storage(word))[:n], bits[mask])


@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65, 4097, 100003])
def test_crc32(n):
    data = RNG.integers(0, 256, n, np.uint8)
    cuts = RNG.integers(0, n + 1, 6).tolist()
    assert reduce("crc32", data, np.uint32, cuts)[0] == zlib.crc32(data.tobytes())
