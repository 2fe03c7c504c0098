# SPDX-License-Identifier: Apache-2.0
"""Transfers from and to a GPU, beside what its driver reaches alone with the same memory.

One process measures ceilings (plain asynchronous copies of pinned memory) and pipelines in turn,
round by round, and compares the contents in the first one; see ``bench/programs/gpu_transfers.c``.
Ratios are medians of those of rounds, in which both sides run next to each other. The file is a tar
of real files in the page cache (or a tmpfs, where TMPDIR is one). A timeline of one run goes beside
the report. Without a GPU there are no figures. ``--size 4G`` is better than the usual 1G.
"""

import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
import rounds  # noqa: E402
from measure import cache  # noqa: E402
from report import Report, arguments  # noqa: E402

MIB = 1 << 20
SECONDS = 15  # for all rounds
ENOUGH = 1.8  # times as long as the others: "about twice"
MARGIN = 0.1  # between the gain that is measured and the one that is reported


def add_options(parser):
    """Add the options of this case."""
    parser.add_argument("--device", help="instead of the first GPU; host: without ceilings")
    parser.add_argument("--seconds", type=float, default=SECONDS,
                        help=f"for all rounds, at least 5 ({SECONDS})")


def measure(given, device, *only):
    """Run the program and return what it prints, of all pipelines or only those of these names."""
    tar, packed = inputs.system_tar(given.size), "-" if only else inputs.frames(given.size)
    program = inputs.gpu_transfers(given.headrace)
    beside = os.path.dirname(given.report) if given.report != os.devnull else inputs.folder()
    for path in (tar,) if only else (tar, packed):
        cache(path)
    os.sync()
    seconds = getattr(given, "seconds", SECONDS)
    said = subprocess.run([program, device, tar, packed, str(-(-given.size // MIB)), str(seconds),
                           beside, *only], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said)


def median(samples, key):
    """Return the median of a member of the samples."""
    return statistics.median(sample[key] for sample in samples)


def summary(measured, n_bytes):
    """Return the medians of what was measured, and all of it as ``samples``."""
    samples = measured["samples"]
    walls = [sample["wall_ns"] / 1e9 for sample in samples]
    wall, cpu = statistics.median(walls), median(samples, "cpu_ns") / 1e9
    return {**measured, "wall_s": {"median": wall, "min": min(walls), "max": max(walls)},
            "cpu_s_median": cpu, "cores_busy": cpu / wall, "gigabytes_per_s": n_bytes / wall / 1e9}


def pipeline_summary(measured):
    """Return the same, and what the pipeline tells of itself; rates are of the link, if any."""
    samples = measured["samples"]
    return {**summary(measured, measured["link_bytes"] or measured["bytes_in"]),
            "overlap_median": median(samples, "overlap"), "gain_median": median(samples, "gain"),
            "lead_median": statistics.median(map(lead, samples))}


def lead(sample):
    """Return how many times as long as the next one the slowest resource worked."""
    busy = {}
    for stage in sample["stages"].values():
        if stage["capacity"]:
            seconds = stage["service_ns"] / stage["capacity"]
            busy[stage["resource"]] = busy.get(stage["resource"], 0) + seconds
    longest = sorted(busy.values(), reverse=True) + [0, 0]
    return longest[0] / longest[1] if longest[1] else 0.0


def beside_ceiling(case):
    """Return the `rounds.summary` of how much of the ceiling beside it a pipeline reached."""
    work = (case["link_bytes"] or case["bytes_in"]) / case["beside"]["bytes"]
    return rounds.summary([work * ceiling["wall_ns"] / sample["wall_ns"] for sample, ceiling
                           in zip(case["samples"], case["beside"]["samples"])])


def rate_figures(report, ceilings):
    """Judge the rates, each by the ceiling that ran beside it in each round."""
    best = {}
    for name, ceiling in ceilings.items():
        way = name.partition(",")[0]
        best[way] = max(best.get(way, 0), ceiling["gigabytes_per_s"])
    for way, rate in best.items():
        report.figure(f"ceiling: {way}", rate, "GB/s")
    for name, target in (("cached file to device", 0.85),
                         ("pinned memory to device", None),
                         ("pageable memory to device", None),
                         ("memory, reduction, device", None),
                         ("device to pinned memory", 0.9),
                         ("device to pageable memory", None),
                         ("memory, kernel, memory", 0.85),
                         ("memory, kernel, memory: 16 MiB", None)):
        case = report.cases[name]
        if "beside" in case:
            reached = beside_ceiling(case)
            report.figure(name, reached["median"],
                          f"of {case['beside']['ceiling'].partition(',')[0]}", target,
                          spread=reached)
        report.figure(f"{name}: cores busy", case["cores_busy"], "CPU s / s")
    frames = report.cases["zstd frames to device"]
    report.figure("zstd frames to device", frames["bytes_out"] / frames["wall_s"]["median"] / 1e9,
                  "GB/s, decoded")


def overlap_figures(report, judged):
    """Judge the overlap where one stage takes about twice as long; else it says nothing."""
    for name in ("kernels", "H2D", "D2H"):
        case = report.cases[f"twice as long: {name}"]
        twice = case["lead_median"] >= ENOUGH
        report.figure(f"slowest beside next: {name}", case["lead_median"], "times as long")
        report.figure(f"overlap, twice as long: {name}", case["overlap_median"],
                      "efficiency" if twice else "not twice as long",
                      0.95 if twice and judged else None,
                      spread=rounds.summary([sample["overlap"] for sample in case["samples"]]))


def gain_figures(report, judged):
    """Compare the gain that a deep run reports with the one against a run of depth 1."""
    for name, words in (("memory, kernel, memory", "default"),
                        ("memory, kernel, memory: 16 MiB", "16 MiB")):
        deep = report.cases[name]
        shallow = report.cases[name + (", depth 1" if words == "16 MiB" else ": depth 1")]
        told = rounds.summary([sample["gain"] for sample in deep["samples"]])
        seen = rounds.summary([alone["wall_ns"] / sample["wall_ns"] for sample, alone
                               in zip(deep["samples"], shallow["samples"])])
        apart = statistics.median(alone["wall_ns"] / sample["wall_ns"] / sample["gain"]
                                  for sample, alone in zip(deep["samples"], shallow["samples"]))
        deep["gain_measured"] = seen["median"]
        report.figure(f"gain, chunks {words}: reported", told["median"], "times", spread=told)
        report.figure(f"gain, chunks {words}: measured", seen["median"], "times", spread=seen)
        report.figure(f"gain, chunks {words}: difference", abs(apart - 1), "of the reported",
                      MARGIN if judged else None, "<=")


def print_cases(cases):
    """Print a line for each."""
    for name, case in cases.items():
        told = (f" overlap {case['overlap_median']:4.2f} gain {case['gain_median']:4.2f} "
                f"{case['samples'][0]['bottleneck']}" if "overlap_median" in case else "")
        print(f"{name:40} {case['wall_s']['median'] * 1e3:9.2f} ms {case['gigabytes_per_s']:8.2f} "
              f"GB/s {case['cores_busy']:5.2f} cores{told}", flush=True)


def main():
    """Measure, judge, write."""
    given = arguments(__doc__, add_options)
    report = Report()
    gpus, why = inputs.gpus()
    device = given.device or next(iter(gpus), None)
    if not device:
        print(f"not run, there is no GPU: {why}")
        report.cases["gpu transfers"] = {"not_run": why}
        report.write(given.report)
        return
    report.machine["gpu"] = gpus.get(device)
    said = measure(given, device)
    for name, ceiling in said["ceilings"].items():
        report.cases[f"ceiling: {name}"] = summary(ceiling, ceiling["bytes"])
    ceilings = {name: report.cases[f"ceiling: {name}"] for name in said["ceilings"]}
    for name, pipeline in said["pipelines"].items():
        report.cases[name] = pipeline_summary(pipeline)
    print_cases(report.cases)
    judged = bool(ceilings)  # what is to be reached is said of GPUs
    rate_figures(report, ceilings)
    overlap_figures(report, judged)
    gain_figures(report, judged)
    samples = [sample for case in said["pipelines"].values() for sample in case["samples"]]
    for key in ("unpinned_bytes", "direct_bytes"):  # not what is to be measured
        report.figure(key.replace("_", " "), max(sample[key] for sample in samples), "bytes", 0,
                      "<=")
    report.write(given.report)


if __name__ == "__main__":
    main()
