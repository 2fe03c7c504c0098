# SPDX-License-Identifier: Apache-2.0
"""Sources and sinks of every kind."""

import array
import copy
import gc
import gzip
import io as python_io
import mmap
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
import zlib
from pathlib import Path

import numpy as np
import pytest

hr = pytest.importorskip("headrace")

DATA = np.random.default_rng(1).integers(0, 256, 1_000_003, dtype=np.uint8).tobytes()
SIZES = [0, 1, 4095, 4096, 4097, len(DATA)]


def read_all(source, **options):
    """What a source gives."""
    out = python_io.BytesIO()
    hr.Pipeline(source, out, **options).run()
    return out.getvalue()


@pytest.mark.parametrize("size", SIZES)
def test_paths(tmp_path, io, size):
    path = tmp_path / "in"
    path.write_bytes(DATA[:size])
    assert read_all(path, io=io) == DATA[:size]
    assert read_all(str(path), io=io, chunk_size=4096) == DATA[:size]
    hr.Pipeline(str(path), tmp_path / "out", io=io).run()
    assert (tmp_path / "out").read_bytes() == DATA[:size]


def test_a_path_that_looks_like_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("unix:name").write_bytes(b"a file")
    assert read_all(Path("unix:name")) == b"a file"
    os.mkdir(b"caf\xe9")
    Path(os.fsdecode(b"caf\xe9/x")).write_bytes(b"not UTF-8")
    assert read_all(os.fsdecode(b"caf\xe9/x")) == b"not UTF-8"


@pytest.mark.parametrize("size", SIZES)
def test_memory(io, size):
    data = DATA[:size]
    for source in (data, bytearray(data), memoryview(data), np.frombuffer(data, "u1")):
        assert read_all(source, io=io) == data
    for out in (bytearray(size), np.empty(size, "u1")):
        hr.Pipeline(data, out, io=io).run()
        assert bytes(out) == data


def test_arrays_are_their_bytes():
    values = np.arange(1000, dtype=">f8").reshape(10, 100)
    assert read_all(values) == values.tobytes()
    assert read_all(array.array("h", [1, -2])) == array.array("h", [1, -2]).tobytes()
    with tempfile.TemporaryFile() as file:
        file.write(DATA)
        file.flush()
        with mmap.mmap(file.fileno(), 0) as mapped:
            assert read_all(mapped) == DATA


def test_what_cannot_be_written_is_refused_at_once():
    read_only = np.zeros(4, "u1")
    read_only.flags.writeable = False
    for sink in (b"bytes", memoryview(b"bytes"), read_only):
        with pytest.raises((BufferError, ValueError)):
            hr.Pipeline(b"1234", sink)


def test_a_bytearray_keeps_its_size_while_it_is_used():
    out = bytearray(4)
    pipeline = hr.Pipeline(b"1234", out)
    with pytest.raises(BufferError):
        out.append(0)
    pipeline.run()
    pipeline.close()
    out.append(0)
    assert out == b"1234\0"


def test_arrays_of_several_axes_are_alike():
    """Bytes go as they lie: the elements would be others'."""
    c, f = np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    for source, sink, kernels in [
        (f, np.zeros((2, 3)), ()),
        (c, np.zeros((2, 3), order="F"), ()),
        (c, np.zeros((3, 2)), ()),
        (c.view("u1"), np.zeros((4, 12), "u1"), ()),
        (f, np.zeros((2, 3), "f4"), "cast:f64,f32"),
        ([f, f], np.zeros((4, 3)), ()),
    ]:
        with pytest.raises(ValueError, match=r"source has shape \(\d, \d+\) in . order, the sink"):
            hr.Pipeline(source, sink, kernels=kernels)
    for source, sink in [
        (c, np.zeros(6)),
        (c, np.zeros((2, 1, 3))),
        (f, np.zeros((2, 3), order="F")),
        (hr.Range(f, 0), np.zeros((2, 3))),
        ([c, c], np.zeros((4, 3))),
    ]:
        hr.Pipeline(source, sink).run()
        assert sink.ravel("K")[-1] == 5


def test_strided_arrays_are_never_written_between_their_elements():
    whole = np.zeros(20, "u1")
    with pytest.raises((BufferError, ValueError)):
        hr.Pipeline(bytes(10), whole[::2])


