# SPDX-License-Identifier: Apache-2.0
"""Measure whole commands side by side: A/B/A/B, warm, wall and CPU seconds.

Used by the scripts in ``bench/cases``; needs only the standard library.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import time


def timed(command, output=None, replace=False):
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
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(["bash", "-c", "set -o pipefail; " + command], check=True,
                   stderr=subprocess.DEVNULL)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def compare(commands, n_bytes, outputs=None, samples=5, replace=False):
    """Measure commands in turn, after one warm-up of each.

    Parameters
    ----------
    commands : dict of str to str
        Name and bash command line; the first one is headrace, the others its peers.
    n_bytes : int
        Bytes that each moves.
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
        ``ratios`` the peers' median wall over that of the first (above 1: headrace is faster).
    """
    outputs = outputs or {}
    for name, command in commands.items():
        timed(command, outputs.get(name), replace)
    runs = {name: [] for name in commands}
    for _ in range(samples):
        for name, command in commands.items():
            runs[name].append(timed(command, outputs.get(name), replace))
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
        name: report[name]["wall_s"]["median"] / report[first]["wall_s"]["median"]
        for name in commands if name != first
    }
    return report


def machine():
    """Describe the machine and the commit that is measured.

    Returns
    -------
    dict
        Processor, usable CPUs, kernel, memory in bytes, commit.
    """
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, check=False).stdout.strip()
    return {
        "cpu": names[0] if names else platform.machine(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "commit": commit,
    }


def write_report(path, about, cases):
    """Write a report as JSON and print a table of it.

    Parameters
    ----------
    path : str
        The file to write.
    about : dict
        What `machine` returned.
    cases : dict
        Name of a case to what `compare` returned.
    """
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": about, "cases": cases}, file, indent=1)
        file.write("\n")
    print(f"{'case':24} {'what':10} {'wall s':>8} {'CPU s':>8} {'GB/s':>7} {'ratio':>6}")
    for case, report in cases.items():
        for name, figures in report.items():
            if name == "ratios":
                continue
            ratio = report["ratios"].get(name)
            print(f"{case:24} {name:10} {figures['wall_s']['median']:8.3f} "
                  f"{figures['cpu_s_median']:8.3f} {figures['gigabytes_per_s']:7.2f} "
                  f"{'' if ratio is None else f'{ratio:6.2f}'}")
