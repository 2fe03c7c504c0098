# SPDX-License-Identifier: Apache-2.0
"""Where the elements of an array lie: shapes, strides in bytes, and parts by NumPy's indices."""

from __future__ import annotations

import functools
import operator
from typing import Any, Optional

import numpy

Shape = tuple[int, ...]

_kept = functools.lru_cache(maxsize=256)  # chunks have the same shape again and again


@_kept
def product(shape: Shape) -> int:
    """How many elements a shape has."""
    n = 1
    for length in shape:
        n *= length
    return n


@_kept
def strides_of(shape: Shape, order: str, width: int) -> Shape:
    """Bytes from one element to the next, of each axis, where there are no gaps.

    Examples
    --------
    >>> strides_of((2, 3), "C", 4), strides_of((2, 3), "F", 4)
    ((12, 4), (4, 8))
    """
    strides = [0] * len(shape)
    axes = range(len(shape))
    for axis in axes if order == "F" else reversed(axes):
        strides[axis] = width
        width *= max(shape[axis], 1)
    return tuple(strides)


@_kept
def order_of(shape: Shape, strides: Optional[Shape], width: int) -> Optional[str]:
    """The order in which elements lie without gaps.

    Parameters
    ----------
    shape : tuple of int
        Elements of each axis.
    strides : tuple of int or None
        Bytes from one to the next, of each axis; None: C order.
    width : int
        Bytes of an element.

    Returns
    -------
    str or None
        "C", "F"; None: neither.

    Examples
    --------
    >>> order_of((2, 3), (12, 4), 4), order_of((2, 3), (4, 8), 4), order_of((2, 3), (24, 8), 4)
    ('C', 'F', None)
    >>> order_of((1, 3), (999, 4), 4), order_of((0, 3), (1, 1), 4)
    ('C', 'C')
    """
    if strides is None or 0 in shape:
        return "C"
    for order, axes in (("C", range(len(shape) - 1, -1, -1)), ("F", range(len(shape)))):
        wanted, fits = width, True
        for axis in axes:
            fits = fits and (shape[axis] == 1 or strides[axis] == wanted)
            wanted *= shape[axis]
        if fits:
            return order
    return None


def copy_of(order: Optional[str]) -> str:
    """What to do where elements do not lie as they are wanted, for messages."""
    return "use its transpose, .T, or .copy()" if order == "F" else "use .copy()"


@_kept
def as_other(shape: Shape, strides: Shape, width: int, other: int) -> tuple[Shape, Shape]:
    """The same bytes as elements of another width, in the last axis.

    Parameters
    ----------
    shape, strides : tuple of int
        Of what there is, strides in bytes.
    width, other : int
        Bytes of an element there, and of one that is wanted.

    Returns
    -------
    shape, strides : tuple of int
        Of what is wanted.

    Raises
    ------
    ValueError
        The bytes of the last axis are no whole elements, or do not lie together.

    Examples
    --------
    >>> as_other((2, 6), (12, 2), 2, 4)
    ((2, 3), (12, 4))
    """
    if width == other:
        return shape, strides
    last = (shape[-1] if shape else 1) * width
    if not shape or last % other:
        raise ValueError(f"{last} bytes of the last axis are no whole elements of {other} bytes")
    if strides[-1] != width and shape[-1] != 1:
        hint = copy_of(order_of(shape, strides, width))
        raise ValueError(f"elements of the last axis do not lie together: {hint}")
    return (*shape[:-1], last // other), (*strides[:-1], other)


def span(shape: Shape, strides: Shape, width: int) -> int:
    """Bytes from the first element to the end of the last one, gaps included.

    Examples
    --------
    >>> span((2, 3), (40, 8), 4), span((0, 3), (40, 8), 4), span((), (), 4)
    (60, 0, 4)
    """
    if 0 in shape:
        return 0
    return width + sum((n - 1) * stride for n, stride in zip(shape, strides))


def part(shape: Shape, strides: Shape, key: Any) -> tuple[int, Shape, Shape]:
    """What an index selects.

    Parameters
    ----------
    shape, strides : tuple of int
        Of the whole, strides in bytes.
    key : int, slice, None, Ellipsis or tuple of these
        As NumPy has them; steps of slices are positive.

    Returns
    -------
    offset : int
        Bytes from the first element of the whole to that of the part.
    shape, strides : tuple of int
        Of the part.

    Raises
    ------
    IndexError
        Beyond the end of an axis, or more indices than axes.
    TypeError
        Another key.
    ValueError
        A step that is not positive.

    Examples
    --------
    >>> part((4, 6), (24, 4), (2, slice(1, None, 2)))
    (52, (3,), (8,))
    >>> part((4, 6), (24, 4), (..., None, 0))
    (0, (4, 1), (24, 0))
    """
    keys = key if isinstance(key, tuple) else (key,)
    if not any(one is Ellipsis for one in keys):
        keys = (*keys, Ellipsis)
    elided = len(shape) - sum(one is not None and one is not Ellipsis for one in keys)
    if elided < 0 or sum(one is Ellipsis for one in keys) > 1:
        raise IndexError(f"an index of more than the array's {len(shape)} axes, or of two '...'")
    offset, axis = 0, 0
    axes: list[tuple[int, int]] = []
    for one in keys:
        if one is None:
            axes.append((1, 0))
        elif one is Ellipsis:
            axes += zip(shape[axis : axis + elided], strides[axis : axis + elided])
            axis += elided
        else:
            first, n, step = _range(one, shape[axis])
            offset += first * strides[axis]
            if n is not None:
                axes.append((n, step * strides[axis]))
            axis += 1
    return offset, tuple(n for n, _ in axes), tuple(stride for _, stride in axes)


def _range(key: Any, length: int) -> tuple[int, Optional[int], int]:
    """The first element of an axis, how many, and the step; None: one, without an axis."""
    if isinstance(key, slice):
        begin, end, step = key.indices(length)
        if step < 0:
            raise ValueError("the step of an Array's slice must be above 0; array.numpy() has all")
        n = max(0, -((begin - end) // step))
        return (begin if n else 0), n, step
    try:
        at = None if isinstance(key, (bool, numpy.bool_)) else operator.index(key)
    except TypeError:
        at = None
    if at is None:
        raise TypeError(
            "an Array is indexed by integers, slices, None and ...: masks and lists are for NumPy, "
            "array.numpy()"
        )
    if not -length <= at < length:
        raise IndexError(f"index {at} of {length}")
    return at % length, None, 1
