# SPDX-License-Identifier: Apache-2.0
"""What the peers share: the work, what a peer is, and how one is run."""

import dataclasses
import gc
import importlib
import multiprocessing
import os
import statistics
import sys
import time
from typing import Any

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SITE = os.path.join(BENCH, "..", "build", "peers_site")  # made by site.sh
TICKS = os.sysconf("SC_CLK_TCK")
N_THREADS = min(16, len(os.sched_getaffinity(0)))
os.environ.setdefault("RUNAI_STREAMER_LOG_LEVEL", "WARNING")
os.environ.setdefault("INSTANTTENSOR_CACHE_BUFFER", "1")  # its pinned memory stays, as ours does


def found(name):
    """Import a module: of the machine, else of what site.sh gathered. The error says why not."""
    if SITE not in sys.path and os.path.isdir(SITE):
        sys.path.append(SITE)
    return importlib.import_module(name)


def why_not(*names):
    """Tell why one of these modules does not come; empty if all do."""
    for name in names:
        try:
            found(name)
        except Exception as error:  # noqa: BLE001 - of a library it wants, it may be any
            return f"not installed: {error}"
    return ""


@dataclasses.dataclass
class Work:
    """Bytes in files of several forms, and where they are to go.

    Attributes
    ----------
    device : str
        "cuda:N" or "host".
    paths : dict of str to str
        Files by form: "raw", "safetensors", and zstd of frames: "zstd, 1 MiB frames".
    n_bytes : int
        Of the decoded bytes, the same of all forms.
    whole : numpy.ndarray
        uint8, in pinned memory where there is a GPU.
    pinned : torch.Tensor or None
        The same memory, as PyTorch sees it.
    reference, out : torch.Tensor or numpy.ndarray
        uint8, on the device: what is to arrive, and a place for it.
    """

    device: str
    paths: dict
    n_bytes: int
    whole: Any = None
    pinned: Any = None
    reference: Any = None
    out: Any = None

    @property
    def on_gpu(self):
        """Whether the device is a GPU."""
        return self.device != "host"

    def synchronize(self):
        """Wait for the device."""
        if self.on_gpu:
            found("torch").cuda.synchronize(self.device)

    def place(self):
        """Read the raw file, and make the places."""
        numpy = found("numpy")
        if self.on_gpu:
            torch = found("torch")
            self.pinned = torch.empty(self.n_bytes, dtype=torch.uint8, pin_memory=True)
            self.whole = self.pinned.numpy()
        else:
            self.whole = numpy.empty(self.n_bytes, "u1")
        with open(self.paths["raw"], "rb", buffering=0) as file:
            at = 0
            while n := file.readinto(memoryview(self.whole)[at:]):
                at += n
        self.reference = self.pinned.to(self.device) if self.on_gpu else self.whole
        self.out = found("torch").empty_like(self.reference) if self.on_gpu else (
            numpy.empty_like(self.whole))

    def clear(self):
        """Leave nothing in the place that a peer could be praised for."""
        self.out[:] = 0

    def arrived(self, parts):
        """Whether arrays, one after the other, have the bytes."""
        at = 0
        for part in parts:
            got = self.bytes_of(part)
            wanted = self.reference[at : at + len(got)]
            same = (found("torch").equal(got, wanted) if self.on_gpu
                    else found("numpy").array_equal(got, wanted))
            if not same:
                return False
            at += len(got)
        return at == self.n_bytes

    def bytes_of(self, array):
        """An array of any library as uint8, where it is."""
        if self.on_gpu:
            torch = found("torch")
            there = torch.from_dlpack(array)
            if there.device != self.reference.device:
                raise RuntimeError(f"the bytes are on {there.device}, not on {self.device}")
            return there.reshape(-1).view(torch.uint8)
        return found("numpy").asarray(array).reshape(-1).view("u1")


class Peer:
    """One way to do the work.

    Attributes
    ----------
    name : str
        In reports.
    needs : tuple of str
        Modules, all of which must come.
    gpu_only : bool
        It does nothing without a GPU.
    foreign : bool
        Code of others that could end the process or never return: tried in another one first.
    """

    name = ""
    needs = ()
    gpu_only = False
    foreign = False

    def __init__(self, work, form):
        self.work = work
        self.path = work.paths[form]

    def why_not(self):
        """Tell why it cannot run here; empty if it can."""
        if self.gpu_only and not self.work.on_gpu:
            return "needs a GPU"
        return why_not(*self.needs)

    def prepare(self):
        """Do, once, what is not measured."""

    def run(self):
        """Do it, and return arrays that have the bytes one after the other."""
        raise NotImplementedError

    def close(self):
        """Give back what it holds."""


def cpu_seconds():
    """Return the CPU seconds of this process and its children that run."""
    total = time.process_time()
    for child in multiprocessing.active_children():
        with open(f"/proc/{child.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS  # utime, stime: proc(5)
    return total


def timed(work, peer, verify=False):
    """Run a peer once and return wall and CPU seconds; verify: compare what arrived."""
    if verify:
        work.clear()
    gc.collect()
    work.synchronize()
    cpu, wall = cpu_seconds(), time.perf_counter()
    made = peer.run()
    work.synchronize()
    taken = time.perf_counter() - wall, cpu_seconds() - cpu
    if verify and not work.arrived(made):
        raise RuntimeError("other bytes arrived than the file has")
    return taken


def reason(error):
    """Return what a report tells of a peer that failed."""
    return f"failed: {type(error).__name__}: {error}"


def ready(work, peers, failed):
    """Prepare peers, and run each once, to warm up and to verify it.

    Parameters
    ----------
    work : Work
        What they do.
    peers : list of Peer
        Those that can run.
    failed : callable
        Told name and reason of each that fails; it is left out.

    Returns
    -------
    list of Peer
        The others.
    """
    good = []
    for peer in peers:
        try:
            peer.prepare()
            timed(work, peer, verify=True)
            good.append(peer)
        except Exception as error:  # noqa: BLE001 - code of others; the rest is to be measured
            failed(peer.name, reason(error))
    return good


def summary(runs, n_bytes):
    """Return median, least and most of wall seconds, median of CPU seconds, and the rate."""
    walls = [wall for wall, _ in runs]
    wall = statistics.median(walls)
    return {"bytes": n_bytes, "wall_s": {"median": wall, "min": min(walls), "max": max(walls)},
            "cpu_s_median": statistics.median(cpu for _, cpu in runs),
            "gigabytes_per_s": n_bytes / wall / 1e9,
            "samples": [{"wall_s": wall_s, "cpu_s": cpu_s} for wall_s, cpu_s in runs]}
