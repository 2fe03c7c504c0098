# SPDX-License-Identifier: Apache-2.0
"""REPORT.md: the tables and pictures of a folder of results."""

import os

import agreement
from plots import data


def figures_of_bench(report):
    """Return what ``headrace bench`` found of pipelines, as figures of `report.Report`."""
    return [{"name": f"{one['name']} ({one['ceiling']})", "value": one["efficiency"],
             "unit": "of the ceiling", "target": None, "relation": ">=", "met": None}
            for one in report.get("pipelines", []) if "efficiency" in one]


def table(heads, rows):
    """Return the lines of a table; cells are text, or numbers."""
    def cell(value):
        text = "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        return text.replace("|", "\\|").replace("\n", " ")
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return [*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def _machine(reports):
    """What it was measured on, of the report that tells most."""
    machine = max((report.get("machine", {}) for report in reports.values()), key=len, default={})
    return table(("machine", ""), [(key, value if isinstance(value, (str, int, float)) else
                                    ", ".join(map(str, value.values() if isinstance(value, dict)
                                                  else value or [])))
                                   for key, value in machine.items()])


def _bench(report):
    """Ceilings and pipelines of ``headrace bench``."""
    lines = table(("ceiling", "GB/s", "threads", "what"),
                  [(one["name"], one.get("gigabytes_per_s", one.get("error")),
                    one.get("best_threads"), one["what"]) for one in report["ceilings"]])
    return lines + table(
        ("pipeline", "GB/s", "ceiling", "GB/s", "of it", "overlap", "gain told", "gain measured",
         "bottleneck"),
        [(one["name"], one.get("gigabytes_per_s", one.get("error")), one.get("ceiling"),
          one.get("ceiling_gigabytes_per_s"), one.get("efficiency"),
          one.get("overlap_efficiency"),
          one.get("gain_told") if one.get("gain_told_compares", True) else None,
          one.get("gain_measured"),
          one.get("bottleneck")) for one in report["pipelines"]])


def _families(report):
    """headrace beside its peers."""
    lines = []
    for family, rows in data.families(report).items():
        ratios = report["cases"][family]["ratios"]
        lines += table((family, "wall s", "min", "max", "CPU s", "GB/s", "times headrace's"),
                       [(name, told["wall_s"]["median"], told["wall_s"]["min"],
                         told["wall_s"]["max"], told["cpu_s_median"], told["gigabytes_per_s"],
                         ratios.get(name)) if told else (name, f"not run: {why}")
                        for name, told, why in rows])
    return lines


def _sweeps(report):
    """The rate of each value, a row for each option."""
    return [line for (file, option), case in data.sweeps(report).items() for line in table(
        (f"{file}, {option}", *(one["label"] for one in case["points"])),
        [("GB/s", *(one["gigabytes_per_s"] for one in case["points"]))])]


def _checks(report):
    """Figures of overlap beside the truth, where they are judged."""
    rows = [(check["case"], check["figure"], check["wanted"], check["got"],
             f"{check['relation']} {check['margin']:.0%}", "yes" if check["good"] else "**no**")
            for case in report["cases"].values() for check in case.get("checks", [])
            if check["judged"]]
    return table(("case", "figure", "wanted", "got", "to be", "met"), rows) if rows else []


def _figures(report):
    """All figures."""
    return table(("figure", "value", "unit", "target", "met"),
                 [(one["name"], float(one["value"]), one["unit"],
                   None if one["target"] is None else f"{one['relation']} {one['target']:g}",
                   {True: "yes", False: "**no**", None: None}[one["met"]])
                  for one in report["figures"]])


def _agreement(rows):
    """How well two passes agree."""
    lines = []
    for name, of in rows.items():
        lines += [f"{name}: {agreement.verdict(of)}", ""]
        far = agreement.beyond(of)
        if far:
            lines += table(("ratio", "first", "second", "spread"),
                           [(ratio, one, other, None if spread is None else f"{100 * spread:.1f} %")
                            for ratio, one, other, spread in far])
    return lines


def _pictures(folder, name):
    """Links to the pictures of a report."""
    place = os.path.join(folder, "pictures")
    found = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [line for file in found if file.endswith(".svg") and file.startswith(name + "_")
            for line in (f"![{file[:-4].replace('_', ' ')}](pictures/{file})", "")]


def write(folder, reports, rows, steps):
    """Write REPORT.md.

    Parameters
    ----------
    folder : str
        Where it goes, and where the pictures are in a folder ``pictures``.
    reports : dict of str to dict
        By name.
    rows : dict of str to list
        Of `agreement.compare`, by name of the report.
    steps : list
        What was run: name, command, seconds, and status, which is empty where all went well.
    """
    lines = ["# Report", "", *_machine(reports),
             *table(("step", "seconds", "status"),
                    [(step.name, f"{step.seconds:.0f}", step.status or "done") for step in steps])]
    for name, report in reports.items():
        lines += [f"## {name}", ""]
        if "pipelines" in report:
            lines += _bench(report)
        else:
            lines += _families(report) + _sweeps(report) + _checks(report) + _figures(report)
        lines += _pictures(folder, name)
    lines += ["## Timelines", "", *_pictures(folder, "run"), "## Two passes", "",
              *_agreement(rows)]
    with open(os.path.join(folder, "REPORT.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
