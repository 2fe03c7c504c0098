# SPDX-License-Identifier: Apache-2.0
"""Integers that users give and C takes: checked where their names are known."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any


def size(name: str, given: Any, bits: int = 32, least: int = 0) -> int:
    """An integer that is not negative.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    given : int or object with ``__index__``
        What the user gave: also NumPy's integers, but no bool.
    bits : int, default 32
        As many as C has for it.
    least : int, default 0
        The smallest that is possible.

    Returns
    -------
    int

    Raises
    ------
    TypeError, ValueError
        No integer; or one that is not possible. The text names the argument and the range.

    Examples
    --------
    >>> size("depth", 4)
    4
    >>> size("depth", -1)
    Traceback (most recent call last):
    ValueError: depth is -1: from 0 to 2^32 - 1 is possible
    """
    try:
        number = operator.index(given)
    except TypeError:
        number = None
    if number is None or isinstance(given, bool):
        raise TypeError(f"{name} is {given!r}: an integer is wanted")
    if not least <= number < 1 << bits:
        raise ValueError(f"{name} is {number}: from {least} to 2^{bits} - 1 is possible")
    return number


def lengths(name: str, given: Any, least: int = 0) -> tuple[int, ...]:
    """A shape.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    given : int or iterable of int
        One axis, or all.
    least : int, default 0
        The smallest length that is possible; -1 where one axis may be left to find.

    Returns
    -------
    tuple of int

    Raises
    ------
    TypeError, ValueError
        As `size`.

    Examples
    --------
    >>> lengths("shape", 3), lengths("shape", [2, 3])
    ((3,), (2, 3))
    """
    axes = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    return tuple(size(name, length, 63, least) for length in axes)
