# SPDX-License-Identifier: Apache-2.0
"""What the pictures show, taken from reports; needs no Matplotlib."""

import glob
import json
import os
import statistics

TRACE = ".trace.json"


def read(folder):
    """Return the reports of a folder by name, and the paths of its timelines by name."""
    reports, timelines = {}, {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        name = os.path.basename(path)
        if name.endswith(TRACE):
            timelines[name[:-len(TRACE)]] = path
            continue
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        if isinstance(report.get("cases"), dict) or "pipelines" in report:
            reports[name[:-len(".json")]] = report
    return reports, timelines


def utilisation(report):
    """Return, by pipeline, how busy each of its stages was, 0 to 1: medians of all samples."""
    found = {}
    for name, case in report.get("cases", {}).items():
        samples = [sample for sample in case.get("samples", []) if "stages" in sample]
        stages = {stage for sample in samples for stage, told in sample["stages"].items()
                  if told["capacity"] and told["service_ns"]}
        if stages:
            found[name] = {stage: statistics.median(_busy(sample, stage) for sample in samples)
                           for stage in stages}
    return found


def _busy(sample, stage):
    """Service of a stage over all that its workers, or its engine, could do meanwhile."""
    told = sample["stages"].get(stage)
    wall = sample.get("reported_wall_ns") or sample["wall_ns"]
    return told["service_ns"] / (told["capacity"] * wall) if told and told["capacity"] else 0.0


def sweeps(report):
    """Return the sweeps of a report: the case by file and option."""
    return {(case["file"], name.rpartition(", ")[2]): case
            for name, case in report.get("cases", {}).items() if "points" in case}


def beside_ceiling(report):
    """List pipelines whose ceiling was measured: name, GB/s, GB/s and name of the ceiling, and how
    much of it was reached, which is the median of rounds.

    A report of ``headrace bench`` tells it of each pipeline, one of a case by figures "of CEILING".
    """
    if "pipelines" in report:
        return [(one["name"], one["gigabytes_per_s"], one["ceiling_gigabytes_per_s"],
                 one["ceiling"], one["efficiency"])
                for one in report["pipelines"] if "ceiling_gigabytes_per_s" in one]
    ceilings = {figure["name"][len("ceiling: "):]: figure["value"] for figure in report["figures"]
                if figure["name"].startswith("ceiling: ")}
    found = []
    for figure in report["figures"]:
        case = report["cases"].get(figure["name"], {})
        ceiling = figure["unit"][len("of "):]
        if figure["unit"].startswith("of ") and ceiling in ceilings and "gigabytes_per_s" in case:
            found.append((figure["name"], case["gigabytes_per_s"], ceilings[ceiling], ceiling,
                          figure["value"]))
    return found


def families(report):
    """Return, of a comparison, the rows of each case: name, figures or the reason against.

    A case is a family where it has ``ratios`` and headrace is named; peers that did not run are
    cases "FAMILY: PEER".
    """
    found = {}
    for family, case in report.get("cases", {}).items():
        if "ratios" not in case or not any(name.startswith("headrace") for name in case):
            continue
        rows = [(name, told, "") for name, told in case.items() if name != "ratios"]
        rows += [(name[len(family) + 2:], None, told["not_run"])
                 for name, told in report["cases"].items()
                 if name.startswith(family + ": ") and "not_run" in told]
        found[family] = rows
    return found


def targets(reports):
    """List the figures of all reports that are ratios with a target."""
    return [figure for report in reports.values() for figure in report.get("figures", [])
            if figure["unit"].endswith("/ headrace") and figure["target"] is not None]