@pytest.mark.parametrize("size", SIZES)
def test_descriptors(tmp_path, io, size):
    (tmp_path / "in").write_bytes(DATA[:size])
    source = os.open(tmp_path / "in", os.O_RDONLY)
    sink = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    hr.Pipeline(source, sink, io=io).run()
    os.close(source)  # not closed by the library
    os.close(sink)
    assert (tmp_path / "out").read_bytes() == DATA[:size]


def test_a_descriptor_may_be_closed_and_its_number_become_another_files(tmp_path, io):
    (tmp_path / "in").write_bytes(DATA)
    (tmp_path / "other").write_bytes(bytes(len(DATA)))
    other = os.open(tmp_path / "other", os.O_RDONLY)
    given = os.open(tmp_path / "in", os.O_RDONLY)
    early = hr.Pipeline(given, chunk_size=100, depth=2, io=io)
    late = hr.Pipeline(given, io=io)
    next(early).release()
    os.dup2(other, given)
    os.lseek(given, 5, os.SEEK_SET)
    early.close()
    assert b"".join(chunk.tobytes() for chunk in late) == DATA
    late.close()
    assert os.lseek(given, 0, os.SEEK_CUR) == 5
    os.close(given)
    os.close(other)


def test_ranges_of_one_descriptor_share_one(tmp_path, io, resources):
    (tmp_path / "in").write_bytes(DATA)
    with open(tmp_path / "in", "rb", buffering=0) as file:
        n_fds = resources()[1]
        ranges = [hr.Range(file.fileno(), i, 1) for i in range(300)]
        ranges.insert(200, b"-")
        pipeline = hr.Pipeline(ranges, out := bytearray(301), io=io)
        assert resources()[1] < n_fds + 20
        pipeline.run()
        assert out == DATA[:200] + b"-" + DATA[200:300]
        assert file.tell() == 300


def test_pipes(io):
    read, write = os.pipe()
    with open(write, "wb") as file:
        feeder = threading.Thread(target=lambda: (file.write(DATA), file.close()))
        feeder.start()
        with open(read, "rb") as source:
            assert read_all(source, io=io) == DATA
        feeder.join()


def test_the_output_of_a_process(io):
    program = "import sys; sys.stdout.buffer.write(bytes(1000000))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as made:
        assert hr.Pipeline(made.stdout, hr.NULL, io=io).run().crc32 == zlib.crc32(bytes(1000000))


@pytest.mark.parametrize("buffering", [-1, 0])
def test_file_objects_begin_and_end_at_their_position(tmp_path, io, buffering):
    (tmp_path / "in").write_bytes(DATA)
    with open(tmp_path / "in", "rb", buffering=buffering) as source:
        assert source.read(7) == DATA[:7]
        out = bytearray(100)
        hr.Pipeline(source, out, offset=0, length=100, io=io).run()
        assert out == DATA[7:107]
    with open(tmp_path / "out", "w+b", buffering=buffering) as sink:
        sink.write(b"before ")
        hr.Pipeline(DATA, sink, io=io).run()
        sink.write(b" after")
        sink.seek(0)
        assert sink.read() == b"before " + DATA + b" after"


def test_a_gzip_file_gives_what_it_decodes(tmp_path):
    with gzip.open(tmp_path / "x.gz", "wb", compresslevel=1) as file:
        file.write(DATA)
    with gzip.open(tmp_path / "x.gz") as file:
        assert read_all(file) == DATA
    with gzip.open(tmp_path / "y.gz", "wb", compresslevel=1) as file:
        hr.Pipeline(DATA, file).run()
    with gzip.open(tmp_path / "y.gz") as file:
        assert file.read() == DATA


def test_temporary_files(io):
    with tempfile.NamedTemporaryFile() as file:
        hr.Pipeline(DATA, file, io=io).run()
        file.seek(0)
        assert read_all(file, io=io) == DATA
    with tempfile.SpooledTemporaryFile() as file:
        hr.Pipeline(DATA, file, io=io).run()
        file.seek(0)
        assert read_all(file, io=io) == DATA


def test_text_is_refused(tmp_path):
    with open(tmp_path / "x", "w") as file, pytest.raises(TypeError, match="binary"):
        hr.Pipeline(b"x", file)
    with pytest.raises(TypeError, match="binary"):
        hr.Pipeline(python_io.StringIO("x"), hr.NULL)


class Drips:
    """read() that gives few bytes at a time."""

    def __init__(self, data, most):
        self.data = data
        self.most = most
        self.at = 0

    def read(self, size):
        taken = self.data[self.at : self.at + min(size, self.most)]
        self.at += len(taken)
        return taken


