# SPDX-License-Identifier: Apache-2.0
"""What the parts reach alone: the link, by the method of nvbandwidth, and reads, by fio."""

import json
import os
import shutil
import subprocess

from work import N_THREADS, found

PIECE = 64 << 20
COPIES = 16  # back to back, so that the time to start one does not count
PASSES = 5


def of_link(device):
    """Measure copies of pinned memory, many in a row on a stream, timed by events of that stream.

    Parameters
    ----------
    device : str
        "cuda:N".

    Returns
    -------
    dict of str to float
        GB/s of the best of several passes, by direction; of both at once the sum, over the time
        from the first to begin to the last to end.
    """
    torch = found("torch")
    here = [torch.zeros(PIECE, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.zeros(PIECE, dtype=torch.uint8, device=device) for _ in range(2)]
    ways = {"H2D": [(there[0], here[0])], "D2H": [(here[1], there[1])]}
    ways["both directions"] = ways["H2D"] + ways["D2H"]
    return {way: max(_pass(torch, pairs, device) for _ in range(PASSES))
            for way, pairs in ways.items()}


def _pass(torch, pairs, device):
    """GB/s of copies of each pair, each pair on a stream of its own."""
    streams = [torch.cuda.Stream(device) for _ in pairs]
    begin, ends = torch.cuda.Event(enable_timing=True), []
    begin.record(streams[0])
    for stream in streams[1:]:
        stream.wait_event(begin)
    for _ in range(COPIES):
        for stream, (to, from_) in zip(streams, pairs):
            with torch.cuda.stream(stream):
                to.copy_(from_, non_blocking=True)
    for stream in streams:
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record(stream)
    torch.cuda.synchronize(device)
    ms = max(begin.elapsed_time(end) for end in ends)
    return len(pairs) * COPIES * PIECE / ms / 1e6


def of_reads(path):
    """Measure reads of a cached file by fio; a pair of GB/s by way, and why there is none."""
    if not shutil.which("fio"):
        return {}, "fio is not installed"
    rates = {}
    for way, jobs, options in (("one thread", 1, ["--ioengine=psync"]),
                               (f"{N_THREADS} threads", N_THREADS, ["--ioengine=psync"]),
                               ("io_uring, 16 in flight", 1,
                                ["--ioengine=io_uring", "--iodepth=16"])):
        share = os.path.getsize(path) // jobs
        said = subprocess.run(
            ["fio", "--name=read", "--rw=read", "--bs=1M", "--invalidate=0", "--thread",
             "--group_reporting", "--output-format=json", f"--filename={path}",
             f"--numjobs={jobs}", f"--size={share}", f"--offset_increment={share}", "--readonly",
             *options], check=False, capture_output=True, text=True)
        if said.returncode:
            return rates, f"fio, {way}: {said.stderr.strip() or said.stdout.strip()}"
        rates[way] = json.loads(said.stdout)["jobs"][0]["read"]["bw_bytes"] / 1e9
    return rates, ""
