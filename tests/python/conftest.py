# SPDX-License-Identifier: Apache-2.0
"""The package under test: that of this tree, with the libraries of build/test or of
HEADRACE_LIBRARY_DIR; with HR_TEST_INSTALLED set, the one that is installed."""

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

if not os.environ.get("HR_TEST_INSTALLED"):
    os.environ.setdefault("HEADRACE_LIBRARY_DIR", str(ROOT / "build" / "test"))
    package = str(ROOT / "bindings" / "python")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    )  # of the processes that tests start

ENGINES = {"auto": ["auto"], "uring": ["uring"], "threads": ["threads"]}.get(
    os.environ.get("HR_TEST_IO", ""), ["uring", "threads"]
)


class _Refused:
    def __enter__(self):
        raise AssertionError("cffi parses a type or binds a name, which is to be done at import")

    def __exit__(self, *_):
        pass


@pytest.fixture(autouse=True)
def cffi_is_not_locked(monkeypatch):
    """cffi's lock is not recursive: a collector or a signal handler that came while it is held, and
    ended a pipeline, would never return. Nothing may take it behind the import."""
    library = sys.modules.get("headrace._library")
    if library is not None:
        monkeypatch.setattr(library.ffi, "_lock", _Refused())


@pytest.fixture(params=ENGINES)
def io(request):
    """An I/O engine, each in turn; HR_TEST_IO names one."""
    hr = pytest.importorskip("headrace")
    try:
        hr.Pipeline(b"", hr.NULL, io=request.param).close()
    except hr.errors.UnsupportedError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def resources():
    """A function that tells (resident KiB, descriptors, threads) of this process now."""

    def rss_kib():
        status = Path("/proc/self/status").read_text(encoding="ascii")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["VmRSS"].split()[0])

    def n_threads():
        """Without io_uring's workers: the kernel ends them when they were idle for seconds."""
        names = []
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                names.append((task / "comm").read_text())
        return sum(not name.startswith("iou-wrk") for name in names)

    def now():
        gc.collect()
        looks = []
        for _ in range(10):  # the system counts a thread for a moment after pthread_join(3)
            looks.append(n_threads())
            time.sleep(0.001)
        return rss_kib(), len(os.listdir("/proc/self/fd")), min(looks)

    return now


@pytest.fixture
def python():
    """A function that starts Python with a program's text and arguments, and its two outputs."""
    started = []

    def start(text, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
