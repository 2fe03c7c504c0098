# SPDX-License-Identifier: Apache-2.0
"""The whole report of a machine by one command: JSON, tables, pictures, REPORT.md.

Ceilings and pipelines (``headrace bench``), transfers from and to the GPU, the truth of overlap and
gain, throughput against options, peers, a timeline. What gives ratios is passed twice, in processes
of its own that measure by turns (``bench/turns.py``) or one after the other, and how well the two
agree is told. Without a GPU the same for the host. A step that
fails, or for which there is no time left, is told, and the rest goes on; the exit status is 1 if
there was one. The table of figures is printed last. Pictures need Matplotlib; they can be drawn
later by ``bench/plot.py``.
"""

import argparse
import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
import time

import agreement
import inputs
import report_md
import turns
from plots import data
from report import print_figures, size_of

BENCH = os.path.dirname(os.path.abspath(__file__))
SECOND = "second_pass"
FOR_PICTURES_S = 45
PEERS_S = 120  # of each pass: slow ones differ much from run to run
BENCH_BYTES = 1 << 30  # of its many cases: they are to end in time
FEW_BYTES = 1 << 29  # where some are slow: peers, and settings of the sweep


@dataclasses.dataclass
class Step:
    """A command, and the file that it makes, if any; how it ended is set when it has."""

    name: str
    command: list
    makes: str = ""
    takes_turns: bool = False
    status: str = ""
    seconds: float = 0.0


def options():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headrace", type=os.path.abspath, help="build/.../bin/headrace")
    parser.add_argument("outdir", type=os.path.abspath, help="where all goes")
    parser.add_argument("--size", type=size_of, default=size_of("2G"),
                        help="bytes of the inputs (2G)")
    parser.add_argument("--device", help="instead of the first GPU, or else the host")
    parser.add_argument("--quick", action="store_true",
                        help="fewer rounds: whether all works, not how fast")
    parser.add_argument("--limit", type=float, default=570, metavar="SECONDS",
                        help="no step begins or goes on after that (570)")
    return parser.parse_args()


def script(name, *words):
    """Return the command line of a script of this folder."""
    return [sys.executable, os.path.join(BENCH, name), *words]


def steps_with_ratios(given, device, folder):
    """Return the steps that both passes have; their reports go to a folder."""
    size = ["--size", str(given.size), "--device", device]
    few = ["--size", str(min(given.size, FEW_BYTES)), "--device", device]
    short = ["--seconds", "3"] if given.quick else []
    long = short or ["--seconds", str(PEERS_S)]
    peers, bench, transfers = (os.path.join(folder, f"{name}.json")
                               for name in ("peers", "bench", "gpu_transfers"))
    return [
        Step("peers", script("peers/gpu_peers.py", given.headrace, peers, *few, *long), peers, True),
        Step("bench", [given.headrace, "bench", "--json", bench, "--size",
                       str(min(given.size, BENCH_BYTES)), "--device", device], bench, True),
        Step("gpu_transfers", script("cases/gpu_transfers.py", given.headrace, transfers, *size,
                                     *short), transfers),
    ]


def steps_once(given, device, folder):
    """Return the steps that only the first pass has."""
    truth, sweep, trace = (os.path.join(folder, name) for name in (
        "overlap_truth.json", "sweep.json", "run.trace.json"))
    sink = "null:" if device == "host" else "device:"
    return [
        Step("overlap_truth", script("cases/overlap_truth.py", given.headrace, truth, "--device",
                                     device), truth),
        Step("sweep", script("cases/sweep.py", given.headrace, sweep, "--size",
                             str(min(given.size, FEW_BYTES)), "--device", device, "--quick"),
             sweep),
        Step("timeline", [given.headrace, "run", inputs.frames(given.size), sink, "--device",
                          device, "--kernel", "scale:f32,2,1", "--no-tuned", "--trace", trace],
             trace),
        Step("timeline: its format", script("plots/trace.py", trace)),
    ]


def start(step, until, *words, **how):
    """Start a step and return its process; None: there is no time left."""
    print(f"\n== {step.name}: {' '.join([*step.command, *words])}", flush=True)
    if step.makes and os.path.exists(step.makes):
        os.unlink(step.makes)  # what an earlier run left is not what this one found
    if time.monotonic() >= until:
        step.status = "no time was left"
        print(step.status)
        return None
    return subprocess.Popen([*step.command, *words], start_new_session=True, **how)


