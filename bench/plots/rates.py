# SPDX-License-Identifier: Apache-2.0
"""Rates: pipelines beside ceilings, headrace beside its peers, and ratios beside targets."""

from plots import style

OURS = "headrace"


def ceilings(rows, machine):
    """A bar for each pipeline, a mark at what its slowest part reaches alone."""
    picture, [[axes]] = style.figure(7.5, 0.34 * len(rows) + 1.1)
    for place, (_, rate, ceiling, _, reached) in enumerate(rows):
        axes.barh(place, rate, color=style.SKY, edgecolor="black", linewidth=0.4)
        axes.plot([ceiling] * 2, [place - 0.45, place + 0.45], color="black", linewidth=2)
        axes.annotate(f"{rate:.3g} of {ceiling:.3g}: {100 * reached:.0f} %",
                      (max(rate, ceiling), place), (5, 0), textcoords="offset points",
                      va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{name}\n({of})" for name, _, _, of, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.22)
    style.describe(picture, "GB/s; line: what the part in parentheses reaches alone", machine)
    return picture


def peers(found, machine):
    """A panel for each family: headrace and its peers, the fastest first; those not run last."""
    heights = [len(rows) + 1.5 for rows in found.values()]
    picture, columns = style.figure(7.8, 0.25 * sum(heights) + 0.5, len(found), 1,
                                    height_ratios=heights)
    for (family, rows), [axes] in zip(found.items(), columns):
        _family(axes, family, rows)
    style.describe(picture, "GB/s, decoded; wall and CPU seconds; ×: times headrace's time, the "
                            "median of rounds and quartiles", machine)
    return picture


def _family(axes, family, rows):
    """One panel."""
    rows = sorted(rows, key=lambda row: -row[1]["gigabytes_per_s"] if row[1] else 0)
    for place, (name, told, why) in enumerate(rows):
        if not told:
            axes.text(0, place, f" {why.partition(chr(10))[0][:70]}", va="center", fontsize=7,
                      style="italic", color="#555555")
            continue
        ours, ceiling = name.startswith(OURS), "ceiling" in name
        bar = axes.barh(place, told["gigabytes_per_s"], edgecolor="black", linewidth=0.4,
                        color=style.BLUE if ours else "white" if ceiling else style.ORANGE,
                        hatch="" if ours else "\\\\\\" if ceiling else "///")
        axes.bar_label(bar, [f"{told['gigabytes_per_s']:.2f}   {told['wall_s']['median']:.3f} s, "
                             f"{told['cpu_s_median']:.2f} s{_times(told)}"], padding=3, fontsize=7)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=7)
    for label, (name, _, _) in zip(axes.get_yticklabels(), rows):
        label.set_fontweight("bold" if name.startswith(OURS) else "normal")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.45)
    axes.set_title(family, loc="left", fontweight="bold")
    axes.grid(axis="x")


def _times(told):
    """How many times headrace's time, with quartiles; empty where that was not measured."""
    if "ratio" not in told:
        return ""
    low, high = told["ratio"]["quartiles"]
    return f"   × {told['ratio']['median']:.2f} ({low:.2f} to {high:.2f})"


def ratios(figures, machine):
    """A bar for each ratio, and a line at its target."""
    picture, [[axes]] = style.figure(8, 0.36 * len(figures) + 1.1)
    places = range(len(figures))
    bars = axes.barh(places, [figure["value"] for figure in figures], edgecolor="black",
                     color=[style.SKY if figure["met"] else style.VERMILION for figure in figures],
                     linewidth=0.4)
    for bar, figure in zip(bars, figures):
        bar.set_hatch("" if figure["met"] else "xxx")
    axes.bar_label(bars, [f"{figure['value']:.2f}" + ("" if figure["met"] else "  not met")
                          for figure in figures], padding=4, fontsize=8)
    for place, figure in zip(places, figures):
        axes.plot([figure["target"]] * 2, [place - 0.45, place + 0.45], color="black", linewidth=2)
    axes.set_yticks(places, [f"{figure['name']}\n({figure['unit']})" for figure in figures],
                    fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    style.describe(picture, "time of the other / time of headrace; line: the target", machine)
    return picture
