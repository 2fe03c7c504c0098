# SPDX-License-Identifier: Apache-2.0
"""Ratios that a noisy machine does not move: each of runs next to each other in time.

A machine that is slow for seconds slows both sides of a round, and not their ratio; a run that is
held up spoils a round, and not the median of many. Half of the time is shared by all pairs alike,
spread over it, so that each sees the machine's good and bad seconds; the other half goes to those
whose ratio is least sure.
"""

import statistics
import time

LEAST = 5
MOST = 60  # of the time that all share
SURE = 0.005  # of the ratio: no pair needs to be surer
MOST_BESIDE = 2  # runs of a faster side before, and behind, one of the slower side


def summary(values):
    """Return the median of what rounds say, the quartiles, and how many rounds there were.

    Parameters
    ----------
    values : list of float
        One of each round.
    """
    low = high = values[0]
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": statistics.median(values), "quartiles": [low, high], "rounds": len(values)}


class Duel:
    """Two things that are measured beside each other.

    Parameters
    ----------
    ours, theirs : callable
        Runs once and returns wall and CPU seconds.
    about : object
        What it is, for the caller.

    Attributes
    ----------
    runs : tuple of list
        Of each side what its runs returned.
    rounds : list of tuple
        Wall seconds of both sides in each round.
    """

    def __init__(self, ours, theirs, about=None):
        self.sides = ours, theirs
        self.about = about
        self.runs = [], []
        self.rounds = []
        self.spent_s = 0.0

    def ratio(self):
        """Return the `summary` of how many times our time theirs is."""
        return summary([theirs / ours for ours, theirs in self.rounds])

    def wanted(self, share_s):
        """Return how many rounds fit into a share of the time; at least `LEAST`."""
        done = max(len(self.rounds), 1)
        return max(LEAST, min(MOST, share_s * done / self.spent_s if self.spent_s else MOST))

    def error(self):
        """Return the standard error of the median ratio, as a part of it.

        That of a normal distribution's median, 1.253 sigma / sqrt(n), where sigma is the distance of
        the quartiles / 1.349.
        """
        ratio = self.ratio()
        low, high = ratio["quartiles"]
        return 1.253 / 1.349 * (high - low) / ratio["median"] / ratio["rounds"] ** 0.5

    def run(self):
        """Run a round.

        Two that take about as long: A/B, and B/A in the next round. Else the faster side runs
        before and behind the slower one, and the median of its runs stands beside that.
        """
        taken = [], []
        for side in self._order():
            taken[side].append(self.sides[side]())
        for side in (0, 1):
            self.runs[side].extend(taken[side])
            self.spent_s += sum(wall for wall, _ in taken[side])
        self.rounds.append(tuple(statistics.median(wall for wall, _ in of) for of in taken))

    def _order(self):
        """Return which sides run in the next round, one after the other."""
        seconds = [statistics.median(of) for of in zip(*self.rounds)] or [1, 1]
        fast = seconds.index(min(seconds))
        beside = [fast] * min(MOST_BESIDE, int(seconds[1 - fast] / seconds[fast] / 2))
        return [*beside, 1 - fast, *beside] if beside else [(0, 1), (1, 0)][len(self.rounds) % 2]


def in_turn(duels, seconds, failed, clock=time.monotonic, ran=lambda: None):
    """Measure duels until the time is over or all are sure, but each at least `LEAST` times.

    Parameters
    ----------
    duels : list of Duel
        All have been warmed up. One that fails is taken out.
    seconds : float
        For all of them together.
    failed : callable
        Told a duel and its exception.
    clock : callable
        Seconds.
    ran : callable
        Called after each round.
    """
    begun = clock()
    share_s = seconds / 2 / max(len(duels), 1)
    while True:
        spent_s = clock() - begun
        if spent_s < seconds / 2:
            duel = _least_done(duels, lambda one: one.wanted(share_s))
        else:
            duel = _least_done(duels, lambda one: LEAST)
        if not duel and spent_s < seconds:
            duel = _least_sure(duels)
        if not duel:
            return
        try:
            duel.run()
        except Exception as error:  # noqa: BLE001 - code of others; the rest is to be measured
            duels.remove(duel)
            failed(duel, error)
        ran()


def _least_done(duels, wanted):
    """Return the one that has the least part of the rounds that are wanted of it; None: all have."""
    left = [duel for duel in duels if len(duel.rounds) < wanted(duel)]
    return min(left, key=lambda duel: len(duel.rounds) / wanted(duel), default=None)


def _least_sure(duels):
    """Return the one whose ratio has the greatest error; None: all are sure."""
    left = [duel for duel in duels if duel.error() > SURE]
    return max(left, key=Duel.error, default=None)
