# SPDX-License-Identifier: Apache-2.0
"""A cached file to a GPU: headrace beside what is written by hand with PyTorch, NumPy and CuPy.

The peers run in this one process, warm, in turn; between them headrace runs in a process of its
own (``bench/programs/gpu_transfers.c``), which tells the time of a transfer without its start. All
are compared with a copy of the whole file from pinned memory by PyTorch, the ceiling. What arrives
is compared on the GPU with what that copy brought. What is not installed is reported so.
"""

import concurrent.futures
import json
import os
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from measure import cache  # noqa: E402
from report import Report, arguments  # noqa: E402

ROUNDS = 5
PIECE = 4 << 20
N_BUFFERS = 2  # of each thread: one is read into while the other is copied
CEILING = "torch: pinned memory"
OURS = "headrace"
WAY = "cached file to device"


def add_options(parser):
    """Add the options of this script."""
    parser.add_argument("--device", default="cuda:0", help="cuda:N")


def found(name):
    """Import a module; None and the reason if it does not come."""
    try:
        return __import__(name), ""
    except ImportError as error:
        return None, str(error)


class Reader:
    """Reads a file by threads into small pinned buffers, and copies from those on streams.

    Parameters
    ----------
    torch : module
        PyTorch.
    path : str
        The file.
    out : torch.Tensor
        uint8 on the device, as long as the file.
    n_threads : int
        Each has two buffers of 4 MiB and a stream.
    """

    def __init__(self, torch, path, out, n_threads):
        self.torch, self.out, self.n_threads = torch, out, n_threads
        self.file = os.open(path, os.O_RDONLY)
        self.threads = concurrent.futures.ThreadPoolExecutor(n_threads)
        self.buffers = [[torch.empty(PIECE, dtype=torch.uint8, pin_memory=True)
                         for _ in range(N_BUFFERS)] for _ in range(n_threads)]
        self.streams = [torch.cuda.Stream(out.device) for _ in range(n_threads)]

    def read(self, index):
        """Do the pieces of one thread."""
        events = [self.torch.cuda.Event() for _ in range(N_BUFFERS)]
        views = [buffer.numpy() for buffer in self.buffers[index]]
        with self.torch.cuda.stream(self.streams[index]):
            for turn, begin in enumerate(range(index * PIECE, len(self.out),
                                               self.n_threads * PIECE)):
                k = turn % N_BUFFERS
                n = min(PIECE, len(self.out) - begin)
                events[k].synchronize()
                if os.preadv(self.file, [views[k][:n]], begin) != n:
                    raise SystemExit("a short read from the file")
                self.out[begin:begin + n].copy_(self.buffers[index][k][:n], non_blocking=True)
                events[k].record()
        self.streams[index].synchronize()

    def __call__(self):
        """Read all of it, and return the tensor on the device."""
        for _ in self.threads.map(self.read, range(self.n_threads)):
            pass
        return self.out


def peers_of(torch, numpy, path, whole, out, missing):
    """Return what there is to run: functions by name, the ceiling first.

    Parameters
    ----------
    torch, numpy : module
        PyTorch, NumPy.
    path : str
        The file.
    whole : torch.Tensor
        The file in pinned memory.
    out : torch.Tensor
        As long, on the device.
    missing : dict of str to str
        Gets the reason for each peer that cannot run.
    """
    def by_numpy():
        return torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8)).to(out.device)

    def by_mapping():
        return torch.from_file(path, size=len(out), dtype=torch.uint8).to(out.device)

    def by_cupy():
        with cupy.cuda.Device(out.device.index):
            return torch.from_dlpack(cupy.fromfile(path, dtype=cupy.uint8))

    peers = {
        CEILING: lambda: out.copy_(whole, non_blocking=True),
        "numpy.fromfile, torch .cuda()": by_numpy,
        "torch.from_file .cuda()": by_mapping,
    }
    for n_threads in (1, 8, 16):
        peers[f"torch: pinned, non_blocking, {n_threads} threads"] = Reader(torch, path, out,
                                                                           n_threads)
    cupy, why = found("cupy")
    if cupy:
        peers["cupy.fromfile"] = by_cupy
    else:
        missing["cupy.fromfile"] = why
    return peers


