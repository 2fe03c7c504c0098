# SPDX-License-Identifier: Apache-2.0
"""How busy each stage of each pipeline was."""

from plots import style


def draw(pipelines, machine):
    """A column for each stage, a row for each pipeline; the busiest of a row is marked."""
    stages = [stage for stage in style.STAGES
              if any(stage in busy for busy in pipelines.values())]
    height = 0.28 * len(pipelines) + 1.1
    picture, rows = style.figure(2.4 + 1.25 * len(stages), height, 1, len(stages), sharey=True)
    places = range(len(pipelines))
    for axes, stage in zip(rows[0], stages):
        colour, hatch = style.STAGES[stage]
        values = [100 * busy.get(stage, 0) for busy in pipelines.values()]
        marked = [busy.get(stage, 0) == max(busy.values()) for busy in pipelines.values()]
        bars = axes.barh(places, values, color=colour, hatch=hatch, edgecolor="black",
                         linewidth=[1.8 if mark else 0.4 for mark in marked])
        labels = axes.bar_label(bars, [f"{value:.0f}" if value else "" for value in values],
                                padding=2, fontsize=7)
        for label, mark in zip(labels, marked):
            label.set_fontweight("bold" if mark else "normal")
        axes.set_xlim(0, 125)
        axes.set_xticks([0, 50, 100])
        axes.set_title(stage)
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
    rows[0][0].set_yticks(places, list(pipelines))
    rows[0][0].invert_yaxis()
    style.describe(picture, "busy, % of the wall time; bold: the busiest", machine)
    return picture
