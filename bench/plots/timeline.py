# SPDX-License-Identifier: Apache-2.0
"""A timeline: a band for each stage, in it the chunks on their way."""

from plots import style

MOST_LANES = 16  # of a stage that are as tall as others; more share that height


def draw(stages, title):
    """Bands of lanes; two shades in turn, and the number of the chunk where there is room."""
    n_lanes = sum(min(len(lanes), MOST_LANES) for lanes in stages.values())
    picture, [[axes]] = style.figure(9, 0.16 * n_lanes + 0.35 * len(stages) + 1)
    begin = min(span[0] for lanes in stages.values() for lane in lanes for span in lane)
    end = max(span[0] + span[1] for lanes in stages.values() for lane in lanes for span in lane)
    place, ticks = 0.0, []
    for stage, lanes in stages.items():
        height = max(3, min(len(lanes), MOST_LANES)) / len(lanes)  # one lane is as tall as three
        ticks.append(place + height * len(lanes) / 2)
        for lane in lanes:
            _lane(axes, stage, lane, (place, height), begin, end)
            place += height
        place += 1
    axes.set_yticks(ticks, list(stages))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(place - 1, 0)
    axes.set_xlim(0, end - begin)
    axes.set_xlabel(f"ms, from the middle of {title.replace('_', ' ')}; chunks are numbered")
    axes.grid(axis="x")
    return picture


def _lane(axes, stage, spans, where, begin, end):
    """The spans of one lane."""
    colour, hatch = style.STAGES.get(stage, (style.GREY, ""))
    place, height = where
    for start, length, chunk in spans:
        axes.broken_barh([(start - begin, length)], (place + 0.05 * height, 0.9 * height),
                         facecolor=colour, alpha=1 if chunk % 2 else 0.55, hatch=hatch,
                         edgecolor="black", linewidth=0.5)
        if length > 0.009 * len(str(chunk)) * (end - begin) and height >= 1:
            axes.text(start - begin + length / 2, place + height / 2, str(chunk), ha="center",
                      va="center", fontsize=6,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8})
