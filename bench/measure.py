# SPDX-License-Identifier: Apache-2.0
"""Measure whole commands side by side: A/B, B/A, warm, wall and CPU seconds.

Used by the scripts in ``bench/cases``; needs only the standard library.
"""

import mmap
import os
import resource
import statistics
import subprocess
import time


MADV_POPULATE_WRITE = 23  # madvise(2), Linux 5.14
SCRATCH_BYTES = 256 << 20  # more than any command takes for itself
BLOCK = bytes(1 << 22)


def populate(memory, advice):
    """Touch every page of a mapping: huge or small ones, as advised, where the system has both."""
    try:
        memory.madvise(advice)
        memory.madvise(MADV_POPULATE_WRITE)
    except OSError:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def touch_memory(beside, n_bytes):
    """Have the hypervisor provide the free memory that the next command will take.

    A virtual machine gives free pages back to its host, and a page that comes anew costs ten times
    what it costs otherwise. Whether a command gets such pages is luck, not its merit. Huge and
    small pages come from different lists of the system, so both kinds are touched.

    Parameters
    ----------
    beside : str or None
        An output of the command; the page cache's memory for it is touched by a file beside it.
    n_bytes : int
        Size of that output.
    """
    if beside:
        scratch = beside + ".scratch"
        with open(scratch, "wb", buffering=0) as file:
            for _ in range(n_bytes // len(BLOCK) + 1):
                file.write(BLOCK)
            os.unlink(scratch)
    for advice in (mmap.MADV_HUGEPAGE, mmap.MADV_NOHUGEPAGE):
        with mmap.mmap(-1, SCRATCH_BYTES, flags=mmap.MAP_PRIVATE) as memory:
            populate(memory, advice)


def cache(path):
    """Have the page cache hold a file whole: some systems drop what was not used for seconds."""
    block = bytearray(len(BLOCK))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(block):
            pass


def timed(command, output=None, replace=False, output_bytes=0, source=None):
    """Run a shell command once, with nothing of an earlier one left to be written to disk.

    Parameters
    ----------
    command : str
        A bash command line.
    output : str, optional
        A file that the command writes; unless `replace` is set it is removed before, outside the
        clock, so that no run can use the pages that its own truncation has just freed.
    replace : bool
        Leave the output of the run before, so that the command has to replace it.
    output_bytes : int
        What the page cache will need for the output.
    source : str, optional
        A file that the command reads from the page cache.

    Returns
    -------
    tuple of float
        Wall seconds, and user plus system CPU seconds of the command and its children.

    Raises
    ------
    subprocess.CalledProcessError
        If the command fails: a figure of a failed run is none.
    """
    if output and not replace and os.path.exists(output):
        os.unlink(output)
    os.sync()
    touch_memory(output, output_bytes)
    if source:
        cache(source)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(["bash", "-c", "set -o pipefail; " + command], check=True,
                   stderr=subprocess.DEVNULL)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def compare(commands, n_bytes, source, outputs=None, samples=5, replace=False):
    """Measure commands in turn, after one warm-up of each.

    Parameters
    ----------
    commands : dict of str to str
        Name and bash command line; the first one is headrace, the others its peers.
    n_bytes : int
        Bytes that each moves.
    source : str
        The file that all read, kept in the page cache.
    outputs : dict of str to str, optional
        For each name the file that its command writes.
    samples : int
        Rounds, at least 5.
    replace : bool
        Each run finds the output of the one before (the warm-up makes the first); else none.

    Returns
    -------
    dict
        For each name median, min and max of wall seconds, median CPU seconds and GB/s; and under
        ``ratios`` the peers' wall over that of the first (above 1: headrace is faster), the median
        of those of rounds.
    """
    outputs = outputs or {}

    def run(name):
        output = outputs.get(name)
        return timed(commands[name], output, replace, n_bytes if output else 0, source)

    for name in commands:
        run(name)
    runs = {name: [] for name in commands}
    for turn in range(samples):
        for name in list(commands)[:: -1 if turn % 2 else 1]:
            runs[name].append(run(name))
    report = {}
    for name, pairs in runs.items():
        walls = [wall for wall, _ in pairs]
        median = statistics.median(walls)
        report[name] = {
            "command": commands[name],
            "wall_s": {"median": median, "min": min(walls), "max": max(walls)},
            "cpu_s_median": statistics.median(cpu for _, cpu in pairs),
            "gigabytes_per_s": n_bytes / median / 1e9,
        }
    first = next(iter(commands))
    report["ratios"] = {
        name: statistics.median(theirs / ours for (theirs, _), (ours, _)
                                in zip(runs[name], runs[first]))
        for name in commands if name != first
    }
    return report