def test_objects_with_read_and_write(io):
    assert read_all(python_io.BytesIO(DATA), io=io) == DATA
    assert read_all(Drips(DATA[:5000], 7), io=io) == DATA[:5000]
    assert read_all(Drips(b"", 7), io=io) == b""


def test_a_writer_that_takes_a_part():
    class Some:
        def __init__(self):
            self.data = b""

        def write(self, view):
            taken = bytes(view[:1000])
            self.data += taken
            return len(taken)

    sink = Some()
    hr.Pipeline(DATA[:100_000], sink).run()
    assert sink.data == DATA[:100_000]


def test_a_writer_that_keeps_a_view_is_told():
    kept = []

    class Keeps:
        write = staticmethod(lambda view: kept.append(np.frombuffer(view, "u1")))

    with pytest.raises(BufferError, match="copy"):
        hr.Pipeline(DATA, Keeps()).run()


@pytest.mark.parametrize("size", SIZES)
def test_iterators(io, size):
    data = DATA[:size]
    items = [data[i : i + 70_001] for i in range(0, size, 70_001)]
    assert read_all(iter([b"", *items, b""]), io=io) == data
    assert read_all((memoryview(item) for item in items), io=io, chunk_size=4096) == data


def test_iterators_of_arrays():
    parts = [np.arange(10, dtype="f4"), np.arange(20)[::2], np.zeros((0, 3)), np.eye(2)]
    assert read_all(iter(parts)) == b"".join(part.tobytes() for part in parts)


WRONG_ITEMS = [((1, 2), "item 0 .* int"), ((b"", "x"), "item 1 .* str")]


@pytest.mark.parametrize(("items", "told"), WRONG_ITEMS)
def test_an_item_that_is_not_bytes_is_told_by_its_number(items, told):
    with pytest.raises(TypeError, match=told):
        hr.Pipeline(iter(items), hr.NULL).run()


def test_several_sources_are_one_stream(tmp_path, io):
    (tmp_path / "a").write_bytes(DATA[:1000])
    sources = [tmp_path / "a", DATA[1000:2000], python_io.BytesIO(DATA[2000:3000]), iter([b"end"])]
    assert read_all(sources, io=io) == DATA[:3000] + b"end"
    with hr.Pipeline([b"first", b"second"], io=io) as pipeline:
        assert [chunk.source for chunk in pipeline] == [0, 1]


@pytest.mark.parametrize("offset", [0, 1, 4096, len(DATA) - 1, len(DATA), len(DATA) + 5])
@pytest.mark.parametrize("length", [None, 0, 1, 4097])
def test_ranges_of_every_source(tmp_path, io, offset, length):
    path = tmp_path / "in"
    path.write_bytes(DATA)
    wanted = DATA[offset:] if length is None else DATA[offset : offset + length]
    for source in (path, DATA, python_io.BytesIO(DATA), Drips(DATA, 90_000), iter([DATA])):
        assert read_all(source, offset=offset, length=length, io=io) == wanted
    ranges = [hr.Range(path, offset, length), hr.Range(DATA, offset, length)]
    assert read_all(ranges, io=io) == wanted * 2


def test_ranges_that_cannot_be():
    with pytest.raises(ValueError, match="is possible"):
        hr.Range(b"x", -1)
    with pytest.raises(ValueError, match="one source"):
        hr.Pipeline([b"x", b"y"], hr.NULL, offset=1)
    with pytest.raises(ValueError, match="empty"):
        hr.Pipeline([], hr.NULL)
    with pytest.raises(TypeError):
        hr.Pipeline(hr.Range([b"x"], 1), hr.NULL)


@pytest.mark.parametrize("wrong", [None, 1.5, object(), True, {"x": b"1"}])
def test_what_is_no_source(wrong):
    with pytest.raises(TypeError, match="no source"):
        hr.Pipeline(wrong, hr.NULL)


@pytest.mark.parametrize("wrong", [1.5, object(), True, [bytearray(3)]])
def test_what_is_no_sink(wrong):
    with pytest.raises(TypeError, match="no sink"):
        hr.Pipeline(b"x", wrong)


def test_sockets(io):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(5)  # not blocking below
        sender = threading.Thread(
            target=lambda: (ours.sendall(DATA), ours.shutdown(socket.SHUT_WR))
        )
        sender.start()
        assert read_all(theirs, io=io) == DATA
        sender.join()


