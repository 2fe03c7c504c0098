# SPDX-License-Identifier: Apache-2.0
"""What a pipeline is given, seen as a whole: whether ends, files and kernels fit together."""

from __future__ import annotations

from typing import Any, Optional

from headrace import _dtypes, _ends, _flow, _foreign, _sniff
from headrace._ends import End
from headrace._kernel import Kernel
from headrace.errors import ArgumentError, ElementTypeError, SpaceError
from headrace.formats import seek_table

_ELEMENT_WISE = (*_flow.KEEP, "cast", "bswap")  # kernels
_USUAL_CHUNK = 2 << 20  # bytes, where a chunk has to be whole elements of an odd width


class Given:
    """Sources, kernels and a sink.

    Parameters
    ----------
    ends : list of End
        The sources; the last one is the sink.
    kernels : list of Kernel
        The chain as the user gave it.
    decode, dictionary, window_log
        As of ``headrace.Pipeline``.

    Attributes
    ----------
    kernels : list of Kernel
        As they fit the stream.
    decode : str
        What is left to look for.

    Raises
    ------
    ElementTypeError
        (TypeError) A kernel reads another type than what comes.
    ArgumentError
        (ValueError) The types of the sources differ; a kernel would compute with a header.
    TruncatedError
        (EOFError) What comes is no whole number of a function's units.
    """

    def __init__(
        self,
        ends: list[End],
        kernels: list[Kernel],
        decode: str,
        dictionary: Optional[bytes],
        window_log: int,
    ) -> None:
        *self._sources, self._sink = ends
        self._look: dict[str, Any] = {"decode": decode, "dict": dictionary}
        self._look["window_log"] = window_log
        entering = None
        if decode != "zstd":  # else, whatever arrays say, their bytes are zstd
            entering = _flow.common([end.elements for end in self._sources])
        self._entering = entering
        self.decode = decode if entering is None else "none"
        flow = _flow.Flow(entering, self._nbytes())
        self.kernels, self._leaving = _flow.follow(kernels, flow)
        self._check_headers(kernels)

    def _nbytes(self) -> Optional[int]:
        """Of all sources, decoded; None: only the end tells."""
        total = 0
        for end in self._sources:
            nbytes = end.nbytes
            if nbytes is not None and self.decode != "none":
                is_plain = self.decode == "auto" and not seek_table.begins_encoded(end.first_bytes(4))
                nbytes = nbytes if is_plain else None
            elif _ends.is_path(end.given) and self._sink.nbytes is not None:
                file = _sniff.looked_at(end.given, **self._look)
                size = None if file is None else file.size
                nbytes = None if size is None else end.part_of(size)
            if nbytes is None:
                return None
            total += nbytes
        return total

    def _check_headers(self, kernels: list[Kernel]) -> None:
        """No kernel is to compute with the header of a file."""
        typed = next((one for one in kernels if _flow.stated(one) is not None), None)
        wholes = [end.given for end in self._sources if not end.is_range and end.elements is None]
        for given in wholes if typed is not None else []:
            file = _sniff.looked_at(given, **self._look)
            found = None if file is None else file.container()
            if file is not None and found is not None and typed is not None:
                raise ArgumentError(
                    f"{file.where}: kernel {typed.title} would take for data what is {found.text}: "
                    f"{found.way_out(file.word)}",
                    filename=file.path,
                )

    @property
    def type_lent(self) -> Optional[_dtypes.DType]:
        """The type of the chunks that leave the kernels; None: bytes."""
        elements = self._leaving.elements
        return None if elements is None or elements.swap else elements.dtype

    def whole(self, chunk_size: Any) -> Any:
        """A chunk size at which no element is in two chunks."""
        if self._entering is None or not isinstance(chunk_size, int):
            return chunk_size
        width = int(self._entering.dtype.numpy.itemsize)
        if chunk_size > 0:
            return max(chunk_size // width, 1) * width
        is_odd = width & (width - 1) or width > _USUAL_CHUNK
        return max(_USUAL_CHUNK // width, 1) * width if is_odd else chunk_size

    def check_sink(self, encodes: bool) -> None:
        """An array as a sink is of the stream's type, size and layout, as far as both are known.

        Raises
        ------
        ElementTypeError
            (TypeError) It is of another type.
        SpaceError, ArgumentError
            (ValueError) It is smaller or larger; or both ends are arrays of several axes, and of
            different shapes or orders.
        """
        sink, flow = self._sink, self._leaving
        if encodes or sink.nbytes is None:
            return
        wanted, elements = sink.elements, flow.elements
        if wanted and elements and not elements.is_of(wanted.dtype, wanted.swap):
            raise ElementTypeError(
                f"the sink is an array of {wanted}, what comes is {elements}: "
                f"{_flow.ways_out(elements, wanted, 'among the kernels')}"
            )
        if flow.nbytes is not None and flow.nbytes != sink.nbytes:
            of = SpaceError if flow.nbytes > sink.nbytes else ArgumentError
            raise of(
                f"the sink is an array of {sink.nbytes} bytes, the stream has {flow.nbytes}: "
                "give one of the same size, or a part of it"
            )
        if flow.nbytes is not None:
            self._check_layout()

    def _check_layout(self) -> None:
        """Bytes go as they lie: where they would be other elements of an array, that is told."""
        if not all(kernel.words[0] in _ELEMENT_WISE for kernel in self.kernels):
            return
        wanted = _layout(self._sink)
        for found in map(_layout, self._sources):
            differ = found[1:] != wanted[1:] or (found != wanted and len(self._sources) == 1)
            if len(found[0]) > 1 and len(wanted[0]) > 1 and differ:
                raise ArgumentError(
                    f"the source has shape {found[0]} in {found[1]} order, the sink {wanted[0]} in "
                    f"{wanted[1]} order, and bytes go as they lie: make them alike by reshape or "
                    "numpy.ascontiguousarray(source), or give headrace.Range(source, 0), its bytes"
                )


def _layout(end: End) -> tuple[tuple[int, ...], str]:
    """Of an array its lengths but 1, and its order; of others, which are bytes, none."""
    found = end.keep[0]
    if end.is_range or not isinstance(found, _foreign.Foreign):
        return (), "C"
    return tuple(length for length in found.shape if length != 1), found.order
