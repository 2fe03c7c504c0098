# SPDX-License-Identifier: Apache-2.0
"""How well two runs on a machine agree: the ratios of one beside those of the other.

A ratio is the median of those of many rounds (``bench/rounds.py``); here two of these medians are
compared, each of a pass of its own.
"""

import collections
import statistics

TOLERANCE = 0.05
RATIOS = ("overlap_efficiency", "efficiency", "gain_measured", "gain_told")

Row = collections.namedtuple("Row", "name first second spread first_quartiles second_quartiles")
Row.__doc__ = """A ratio of two passes.

The spread is the larger one over the smaller one, less 1; None where one is not above 0. Quartiles
are of the rounds of a pass; None where they are not told.
"""


def ratios_of_pipeline(one, every=False):
    """Return those of a pipeline of ``headrace bench`` that mean the same in every run, by name.

    Parameters
    ----------
    one : dict
        The pipeline. What it reaches of its ceiling is a ratio to that ceiling: of another one it
        is another ratio. The gain that is told compares with nothing where stages do several
        things at once.
    every : bool
        Also what it reaches of other parts than the ceiling.

    Returns
    -------
    dict of str to tuple
        Value, and quartiles or None.
    """
    found = {}
    for key in RATIOS:
        words = key.replace("_", " ")
        if key == "efficiency" and "ceiling" in one:
            words += f" (of {one['ceiling']})"
        if key in one and (key != "gain_told" or one.get("gain_told_compares", True)):
            found[f"{one['name']}: {words}"] = one[key], one.get(key + "_quartiles")
    for part, value in one.get("efficiency_by_part", {}).items() if every else ():
        found.setdefault(f"{one['name']}: efficiency (of {part})", (value, None))
    return found


def ratios(report, every=False):
    """Return the ratios of a report by name: what should not depend on how fast the machine is.

    Parameters
    ----------
    report : dict
        Of a case (figures that are of something, or per headrace), or of ``headrace bench``
        (its pipelines).
    every : bool
        See `ratios_of_pipeline`.

    Returns
    -------
    dict of str to tuple
        Value, and quartiles or None.
    """
    found = {}
    for one in report.get("pipelines", []):
        found.update(ratios_of_pipeline(one, every))
    for figure in report.get("figures", []):
        unit = figure["unit"]
        a_ratio = (unit.startswith("of ") or unit.endswith("/ headrace")
                   or unit in ("efficiency", "times"))
        # of a difference, which is to be about 0, there is no ratio
        if a_ratio and not figure["name"].endswith("difference"):
            found[f"{figure['name']} ({unit})"] = figure["value"], figure.get("quartiles")
    return found


def compare(first, second):
    """List what two reports both have, as `Row`.

    Where a pipeline has another ceiling in the second one, it is compared by what it reached there
    of the first one's.
    """
    one, other = ratios(first), ratios(second, every=True)
    rows = []
    for name in one:
        if name in other:
            values = one[name][0], other[name][0]
            low, high = sorted(values)
            rows.append(Row(name, *values, high / low - 1 if low > 0 else None, one[name][1],
                            other[name][1]))
    return rows


def only_once(first, second):
    """List the names of ratios that one of two reports has, and the other has not."""
    sides = (first, second), (second, first)
    return [name for side, beside in sides for name in ratios(side)
            if name not in ratios(beside, every=True)]


def beyond(rows, tolerance=TOLERANCE):
    """Return the rows whose spread is more than is tolerated, the worst first."""
    far = [row for row in rows if row.spread is None or row.spread > tolerance]
    return sorted(far, key=lambda row: float("inf") if row.spread is None else row.spread,
                  reverse=True)


def verdict(rows, tolerance=TOLERANCE):
    """Tell it in a line."""
    if not rows:
        return "no ratio was measured twice"
    far = beyond(rows, tolerance)
    spreads = [row.spread for row in rows if row.spread is not None]
    told = f"{100 * tolerance:.0f} %"
    if spreads:
        told += (f" (median spread {100 * statistics.median(spreads):.1f} %, largest "
                 f"{100 * max(spreads):.1f} %)")
    if not far:
        return f"two passes agree on all {len(rows)} ratios within {told}"
    return (f"two passes agree on {len(rows) - len(far)} of {len(rows)} ratios within {told}; "
            "these do not:")
