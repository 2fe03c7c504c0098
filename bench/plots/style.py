# SPDX-License-Identifier: Apache-2.0
"""How all pictures look: colours that the colour-blind tell apart, and that differ in grey."""

import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito, "Color Universal Design", 2008
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#BBBBBB"

# each stage by colour, and by hatch where there is no colour; of lines: dots are large in an SVG
STAGES = {
    "read": (SKY, ""), "decode": (ORANGE, "///"), "H2D": (BLUE, ""), "kernel": (GREEN, "xxx"),
    "D2H": (VERMILION, "+++"), "encode": (PURPLE, "\\\\\\"), "write": (GREY, "---"),
}

plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False,
    "figure.constrained_layout.use": True, "hatch.linewidth": 0.5, "svg.hashsalt": "headrace",
    "svg.fonttype": "none",  # text stays text: a tenth of the bytes, and it can be searched
    "axes.axisbelow": True, "grid.color": "#DDDDDD", "grid.linewidth": 0.6,
})


def figure(width, height, rows=1, columns=1, **options):
    """Return a figure and its axes as rows of columns."""
    return plt.subplots(rows, columns, figsize=(width, height), squeeze=False, **options)


def describe(picture, text, machine):
    """Write below a picture what it shows, and where that was measured."""
    picture.supxlabel(f"{text}\n{_about(machine)}", fontsize=8)


def _about(machine):
    """The machine in one line."""
    gpu = machine.get("gpu") or {}
    title = gpu if isinstance(gpu, str) else gpu.get("title", machine.get("device_title", ""))
    cpus = f"{machine.get('usable_cpus', '?')} CPUs"
    words = [title, machine.get("cpu", ""), cpus, machine.get("commit", "")]
    return ", ".join(dict.fromkeys(filter(None, words)))  # of a host, title and cpu are the same


def save(picture, folder, name):
    """Write NAME.svg and NAME.png, and return their names."""
    files = [f"{name}.svg", f"{name}.png"]
    for file in files:
        dated = {"Date": None} if file.endswith("svg") else None
        picture.savefig(os.path.join(folder, file), dpi=150, metadata=dated)
    plt.close(picture)
    return files
