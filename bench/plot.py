# SPDX-License-Identifier: Apache-2.0
"""Draw the ratios of a folder of results, each beside its target, by Matplotlib.

Usage: python3 bench/plot.py RESULTS-FOLDER IMAGE.svg|.png
"""

import glob
import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def ratios(folder):
    """Return the machine and the figures that are ratios with a target, of all reports."""
    about, figures = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        about = report["machine"]
        figures += [figure for figure in report.get("figures", [])
                    if figure["unit"].endswith("/ headrace") and figure["target"] is not None]
    return about, figures


def draw(about, figures, image):
    """Draw a bar for each figure and a line at its target."""
    axes = plt.figure(figsize=(9, 0.5 * len(figures) + 1.5), layout="constrained").subplots()
    places = range(len(figures))
    bars = axes.barh(places, [figure["value"] for figure in figures],
                     color=["tab:green" if figure["met"] else "tab:red" for figure in figures])
    axes.bar_label(bars, fmt="%.2f", padding=4)
    for place, figure in zip(places, figures):
        axes.plot([figure["target"]] * 2, [place - 0.45, place + 0.45], color="black")
    axes.set_yticks(places, [f"{figure['name']}\n({figure['unit']})" for figure in figures])
    axes.invert_yaxis()
    axes.set_xlabel("time of the other / time of headrace; the line is the target")
    axes.set_title(f"{about['cpu']}, {about['usable_cpus']} CPUs, {about['commit']}", fontsize=9)
    axes.margins(x=0.1)
    plt.savefig(image)


def main():
    """Read, draw."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    about, figures = ratios(sys.argv[1])
    if not figures:
        raise SystemExit(f"{sys.argv[1]}: no ratios with a target there")
    draw(about, figures, sys.argv[2])


if __name__ == "__main__":
    main()
