# SPDX-License-Identifier: Apache-2.0
"""load of .npy, .npz and numbers without a header, plain and encoded, against numpy.load."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import _load_parts, errors
from headrace.formats import FormatError, npy
from loading import (
    HOW,
    by_reference,
    chunk_sizes,
    driven,
    dtypes,
    encoded,
    filled,
    hand_made,
    index_of,
    same,
    shapes,
    sharded,
    stored,
)

reference = pytest.importorskip("safetensors.numpy")


# ---- .npy ------------------------------------------------------------------------------------


@driven
@given(dtypes, shapes, st.sampled_from("CF"), chunk_sizes, st.sampled_from(HOW))
def test_npy_is_what_numpy_loads(tmp_path, dtype, shape, order, chunk_size, how):
    path = tmp_path / "a.npy"
    np.save(path, filled(dtype, shape, order))
    same(hr.load(stored(path, how), chunk_size=chunk_size), np.load(path))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("how", HOW)
def test_versions_of_npy(tmp_path, version, how, io):
    path = tmp_path / "a.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array(file, filled("f4", (3, 5)), version=version)
    same(hr.load(stored(path, how), io=io), np.load(path))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 1_000_003])
def test_sizes(tmp_path, how, n, io):
    path = tmp_path / "a.npy"
    np.save(path, filled("u1", (n,)))
    same(hr.load(stored(path, how), io=io, chunk_size=4096, depth=2), np.load(path))


def test_what_follows_the_data_is_left_alone(tmp_path):
    path = tmp_path / "a.npy"
    with open(path, "wb") as file:
        np.save(file, filled("f4", (7,)))
        np.save(file, filled("f8", (9,)))
    wanted = np.load(path)
    for how in HOW:
        same(hr.load(stored(path, how)), wanted)


@pytest.mark.parametrize("n", [7, 2000])
def test_damage_behind_the_data_is_not_seen(tmp_path, n):
    path = tmp_path / "a.npy"
    np.save(path, filled("f4", (n,)))
    packed = Path(encoded(path, "table"))
    whole = packed.read_bytes()
    for tail in [b"garbage", bytes(64), whole[:40], b"\x50\x2a\x4d\x18\x09\0\0\0cut"]:
        packed.write_bytes(whole + tail)
        same(hr.load(packed), np.load(path))
        with hr.stream(packed) as stream:
            assert b"".join(chunk.tobytes() for chunk in stream) == np.load(path).tobytes()


def test_ctrl_c_at_the_end_of_a_source_is_not_lost(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, filled("f4", (100,)))

    def source(parts, readers):
        try:
            while True:  # more than there is room for, which ends the transfer
                yield np.zeros(200, np.uint8)
        finally:
            raise KeyboardInterrupt

    monkeypatch.setattr(_load_parts, "_read", source)
    with pytest.raises(KeyboardInterrupt):
        hr.load(path, slices=slice(0, 100, 2))


def test_objects_are_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([print], dtype=object), allow_pickle=True)
    for how in HOW:
        with pytest.raises(FormatError, match="unpickle"):
            hr.load(stored(path, how))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("left", [5, 100, 128, 129, 9000])
def test_an_npy_cut_short_names_the_file(tmp_path, how, left):
    path = tmp_path / "a.npy"
    np.save(path, filled("f8", (4000,)))
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises((FormatError, EOFError), match=r"a\.npy"):
        hr.load(stored(path, how))


@pytest.mark.parametrize("left", [0.2, 0.999])
def test_a_zst_cut_short_names_the_file(tmp_path, left):
    path = tmp_path / "a.npy"
    np.save(path, np.random.default_rng(1).random(9000))
    out = encoded(path, "table")
    with open(out, "r+b") as file:
        file.truncate(int(file.seek(0, 2) * left))
    if left > 0.99:  # only the seek table
        same(hr.load(out), np.load(path))
        return
    with pytest.raises((errors.HeadraceError, FormatError), match=r"a\.npy\.zst"):
        hr.load(out)


def test_a_damaged_zst_names_the_file(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.random.default_rng(1).random(9000))
    for at in (20, 30000):
        out = encoded(path, "table")
        with open(out, "r+b") as file:
            file.seek(at)
            file.write(b"\xff" * 64)
        with pytest.raises((errors.CorruptError, FormatError), match=r"a\.npy\.zst"):
            hr.load(out)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        hr.load(tmp_path / "nowhere.npy")
    with pytest.raises(ValueError, match="regular"):
        hr.load("/dev/null", dtype="f4")
    with pytest.raises(TypeError, match="path is bytes"):
        hr.load(b"a.npy")


def test_what_no_kernel_swaps_is_refused(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(3, np.dtype("longdouble").newbyteorder(">")))
    with pytest.raises(ValueError, match=r"a\.npy.*>f16"):
        hr.load(path)


# ---- slices ----------------------------------------------------------------------------------


@driven
@given(st.data())
def test_slices_are_numpys(tmp_path, monkeypatch, data):
    shape = data.draw(shapes)
    index = tuple(data.draw(index_of(n)) for n in shape[: data.draw(st.integers(0, len(shape)))])
    order = data.draw(st.sampled_from("CF"))
    dtype = data.draw(dtypes)
    path = tmp_path / "a.npy"
    np.save(path, filled(dtype, shape, order))
    wanted = np.load(path)[index]
    monkeypatch.setattr(_load_parts, "_RUN_PITCH", data.draw(st.sampled_from([0, 50, 1 << 18])))
    monkeypatch.setattr(_load_parts, "_PIECE", data.draw(st.sampled_from([1, 50, 500, 1 << 22])))
    got = hr.load(stored(path, data.draw(st.sampled_from(HOW))), slices=index)
    assert got.shape == np.shape(wanted)
    native = np.asarray(wanted, dtype)
    if not native.dtype.names:
        native = native.astype(native.dtype.newbyteorder("="))
    assert got.numpy().tobytes() == native.tobytes()


def test_only_what_is_needed_is_read(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(
        _load_parts.File,
        "range",
        lambda self, a, b: read.append((a, b)) or hr.Range(self.fd, a, b - a),
    )
    path = tmp_path / "a.npy"
    np.save(path, filled("u1", (8, 1 << 20)))
    got = hr.load(path, slices=(slice(2, 4), slice(0, 1 << 19)))
    assert got.numpy().tobytes() == np.load(path)[2:4, : 1 << 19].tobytes()
    assert [b - a for a, b in read] == [1 << 19, 1 << 19]


@pytest.mark.parametrize("index", [9, (0, 0, 0), slice(None, None, -1), "a", (..., ...), (None,)])
def test_wrong_indices_name_the_file(tmp_path, index):
    path = tmp_path / "a.npy"
    np.save(path, filled("f4", (4, 4)))
    with pytest.raises((ValueError, IndexError, TypeError), match=r"a\.npy: [^t]"):
        hr.load(path, slices=index)


# ---- arguments, names and first bytes ---------------------------------------------------------

OF_RAW = {"shape": (3,), "stored": "f8", "offset": 8, "length": 24}
IGNORED = [
    *[(name, {one: OF_RAW[one]}) for name in ("a.npy", "a.npz", "a.safetensors") for one in OF_RAW],
    *[("m.safetensors.index.json", {one: value}) for one, value in OF_RAW.items()],
    ("m.safetensors.index.json", {"decode": "zstd"}),
    *[(name, {"keys": "w"}) for name in ("a.npy", "a")],
    *[(name, {"decode": "gzip"}) for name in ("a.npy", "a.npz", "a.safetensors", "a")],
]


@pytest.mark.parametrize(("name", "given"), IGNORED, ids=str)
def test_an_argument_is_used_or_refused(tmp_path, name, given):
    numbers = np.arange(3.0)
    np.save(tmp_path / "a.npy", numbers)
    np.savez(tmp_path / "a.npz", w=numbers)
    reference.save_file({"w": numbers}, tmp_path / "a.safetensors")
    numbers.tofile(tmp_path / "a")
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"w": "a.safetensors"}}))
    options = {"dtype": "f8"} if name == "a" else {}
    hr.load(tmp_path / name, **options)
    (word,) = given
    with pytest.raises(ValueError, match="not zstd" if given == {"decode": "zstd"} else word):
        hr.load(tmp_path / name, **options, **given)


@pytest.mark.parametrize("compress", ["zstd", "none"])
@pytest.mark.parametrize("name", ["a.npy", "a.NPY.zst", "a.safetensors", "a.f8", "a.f8.zst"])
def test_the_first_bytes_tell_what_is_zstd(tmp_path, name, compress):
    numbers = np.arange(5000.0)
    is_dict = "safetensors" in name
    hr.save(tmp_path / name, {"": numbers} if is_dict else numbers, compress=compress)
    options = {"dtype": "f8"} if ".f8" in name else {}
    if (name, compress) == ("a.f8.zst", "none"):
        with pytest.raises(FormatError, match='says zstd.*decode="none"'):
            hr.load(tmp_path / name, **options)
        options["decode"] = "none"
    got = hr.load(tmp_path / name, **options)
    assert ((got[""] if is_dict else got).numpy() == numbers).all()


def test_what_is_zstd_where_it_cannot_be_is_told(tmp_path):
    path, _ = sharded(tmp_path)
    shard = tmp_path / "m-1.safetensors"
    encoded(shard, "table")
    os.replace(f"{shard}.zst", shard)
    with pytest.raises(FormatError, match="m-1.safetensors: it is zstd"):
        hr.load(path)
    os.replace(encoded(path, "table"), path)
    with pytest.raises(FormatError, match="index.json: it is zstd"):
        hr.load(path)
    hr.save(tmp_path / "a.npy", np.zeros(3), compress="zstd")
    with pytest.raises(FormatError, match="a.npy: it is zstd"):
        hr.load(tmp_path / "a.npy", decode="none")


def test_bytes_that_begin_as_zstd_may_be_numbers(tmp_path):
    path = tmp_path / "a.u4"
    np.array([0xFD2FB528, 7], "u4").tofile(path)
    with pytest.raises(errors.HeadraceError, match="zstd|decode"):
        hr.load(path, dtype="u4")
    assert hr.load(path, dtype="u4", decode="none").numpy().tolist() == [0xFD2FB528, 7]


@pytest.mark.parametrize("name", ["a.npy.gz", "a.H5", "a.csv.zst", "a.npy.zstd", "a.pt"])
def test_endings_of_other_formats(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name}: .*another format.*raw"):
        hr.load(tmp_path / name, dtype="f4")
    with pytest.raises(ValueError, match=f"{name}: .*another format.*raw"):
        hr.save(tmp_path / name, np.zeros(3))
    hr.save(tmp_path / name, np.ones(3), format="raw")
    assert hr.load(tmp_path / name, dtype="f8", format="raw").numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["-", "null:", "fd:0", "http://host/a.npy", "tcp://host:1"])
def test_what_is_no_file(tmp_path, monkeypatch, name):
    with pytest.raises(ValueError, match="no path"):
        hr.load(name, dtype="f4")
    if "tcp" not in name:
        with pytest.raises(ValueError, match="no path"):
            hr.save(name, np.zeros(3))
    if "/" not in name:
        monkeypatch.chdir(tmp_path)
        hr.save(f"./{name}", np.ones(2))
        assert hr.load(Path(name), dtype="f8").numpy().tolist() == [1, 1]


@pytest.mark.parametrize("name", ["a.npy", "a.npy.zst", "a.f8.zst"])
def test_an_error_names_the_file_once(tmp_path, name):
    path = tmp_path / name
    hr.save(path, np.random.default_rng(1).random(9000))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises((FormatError, EOFError), match="2000|1872") as caught:
        hr.load(path, **({"dtype": "f8", "shape": 9000} if ".f8" in name else {}))
    assert str(caught.value).count(name) == 1 and str(caught.value).startswith(f"{path}: ")
    assert "descriptor" not in str(caught.value) and caught.value.__cause__ is None
    assert caught.value.filename == str(path)


# ---- casts -----------------------------------------------------------------------------------


@driven
@given(
    st.sampled_from(["u1", "i1", "<i2", "u2", "<i4", "<i8", "<f2", ">f4", "<f8", ">i4"]),
    st.sampled_from(["uint8", "int8", "i2", "int32", "int64", "f2", "f4", "f8", "bf16"]),
    shapes,
    st.sampled_from(HOW),
    chunk_sizes,
)
def test_casts(tmp_path, source, target, shape, how, chunk_size):
    path = tmp_path / "a.npy"
    np.save(path, (np.arange(int(np.prod(shape))) % 100).astype(source).reshape(shape))
    got = hr.load(stored(path, how), dtype=target, chunk_size=chunk_size)
    wanted = np.load(path)
    assert got.shape == shape and got.dtype_name == hr._dtypes.find(target).name
    assert (got.numpy().astype("f8") == wanted.astype("f8")).all()


def test_a_cast_that_no_kernel_does_names_file_and_tensor(tmp_path):
    path = tmp_path / "m.safetensors"
    reference.save_file({"mask": np.ones(3, bool)}, path)
    with pytest.raises(ValueError, match=r'm\.safetensors: tensor "mask".*no cast'):
        hr.load(path, dtype={"mask": "f4"})


# ---- .npz and numbers without a header -------------------------------------------------------


def test_npz_is_what_numpy_loads(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=filled("f4", (3, 5)), b=filled(">i8", (7,), "F"), c=filled("U4", (2,)))
    wanted = np.load(path)
    got = hr.load(path)
    assert list(got) == ["a", "b", "c"]
    for name, array in got.items():
        same(array, wanted[name])
    same(hr.load(path, keys="b", slices={"b": slice(1, 5)})["b"], wanted["b"][1:5])
    np.savez_compressed(path, a=filled("f4", (3, 5)))
    with pytest.raises(FormatError, match=r'a\.npz: "a" is compressed'):
        hr.load(path)
    with pytest.raises(ValueError, match=r"a\.npz\.zst"):
        hr.load(encoded(path, "table"))


@pytest.mark.parametrize("how", HOW)
def test_numbers_without_a_header(tmp_path, how):
    path = tmp_path / "numbers.bin"
    data = filled("f4", (6, 50))
    data.tofile(path)
    name = stored(path, how)
    assert (hr.load(name, dtype="f4").numpy() == data.reshape(-1)).all()
    assert (hr.load(name, dtype="f4", shape=(6, 50)).numpy() == data).all()
    assert (
        hr.load(name, dtype="f4", shape=(-1, 10), offset=200).numpy() == data[1:].reshape(-1, 10)
    ).all()
    assert (hr.load(name, dtype=">f4").numpy() == data.reshape(-1).byteswap()).all()
    wide = hr.load(name, dtype="f8", stored="f4", shape=(6, 50), slices=(slice(None), 3))
    assert (wide.numpy() == data[:, 3].astype("f8")).all()
    part = hr.load(name, dtype="f4", shape=np.int64(50), offset=200, length=200)
    assert (part.numpy() == data[1]).all()
    assert hr.load(name, dtype="f4", shape=(0,), length=0).shape == (0,)
    with pytest.raises(ValueError, match=r"numbers\.bin.*dtype"):
        hr.load(name)
    for more, said in [
        ({"shape": (7, 50)}, "1400.*1200|1200 of 1400"),
        ({"shape": (5, 50)}, "1000 leaves the rest"),
        ({"shape": 0}, "0 bytes, the file has 1200"),
        ({"length": 1204}, "1204 bytes.*file of 1200|1200 of 1204"),
    ]:
        with pytest.raises((FormatError, EOFError), match=rf"numbers\.bin.*({said})"):
            hr.load(name, dtype="f4", **more)
    with pytest.raises(TypeError, match="shape is 'six'"):
        hr.load(name, dtype="f4", shape="six")
    with pytest.raises(FormatError, match=r"numbers\.bin"):
        hr.load(name, dtype="S7")


# ---- out= ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOW)
def test_into_arrays_that_are_there(tmp_path, how):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a": ("F64", (7, 3)), "b": ("F32", (5,)), "c": ("BF16", (2,))})
    wanted = by_reference(path)
    out = {"a": np.zeros((7, 3)), "b": np.zeros(5, "f4")}
    got = hr.load(stored(path, how), out=out)
    assert got["a"] is out["a"] and list(got) == ["a", "b"]
    assert all(out[name].tobytes() == wanted[name].tobytes() for name in out)
    narrow = np.zeros((7, 1), "f2")
    hr.load(
        stored(path, how), "a", {"a": (slice(None), slice(1, 2))}, dtype="f2", out={"a": narrow}
    )
    assert (narrow == wanted["a"][:, 1:2].astype("f2")).all()


@pytest.mark.parametrize("how", HOW)
def test_an_npy_into_an_array(tmp_path, how):
    path = tmp_path / "a.npy"
    np.save(path, filled(">f4", (40, 30), "F"))
    out = np.zeros((40, 30), "f4", order="F")
    assert hr.load(stored(path, how), out=out) is out
    assert (out == np.load(path)).all()
    flat = bytearray(1200 * 4)
    np.save(path, filled("u1", (4800,)))
    hr.load(stored(path, how), out=flat)
    assert flat == np.load(path).tobytes()


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a": ("F64", (7, 3)), "b": ("F32", (5,))})
    readonly = np.zeros(5, "f4")
    readonly.flags.writeable = False
    wrong = [
        (np.zeros(6, "f4"), "shape"),
        (np.zeros(5, "i4"), "i32"),
        (np.zeros(10, "f4")[::2], "contiguous"),
        (readonly, "read-only"),
        ([1, 2], "no array"),
    ]
    for b, said in wrong:
        a = np.zeros((7, 3))
        with pytest.raises(
            (ValueError, TypeError, BufferError), match=rf'm\.safetensors: tensor "b".*{said}'
        ):
            hr.load(path, out={"a": a, "b": b})
        assert not a.any()
    with pytest.raises(ValueError, match="order F.*order C|in order"):
        hr.load(path, keys="a", out={"a": np.zeros((7, 3), order="F")})
    with pytest.raises(ValueError, match="out is on host, device= names cuda:0"):
        hr.load(path, keys="b", out={"b": np.zeros(5, "f4")}, device="cuda:0")
    for wrong in ({"out": np.zeros(3)}, {"slices": 0}):
        with pytest.raises(TypeError, match=r"m\.safetensors.*dict"):
            hr.load(path, **wrong)
    with pytest.raises(ValueError, match='"a", "b"'):
        hr.load(path, keys=["a", "b"], out={"a": np.zeros((7, 3))})


# ---- life ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOW)
def test_one_worker_is_enough(tmp_path, how):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a": ("F64", (70, 300)), "b": ("F32", (5001,))})
    one = hr.Context(threads=1)
    slices = {"a": (slice(None), slice(3, 7))}
    got = hr.load(stored(path, how), slices=slices, dtype="f4", context=one)
    assert (got["a"].numpy() == by_reference(path)["a"][:, 3:7].astype("f4")).all()


def test_nothing_leaks(tmp_path, resources):
    path = tmp_path / "m.safetensors"
    hand_made(path, {"a": ("F64", (70, 300)), "b": ("F32", (5001,))})
    files = [stored(path, how) for how in HOW]

    def some(n):
        for _ in range(n):
            for file in files:
                hr.load(file, slices={"a": (slice(None), slice(3, 7))}, dtype="f4")

    some(3)
    _, n_fds, n_threads = resources()
    some(10)
    after = resources()
    assert after[1:] == (n_fds, n_threads)


@pytest.mark.parametrize("name", ["a.npy", "a.npy.zst"])
def test_out_is_in_the_machines_byte_order(tmp_path, name):
    hr.save(tmp_path / name, np.arange(3.0))
    out = np.zeros(3, ">f8")
    for given in (out, memoryview(out)):
        with pytest.raises(ValueError, match="byte order"):
            hr.load(tmp_path / name, out=given)
    assert not out.any()


def test_outs_do_not_overlap(tmp_path):
    hr.save(tmp_path / "a.safetensors", {"a": np.arange(4.0), "b": np.arange(4.0)})
    out = np.zeros(7)
    with pytest.raises(ValueError, match='"a" and "b" overlap'):
        hr.load(tmp_path / "a.safetensors", out={"a": out[:4], "b": out[3:]})
    assert not out.any()
    both = {"a": np.zeros(8)[:4], "b": np.zeros(8)[4:]}
    hr.load(tmp_path / "a.safetensors", out=both)
    assert both["b"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["a", "a.npy", "a.npy.zst", "a.safetensors.index.json"])
def test_a_named_pipe_is_refused_at_once(tmp_path, python, name):
    os.mkfifo(tmp_path / name)
    process = python(
        "import sys, headrace as hr\n"
        "try:\n"
        "    hr.load(sys.argv[1], dtype='u1' if sys.argv[1].endswith('a') else None)\n"
        "except ValueError as error:\n"
        "    print('regular file' in str(error))\n",
        str(tmp_path / name),
    )
    assert process.communicate(timeout=20) == ("True\n", "")


def test_a_file_that_tells_no_size_is_not_taken_for_an_empty_one():
    with pytest.raises(ValueError, match="not a regular file"):
        hr.load("/proc/self/status", dtype="u1")


def test_over_the_fake_driver():
    folder = os.environ.get("HEADRACE_LIBRARY_DIR", "")
    driver = Path(folder, "tests/fake_cuda/libcuda.so.1").resolve()
    if not folder or not driver.exists():
        pytest.skip("the fake driver is not built")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*run, str(Path(__file__).with_name("load_over_fake_gpu.py"))],
        env={**os.environ, "HR_LIBCUDA": str(driver)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=280,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_a_header_that_the_name_hides_is_told(tmp_path, kind, is_packed):
    data = np.arange(6, dtype="f4")
    made, path = tmp_path / f"a.{kind}", tmp_path / "pytorch_model.bin"
    hr.save(made, data if kind == "npy" else {"w": data})
    hr.Pipeline(made, path, encode="zstd" if is_packed else "none", decode="none").run()
    with pytest.raises(FormatError, match=f'format="{kind}" .*format="raw"') as caught:
        hr.load(path, dtype="f4")
    assert caught.value.filename == str(path)
    found = hr.load(path, format=kind)
    assert (found if kind == "npy" else found["w"]).numpy().tolist() == data.tolist()
    size = hr.load(path, dtype="uint8", format="raw").size
    assert hr.load(path, dtype="f4", offset=size - 24).numpy().tolist() == data.tolist()


@pytest.mark.parametrize("make", [hr.load, hr.stream])
def test_a_file_that_cannot_be_read_is_a_transfer_error(tmp_path, make):
    with pytest.raises(hr.TransferError, match="No such file") as caught:
        found = make(tmp_path / "no.npy")
        next(found)
    assert isinstance(caught.value, FileNotFoundError) and caught.value.errno == errno.ENOENT
    assert caught.value.filename == str(tmp_path / "no.npy")
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


def test_dtype_is_in_the_order_of_the_machine(tmp_path):
    path, data = tmp_path / "a.npy", np.arange(4, dtype="f4")
    hr.save(path, data)
    for call in (
        lambda: hr.load(path, dtype=">f4"),
        lambda: hr.save(tmp_path / "b.npy", data, dtype=np.dtype(">f8")),
        lambda: hr.to_host(data, dtype=">f4"),
        lambda: hr.to_device(data, "host", dtype=">f4"),
    ):
        with pytest.raises(ValueError, match="the machine's byte order"):
            call()
    data.astype(">f4").tofile(tmp_path / "a.bin")
    assert hr.load(tmp_path / "a.bin", dtype=">f4").numpy().tolist() == data.tolist()


def test_more_than_there_is_memory_names_the_file(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy.build_header("f8", (1 << 57,)))
    path = encoded(tmp_path / "a.npy", "plain")
    with pytest.raises(hr.OutOfMemoryError, match="a.npy.zst: the arrays.* need ") as caught:
        hr.load(path)
    assert isinstance(caught.value, MemoryError) and caught.value.filename == path


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda path: hr.load(5), "path is int.* Pipeline and stream"),
        (lambda path: hr.save(io.BytesIO(), np.zeros(2)), "path is BytesIO.* Pipeline and stream"),
        (lambda path: hr.load(path, keys=3), "keys is 3"),
        (lambda path: hr.save(path + ".npy", [1, 2], shape=2), "item 0 .*int.*numpy.asarray"),
    ],
)
def test_arguments_of_other_types_are_told(tmp_path, call, told):
    path = str(tmp_path / "a.safetensors")
    hr.save(path, {"w": np.zeros(2)})
    with pytest.raises(TypeError, match=told):
        call(path)


def test_shapes_that_do_not_fit_name_the_file(tmp_path):
    np.zeros(3).tofile(tmp_path / "a.bin")
    with pytest.raises(FormatError, match="shape") as caught:
        hr.load(tmp_path / "a.bin", dtype="f8", shape=7)
    assert caught.value.filename == str(tmp_path / "a.bin")
