# SPDX-License-Identifier: Apache-2.0
"""Reads and checks a timeline in the Trace Event format, as ``headrace run --trace`` writes it.

Usage: python3 bench/plots/trace.py FILE    prints what is wrong with it, or how much is in it

The format is Google's "Trace Event Format": sections "JSON Object Format", "Complete Events" (ph X)
and "Metadata Events" (ph M). Perfetto and chrome://tracing open it.
"""

import collections
import json
import numbers
import sys

NAMES = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def faults(trace):
    """List what is wrong with a timeline; empty if nothing is.

    Parameters
    ----------
    trace : object
        The parsed JSON.
    """
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no list traceEvents in an object"]
    found = []
    if trace.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    events = trace["traceEvents"]
    named = {name: set() for name in NAMES}
    for at, event in enumerate(events):
        why = _fault_of(event, named)
        if why:
            found.append(f"event {at}: {why}: {json.dumps(event)[:120]}")
    if found:
        return found
    for track, spans in tracks(events).items():
        if track not in named["thread_name"]:
            found.append(f"track {track} has no name")
        found += _faults_of_track(track, spans)
    return found


def _fault_of(event, named):
    """Tell what is wrong with an event, and keep what is named; empty if nothing is."""
    if not isinstance(event, dict):
        return "no object"
    for key, kind in (("name", str), ("ph", str), ("pid", int), ("tid", int)):
        if not isinstance(event.get(key), kind):
            return f"{key} is not there, or not {kind.__name__}"
    if event["ph"] == "M":
        return _fault_of_name(event, named)
    if event["ph"] != "X":
        return f"ph {event['ph']} is neither M nor X"
    for key in ("ts", "dur"):
        if not isinstance(event.get(key), numbers.Real) or event[key] < 0:
            return f"{key} is not there, or no time"
    return ""


def _fault_of_name(event, named):
    """The same, of an event that names something."""
    if event["name"] not in NAMES:
        return f"unknown metadata {event['name']}"
    if NAMES[event["name"]] not in event.get("args", {}):
        return f"args has no {NAMES[event['name']]}"
    track = event["pid"], event["tid"]
    if track in named[event["name"]]:
        return "named twice"
    named[event["name"]].add(track)
    return ""


def _faults_of_track(track, spans):
    """Spans of a track are in order, and none begins before the one before it has ended."""
    end = 0
    for span in spans:
        begin = _ns(span["ts"])
        if begin < end:
            return [f"track {track}: {span['name']} at {span['ts']} begins before the last one's "
                    "end"]
        end = begin + _ns(span["dur"])
    return []


def _ns(microseconds):
    """Whole nanoseconds: three decimals are written."""
    return round(microseconds * 1000)


def tracks(events):
    """Return lists of spans by track (process and thread), in the order of the file."""
    found = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def stride(trace, n_chunks):
    """Return begin and end, in ms, of some chunks from the middle of what the last stage did.

    Parameters
    ----------
    trace : dict
        The parsed JSON.
    n_chunks : int
        How many; a timeline that has no more is meant as a whole.
    """
    *_, last = by_stage(trace).values()
    spans = sorted(span for lane in last for span in lane)
    if len(spans) <= n_chunks:
        return 0.0, float("inf")
    begin = (len(spans) - n_chunks) // 2
    shown = spans[begin : begin + n_chunks]
    return shown[0][0], max(start + length for start, length, _ in shown)


def by_stage(trace, between=(0.0, float("inf"))):
    """Return, by stage, the lanes of spans, in the order of the pipeline; times in ms.

    Parameters
    ----------
    trace : dict
        The parsed JSON.
    between : tuple of float
        Begin and end of what is shown, in ms: spans are cut there.
    """
    found = {}
    for _, spans in sorted(tracks(trace["traceEvents"]).items()):
        shown = [cut for cut in (_cut(span, *between) for span in spans) if cut]
        if shown:
            found.setdefault(spans[0]["name"], []).append(shown)
    return found


def _cut(span, begin, end):
    """The part of a span that lies between two times, as its begin, length and chunk; or None."""
    starts, stops = span["ts"] / 1e3, (span["ts"] + span["dur"]) / 1e3
    if stops < begin or starts > end:
        return None
    starts = max(starts, begin)
    return starts, min(stops, end) - starts, span["args"]["chunk"]


def read(path):
    """Return the parsed JSON of a file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    """Read, check, tell."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    trace = read(sys.argv[1])
    found = faults(trace)
    for fault in found[:20]:
        print(fault)
    if found:
        raise SystemExit(f"{sys.argv[1]}: {len(found)} faults")
    spans = tracks(trace["traceEvents"])
    print(f"{sum(map(len, spans.values()))} spans on {len(spans)} tracks")


if __name__ == "__main__":
    main()
