# SPDX-License-Identifier: Apache-2.0
"""Draw the results of the bench, by Matplotlib, as SVG and PNG.

Usage: python3 bench/plot.py RESULTS-FOLDER OUT-FOLDER

Of each report what it has: how busy the stages were, throughput against options, pipelines beside
ceilings, headrace beside peers, ratios beside targets; and each timeline NAME.trace.json. Prints
the names of the pictures.
"""

import os
import sys

from plots import data, rates, style, sweeps, timeline, trace, utilisation

CHUNKS = 16  # of a timeline: more cannot be told apart


def pictures(reports, timelines):
    """Yield pictures and their names."""
    for name, report in reports.items():
        machine = report.get("machine", {})
        for kind, shown, draw in (
                ("utilisation", data.utilisation(report), utilisation.draw),
                ("sweep", data.sweeps(report), sweeps.draw),
                ("ceilings", data.beside_ceiling(report), rates.ceilings),
                ("peers", data.families(report), rates.peers)):
            if shown:
                yield f"{name}_{kind}", draw(shown, machine)
    targets = data.targets(reports)
    if targets:
        yield "ratios", rates.ratios(targets, next(iter(reports.values()))["machine"])
    for name, path in timelines.items():
        events = trace.read(path)
        if trace.tracks(events["traceEvents"]):
            stages = trace.by_stage(events, trace.stride(events, CHUNKS))
            yield f"{name}_timeline", timeline.draw(stages, name)


def main():
    """Read, draw."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    reports, timelines = data.read(sys.argv[1])
    if not reports and not timelines:
        raise SystemExit(f"{sys.argv[1]}: no results there")
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, picture in pictures(reports, timelines):
        print(*style.save(picture, sys.argv[2], name))


if __name__ == "__main__":
    main()
