# SPDX-License-Identifier: Apache-2.0
"""What a transfer did, stage by stage."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from headrace._library import ffi, lib

_NAMES = tuple(ffi.string(lib.hr_stage_name(stage)).decode() for stage in range(lib.HR_STAGE_COUNT))
_COLUMNS = ("stage", "chunks", "in", "out", "busy", "starved", "blocked", "rate")
_LITTLE_S = 1e-3  # of work, below which what a transfer costs to set up drowns all else


@dataclass(frozen=True)
class StageStats:
    """One stage of a transfer.

    Attributes
    ----------
    chunks : int
        Finished: chunks; blocks, of encoded input; frames, when encoding.
    bytes_in, bytes_out : int
        Bytes.
    service_s : float
        Seconds of work really done; time in a queue does not count.
    starved_s : float
        Seconds idle, and nothing was there to work on.
    blocked_s : float
        Seconds idle, because what it made could not go on.
    capacity : int
        Operations that it can work on at once: workers, streams; 1 for I/O.
    resource : int
        Stages with the same number share their capacity.
    """

    chunks: int
    bytes_in: int
    bytes_out: int
    service_s: float
    starved_s: float
    blocked_s: float
    capacity: int
    resource: int


@dataclass(frozen=True)
class Stats:
    """What a transfer did; its repr is a table.

    Attributes
    ----------
    wall_s : float
        Seconds since the first step, until the end.
    stages : dict of str to StageStats
        Those that took part: "read", "decode", "H2D", "kernel", "D2H", "encode", "write".
    overlap : float
        Highest utilisation of a resource: 1.0 means that the slowest never waited.
    gain : float
        How much longer the stages would take one after the other.
    bottleneck : str
        The stage that holds the others back.
    crc32 : int
        Of the stream, as zlib's, once it is done; of ``hr.NULL`` sinks only, else 0.
    depth, chunk_size, n_streams : int
        Chunks at once; bytes of one; kernels at once.
    leased_bytes : int
        Bytes of host memory that the chunks took at most.
    n_frames_in : int
        zstd frames decoded, whole or in part.
    dropped_bytes : int
        Bytes decoded or read only to get to the range.
    direct_bytes : int
        Bytes read and written past the page cache.
    total_bytes_in : int
        Bytes that the sources hold; 0: not known.
    device : str
        "cuda:0" for example; "" if bytes visit none.
    device_bytes, unpinned_bytes : int
        Bytes of the device's memory that the chunks take; of host memory that it does not pin.
    io : str
        The I/O engine: "uring" or "threads".
    """

    wall_s: float
    stages: dict[str, StageStats]
    overlap: float
    gain: float
    bottleneck: str
    crc32: int
    depth: int
    chunk_size: int
    n_streams: int
    leased_bytes: int
    n_frames_in: int
    dropped_bytes: int
    direct_bytes: int
    total_bytes_in: int
    device: str
    device_bytes: int
    unpinned_bytes: int
    io: str

    @property
    def bytes_in(self) -> int:
        """Bytes that the first stage took in."""
        return next(iter(self.stages.values())).bytes_in if self.stages else 0

    @property
    def bytes_out(self) -> int:
        """Bytes that the last stage put out."""
        return next(reversed(list(self.stages.values()))).bytes_out if self.stages else 0

    def _rows(self) -> list[tuple[str, ...]]:
        return [_row(name, stage) for name, stage in self.stages.items()]

    def _summary(self) -> str:
        where = f" on {self.device}" if self.device else ""
        return (
            f"{self.bytes_in:,} bytes in, {self.bytes_out:,} out in {_seconds(self.wall_s)}{where} "
            f"({self.io}): {self._verdict()}"
        )

    def _verdict(self) -> str:
        if not self.stages:
            return "nothing was moved"
        if max(stage.service_s for stage in self.stages.values()) < _LITTLE_S:
            return "too little work to tell overlap and bottleneck"
        return (
            f"overlap {self.overlap:.2f}, gain {self.gain:.2f}, bottleneck {self.bottleneck}"
        )

    def __repr__(self) -> str:
        if not self.stages:
            return f"Stats: {self._summary()}"
        rows = [_COLUMNS, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = (
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths))
            )
            for row in rows
        )
        return "\n".join([f"Stats: {self._summary()}", *lines])

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        caption = f"<caption>{html.escape(self._summary())}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _scaled(number: float, units: tuple[tuple[float, str], ...]) -> str:
    """In the unit that suits it, with three digits at least; what is small is in the last one."""
    size, unit = next((one for one in units if number >= 0.9995 * one[0]), units[-1])
    scaled = number / size
    return f"{scaled:,.0f} {unit}" if scaled >= 99.95 else f"{scaled:.3g} {unit}"


def _bytes(number: float) -> str:
    """
    >>> _bytes(0), _bytes(100), _bytes(1234567), _bytes(2.5e12)
    ('0 B', '100 B', '1.23 MB', '2,500 GB')
    """
    return _scaled(number, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def _seconds(number: float) -> str:
    """
    >>> _seconds(0), _seconds(0.00099999), _seconds(83.14), _seconds(1e-6)
    ('0 us', '1 ms', '83.1 s', '1 us')
    """
    return _scaled(number, ((1, "s"), (1e-3, "ms"), (1e-6, "us")))


def _row(name: str, stage: StageStats) -> tuple[str, ...]:
    most = max(stage.bytes_in, stage.bytes_out)
    return (
        name,
        str(stage.chunks),
        _bytes(stage.bytes_in),
        _bytes(stage.bytes_out),
        _seconds(stage.service_s),
        _seconds(stage.starved_s),
        _seconds(stage.blocked_s),
        _bytes(most / stage.service_s) + "/s" if stage.service_s else "",
    )


def _stage(filled: Any) -> StageStats:
    return StageStats(
        chunks=filled.chunks,
        bytes_in=filled.bytes_in,
        bytes_out=filled.bytes_out,
        service_s=filled.service_ns / 1e9,
        starved_s=filled.starved_ns / 1e9,
        blocked_s=filled.blocked_ns / 1e9,
        capacity=filled.capacity,
        resource=filled.resource,
    )


def from_c(filled: Any, io: str) -> Stats:
    """The dataclass for a struct hr_stats.

    Parameters
    ----------
    filled : cffi pointer to struct hr_stats
        As hr_pipeline_stats filled it.
    io : str
        The I/O engine.

    Returns
    -------
    Stats
        A copy.
    """
    stages = {name: _stage(filled.stages[i]) for i, name in enumerate(_NAMES)}
    return Stats(
        wall_s=filled.wall_ns / 1e9,
        stages={name: stage for name, stage in stages.items() if stage.chunks},
        overlap=filled.overlap,
        gain=filled.gain,
        bottleneck=_NAMES[filled.bottleneck],
        crc32=filled.crc32,
        depth=filled.depth,
        chunk_size=filled.chunk_size,
        n_streams=filled.n_streams,
        leased_bytes=filled.leased_bytes,
        n_frames_in=filled.n_frames_in,
        dropped_bytes=filled.dropped_bytes,
        direct_bytes=filled.direct_bytes,
        total_bytes_in=filled.total_bytes_in,
        device=ffi.string(filled.device).decode(),
        device_bytes=filled.device_bytes,
        unpinned_bytes=filled.unpinned_bytes,
        io=io,
    )
