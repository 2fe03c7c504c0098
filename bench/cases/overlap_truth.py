# SPDX-License-Identifier: Apache-2.0
"""What the statistics tell, beside the truth: stages of known length, counter-examples, the gain
against runs of depth 1, and a run bound by each of the seven stages.

``bench/programs/overlap_truth.c`` makes the pipelines and compares; a deviation can be followed up
in the runs that the report holds. Ends with status 1 if a figure is wrong. It depends on the clock:
on a machine that was busy meanwhile, figures that need threads to run when they can are only told,
and so are those of copies whose bare rate was another one after the runs than before them. Each is
told with the reason.
"""

import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from report import Report, arguments  # noqa: E402

WOBBLE = 0.03  # what most figures may be off by

PARTS = ("overlap_bare", "overlap_checks", "overlap_codecs", "overlap_counter", "overlap_gpu",
         "overlap_host", "overlap_line", "overlap_pipes")


def add_options(parser):
    """Add the options of this case."""
    parser.add_argument("--device", help="instead of the first GPU, or of the host if there is none")


def measure(given, device):
    """Run the program and return what it prints."""
    program = inputs.program_of_library("overlap_truth", given.headrace, *PARTS)
    said = subprocess.run([program, device], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said)


def shown(value):
    """Return a number, or a stage, as it stands in the table."""
    return value if isinstance(value, str) else f"{value:.4g}"


def print_check(check):
    """Print a line for a figure."""
    allowed = f"{check['relation']} {check['margin']:.0%}" if check["judged"] else ""
    word = ("right" if check["good"] else "WRONG") if check["judged"] else (
        f"not judged: {check['why']}" if "why" in check else "told")
    print(f"  {check['figure']:34} {shown(check['wanted']):>10} {shown(check['got']):>10} "
          f"{allowed:14} {word}")


def print_checks(checks):
    """Print the table: wanted, got, within what."""
    case = None
    for check in checks:
        if check["case"] != case:
            case = check["case"]
            print(f"{case:36} {'wanted':>10} {'got':>10}")
        print_check(check)


def lengths(run):
    """Return the wall of a run and the service times of its stages, in seconds, by name."""
    stages = {f"service of {name}": stage["service_ns"] for name, stage in run["stages"].items()}
    return {name: ns / 1e9 for name, ns in {"wall": run["wall_ns"], **stages}.items()}


def wobbles(runs):
    """Tell, for runs that were the same, how far apart their figures are, where that is much.

    Parameters
    ----------
    runs : list of dict
        All runs.

    Yields
    ------
    str
        A line for a figure. What is short beside the wall is left out.
    """
    same = {}
    for run in runs:
        same.setdefault((run["case"], run["run"], run["depth"]), []).append(lengths(run))
    for (case, name, depth), repeated in same.items():
        wall = statistics.median(one["wall"] for one in repeated)
        for figure in repeated[0]:
            seen = sorted(one.get(figure, 0) for one in repeated)
            if seen[-1] - seen[0] > WOBBLE * max(statistics.median(seen), wall / 10):
                listed = ", ".join(f"{value:.4g}" for value in seen)
                yield f"wobbles: {case}: {name}, depth {depth}: {figure}, s: {listed}"


def main():
    """Measure, judge, write."""
    given = arguments(__doc__, add_options)
    report = Report()
    gpus, why = inputs.gpus()
    device = given.device or next(iter(gpus), "host")
    report.machine["gpu"] = gpus.get(device)
    said = measure(given, device)
    print_checks(said["checks"])
    for case in said["not_run"]:
        print(f"not here: {case['case']}: {case['why']}")
    if device == "host":
        print(f"without a GPU: {why}")
    report.cases["overlap truth"] = said
    judged = [check for check in said["checks"] if check["judged"]]
    wrong = [check for check in judged if not check["good"]]
    report.figure("overlap truth: figures judged", len(judged), "figures")
    report.figure("overlap truth: not judged", sum("why" in check for check in said["checks"]),
                  "figures")
    report.figure("overlap truth: wrong", len(wrong), "figures", 0, "<=")
    report.write(given.report)
    for line in wobbles(said["runs"]):
        print(line)
    for check in wrong:
        print(f"WRONG: {check['case']}: {check['figure']}: wanted {shown(check['wanted'])}, "
              f"got {shown(check['got'])}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
