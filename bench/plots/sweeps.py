# SPDX-License-Identifier: Apache-2.0
"""Throughput against chunk size, depth, streams and threads."""

from plots import style

AXES = {"chunk": "chunk size (bytes)", "depth": "depth (chunks)",
        "streams": "streams (of a kernel)", "threads": "threads"}


def draw(cases, machine):
    """A row for each file, a column for each option; all of a row have the same scale."""
    files = list(dict.fromkeys(file for file, _ in cases))
    options = [option for option in AXES if any(option == other for _, other in cases)]
    picture, rows = style.figure(2.3 * len(options) + 0.6, 2.1 * len(files) + 0.4, len(files),
                                 len(options), sharey="row")
    for file, row in zip(files, rows):
        for option, axes in zip(options, row):
            if (file, option) in cases:
                _panel(axes, cases[file, option])
            else:
                axes.set_axis_off()
            axes.set_xlabel(AXES[option])
        row[0].set_ylabel(f"{file} file\nGB/s, decoded")
        row[0].set_ylim(bottom=0)
    style.describe(picture, "median, and least to most; dashed: with the defaults", machine)
    return picture


def _panel(axes, case):
    """The points of one option."""
    points = sorted((one for one in case["points"] if one["value"] is not None),
                    key=lambda one: one["value"])
    rates = [one["gigabytes_per_s"] for one in points]
    spread = [[rate - case["bytes"] / one["wall_s"]["max"] / 1e9
               for rate, one in zip(rates, points)],
              [case["bytes"] / one["wall_s"]["min"] / 1e9 - rate
               for rate, one in zip(rates, points)]]
    axes.errorbar([one["value"] for one in points], rates, spread, color=style.BLUE, marker="o",
                  markersize=4, capsize=2, linewidth=1.2)
    for one in case["points"]:
        if one["value"] is None:
            axes.axhline(one["gigabytes_per_s"], color=style.VERMILION, linestyle="--",
                         linewidth=1)
    axes.set_xscale("log", base=2)
    ticks = points[:: -(-len(points) // 5)]
    axes.set_xticks([one["value"] for one in ticks], [one["label"] for one in ticks])
    axes.minorticks_off()
    axes.grid(axis="y")
