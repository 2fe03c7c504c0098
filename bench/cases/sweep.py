# SPDX-License-Identifier: Apache-2.0
"""Throughput against chunk size, depth, streams and threads, of a raw and a zstd file.

``headrace.Pipeline`` moves a cached file to memory of the device (without a GPU to nowhere); one
option is varied, the others have their defaults, which are measured, too. All are in one process,
so that none pays for its start, and in turn, round by round. With streams, a kernel runs, which is
what they are for. What arrives is checked by its CRC-32 before.
"""

import os
import statistics
import sys
import time

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [BENCH, os.path.join(BENCH, "peers")]
import inputs  # noqa: E402
import ours  # noqa: E402
from measure import cache  # noqa: E402
from report import Report, arguments, size_of  # noqa: E402

KERNEL = "scale:f32,2,1"
DEFAULT = "default"
SLOW_S = 0.3  # for a run: it is not repeated before, nor in each round
FEW = 3
WORDS = {"chunk": "chunk_size", "depth": "depth", "streams": "streams"}
VALUES = {
    "chunk": ("256K", "512K", "1M", "2M", "4M", "8M", "16M", "32M", "64M"),
    "depth": ("1", "2", "4", "8", "16", "32"),
    "streams": ("1", "2", "4", "8"),
    "threads": ("1", "2", "4", "8", "16"),
}
QUICK = {
    "chunk": ("512K", "2M", "8M", "32M"),
    "depth": ("1", "2", "4", "16"),
    "streams": ("1", "2", "4"),
    "threads": ("1", "2", "4", "16"),
}


def add_options(parser):
    """Add the options of this case."""
    parser.add_argument("--device", help="instead of the first GPU; host")
    parser.add_argument("--quick", action="store_true", help="fewer values")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")


def settings(form, quick):
    """Return pairs of option and value; of what has no kernel there is one default."""
    cpus = len(os.sched_getaffinity(0))
    of_option = QUICK if quick else VALUES
    pairs = [(option, value) for option, values in of_option.items() for value in values
             if (option != "threads" or int(value) <= cpus)
             and (option != "streams" or form == "raw")]
    return [("chunk", DEFAULT), *([("streams", DEFAULT)] if form == "raw" else []), *pairs]


class Runs:
    """Runs of one file, each by the context that its threads want."""

    def __init__(self, path, n_bytes, device):
        self.path, self.n_bytes, self.device = path, n_bytes, device
        self.package = ours.found("headrace")
        self.contexts = {}

    def once(self, option, value):
        """Run once; return wall and CPU seconds, and what the run tells of itself."""
        threads = size_of(value) if option == "threads" else 0
        if threads not in self.contexts:
            self.contexts[threads] = self.package.Context(threads=threads)
        setting = {WORDS[option]: size_of(value)} if option in WORDS and value != DEFAULT else {}
        sink = self.package.NULL if self.device == "host" else self.package.DeviceMemory()
        cpu, wall = time.process_time(), time.perf_counter()
        told = self.package.Pipeline(
            self.path, sink, kernels=[KERNEL] if option == "streams" else [], device=self.device,
            context=self.contexts[threads], **setting).run()
        taken = time.perf_counter() - wall, time.process_time() - cpu
        if told.bytes_out != self.n_bytes:
            raise SystemExit(f"{self.path}, {option} {value}: not all bytes arrived")
        return (*taken, told)


def point(runs, value, n_bytes):
    """Return what is told of one setting."""
    walls = [wall for wall, _, _ in runs]
    wall, told = statistics.median(walls), runs[-1][2]
    return {"label": value, "value": None if value == DEFAULT else size_of(value),
            "chunk_bytes": told.chunk_size, "slots": told.depth, "bottleneck": told.bottleneck,
            "overlap": told.overlap,
            "wall_s": {"median": wall, "min": min(walls), "max": max(walls)},
            "cpu_s_median": statistics.median(cpu for _, cpu, _ in runs),
            "gigabytes_per_s": n_bytes / wall / 1e9}


def sweep(form, path, n_bytes, given, device):
    """Measure all settings of a file, and return the points of each option."""
    sink = "null:" if device == "host" else "device:"
    todo = settings(form, given.quick)
    source = Runs(path, n_bytes, device)
    cache(path)
    runs = {(option, value): [source.once(option, value)] for option, value in todo}  # to warm up
    slow = {pair for pair, [taken] in runs.items() if taken[0] > SLOW_S}
    for turn in range(given.rounds):
        for pair in todo[:: -1 if turn % 2 else 1]:
            if pair not in slow:
                source.once(*pair)  # it leases what the next one needs
            if pair not in slow or turn < FEW:
                runs[pair].append(source.once(*pair))
    points = {option: [point(runs["chunk", DEFAULT][1:], DEFAULT, n_bytes)]
              for option, _ in todo if option not in ("chunk", "streams")}
    for (option, value), taken in runs.items():
        points.setdefault(option, []).append(point(taken[1:], value, n_bytes))
    return {option: {"file": form, "sink": sink, "device": device, "bytes": n_bytes,
                     "kernel": KERNEL if option == "streams" else None, "points": values}
            for option, values in points.items()}


def check(path, crc, device):
    """Stop unless a stream to the device has this CRC-32, as a kernel there computes it."""
    found = inputs.stats_of("headrace", "run", path, "null:" if device == "host" else "device:",
                            "--device", device, "--kernel", "crc32")["results"]
    if [result["values"] for result in found] != [[crc]]:
        raise SystemExit(f"{path}: {device} found {found}, the CRC-32 should be {crc:08x}")


def print_points(name, points):
    """Print a line for each."""
    for one in points:
        print(f"{name:16} {one['label']:>8} {one['gigabytes_per_s']:8.2f} GB/s "
              f"{one['wall_s']['median']:8.3f} s wall {one['cpu_s_median']:8.3f} s CPU "
              f"{one['slots']:4} slots  {one['bottleneck']}", flush=True)


def main():
    """Measure, check, write."""
    given = arguments(__doc__, add_options)
    ours.use_build(given.headrace)
    report = Report()
    if not ours.is_there(report, "sweep", given.report):
        return
    gpus, why = inputs.gpus()
    device = given.device or next(iter(gpus), "host")
    if device == "host":
        print(f"to null:, there is no GPU: {why}")
    report.machine["gpu"] = gpus.get(device)
    tar = inputs.system_tar(given.size)
    crc = inputs.crc32_of(tar)
    for form, path in (("raw", tar), ("zstd", inputs.frames(given.size))):
        check(path, crc, device)
        for option, case in sweep(form, path, given.size, given, device).items():
            report.cases[f"{form}, {option}"] = case
            print_points(f"{form}, {option}", case["points"])
            rates = {one["label"]: one["gigabytes_per_s"] for one in case["points"]}
            report.figure(f"{form}, {option}: the default", rates[DEFAULT] / max(rates.values()),
                          "of the best value's rate")
    report.write(given.report)


if __name__ == "__main__":
    main()
