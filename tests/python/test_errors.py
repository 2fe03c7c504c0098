# SPDX-License-Identifier: Apache-2.0
"""Exceptions are what Python calls such a thing, and say where."""

import errno
import os
import pickle
import re
import socket
from pathlib import Path

import pytest

hr = pytest.importorskip("headrace")
from headrace import _calls, _texts, errors  # noqa: E402
from headrace._library import lib  # noqa: E402

KINDS = {
    "HR_AGAIN": BlockingIOError,
    "HR_EINVAL": ValueError,
    "HR_ENOMEM": MemoryError,
    "HR_EIO": OSError,
    "HR_ETRUNCATED": EOFError,
    "HR_EUNSUPPORTED": NotImplementedError,
    "HR_ECANCELED": errors.CanceledError,
    "HR_EFORK": RuntimeError,
    "HR_ETHREAD": RuntimeError,
    "HR_ESPACE": ValueError,
    "HR_ECORRUPT": ValueError,
    "HR_ELIMIT": ValueError,
    "HR_EDEVICE": RuntimeError,
    "HR_ETIMEDOUT": TimeoutError,
    "HR_ELOANED": BufferError,
}


def made(status, native=0):
    error = _calls.new_error()
    error.code = status
    error.native = native
    error.chunk = 3
    error.offset = 1 << 40
    error.stage = lib.HR_STAGE_DECODE
    error.text = b"open /a b/c.npy: what went wrong"
    return errors.from_c(error, status, [b"/a", b"/a b/c.npy", b"c.npy"])


@pytest.mark.parametrize("name", KINDS)
def test_each_status_has_its_class(name):
    error = made(getattr(lib, name))
    assert isinstance(error, KINDS[name])
    assert isinstance(error, hr.HeadraceError)
    assert type(error) is not hr.HeadraceError
    assert str(error) == "open /a b/c.npy: what went wrong"
    assert error.filename == "/a b/c.npy"
    assert (error.code, error.stage) == (getattr(lib, name), "decode")
    assert (error.chunk, error.offset) == (3, 1 << 40)


def test_every_failure_of_the_header_is_in_the_table():
    failures = {n for n, value in vars(lib).items() if n.startswith("HR_E") and value < 0}
    assert failures == set(KINDS) - {"HR_AGAIN"}


@pytest.mark.parametrize(
    ("native", "kind"),
    [
        (errno.ENOENT, FileNotFoundError),
        (errno.EACCES, PermissionError),
        (errno.EPIPE, BrokenPipeError),
        (errno.EISDIR, IsADirectoryError),
        (errno.ECONNREFUSED, ConnectionRefusedError),
        (errno.ENOSPC, OSError),
    ],
)
def test_a_failed_call_is_the_error_of_its_errno(native, kind):
    error = made(lib.HR_EIO, native)
    assert isinstance(error, kind)
    assert isinstance(error, errors.TransferError)
    assert error.errno == error.native == native


def test_errors_of_time_and_memory_have_an_errno():
    assert made(lib.HR_ETIMEDOUT).errno == errno.ETIMEDOUT
    assert made(lib.HR_AGAIN).errno == errno.EAGAIN


@pytest.mark.parametrize(("name", "native"), [("HR_EIO", errno.ENOENT), ("HR_ECORRUPT", 0)])
def test_errors_go_through_pickle(name, native):
    error = made(getattr(lib, name), native)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) and again.filename == error.filename == "/a b/c.npy"
    assert again.__dict__ == error.__dict__
    assert pickle.loads(pickle.dumps(type(error))) is type(error)  # which PyTorch sends


def test_a_status_without_a_text_is_named():
    assert str(errors.from_c(_calls.new_error(), lib.HR_ECORRUPT)) == "HR_ECORRUPT"


def test_missing_files_and_folders(tmp_path, io):
    with pytest.raises(FileNotFoundError, match="nothing-here") as caught:
        hr.Pipeline(tmp_path / "nothing-here", hr.NULL, io=io)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == str(tmp_path / "nothing-here")
    with pytest.raises(FileNotFoundError) as caught:
        hr.Pipeline(b"x", tmp_path / "no-folder" / "out", io=io)
    assert caught.value.filename == str(tmp_path / "no-folder" / "out")
    with pytest.raises(OSError, match="No space left") as caught:
        hr.Pipeline(b"x", "/dev/full", io=io).run()
    assert caught.value.filename == "/dev/full"


def test_a_sink_that_is_too_small_says_where(io):
    out = bytearray(1000)
    with pytest.raises(errors.SpaceError) as caught:
        hr.Pipeline(iter([bytes(1001)]), out, chunk_size=100, io=io).run()
    assert caught.value.stage == "write"