def test_a_socket_that_is_closed_meanwhile_is_read_to_its_end(io):
    ours, theirs = socket.socketpair()
    with ours:
        pipeline = hr.Pipeline(theirs, out := bytearray(3), io=io)
        theirs.close()
        ours.sendall(b"abc")
    assert pipeline.run().bytes_out == 3
    assert out == b"abc"


def test_a_socket_that_has_no_stream_is_refused():
    with socket.socket() as listens, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        listens.listen()
        for given, told in ((listens, "accept\\(\\) first"), (datagrams, "no stream socket")):
            for ends in ((given, hr.NULL), (b"x", given)):
                with pytest.raises(ValueError, match=told):
                    hr.Pipeline(*ends)


def test_addresses(io, tmp_path):
    address = f"unix-listen:{tmp_path}/socket"
    listener = hr.Pipeline(address, out := python_io.BytesIO(), io=io)
    runner = threading.Thread(target=listener.run)
    runner.start()
    hr.Pipeline(DATA, f"unix:{tmp_path}/socket", connect_timeout=5, io=io).run()
    runner.join()
    assert out.getvalue() == DATA


def test_peer_answers_the_first_source(io):
    import contextlib

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    echo = hr.Pipeline(
        f"tcp-listen://127.0.0.1:{port}", "peer:", kernels="bswap:2", device="host", io=io
    )
    runner = threading.Thread(target=echo.run)
    runner.start()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"abcd")
        assert client.recv(4, socket.MSG_WAITALL) == b"badc"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    runner.join()


def test_zstd_there_and_back(tmp_path, io):
    data = DATA[:1000] * 300
    hr.Pipeline(data, tmp_path / "x.zst", encode=("zstd", 1), frame_size=65536, io=io).run()
    assert (tmp_path / "x.zst").stat().st_size < len(data) // 10
    assert read_all(tmp_path / "x.zst", decode="auto", io=io) == data
    with open(tmp_path / "x.zst", "rb") as file:
        assert read_all(iter(lambda: file.read(999), b""), decode="zstd", io=io) == data
    part = read_all(tmp_path / "x.zst", decode="zstd", offset=100_000, length=7, io=io)
    assert part == data[100_000:100_007]


def test_an_interrupted_file_is_not_left(tmp_path):
    def broken():
        yield DATA
        raise KeyError("no more")

    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(KeyError):
        hr.Pipeline(broken(), tmp_path / "out", fsync=True).run()
    assert (tmp_path / "out").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize(
    "options",
    [
        {"source": "a\0b"},
        {"sink": "out\0b"},
        {"kernels": "sum:f32\0b"},
        {"device": "host\0b"},
        {"trace": "trace\0b"},
    ],
)
def test_texts_end_where_they_end(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(DATA)
    with pytest.raises(ValueError, match="null byte"):
        hr.Pipeline(**{"source": "a", "sink": hr.NULL, **options})
    assert os.listdir(tmp_path) == ["a"]


def test_there_is_one_null():
    assert copy.deepcopy(hr.NULL) is hr.NULL
    assert pickle.loads(pickle.dumps(hr.NULL)) is hr.NULL


def test_what_is_given_for_a_source_by_mistake(tmp_path):
    with pytest.raises(OSError, match="descriptor 9999: Bad.* for numbers give a NumPy array"):
        hr.Pipeline([9999, 2], hr.NULL)
    with pytest.raises(TypeError, match="float is no source.*NumPy array"):
        hr.Pipeline([1.5], hr.NULL)
    with pytest.raises(TypeError, match="dict is no source"):
        hr.Pipeline({"a": b"b"}, hr.NULL)
    with pytest.raises(TypeError, match="item 1 of the source, of type int, "):
        hr.Pipeline(iter([b"a", 2]), hr.NULL).run()
    with open(tmp_path / "a", "wb") as file:
        for given in (file, file.fileno()):
            with pytest.raises(OSError, match="mode 'wb'|not open for reading") as caught:
                hr.Pipeline(given, hr.NULL)
            assert isinstance(caught.value, hr.TransferError)
            assert caught.value.filename in (str(tmp_path / "a"), None)


@pytest.mark.parametrize("is_source", [True, False])
def test_an_object_goes_with_its_transfer(is_source):
    """What is called by C is in no cycle, which only a collector would find."""

    class File(python_io.BytesIO):
        pass

    file = File(b"abc")
    seen = weakref.ref(file)
    gc.collect()
    gc.disable()
    try:
        hr.Pipeline(file if is_source else b"abc", hr.NULL if is_source else file).run()
        del file
        assert seen() is None
    finally:
        gc.enable()
