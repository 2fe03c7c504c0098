# SPDX-License-Identifier: Apache-2.0
"""REPORT.md: the tables and pictures of a folder of results."""

import dataclasses
import os

import agreement
from plots import data

OURS = "headrace"
TITLES = {"peers": "headrace beside its peers", "bench": "What the machine can do, and pipelines",
          "gpu_transfers": "Transfers from and to the GPU", "sweep": "Throughput against options",
          "overlap_truth": "Overlap and gain beside the truth"}


@dataclasses.dataclass
class About:
    """What a report is about besides its results.

    Attributes
    ----------
    rows, once : list
        Of `agreement.compare`, and of `agreement.only_once`.
    steps : list
        What was run: name, seconds, and status, which is empty where all went well.
    options : str
        Of the command that makes it again.
    """

    rows: list
    once: list
    steps: list
    options: str = ""


def figures_of_bench(report):
    """Return what ``headrace bench`` found of pipelines, as figures of `report.Report`."""
    return [{"name": f"{one['name']} ({one['ceiling']})", "value": one["efficiency"],
             "unit": "of the ceiling", "target": None, "relation": ">=", "met": None,
             **({"quartiles": one["efficiency_quartiles"], "rounds": len(one["wall_s"])}
                if "efficiency_quartiles" in one else {})}
            for one in report.get("pipelines", []) if "efficiency" in one]


