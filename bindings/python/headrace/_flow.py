# SPDX-License-Identifier: Apache-2.0
"""What a stream is made of, from the source through each kernel: the type of its elements, and how
many bytes there are.

An array tells both. Files, sockets and bytes are bytes until a kernel states a type: from there on
they have it. What is before it is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy

from headrace import _dtypes, _function, _kernel
from headrace._foreign import Foreign
from headrace.errors import ArgumentError, ElementTypeError, TruncatedError

_BYTES = ("bool", "u8", "i8")  # types that say nothing: what is read as bytes has them
_WORDS = {dtype.kernel: dtype for dtype in _dtypes.known() if dtype.kernel}
_TYPED = ("cast", "scale", "filter", "sum", "mean", "min", "max", "histogram", "count")
KEEP = ("scale", "sum", "mean", "min", "max", "histogram", "count", "crc32")


@dataclass(frozen=True)
class Elements:
    """The type of a stream.

    Attributes
    ----------
    dtype : DType
        Of an element.
    row : tuple of int, default ()
        Shape of what the first axis of the source has; (): elements.
    swap : int, default 0
        Width of the ``bswap`` kernel that brings them to the machine's byte order; 0: they have it.
    """

    dtype: _dtypes.DType
    row: tuple[int, ...] = ()
    swap: int = 0

    @property
    def numpy(self) -> numpy.dtype[Any]:
        """The type, in the byte order of the bytes."""
        return self.dtype.numpy.newbyteorder("S") if self.swap else self.dtype.numpy

    @property
    def unit(self) -> Any:
        """What a function gets of them, as ``Kernel.function`` takes it."""
        return (self.numpy, self.row) if math.prod(self.row) else self.numpy

    @property
    def nbytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.row) * int(self.dtype.numpy.itemsize)

    def is_of(self, dtype: _dtypes.DType, swap: int = 0) -> bool:
        """Whether they are of a type, which the bits of a stand-in are, too."""
        same = self.dtype == dtype or (
            (self.dtype.is_standin or dtype.is_standin) and self.dtype.numpy == dtype.numpy
        )
        return same and self.swap == swap

    def __str__(self) -> str:
        return f"{self.dtype} in the other byte order" if self.swap else str(self.dtype)


@dataclass(frozen=True)
class Flow:
    """A stream at one place of a chain.

    Attributes
    ----------
    elements : Elements or None
        None: bytes.
    nbytes : int or None
        Of all of it; None: only its end tells.
    """

    elements: Optional[Elements] = None
    nbytes: Optional[int] = None


# ---- sources ----


def of_type(dtype: _dtypes.DType, row: tuple[int, ...] = (), swap: int = 0) -> Optional[Elements]:
    """Elements of a type; None: it says no more than that they are bytes."""
    # By the type: ml_dtypes's bfloat16 is of kind "V", too.
    is_void = dtype.numpy.type is numpy.void and dtype.numpy.names is None
    if dtype.name in _BYTES or is_void or dtype.bits % 8:
        return None
    return Elements(dtype, row, swap)


def of_array(found: Foreign) -> Optional[Elements]:
    """What an array says of its bytes."""
    row = found.shape[1:] if found.order == "C" else ()
    return of_type(found.dtype, row, found.swap)


def common(known: list[Optional[Elements]]) -> Optional[Elements]:
    """The type of several sources, one behind the other; None: some of them are bytes.

    Raises
    ------
    ValueError
        They differ.
    """
    first = known[0]
    if first is None or None in known:
        return None
    for one in known:
        assert one is not None
        if not one.is_of(first.dtype, first.swap):
            raise ArgumentError(
                f"sources of {first} and of {one} make no stream of one type: cast one of them "
                'first, or give their bytes: array.view("u1")'
            )
        if one.row != first.row:
            first = replace(first, row=())
    return first


# ---- kernels ----


def listed(kernels: Any) -> list[_kernel.Kernel]:
    """The chain that a user gives: a list, or a single kernel without one."""
    if isinstance(kernels, (str, _kernel.Kernel)) or callable(kernels):
        kernels = [kernels]
    if not isinstance(kernels, Iterable):
        raise TypeError(f"kernels is {kernels!r}: a list of texts, callables and headrace.Kernel")
    return [_kernel.kernel(one) for one in kernels]


def stated(kernel: _kernel.Kernel) -> Optional[Elements]:
    """What a kernel says that it reads; None: it says nothing, or bytes.

    Nothing is said by crc32, shuffle and bswap, which take any bytes of their width, nor by a
    histogram of bytes.
    """
    layout = kernel.unit_in
    if layout is not None:
        return None if layout.dtype.names else of_type(layout.kind, swap=_swap(layout))
    word, arguments = kernel.words
    dtype = _WORDS.get(arguments[0]) if arguments and word in _TYPED else None
    if dtype is None or (word == "histogram" and dtype.name == "u8"):
        return None
    return Elements(dtype)


def keeps_type(kernels: list[_kernel.Kernel]) -> bool:
    """Whether what leaves a chain is of the type of what enters it."""
    return all(
        kernel.words[0] in (*KEEP, "filter")
        or (kernel.is_function and (kernel.unit_in, kernel.unit_out) == (None, None))
        for kernel in kernels
    )


def _swap(layout: _function.Layout) -> int:
    return _dtypes.swap_width(layout.dtype)


def follow(kernels: list[_kernel.Kernel], flow: Flow) -> tuple[list[_kernel.Kernel], Flow]:
    """A chain that fits a stream, and what leaves it.

    Parameters
    ----------
    kernels : list of Kernel
        In their order.
    flow : Flow
        What enters.

    Returns
    -------
    kernels : list of Kernel
        The same; functions that name no unit take what comes.
    flow : Flow
        What leaves.

    Raises
    ------
    ElementTypeError
        (TypeError) A kernel reads another type than what comes.
    TruncatedError
        (EOFError) What comes is no whole number of a function's units.

    Examples
    --------
    >>> chain = listed(["crc32", "sum:f64", "cast:f64,f32"])
    >>> str(follow(chain, Flow(None, 800))[1].elements), follow(chain, Flow(None, 800))[1].nbytes
    ('f32', 400)
    """
    chain = []
    for number, kernel in enumerate(kernels):
        kernel = kernel.bound(None if flow.elements is None else flow.elements.unit)
        name = f"kernel {number}, {kernel.title}"
        _check_type(name, kernel, flow.elements)
        _check_units(name, kernel, flow.nbytes)
        reads = stated(kernel)
        if flow.elements is None and reads is not None:  # from here on it has a type
            flow = replace(flow, elements=of_type(reads.dtype, swap=reads.swap))
        flow = _behind(kernel, flow)
        chain.append(kernel)
    return chain, flow


def ways_out(elements: Elements, wanted: Elements, where: str) -> str:
    """What to do with elements where others are wanted: kernels that may stand there, or none."""
    bytes_ = 'give the bytes: array.view("u1"), or headrace.Range(source, 0)'
    if elements.swap > 8 or wanted.swap > 8:
        return bytes_
    kernels = [f"bswap:{elements.swap}"] if elements.swap else []
    if elements.dtype != wanted.dtype:
        try:
            kernels.append(_dtypes.cast_kernel(elements.dtype, wanted.dtype))
        except ValueError:
            return bytes_
    kernels += [f"bswap:{wanted.swap}"] if wanted.swap else []
    return f"put {' and '.join(f'{one!r}' for one in kernels)} {where}, or {bytes_}"


def _check_type(name: str, kernel: _kernel.Kernel, elements: Optional[Elements]) -> None:
    reads = stated(kernel)
    if elements is None or elements.dtype.name in _BYTES:
        return
    if reads is None or elements.is_of(reads.dtype, reads.swap):
        return
    raise ElementTypeError(
        f"{name}: it reads {reads}, what comes is {elements}: "
        f"{ways_out(elements, reads, 'before it')}"
    )


def _check_units(name: str, kernel: _kernel.Kernel, nbytes: Optional[int]) -> None:
    layout = kernel.unit_in
    if layout is None or nbytes is None or not layout.nbytes or nbytes % layout.nbytes == 0:
        return
    raise TruncatedError(
        f"{name}: its unit is {layout}, what comes are {nbytes} bytes, which are no whole units",
        stage="kernel",
    )


def _behind(kernel: _kernel.Kernel, flow: Flow) -> Flow:
    word, arguments = kernel.words
    if word in KEEP:
        return flow
    if word == "cast":
        return _cast(arguments, flow)
    if word == "bswap":
        return replace(flow, elements=_swapped(flow.elements, arguments))
    if word == "filter":
        row_less = None if flow.elements is None else replace(flow.elements, row=())
        return Flow(row_less, None)
    if word in ("shuffle", "unshuffle"):
        return replace(flow, elements=None)
    if word:
        return Flow()
    return _unit_by_unit(kernel, flow)


def _cast(arguments: list[str], flow: Flow) -> Flow:
    read, written = (_WORDS.get(arguments[i]) if i < len(arguments) else None for i in (0, -1))
    if read is None or written is None:
        return Flow()  # which the library will refuse
    same_width = flow.elements is not None and flow.elements.dtype.bits == read.bits
    row = flow.elements.row if flow.elements is not None and same_width else ()
    nbytes = flow.nbytes
    if nbytes is not None:
        nbytes = nbytes * written.bits // read.bits if nbytes * 8 % read.bits == 0 else None
    return Flow(of_type(written, row), nbytes)


def _swapped(elements: Optional[Elements], arguments: list[str]) -> Optional[Elements]:
    if elements is None:
        return None
    width = _dtypes.swap_width(elements.dtype.numpy.newbyteorder("S"))
    if arguments != [str(width)]:
        return None
    return replace(elements, swap=0 if elements.swap else width)


def _unit_by_unit(kernel: _kernel.Kernel, flow: Flow) -> Flow:
    """Behind a function or a compiled kernel."""
    read, written = kernel.unit_bytes
    if not written:
        return flow
    nbytes = None
    if flow.nbytes is not None and read and not kernel.is_counted and not flow.nbytes % read:
        nbytes = flow.nbytes // read * written
    layout = kernel.unit_out
    if layout is None:
        return Flow(None, nbytes)
    row = layout.row
    if not row and flow.elements is not None and kernel.unit_in is not None:
        one_by_one = kernel.unit_in.row == () and not kernel.is_counted
        row = flow.elements.row if one_by_one else ()
    return Flow(of_type(layout.kind, row, _swap(layout)), nbytes)
