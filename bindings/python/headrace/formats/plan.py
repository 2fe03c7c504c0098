# SPDX-License-Identifier: Apache-2.0
"""From tensors that are asked for to the byte ranges to read and the places to put them.

The bytes of a sliced tensor form a grid: runs of one length, at the sums of a few strides. A grid
is a handful of numbers however many runs it has; the offsets are written out only when asked for.

    shape (4, 6), slice [1:3, 2:5]        begin 8, run of 3, counts (2,), strides (6,)
      . . . . . .
      . . # # # .
      . . # # # .
      . . . . . .
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from .._dtypes import DType, cast_kernel
from .tensor import TensorInfo, quote

__all__ = ["ALIGN", "Grid", "Placed", "Plan", "merged", "plan"]

ALIGN = 256  # of each tensor in the destination: what GPU libraries want of a pointer


@dataclass(frozen=True)
class Grid:
    """Runs of bytes in a file, in the order in which the result wants them.

    Attributes
    ----------
    begin : int, bytes
        Offset of the first run.
    run_bytes : int, bytes
        Length of each.
    counts : tuple of int
        How many runs along each stride, slowest first; () is one run, a 0 none.
    strides : tuple of int, bytes
        From one to the next along each; positive.
    """

    begin: int
    run_bytes: int
    counts: Tuple[int, ...]
    strides: Tuple[int, ...]

    @property
    def n_runs(self) -> int:
        """Number of separate ranges."""
        return math.prod(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes in all runs together."""
        return self.n_runs * self.run_bytes

    @property
    def covering(self) -> Tuple[int, int]:
        """Half-open range from the first run to the end of the last; empty if there are none."""
        if self.n_runs == 0:
            return self.begin, self.begin
        span = sum((n - 1) * stride for n, stride in zip(self.counts, self.strides))
        return self.begin, self.begin + span + self.run_bytes

    def offsets(self) -> NDArray[np.int64]:
        """Offsets of all runs in the file.

        Returns
        -------
        numpy.ndarray of int64, shape (n_runs,), bytes
            New memory, 8 bytes a run; ascending.

        Examples
        --------
        >>> Grid(8, 3, (2,), (6,)).offsets()
        array([ 8, 14])
        """
        result = np.full((), self.begin, np.int64)
        for count, stride in zip(self.counts, self.strides):
            result = result[..., np.newaxis] + np.arange(count, dtype=np.int64) * stride
        return result.reshape(-1)

    def cut(self, covering: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The runs within the bytes of the covering range.

        Parameters
        ----------
        covering : numpy.ndarray of uint8, shape (covering[1] - covering[0],)
            What was read from there.

        Returns
        -------
        numpy.ndarray of uint8, shape counts + (run_bytes,)
            A read-only view; it holds ``covering`` alive. Copying it out in C order gives the
            data.

        Raises
        ------
        ValueError
            Another length.

        Examples
        --------
        >>> Grid(8, 3, (2,), (6,)).cut(np.arange(8, 17, dtype=np.uint8)).tolist()
        [[8, 9, 10], [14, 15, 16]]
        """
        begin, end = self.covering
        if covering.shape != (end - begin,) or covering.dtype != np.uint8:
            raise ValueError(f"wants {end - begin} bytes, not {covering.shape} {covering.dtype}")
        step = covering.strides[0]
        return np.lib.stride_tricks.as_strided(
            covering,
            (*self.counts, self.run_bytes),
            (*(stride * step for stride in self.strides), step),
            writeable=False,
        )


@dataclass(frozen=True)
class Placed:
    """One tensor of a plan.

    Attributes
    ----------
    info : TensorInfo
        The whole tensor, in the file.
    shape : tuple of int
        Of the part that is wanted, counts of elements. Its order is that of ``info``.
    source : Grid
        What to read.
    target : DType
        Type in the destination, after a cast.
    offset : int, bytes
        In the destination; a multiple of the plan's alignment.
    nbytes : int, bytes
        In the destination.
    """

    info: TensorInfo
    shape: Tuple[int, ...]
    source: Grid
    target: DType
    offset: int
    nbytes: int

    @property
    def kernels(self) -> Tuple[str, ...]:
        """Texts of the built-in kernels that the data go through, in order; () mostly."""
        swap = f"bswap:{self.info.swap}" if self.info.swap else ""
        return tuple(text for text in (swap, cast_kernel(self.info.dtype, self.target)) if text)

    @property
    def stored_shape(self) -> Tuple[int, ...]:
        """The shape of a NumPy array of ``target.numpy`` that holds the result."""
        return self.target.stored_shape(self.shape)


@dataclass(frozen=True)
class Plan:
    """What to read, and where to put it.

    Attributes
    ----------
    tensors : dict of str to Placed
        In the order of the files and of the data in each: whoever reads them run by run never
        goes back.
    nbytes : int, bytes
        Of the one allocation that takes them all, padding included.
    """

    tensors: Dict[str, Placed]
    nbytes: int

    @property
    def n_runs(self) -> int:
        """Separate ranges, before `merged`."""
        return sum(t.source.n_runs for t in self.tensors.values())

    @property
    def bytes_read(self) -> int:
        """Bytes in all ranges."""
        return sum(t.source.nbytes for t in self.tensors.values())

    def groups(self) -> Dict[Tuple[Optional[str], Tuple[str, ...]], List[Placed]]:
        """Tensors that one transfer can take: those of one file with the same kernels.

        Returns
        -------
        dict of (path, kernels) to list of Placed
            In the order of the plan.
        """
        found: Dict[Tuple[Optional[str], Tuple[str, ...]], List[Placed]] = {}
        for tensor in self.tensors.values():
            found.setdefault((tensor.info.path, tensor.kernels), []).append(tensor)
        return found


def plan(
    infos: Iterable[TensorInfo],
    *,
    slices: Optional[Mapping[str, Any]] = None,
    casts: Optional[Mapping[str, DType]] = None,
    align: int = ALIGN,
) -> Plan:
    """Lay out tensors of one or more files in one destination.

    Parameters
    ----------
    infos : iterable of TensorInfo
        Those wanted, each name once; see `headrace.formats.select.select`.
    slices : mapping of str to index, or None, default None
        For a name: a slice, an integer, an Ellipsis or a tuple of them, as NumPy takes them, but
        with positive steps only. A tensor without an entry is taken whole.
    casts : mapping of str to DType, or None, default None
        For a name: the type wanted in the destination.
    align : int, bytes, default 256
        Of each tensor in the destination; a power of two.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        A slice or cast for a tensor that is not among ``infos``; a cast that no kernel does; a
        step below 1; a slice that ends within a byte of a 4- or 6-bit type.
    IndexError
        Too many indices, or an integer out of range.

    Examples
    --------
    >>> from headrace._dtypes import find
    >>> info = TensorInfo("w", find("f32"), (4, 6), 100, 96)
    >>> half = plan([info], slices={"w": (slice(None), slice(0, 3))})
    >>> half.tensors["w"].source.offsets(), half.n_runs, half.bytes_read
    (array([100, 124, 148, 172]), 4, 48)
    """
    wanted = _by_place(infos)
    slices, casts = slices or {}, casts or {}
    for what, names in (("slices", slices), ("casts", casts)):
        for name in names:
            if name not in wanted:
                raise ValueError(f"{what} name {quote(name)}, which is not among the tensors")
    placed: Dict[str, Placed] = {}
    at = end = 0
    for name, info in wanted.items():
        try:
            shape, source = _cut(info, slices.get(name, ()))
            target = casts.get(name, info.dtype)
            cast_kernel(info.dtype, target)
        except (ValueError, IndexError, TypeError) as error:
            raise type(error)(f"tensor {quote(name)}: {error}" if name else str(error)) from None
        nbytes = math.prod(shape) * target.bits // 8
        placed[name] = Placed(info, shape, source, target, at, nbytes)
        end = at + nbytes
        at = -(-end // align) * align
    return Plan(placed, end)


def _by_place(infos: Iterable[TensorInfo]) -> Dict[str, TensorInfo]:
    """By name; files in the order in which they appear, tensors in that of their data."""
    given = list(infos)
    files: Dict[Optional[str], int] = {}
    for info in given:
        files.setdefault(info.path, len(files))
    given.sort(key=lambda t: (files[t.path], t.offset, t.end))
    wanted = {info.name: info for info in given}
    if len(wanted) < len(given):
        raise ValueError("a tensor was asked for twice")
    return wanted


def _cut(info: TensorInfo, index: Any) -> Tuple[Tuple[int, ...], Grid]:
    """The shape and the bytes of a part of a tensor."""
    shape, ranges = _ranges(info.shape, index)
    dims = list(info.shape)
    if info.order == "F":
        dims, ranges = dims[::-1], ranges[::-1]
    elements, unit_bytes = info.dtype.group
    if elements > 1 and dims:
        dims[-1] //= elements
        ranges[-1] = _whole_bytes(ranges[-1], elements)
    return shape, _grid(info.offset, dims, ranges, unit_bytes)


def _ranges(shape: Tuple[int, ...], index: Any) -> Tuple[Tuple[int, ...], List[range]]:
    """What an index takes of each dimension, and the shape of the result."""
    parts = list(index) if isinstance(index, tuple) else [index]
    n_dots = sum(part is Ellipsis for part in parts)
    if n_dots > 1 or len(parts) - n_dots > len(shape):
        raise IndexError(f"{len(parts)} indices for {len(shape)} dimensions")
    dots = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    fill = [slice(None)] * (len(shape) - len(parts) + n_dots)
    parts[dots : dots + 1] = fill
    ranges = [_range(n, part) for n, part in zip(shape, parts)]
    kept = tuple(len(r) for r, part in zip(ranges, parts) if isinstance(part, slice))
    return kept, ranges


def _range(n: int, part: Any) -> range:
    if isinstance(part, slice):
        taken = range(n)[part]
        if taken.step < 1:
            raise ValueError(f"step {taken.step}: only positive steps can be read")
        return taken
    if isinstance(part, (bool, np.bool_)):
        raise TypeError("a truth value is no index here")
    try:
        at = operator.index(part)
    except TypeError:
        what = f"{type(part).__name__}{' (a new axis)' if part is None else ''}"
        raise TypeError(f"{what} is no index here: integers and slices are") from None
    if not -n <= at < n:
        raise IndexError(f"index {at} is out of range for a dimension of {n}")
    return range(at % n, at % n + 1)


def _whole_bytes(taken: range, elements: int) -> range:
    """The range in groups of elements that share bytes."""
    if len(taken) == 0:
        return range(0)
    if taken.step != 1 or taken.start % elements or len(taken) % elements:
        raise ValueError(
            f"{elements} elements share bytes: the last dimension can be cut at multiples of "
            f"{elements} only, with step 1"
        )
    return range(taken.start // elements, taken.stop // elements)


def _grid(offset: int, dims: List[int], ranges: List[range], unit_bytes: int) -> Grid:
    """Runs as long as can be: from the fastest dimension on, as long as all of it is taken."""
    begin, run_bytes, pitch = offset, unit_bytes, unit_bytes
    counts: List[int] = []
    strides: List[int] = []
    for n, taken in zip(reversed(dims), reversed(ranges)):
        begin += (taken.start if len(taken) else 0) * pitch
        if run_bytes == pitch and not counts and (taken.step == 1 or len(taken) == 1):
            run_bytes *= len(taken)
        elif len(taken) != 1:
            counts.insert(0, len(taken))
            strides.insert(0, taken.step * pitch)
        pitch *= n
    if run_bytes == 0:
        counts, strides = [0], [1]
    return Grid(begin, run_bytes, tuple(counts), tuple(strides))


def merged(tensors: Iterable[Placed]) -> Tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranges of several tensors of one file in the order of the file, adjacent ones joined.

    Parameters
    ----------
    tensors : iterable of Placed
        Of one file.

    Returns
    -------
    offsets, lengths : numpy.ndarray of int64, bytes
        New memory; no two ranges touch.

    Examples
    --------
    >>> from headrace._dtypes import find
    >>> infos = [TensorInfo("b", find("u1"), (8,), 12, 8), TensorInfo("a", find("u1"), (2,), 10, 2)]
    >>> merged(plan(infos).tensors.values())
    (array([10]), array([10]))
    """
    grids = [t.source for t in tensors if t.source.nbytes > 0]
    if not grids:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.concatenate([g.offsets() for g in grids])
    ends = offsets + np.repeat([g.run_bytes for g in grids], [g.n_runs for g in grids])
    order = np.argsort(offsets, kind="stable")
    offsets, ends = offsets[order], ends[order]
    first = np.concatenate(([True], offsets[1:] > ends[:-1]))
    begins = offsets[first]
    last = np.concatenate((first[1:], [True]))
    return begins, ends[last] - begins