def table(heads, rows):
    """Return the lines of a table; cells are text, or numbers."""
    def cell(value):
        text = "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        return text.replace("|", "\\|").replace("\n", " ")
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return [*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def _apart(quartiles):
    """Two quartiles in one cell."""
    return None if quartiles is None else "{:.3g} to {:.3g}".format(*quartiles)


def _machine(reports):
    """What it was measured on, of the report that tells most."""
    machine = max((report.get("machine", {}) for report in reports.values()), key=len, default={})
    return table(("machine", ""), [(key.replace("_", " "), _words(value))
                                   for key, value in machine.items() if value not in ("", None)])


def _words(value):
    """A value of the machine as text."""
    if isinstance(value, dict):
        value = list(value.values())
    return ", ".join(f"{one:.2f}" if isinstance(one, float) else str(one)
                     for one in (value if isinstance(value, list) else [value]))


def _bench(report):
    """Ceilings and pipelines of ``headrace bench``."""
    lines = table(("ceiling", "GB/s", "threads", "what"),
                  [(one["name"], one.get("gigabytes_per_s", one.get("error")),
                    one.get("best_threads"), one["what"]) for one in report["ceilings"]])
    return lines + table(
        ("pipeline", "GB/s", "ceiling", "GB/s", "of it", "quartiles", "overlap", "gain told",
         "gain measured", "quartiles", "bottleneck"),
        [(one["name"], one.get("gigabytes_per_s", one.get("error")), one.get("ceiling"),
          one.get("ceiling_gigabytes_per_s"), one.get("efficiency"),
          _apart(one.get("efficiency_quartiles")), one.get("overlap_efficiency"),
          one.get("gain_told") if one.get("gain_told_compares", True) else None,
          one.get("gain_measured"), _apart(one.get("gain_measured_quartiles")),
          one.get("bottleneck")) for one in report["pipelines"]])


def _family(family, rows, ratios):
    """headrace beside its peers, the fastest first."""
    def cells(name, told):
        ratio = told.get("ratio", {})
        return (f"**{name}**" if name == OURS else name, told["gigabytes_per_s"],
                told["wall_s"]["median"], told["wall_s"]["min"], told["wall_s"]["max"],
                told["cpu_s_median"], ratios.get(name), _apart(ratio.get("quartiles")),
                ratio.get("rounds"))

    ran = sorted((row for row in rows if row[1]), key=lambda row: -row[1]["gigabytes_per_s"])
    return table((family, "GB/s", "wall s", "min", "max", "CPU s", "times headrace's", "quartiles",
                  "rounds"), [cells(name, told) for name, told, _ in ran])


def _families(report):
    """All families, and what did not run."""
    lines, absent = [], []
    for family, rows in data.families(report).items():
        lines += _family(family, rows, report["cases"][family]["ratios"])
        absent += [(f"{family}: {name}", why) for name, told, why in rows if not told]
    for name, case in report["cases"].items():
        why = case.get("not_run", [])
        rows = [(name, why)] if isinstance(why, str) else [(one["case"], one["why"]) for one in why]
        absent += [row for row in rows if row not in absent]
    return lines + (table(("not run", "why"), absent) if absent else [])


def _sweeps(report):
    """The rate of each value, a row for each option."""
    return [line for (file, option), case in data.sweeps(report).items() for line in table(
        (f"{file}, {option}", *(one["label"] for one in case["points"])),
        [("GB/s", *(one["gigabytes_per_s"] for one in case["points"]))])]


def _checks(report):
    """Figures of overlap beside the truth: how many of each case hold, then what does not."""
    checks = [check for case in report["cases"].values() for check in case.get("checks", [])]
    cases = {}
    for check in checks:
        cases.setdefault(check["case"], []).append(check)
    counted = [(name, sum(check["judged"] for check in of),
                sum(check["judged"] and check["good"] for check in of),
                sum("why" in check for check in of)) for name, of in cases.items()]
    told = [(check["case"], check["figure"], check["wanted"], check["got"],
             f"{check['relation']} {check['margin']:.0%}" if check["judged"] else "not judged",
             "**no**" if check["judged"] else check.get("why"))
            for check in checks if not check["good"] or "why" in check]
    lines = table(("case", "figures judged", "right", "not judged"), counted) if counted else []
    if told:
        lines += table(("case", "figure", "wanted", "got", "to be", "met"), told)
    return lines


def _figures(report):
    """All figures but those that a table of peers has."""
    figures = [one for one in report["figures"] if one["unit"] != "peer / headrace"]
    return table(("figure", "value", "quartiles", "unit", "target", "met"),
                 [(one["name"], float(one["value"]), _apart(one.get("quartiles")), one["unit"],
                   None if one["target"] is None else f"{one['relation']} {one['target']:g}",
                   {True: "yes", False: "**no**", None: None}[one["met"]])
                  for one in figures]) if figures else []


def _agreement(about):
    """How well two passes agree: all ratios, the farthest first."""
    rows = sorted(about.rows, key=lambda row: -99 if row.spread is None else -row.spread)
    far = agreement.beyond(rows)
    lines = [f"**{agreement.verdict(rows)}**", ""]
    if rows:
        lines += ["Each figure is the median of a pass, quartiles are of its rounds; the spread is "
                  "between the two medians. The passes are processes of their own: of the bench and "
                  "of peers, they measure by turns of some seconds; of transfers, one after the "
                  "other.", ""]
        lines += table(("ratio", "first", "quartiles", "second", "quartiles", "spread", "agree"),
                       [(row.name, float(row.first), _apart(row.first_quartiles),
                         float(row.second), _apart(row.second_quartiles),
                         None if row.spread is None else f"{100 * row.spread:.1f} %",
                         "**no**" if row in far else "yes") for row in rows])
    return lines + [f"- measured in one pass only: {name}" for name in about.once] + (
        [""] if about.once else [])


def _pictures(folder, name):
    """Links to the pictures of a report."""
    place = os.path.join(folder, "pictures")
    found = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [line for file in found if file.endswith(".svg") and file.startswith(name + "_")
            for line in (f"![{file[:-4].replace('_', ' ')}](pictures/{file})", "")]


def _section(folder, name, report):
    """What a report has."""
    lines = [f"## {TITLES.get(name, name)}", "", *_pictures(folder, name)]
    if "pipelines" in report:
        return lines + _bench(report)
    return lines + _families(report) + _sweeps(report) + _checks(report) + _figures(report)


def write(folder, reports, about):
    """Write REPORT.md.

    Parameters
    ----------
    folder : str
        Where it goes, and where the pictures are in a folder ``pictures``.
    reports : dict of str to dict
        By name.
    about : About
        The rest.
    """
    place = list(TITLES)
    names = sorted(reports, key=lambda name: place.index(name) if name in place else len(place))
    command = f"python3 bench/report_all.py build/.../bin/headrace OUTDIR {about.options}"
    lines = ["# Report", "", "Made by", "", f"    {command}", "", *_machine(reports),
             "## Do two passes agree", "", *_agreement(about)]
    for name in names:
        lines += _section(folder, name, reports[name])
    lines += ["## Timeline of a run", "", *_pictures(folder, "run"), "## Steps", "",
              *table(("step", "seconds", "status"),
                     [(step.name, f"{step.seconds:.0f}", step.status or "done")
                      for step in about.steps])]
    with open(os.path.join(folder, "REPORT.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
