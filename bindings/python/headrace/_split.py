# SPDX-License-Identifier: Apache-2.0
"""Files in shares of whole records, for workers that read the same files side by side.

The records of all files stand on one line; share k of n is what lies between the cuts k and k + 1:

    file 0                      file 1
    |r r r r r r r r r r r r r r|r r r r r r r r r|
    |      cut 1       cut 2    |     cut 3       |

A cut is where the k-th of n equal parts would begin, moved on to a place where reading can begin:
the next record; in a zstd file the first record that begins in the next frame, so that no frame is
decoded twice (but for a record that straddles two); in one without a seek table the next file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from headrace.errors import about
from headrace.formats import FormatError, seek_table


@dataclass(frozen=True)
class Extent:
    """The records of a file.

    Attributes
    ----------
    path : str
        The file.
    offset : int
        Of the first record in the decoded file, in bytes.
    nbytes : int
        Of all records; of a zstd file without a seek table that of the file, a guess.
    starts : numpy.ndarray or None
        Bytes behind `offset` at which reading may begin, ascending; None: at any record.
    """

    path: str
    offset: int
    nbytes: int
    starts: Optional[np.ndarray[Any, Any]] = None

    def snap(self, at: int, record: int) -> int:
        """The first place at or behind a byte where a share may begin."""
        if at <= 0:
            return 0
        if self.starts is not None:
            i = int(np.searchsorted(self.starts, at))
            at = int(self.starts[i]) if i < len(self.starts) else self.nbytes
        return min(-(-at // record) * record, self.nbytes)


def extent(
    path: Any, record: int, offset: int = 0, nbytes: Optional[int] = None, encoded: bool = True
) -> Extent:
    """Looks at a file.

    Parameters
    ----------
    path : str or os.PathLike
        A regular file, plain or zstd.
    record : int
        Bytes of a record.
    offset : int, default 0
        Where the records begin, decoded.
    nbytes : int, optional
        Bytes of the records, if they are known.
    encoded : bool, default True
        If it is zstd, its decoded bytes count; False: the bytes as they are.

    Returns
    -------
    Extent
        Its records.

    Raises
    ------
    FormatError
        It ends inside of a record, or its seek table is damaged.
    TransferError
        It cannot be read.
    """
    path = os.fspath(path)
    with about(path):
        if not (encoded and seek_table.is_encoded(path)):
            there = os.stat(path).st_size - offset if nbytes is None else nbytes
            return Extent(path, offset, _whole(path, there, record))
        table = seek_table.read(path)
        if table is None:
            return Extent(path, offset, os.stat(path).st_size, np.empty(0, np.int64))
        there = int(table[-1]) - offset if nbytes is None else nbytes
        return Extent(path, offset, _whole(path, there, record), table[:-1] - offset)


def _whole(path: str, nbytes: int, record: int) -> int:
    if nbytes % record:
        raise FormatError(f"{path}: {nbytes} bytes are no whole records of {record} bytes")
    return nbytes


def share(
    extents: list[Extent], record: int, index: int, n: int
) -> list[tuple[str, int, Optional[int]]]:
    """The ranges of a share. All shares together have each record once.

    Parameters
    ----------
    extents : list of Extent
        All files.
    record : int
        Bytes of a record.
    index, n : int
        Share `index` of `n`.

    Returns
    -------
    list of (str, int, int or None)
        Path, first byte and length in decoded bytes (None: to the end), of ranges that have any.

    Examples
    --------
    >>> files = [Extent("a", 0, 40), Extent("b", 8, 20)]
    >>> [share(files, 4, i, 2) for i in range(2)]
    [[('a', 0, 32)], [('a', 32, 8), ('b', 8, 20)]]
    """
    total = sum(one.nbytes for one in extents)
    first, last = total * index // n, total * (index + 1) // n
    ranges: list[tuple[str, int, Optional[int]]] = []
    for one in extents:
        begin, end = one.snap(first, record), one.snap(last, record)
        if begin < end:
            is_guess = one.starts is not None and not len(one.starts)
            ranges.append((one.path, one.offset + begin, None if is_guess else end - begin))
        first, last = first - one.nbytes, last - one.nbytes
    return ranges