def finish(step, process, begun, until):
    """Wait for a step, and end it when the time is over."""
    if not process:
        return
    try:
        status = process.wait(timeout=max(until - time.monotonic(), 0))
        step.status = "" if status == 0 else f"exit status {status}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        step.status = "ended, the time was over"
    step.seconds = time.monotonic() - begun
    print(f"{step.name}: {step.seconds:.0f} s {step.status}", flush=True)


def run(step, until):
    """Run a step."""
    begun = time.monotonic()
    finish(step, start(step, until), begun, until)


def run_by_turns(steps, until):
    """Run two steps that measure by turns."""
    begun = time.monotonic()
    processes = []
    for step, side in zip(steps, turns.pair()):
        with side:
            processes.append(start(step, until, "--turns", str(side.fileno()),
                                   pass_fds=[side.fileno()]))
    for step, process in zip(steps, processes):
        finish(step, process, begun, until)


def run_passes(first, second, until):
    """Run the steps of both passes."""
    for steps in zip(first, second):
        if steps[0].takes_turns:
            run_by_turns(steps, until)
        else:
            for step in steps:
                run(step, until)


def draw(given, until):
    """Draw the pictures, where Matplotlib is; return the step, or None."""
    if not importlib.util.find_spec("matplotlib"):
        print("\nno pictures: Matplotlib is not installed; draw them by bench/plot.py")
        return None
    step = Step("pictures", script("plot.py", given.outdir, os.path.join(given.outdir,
                                                                         "pictures")))
    run(step, until)
    return step


def agreements(first, second):
    """Return the rows of `agreement.compare` of all reports, and what only one of two has."""
    both = [name for name in second if name in first]
    rows = [row._replace(name=f"{name}: {row.name}") for name in both
            for row in agreement.compare(first[name], second[name])]
    once = [f"{name}: {ratio}" for name in both
            for ratio in agreement.only_once(first[name], second[name])]
    return rows, once


def print_last(reports, rows, once, steps):
    """Print the table of figures, how well the passes agree, and what failed."""
    for name, report in reports.items():
        print(f"\n== {name}")
        print_figures(report.get("figures", []) + report_md.figures_of_bench(report))
    print(f"\n{agreement.verdict(rows)}")
    for row in agreement.beyond(rows):
        told = "" if row.spread is None else f"{100 * row.spread:6.1f} %"
        print(f"  {row.name[:86]:86} {row.first:8.3f} {row.second:8.3f} {told}")
    for name in once:
        print(f"  {name}: measured in one pass only")
    for step in steps:
        if step.status:
            print(f"{step.name}: FAILED, {step.status}")


def main():
    """Run all, write, print."""
    given = options()
    begun = time.monotonic()
    last = begun + given.limit
    os.environ["PATH"] = os.path.dirname(given.headrace) + os.pathsep + os.environ["PATH"]
    device = given.device or next(iter(inputs.gpus()[0]), "host")
    until = last - min(FOR_PICTURES_S, given.limit / 4)
    second = os.path.join(given.outdir, SECOND)
    os.makedirs(second, exist_ok=True)
    first = steps_with_ratios(given, device, given.outdir)
    again = [dataclasses.replace(step, name=f"{step.name}, second pass")
             for step in steps_with_ratios(given, device, second)]
    once = steps_once(given, device, given.outdir)
    run_passes(first, again, until)
    for step in once:
        run(step, until)
    steps = first + again + once
    pictures = draw(given, last)
    reports, _ = data.read(given.outdir)
    rows, alone = agreements(reports, data.read(second)[0])
    told = steps + ([pictures] if pictures else [])
    words = f"--size {given.size} --device {device}" + (" --quick" if given.quick else "")
    report_md.write(given.outdir, reports, report_md.About(rows, alone, told, words))
    print_last(reports, rows, alone, told)
    print(f"{time.monotonic() - begun:.0f} s; {os.path.join(given.outdir, 'REPORT.md')}")
    sys.exit(any(step.status for step in told))


if __name__ == "__main__":
    main()
