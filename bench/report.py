# SPDX-License-Identifier: Apache-2.0
"""What a case of the bench takes and gives: arguments, figures with their targets, JSON.

A report is ``{"machine": {...}, "cases": {...}, "figures": [...]}``: the raw measurements under
``cases``, and under ``figures`` what they are judged by.
"""

import argparse
import json
import os
import platform
import subprocess

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    """Read a size in bytes; K, M and G are powers of 1024."""
    factor = UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if factor > 1 else text) * factor


def arguments(about, add_more=None):
    """Read the command line that all cases share.

    Parameters
    ----------
    about : str
        The docstring of the case.
    add_more : callable, optional
        Given the argparse.ArgumentParser, adds the options of this case.

    Returns
    -------
    argparse.Namespace
        ``headrace`` and ``report`` (absolute paths), ``size`` (bytes). The folder of the command is
        put first in PATH, so that command lines name plain ``headrace``; and what ``headrace bench
        --tune --save`` kept for the user is hidden from them: the defaults are measured.
    """
    parser = argparse.ArgumentParser(description=about,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headrace", type=os.path.abspath, help="build/.../bin/headrace")
    parser.add_argument("report", type=os.path.abspath, nargs="?", default=os.devnull)
    parser.add_argument("--size", type=size_of, default=1 << 30, help="bytes of the input (1G)")
    if add_more:
        add_more(parser)
    given = parser.parse_args()
    os.environ["PATH"] = os.path.dirname(given.headrace) + os.pathsep + os.environ["PATH"]
    os.environ["XDG_CONFIG_HOME"] = os.devnull
    return given


def first_line(*command):
    """Return the first line that a command prints; empty if it is not there."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
    return said.strip().partition("\n")[0]


def machine():
    """Describe the machine, how busy it is, and the commit that is measured.

    Returns
    -------
    dict
        Processor, usable CPUs, kernel, memory in bytes, load averages, zstd, and the commit: what
        the environment names as HR_COMMIT, for a tree that was carried here without its history.
    """
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.machine(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": list(os.getloadavg()),
        "zstd": first_line("zstd", "--version"),
        "commit": os.environ.get("HR_COMMIT") or first_line(
            "git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always",
            "--dirty"),
    }


def print_comparison(case, comparison):
    """Print a line for each command that `measure.compare` measured."""
    for name, figures in comparison.items():
        if name == "ratios":
            continue
        ratio = comparison["ratios"].get(name)
        print(f"{case:24} {name:22} {figures['wall_s']['median']:8.3f} s wall "
              f"{figures['cpu_s_median']:8.3f} s CPU {figures['gigabytes_per_s']:7.2f} GB/s "
              f"{'' if ratio is None else f'{ratio:6.2f}'}", flush=True)


def print_figures(figures):
    """Print a table of figures: value, target, met or not."""
    print(f"{'figure':44} {'value':>9} {'unit':26} {'quartiles':>15} {'n':>3} {'target':>10}")
    for figure in figures:
        target = "" if figure["target"] is None else f"{figure['relation']} {figure['target']:g}"
        word = {True: "met", False: "NOT MET", None: ""}[figure["met"]]
        apart = "{:.3f} {:.3f}".format(*figure["quartiles"]) if "quartiles" in figure else ""
        print(f"{figure['name']:44} {figure['value']:9.3f} {figure['unit']:26} {apart:>15} "
              f"{figure.get('rounds', ''):3} {target:>10} {word}")


class Report:
    """Gathers what a case measures.

    Notes
    -----
    The machine is described when the report is begun, before the case makes it busy.
    """

    def __init__(self):
        self.machine = machine()
        self.cases = {}
        self.figures = []

    def add(self, case, comparison):
        """Keep what `measure.compare` returned, print it, and return it."""
        self.cases[case] = comparison
        print_comparison(case, comparison)
        return comparison

    def figure(self, name, value, unit, target=None, relation=">=", spread=None):
        """Keep a figure.

        Parameters
        ----------
        name : str
            What it is.
        value : float
            How much.
        unit : str
            Of what; for a ratio, of which two: "dd / headrace".
        target : float, optional
            What it should be; None: it only stands beside another.
        relation : str
            ">=", ">" or "<=": how the value should be to the target.
        spread : dict, optional
            `rounds.summary` of what the value is the median of.
        """
        met = {">=": lambda: value >= target, ">": lambda: value > target,
               "<": lambda: value < target, "<=": lambda: value <= target}
        self.figures.append({
            "name": name, "value": value, "unit": unit, "target": target, "relation": relation,
            "met": None if target is None else met[relation](),
            **{key: spread[key] for key in ("quartiles", "rounds") if spread},
        })

    def ratio(self, case, peer, target=None, relation=">="):
        """Keep as a figure how many times the time of headrace a peer of a case took."""
        self.figure(case, self.cases[case]["ratios"][peer], f"{peer} / headrace", target, relation)

    def write(self, path):
        """Write the JSON, and print the figures."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"machine": self.machine, "cases": self.cases, "figures": self.figures},
                      file, indent=1)
            file.write("\n")
        print_figures(self.figures)