def cpu_seconds():
    """Return the CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(torch, name, peer, reference):
    """Run a peer once, compare, and return wall and CPU seconds."""
    torch.cuda.synchronize(reference.device)
    cpu, begun = cpu_seconds(), time.monotonic()
    result = peer()
    torch.cuda.synchronize(reference.device)
    taken = time.monotonic() - begun, cpu_seconds() - cpu
    if not torch.equal(result, reference):
        raise SystemExit(f"{name}: other bytes arrived than the file has")
    return taken


def timed_headrace(program, given, path):
    """Run a transfer of headrace (after one to warm up), which checks it, and return the same."""
    mib = -(-os.path.getsize(path) >> 20)
    said = subprocess.run([program, given.device, path, "-", str(mib), "1", inputs.folder(), WAY],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    sample = json.loads(said)["pipelines"][WAY]["samples"][0]
    return sample["wall_ns"] / 1e9, sample["cpu_ns"] / 1e9


def measure(torch, numpy, given, report):
    """Measure all in turn, after one round to warm up."""
    path = inputs.system_tar(given.size)
    program = inputs.gpu_transfers(given.headrace)
    cache(path)
    whole = torch.empty(os.path.getsize(path), dtype=torch.uint8, pin_memory=True)
    with open(path, "rb", buffering=0) as file:
        at = 0
        while n := file.readinto(memoryview(whole.numpy())[at:]):
            at += n
    out = torch.empty_like(whole, device=given.device)
    reference = whole.to(given.device)
    missing = {}
    peers = peers_of(torch, numpy, path, whole, out, missing)
    runs = {name: [] for name in [*peers, OURS]}
    for turn in range(ROUNDS + 1):
        for name in runs:
            if name != OURS:
                out.zero_()
            taken = (timed_headrace(program, given, path) if name == OURS
                     else timed(torch, name, peers[name], reference))
            if turn > 0:
                runs[name].append(taken)
    if not torch.equal(reference.cpu(), whole):
        raise SystemExit("the ceiling brought other bytes than the file has")
    for name, taken in runs.items():
        report.cases[name] = summary(taken, len(whole))
    for name, why in missing.items():
        print(f"{name}: not run, {why}")
        report.cases[name] = {"not_run": why}
    return list(runs)


def summary(runs, n_bytes):
    """Return medians, and all of it."""
    walls = [wall for wall, _ in runs]
    wall = statistics.median(walls)
    return {"bytes": n_bytes, "wall_s": {"median": wall, "min": min(walls), "max": max(walls)},
            "cpu_s_median": statistics.median(cpu for _, cpu in runs),
            "gigabytes_per_s": n_bytes / wall / 1e9,
            "samples": [{"wall_s": wall_s, "cpu_s": cpu_s} for wall_s, cpu_s in runs]}


def main():
    """Measure, compare, write."""
    given = arguments(__doc__, add_options)
    report = Report()
    numpy, why = found("numpy")
    torch = None
    if numpy:
        torch, why = found("torch")
    if torch and not torch.cuda.is_available():
        torch, why = None, "PyTorch sees no GPU"
    if not torch:
        print(f"not run: {why}")
        report.cases["gpu peers"] = {"not_run": why}
        report.write(given.report)
        return
    report.machine["gpu"] = torch.cuda.get_device_name(given.device)
    report.machine["torch"] = torch.__version__
    names = measure(torch, numpy, given, report)
    ceiling = report.cases[CEILING]["wall_s"]["median"]
    ours = report.cases[OURS]["wall_s"]["median"]
    for name in names:
        case = report.cases[name]
        print(f"{name:42} {case['wall_s']['median'] * 1e3:9.2f} ms "
              f"{case['cpu_s_median'] * 1e3:9.2f} ms CPU {case['gigabytes_per_s']:7.2f} GB/s")
        report.figure(name, ceiling / case["wall_s"]["median"], "of the ceiling")
        if name not in (CEILING, OURS):
            report.figure(name, case["wall_s"]["median"] / ours, "peer / headrace")
    report.write(given.report)


if __name__ == "__main__":
    main()
