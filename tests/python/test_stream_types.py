# SPDX-License-Identifier: Apache-2.0
"""Types of streams and pipelines: of arrays, through kernels, to sinks; and what a file is, which
its first bytes tell."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import errors

F8 = np.arange(24.0)
F4 = np.arange(24, dtype="f4").reshape(4, 3, 2)
MAGIC = bytes.fromhex("28b52ffd")  # of zstd


def packed(data: Any, path: Path, frame_size: int = 1 << 20) -> Path:
    hr.Pipeline(data, path, decode="none", encode="zstd", frame_size=frame_size).run()
    return path


def all_of(chunks: Any) -> Any:
    return np.concatenate([chunk.numpy().copy() for chunk in chunks])


# ---- kernels ----


@pytest.mark.parametrize("make", [hr.Pipeline, hr.stream])
@pytest.mark.parametrize(
    "kernels, reads, comes",
    [
        ("sum:f32", "f32", "f64"),
        ("sum:u8", "u8", "f64"),
        (["cast:f64,f32", "scale:f64,2,0"], "f64", "f32"),
        (["bswap:8", "sum:f64"], "f64", "f64 in the other byte order"),
        (hr.Kernel.function(print, "f4"), "f32", "f64"),
        ([hr.Kernel.function(print, "f8", "i4"), "min:f32"], "f32", "i32"),
    ],
)
def test_a_kernel_of_another_type_is_refused(
    make: Any, kernels: Any, reads: str, comes: str
) -> None:
    with pytest.raises(TypeError, match=f"reads {reads}, what comes is {comes}: ") as caught:
        make(F8, kernels=kernels)
    assert isinstance(caught.value, hr.HeadraceError)
    assert "before it" in str(caught.value) and 'array.view("u1")' in str(caught.value)


@pytest.mark.parametrize(
    "kernels, dtype",
    [
        (["sum:f32", "sum:f64"], None),
        (["crc32", "filter:f32,gt,0", "sum:f64"], None),
        (["scale:f32,2,0", "sum:i32"], None),
        ([hr.Kernel.function(print, "f4", 0), "sum:f64"], None),
        ("sum:f64", "f4"),
        (["histogram", print, "sum:f64"], "f4"),
        ("sum:f32", "f8"),
    ],
)
def test_the_first_type_that_is_told_stays(tmp_path: Path, kernels: Any, dtype: Any) -> None:
    F8.tofile(tmp_path / "a")
    for source in (tmp_path / "a", F8.tobytes()):
        with pytest.raises(TypeError, match="what comes is|dtype is f64, what comes is f32"):
            hr.stream(source, dtype, kernels=kernels)
        if dtype is None:
            with pytest.raises(TypeError, match="what comes is"):
                hr.Pipeline(source, hr.NULL, kernels=kernels)


def test_what_states_no_type_takes_any() -> None:
    chain = ["crc32", "histogram", "histogram:u8,0,256,4", "bswap:8", "bswap:8"]
    chunks = hr.stream(F8.tobytes(), "f8", kernels=[*chain, "sum:f64"])
    assert np.array_equal(all_of(chunks), F8) and chunks.result(5) == F8.sum()
    pipeline = hr.Pipeline(F8.tobytes(), kernels=["shuffle:8,64", "unshuffle:8,64", "sum:f64"])
    assert next(pipeline).dtype == np.float64
    pipeline.close()


@pytest.mark.parametrize("shape", [None, 3])
def test_dtype_is_also_that_of_a_function(shape: Any) -> None:
    seen: list[Any] = []

    def note(x: Any, out: Any, call: Any) -> None:
        seen.append((x.dtype, x.shape[1:]))
        np.negative(x, out=out)

    got = all_of(hr.stream(F8.tobytes(), "f8", shape=shape, kernels=note))
    assert np.array_equal(got.ravel(), -F8)
    assert set(seen) == {(np.dtype("f8"), () if shape is None else (shape,))}


def test_both_ways_out_are_ways() -> None:
    pipeline = hr.Pipeline(F8, hr.NULL, kernels=["cast:f64,f32", "sum:f32"], device="host")
    pipeline.run()
    assert pipeline.result(1) == F8.sum()
    for source in (F8.view("u1"), hr.Range(F8, 0), F8.tobytes()):
        pipeline = hr.Pipeline(source, hr.NULL, kernels="sum:f32", device="host")
        pipeline.run()
        assert pipeline.result(0) == F8.view("f4").sum(dtype="f8")
    swapped = F8.astype(">f8")
    pipeline = hr.Pipeline(swapped, hr.NULL, kernels=["bswap:8", "sum:f64"], device="host")
    pipeline.run()
    assert pipeline.result(1) == F8.sum()


@pytest.mark.parametrize(
    "source, shape, dtype",
    [
        (F8, (24,), "f8"),
        (F4, (4, 3, 2), "f4"),
        (np.asfortranarray(F4), (24,), "f4"),
        (F4.astype(">f4"), (4, 3, 2), ">f4"),
        (F4.view("u1"), (96,), "u1"),
        ([F8, F8], (48,), "f8"),
        ([F4, F4[0]], (30,), "f4"),
        ([b"abc", F8], (195,), "u1"),
        (F4.tobytes(), (96,), "u1"),
    ],
)
def test_a_function_gets_what_comes(source: Any, shape: Any, dtype: str) -> None:
    parts: dict[int, Any] = {}  # several chunks are worked on at once

    def look(x: Any, out: Any, call: Any) -> None:
        assert (x.dtype, out.dtype, out.shape) == (np.dtype(dtype), np.dtype(dtype), x.shape)
        parts[call.chunk] = x.copy()
        out[:] = x

    out = np.zeros(shape, dtype)
    hr.Pipeline(source, out, kernels=look, device="host").run()
    got = np.concatenate([parts[chunk] for chunk in sorted(parts)])
    assert got.shape == shape and np.array_equal(got, out)


def test_rows_are_units_of_a_function() -> None:
    def total(x: Any, out: Any, call: Any) -> None:
        np.sum(x, axis=1, out=out)

    rows = F4.reshape(8, 3)
    for source, kernel in (
        (rows, hr.Kernel.function(total, unit_out="f4")),
        (rows.ravel(), hr.Kernel.function(total, ("f4", (3,)), "f4")),
        (rows.tobytes(), hr.Kernel.function(total, ("f4", (3,)), "f4")),
    ):
        out = np.zeros(8, "f4")
        hr.Pipeline(source, out, kernels=kernel, device="host").run()
        assert np.array_equal(out, rows.sum(axis=1))
    with pytest.raises(EOFError, match=r"total: its unit is float32\[3\], 12 bytes, .* 28 bytes"):
        hr.Pipeline(np.zeros(7, "f4"), hr.NULL, kernels=kernel)


# ---- chunks and sinks ----


@pytest.mark.parametrize("chunk_size", [0, 1, 13, 100])
@pytest.mark.parametrize(
    "source", [F8, F4, np.zeros(5, "i2,f8"), np.array([b"abc", b"de"] * 9), np.arange(7) * 1j]
)
def test_chunks_have_the_type_of_the_array(source: Any, chunk_size: int) -> None:
    got = all_of(hr.Pipeline(source, chunk_size=chunk_size))
    assert got.dtype == source.dtype and np.array_equal(got, source.ravel())
    got = all_of(hr.stream(source, chunk_size=chunk_size))
    assert got.dtype == source.dtype and np.array_equal(got, source)


def test_chunks_have_the_type_that_kernels_make() -> None:
    for source, kernels, dtype in (
        (F8, "cast:f64,f32", "f4"),
        (bytes(9), "cast:u8,i16", "i2"),
        (F8, ["shuffle:8,64"], "u1"),
        (F8, "filter:f64,ge,5", "f8"),
        (bytes(8), hr.Kernel.function(lambda x, out, call: None, 4, "f8"), "f8"),
        (F8.astype(">f8"), "crc32", "u1"),  # no type of the machine's
    ):
        chunk = next(hr.Pipeline(source, kernels=kernels, device="host"))
        assert chunk.dtype == dtype, kernels


def test_elements_are_not_taken_for_zstd() -> None:
    data = np.frombuffer(MAGIC * 6, "u4")
    assert np.array_equal(all_of(hr.Pipeline(data)), data)
    assert np.array_equal(all_of(hr.stream(data)), data)
    assert np.array_equal(hr.to_host(hr.to_device(data.view("u1"), "host")), data.view("u1"))


def test_saved_bytes_are_not_taken_for_zstd(tmp_path: Path) -> None:
    data = np.frombuffer(MAGIC * 6, "u1")
    for name in ("a.npy", "a.bin"):
        hr.save(tmp_path / name, data)
        assert (tmp_path / name).read_bytes().endswith(data.tobytes())


def test_sources_of_several_types_are_refused() -> None:
    for make in (hr.Pipeline, hr.stream):
        with pytest.raises(ValueError, match="sources of f64 and of f32"):
            make([F8, F4])
        with pytest.raises(ValueError, match="empty"):
            make([])
    assert all_of(hr.Pipeline([b"header", F8, F4])).nbytes == 6 + F8.nbytes + F4.nbytes


def test_a_sink_has_the_type_of_the_stream() -> None:
    with pytest.raises(TypeError, match=r"array of f32, what comes is f64: put 'cast:f64,f32'"):
        hr.Pipeline(F8, np.zeros(48, "f4"))
    with pytest.raises(TypeError, match="array of f64, what comes is f32"):
        hr.Pipeline(F8, np.zeros(12), kernels="cast:f64,f32")
    out = np.zeros(F8.nbytes, "u1")  # bytes take anything
    hr.Pipeline(F8, out).run()
    assert out.tobytes() == F8.tobytes()


@pytest.mark.parametrize("more", [-1, 1])
def test_a_sink_has_the_size_of_the_stream(tmp_path: Path, more: int) -> None:
    (tmp_path / "raw").write_bytes(bytes(96))
    for source, kernels in (
        (F4, ()),
        (F8, "cast:f64,f32"),
        (bytes(96), "sum:f32"),
        (tmp_path / "raw", ()),
        (hr.Range(tmp_path / "raw", 0, 200), ()),
        (hr.Range(F8, 96), ()),
    ):
        told = rf"{96 + 4 * more} bytes, the stream has 96"
        with pytest.raises(ValueError, match=told) as caught:
            hr.Pipeline(source, np.zeros(24 + more, "f4"), kernels=kernels)
        assert isinstance(caught.value, hr.HeadraceError)


def test_a_sink_may_be_larger_where_the_size_is_not_known(tmp_path: Path) -> None:
    for source, kernels, nbytes in (
        (F8, "filter:f64,lt,5", 40),
        (iter([b"abcdefgh"]), (), 8),
        (packed(bytes(16), tmp_path / "a"), (), 16),
    ):
        stats = hr.Pipeline(source, np.zeros(24), kernels=kernels, device="host").run()
        assert stats.bytes_out == nbytes


# ---- streams of arrays ----


def test_a_stream_of_an_array_has_its_type_and_rows() -> None:
    for dtype in ("f4", ">f4"):
        chunks = hr.stream(F4.astype(dtype), chunk_size=30)
        assert (chunks.dtype, chunks.shape) == (np.float32, (3, 2))
        assert np.array_equal(all_of(chunks), F4)
    apart = F4[:, ::2]
    assert np.array_equal(all_of(hr.stream([apart, apart])), np.concatenate([apart, apart]))
    assert hr.stream(F8, "f8", shape=6).shape == (6,)
    assert hr.stream(F4, kernels="cast:f32,f16").shape == (3, 2)
    assert hr.stream(F4, kernels="filter:f32,gt,1").shape == ()


def test_what_contradicts_an_array_is_refused() -> None:
    for wrong in ({"dtype": "f4"}, {"dtype": ">f8"}, {"kernels": "cast:f64,f32", "dtype": "f8"}):
        with pytest.raises(TypeError, match=r"dtype is .*, what comes is") as caught:
            hr.stream(F8, **wrong)
        assert isinstance(caught.value, errors.ElementTypeError)
    with pytest.raises(ValueError, match=r"rows of the source are of shape \(3, 2\)"):
        hr.stream(F4, shape=6)
    with pytest.raises(ValueError, match="Fortran"):
        hr.stream(np.asfortranarray(F4))


# ---- files: the first bytes tell ----


def tensors_file(path: Path) -> Path:
    text = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npy.zst", "a.zst", "a.bin"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_npy_is_known_by_its_first_bytes(tmp_path: Path, name: str, is_packed: bool) -> None:
    np.save(tmp_path / "made.npy", F4)
    path = tmp_path / name
    data = (tmp_path / "made.npy").read_bytes()
    packed(data, path) if is_packed else path.write_bytes(data)
    assert np.array_equal(all_of(hr.stream(path)), F4)
    for wrong in ({"dtype": "f8"}, {"kernels": "sum:f64"}):
        with pytest.raises(TypeError, match="what comes is f32"):
            hr.stream(path, **wrong)
    with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
        hr.stream(path, shape=2)
    as_it_is = path.read_bytes()
    assert all_of(hr.stream(hr.Range(path, 0))).tobytes() == data
    assert all_of(hr.stream(hr.Range(path, 128), "f4")).tobytes() == F4.tobytes()
    assert all_of(hr.stream(path, decode="none" if is_packed else "auto")).nbytes == (
        len(as_it_is) if is_packed else F4.nbytes
    )
    out = tmp_path / "copy"
    hr.Pipeline(path, out, decode="none").run()
    assert out.read_bytes() == as_it_is
    with pytest.raises(ValueError, match=r'"sum:f32" would take .* 128 bytes: headrace.stream'):
        hr.Pipeline(path, hr.NULL, kernels=["crc32", "sum:f32"])
    pipeline = hr.Pipeline(hr.Range(path, 128), hr.NULL, kernels="sum:f32", device="host")
    pipeline.run()
    assert pipeline.result(0) == F4.sum()


def sources_of(path: Path, behind: Path) -> list[tuple[Any, Any]]:
    """A file in other hands, and where each stands: also behind the begin of a file."""
    data = path.read_bytes()
    behind.write_bytes(b"before" + data)
    files = [path.open("rb"), path.open("rb", buffering=0), behind.open("rb"), io.BytesIO(data)]
    assert files[2].read(6) == b"before"
    fd = os.open(path, os.O_RDONLY)
    named = [(file, file.tell) for file in files]
    named.append((fd, lambda: os.lseek(fd, 0, os.SEEK_CUR)))
    in_memory = (data, bytearray(data), np.frombuffer(data, "i1"))
    return named + [(one, lambda: 0) for one in in_memory]


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_header_is_seen_in_all_hands(tmp_path: Path, is_packed: bool) -> None:
    np.save(tmp_path / "made.npy", F4)
    path = tmp_path / "made.npy"
    path = packed(path.read_bytes(), tmp_path / "made") if is_packed else path
    for number in range(8):
        source, position = sources_of(path, tmp_path / "behind")[number]
        at = position()
        with pytest.raises(ValueError, match="would take .* 128 bytes: headrace.stream.source, "):
            hr.Pipeline(source, hr.NULL, kernels="sum:f32")
        with pytest.raises(TypeError, match="what comes is f32"):
            hr.stream(source, "f8")
        stream = hr.stream(source, "f4")
        assert position() == at, number
        assert np.array_equal(all_of(stream), F4), number
        if hasattr(source, "close"):
            source.close()


def test_texts_of_what_makes_no_stream(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(F4))
    told = [(path, r"Fortran .* headrace.load\('.*a.npy'\) .* headrace.Range")]
    told.append((tmp_path / "empty.npy", r"its name says .npy, its first bytes do not"))
    told[1][0].write_bytes(b"")
    for given, text in told:
        with pytest.raises(errors.FormatError, match=text) as caught:
            hr.stream(given)
        assert caught.value.filename == str(given)


@pytest.mark.parametrize("name", ["a.f32", "a.f32.zst"])
def test_a_part_of_a_record_is_told_of_the_record(tmp_path: Path, name: str) -> None:
    path, data = tmp_path / name, bytes(4 * 30)
    packed(data, path) if name.endswith("zst") else path.write_bytes(data)
    told = "no multiple of a record, f32 x 7 .*8 of 28 bytes"
    with pytest.raises(errors.TruncatedError, match=told) as caught:
        list(hr.stream(path, "f4", shape=7))
    assert caught.value.filename == str(path)


def test_npy_of_bytes_has_rows_too(tmp_path: Path) -> None:
    images = np.arange(48, dtype="u1").reshape(4, 4, 3)
    np.save(tmp_path / "a.npy", images)
    assert np.array_equal(all_of(hr.stream(tmp_path / "a.npy")), images)
    got = all_of(hr.stream(tmp_path / "a.npy", kernels="cast:u8,f32"))
    assert got.dtype == np.float32 and np.array_equal(got, images)


def test_npy_of_objects_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(errors.FormatError, match="pickle"):
        hr.stream(tmp_path / "a.npy")


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("kind", [".npz", ".safetensors"])
def test_files_of_several_arrays_make_no_stream(tmp_path: Path, kind: str, is_packed: bool) -> None:
    path = tmp_path / f"a{kind}"
    if kind == ".npz":
        np.savez(path, a=F4, b=F8)
    else:
        tensors_file(path)
    data = path.read_bytes()
    path = packed(data, tmp_path / "any.name") if is_packed else path
    told = rf"\{kind} file makes no stream .* headrace.load\(.*keys="
    with pytest.raises(ValueError, match=told):
        hr.stream(path)
    with pytest.raises(ValueError, match=rf"\{kind} file.*headrace.load"):
        hr.Pipeline(path, hr.NULL, kernels="sum:f32")
    assert all_of(hr.stream(hr.Range(path, 0))).tobytes() == data
    assert all_of(hr.Pipeline(path)).tobytes() == data


def test_numbers_are_not_taken_for_a_format(tmp_path: Path) -> None:
    numbers = np.array([100, ord("{") + 256 * ord('"'), 3])  # a length, and what begins as JSON
    numbers.tofile(tmp_path / "raw")
    assert np.array_equal(all_of(hr.stream(tmp_path / "raw", "int64")), numbers)


def test_the_name_of_a_file_says_nothing_of_zstd(tmp_path: Path) -> None:
    text = tmp_path / "text.zst"
    text.write_bytes(b"some text, no zstd\n")
    hidden = packed(b"packed" * 999, tmp_path / "hidden.txt", frame_size=600)
    for path, wanted in ((text, text.read_bytes()), (hidden, b"packed" * 999)):
        assert all_of(hr.stream(path)).tobytes() == wanted
        assert all_of(hr.Pipeline(path)).tobytes() == wanted
        shares = [all_of(hr.stream(path).share(i, 2)).tobytes() for i in range(2)]
        assert b"".join(shares) == wanted
    assert all_of(hr.Pipeline(hidden, decode="none")).tobytes() == hidden.read_bytes()
    shares = [all_of(hr.stream(hidden, decode="none").share(i, 2)).tobytes() for i in range(2)]
    assert b"".join(shares) == hidden.read_bytes()


# ---- loans ----


@pytest.mark.parametrize("frame_size", [3000, 1 << 20])
@pytest.mark.parametrize("chunk_size", [64, 1000, 4096, 70_000])
def test_a_chunk_less_than_depth_may_be_kept(
    tmp_path: Path, chunk_size: int, frame_size: int
) -> None:
    """Whatever the frames: memory for those is found, however the chunks are rounded."""
    data = np.random.default_rng(3).integers(0, 99, 40_000, "u1")
    path = packed(data, tmp_path / "a.zst", frame_size)
    for depth, dtype in ((2, "u1"), (2, "f4"), (3, "f4"), (4, "f8")):
        kept: list[Any] = []
        for number, chunk in enumerate(hr.stream(path, dtype, chunk_size=chunk_size, depth=depth)):
            kept.append(chunk)
            if len(kept) == depth:
                del kept[0]
            if number == 40:
                break
        kept.clear()
        del chunk