def test_damaged_data_are_an_error_of_decode(io):
    with pytest.raises(errors.CorruptError) as caught:
        hr.Pipeline(b"no zstd at all, but long enough", hr.NULL, decode="zstd", io=io).run()
    assert caught.value.stage == "decode"


def test_a_wrong_kernel_is_a_value_error():
    with pytest.raises(ValueError, match="frobnicate"):
        hr.Pipeline(b"x", hr.NULL, kernels="frobnicate", device="host")


def test_an_absent_device_says_why():
    with pytest.raises(NotImplementedError, match="cuda|hip"):
        hr.Pipeline(b"x", hr.NULL, device="cuda:77")


def test_a_connection_that_is_refused(io):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        hr.Pipeline(f"tcp://127.0.0.1:{port}", hr.NULL, io=io).run()


def test_an_idle_connection_times_out(io):
    read, write = os.pipe()
    try:
        with pytest.raises(TimeoutError, match=r"\(idle_timeout=\)"):
            hr.Pipeline(read, hr.NULL, idle_timeout=0.05, io=io).run()
    finally:
        os.close(read)
        os.close(write)


def test_all_classes_are_names_of_the_package():
    classes = {n for n, of in vars(errors).items() if isinstance(of, type) and n.endswith("Error")}
    assert len(classes) > 15
    assert all(getattr(hr, name) is getattr(errors, name) for name in classes)
    assert classes <= set(hr.__all__)


# ---- texts of the C library ----

LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')
OF_C = re.compile(r"--[a-z]|\bHR_(?!LIB)[A-Z]|\bhr_[a-z]|\b\w+_ms\b|\bn_threads\b")
# What only a program in C can do wrong: fields that this package always sets.
UNREACHABLE = re.compile(
    r"struct_size|NULL|not an hr_|hr_loop_flag|kind HR_(FILE|MEMORY|CALLBACK)|flags (0x|other)"
    r"|HR_KERNEL_BUILTIN"
)


def texts_of_c():
    root = Path(__file__).resolve().parents[2]
    for folder in ("engine", "io", "compress", "backends"):
        for path in sorted((root / folder).rglob("*.c")):
            source = re.sub(r"(?s)/\*.*?\*/", "", path.read_text(encoding="utf-8"))
            for literal in LITERAL.findall(source):
                text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal))
                if " " in text and "\\n" not in text and not UNREACHABLE.search(text):
                    yield text


def test_no_text_names_what_only_c_or_the_command_has():
    texts = list(texts_of_c())
    assert sum(bool(OF_C.search(text)) for text in texts) > 10
    left = [text for text in map(_texts.in_python, texts) if OF_C.search(text)]
    assert not left


def test_names_of_files_are_not_translated(tmp_path):
    path = tmp_path / "HR_STRICT (depth, --depth)"
    with pytest.raises(FileNotFoundError, match=re.escape(str(path))):
        hr.Pipeline(path, hr.NULL)


# ---- what is no path ----


@pytest.mark.parametrize(
    ("text", "source", "sink"),
    [
        ("-", "sys.stdin.buffer", "sys.stdout.buffer"),
        ("null:", "b''", "headrace.NULL"),
        ("device:", "device's memory", r"headrace.DeviceMemory\(\)"),
        ("peer:", "it is a sink", None),
        ("fd:7", "int 7", "int 7"),
        ("http://host/a", "no http:.*urlopen", "no http:"),
        ("s3://bucket/a", "no s3:", "no s3:"),
        ("udp:host:1", "no udp:", "no udp:"),
        ("file:///a", "path behind", "path behind"),
    ],
)
def test_words_that_are_no_paths(tmp_path, monkeypatch, text, source, sink):
    monkeypatch.chdir(tmp_path)
    for given in (text, [text], hr.Range(text, 1)):
        with pytest.raises(ValueError, match=source):
            hr.Pipeline(given, hr.NULL)
    if sink is not None:
        with pytest.raises(ValueError, match=sink):
            hr.Pipeline(b"x", text)
    assert not os.listdir(tmp_path)
    if "/" not in text:
        for given in (f"./{text}", Path(text)):
            hr.Pipeline(b"x", given).run()
            assert os.listdir(tmp_path) == [text]


def test_a_closed_socket_is_told():
    closed = socket.socket()
    closed.close()
    for ends in ((closed, hr.NULL), (b"x", closed)):
        with pytest.raises(OSError, match="the socket is closed") as caught:
            hr.Pipeline(*ends)
        assert caught.value.errno == errno.EBADF
