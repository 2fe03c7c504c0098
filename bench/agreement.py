# SPDX-License-Identifier: Apache-2.0
"""How well two runs on a machine agree: the ratios of one beside those of the other."""

import statistics

TOLERANCE = 0.05
RATIOS = ("overlap_efficiency", "efficiency", "gain_measured", "gain_told")


def ratios_of_pipeline(one):
    """Return those of a pipeline of ``headrace bench`` that mean the same in every run, by name.

    What it reaches of its ceiling is a ratio to that ceiling: of another one it is another ratio. The
    gain that is told compares with nothing where stages do several things at once.
    """
    found = {}
    for key in RATIOS:
        words = key.replace("_", " ")
        if key == "efficiency" and "ceiling" in one:
            words += f" (of {one['ceiling']})"
        if key in one and (key != "gain_told" or one.get("gain_told_compares", True)):
            found[f"{one['name']}: {words}"] = one[key]
    return found


def ratios(report):
    """Return the ratios of a report by name: what should not depend on how fast the machine is.

    Parameters
    ----------
    report : dict
        Of a case (figures that are of something, or per headrace), or of ``headrace bench``
        (its pipelines).
    """
    found = {}
    for one in report.get("pipelines", []):
        found.update(ratios_of_pipeline(one))
    for figure in report.get("figures", []):
        unit = figure["unit"]
        a_ratio = (unit.startswith("of ") or unit.endswith("/ headrace")
                   or unit in ("efficiency", "times"))
        # of a difference, which is to be about 0, there is no ratio
        if a_ratio and not figure["name"].endswith("difference"):
            found[f"{figure['name']} ({unit})"] = figure["value"]
    return found


def compare(first, second):
    """List what two reports both have: name, both values, and the spread.

    Returns
    -------
    list of tuple
        The spread is the larger value over the smaller one, less 1; None where one is not above 0.
    """
    one, other = ratios(first), ratios(second)
    rows = []
    for name in one:
        if name in other:
            low, high = sorted((one[name], other[name]))
            rows.append((name, one[name], other[name], high / low - 1 if low > 0 else None))
    return rows


def beyond(rows, tolerance=TOLERANCE):
    """Return the rows whose spread is more than is tolerated, the worst first."""
    far = [row for row in rows if row[3] is None or row[3] > tolerance]
    return sorted(far, key=lambda row: float("inf") if row[3] is None else row[3], reverse=True)


def verdict(rows, tolerance=TOLERANCE):
    """Tell it in a line."""
    if not rows:
        return "no ratio was measured twice"
    far = beyond(rows, tolerance)
    spreads = [row[3] for row in rows if row[3] is not None]
    told = f"{100 * tolerance:.0f} %"
    if spreads:
        told += (f" (median spread {100 * statistics.median(spreads):.1f} %, largest "
                 f"{100 * max(spreads):.1f} %)")
    if not far:
        return f"two passes agree on all {len(rows)} ratios within {told}"
    return (f"two passes agree on {len(rows) - len(far)} of {len(rows)} ratios within {told}; "
            "these do not:")
