# SPDX-License-Identifier: Apache-2.0
"""Exceptions are what Python calls such a thing, and say where."""

import errno
import pickle

import pytest

hr = pytest.importorskip("headrace")
from headrace import _calls, errors  # noqa: E402
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
    error.text = b"what went wrong"
    return errors.from_c(error, status)


@pytest.mark.parametrize("name", KINDS)
def test_each_status_has_its_class(name):
    error = made(getattr(lib, name))
    assert isinstance(error, KINDS[name])
    assert isinstance(error, hr.HeadraceError)
    assert type(error) is not hr.HeadraceError
    assert str(error) == "what went wrong"
    assert (error.code, error.stage) == (getattr(lib, name), "decode")
    assert (error.chunk, error.offset) == (3, 1 << 40)


def test_every_failure_of_the_header_is_in_the_table():
    failures = {n for n in dir(lib) if n.startswith("HR_E") and getattr(lib, n) < 0}
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
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_a_status_without_a_text_is_named():
    assert str(errors.from_c(_calls.new_error(), lib.HR_ECORRUPT)) == "HR_ECORRUPT"


def test_missing_files_and_folders(tmp_path, io):
    with pytest.raises(FileNotFoundError, match="nothing-here") as caught:
        hr.Pipeline(tmp_path / "nothing-here", hr.NULL, io=io)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError):
        hr.Pipeline(b"x", tmp_path / "no-folder" / "out", io=io)


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
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        hr.Pipeline(f"tcp://127.0.0.1:{port}", hr.NULL, io=io).run()


def test_an_idle_connection_times_out(io):
    import os

    read, write = os.pipe()
    try:
        with pytest.raises(TimeoutError):
            hr.Pipeline(read, hr.NULL, idle_timeout=0.05, io=io).run()
    finally:
        os.close(read)
        os.close(write)
