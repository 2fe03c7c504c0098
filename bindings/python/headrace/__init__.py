# SPDX-License-Identifier: Apache-2.0
"""headrace: a pipelined streaming transfer engine.

Files, sockets, pipes and arrays are read through io_uring, decoded (zstd), copied to a GPU, worked
on by kernels, copied back, encoded and written, all stages at once.

    >>> import headrace as hr
    >>> import numpy as np
    >>> out = np.empty(4, "f4")
    >>> stats = hr.Pipeline(np.arange(4.0), out, kernels="cast:f64,f32", device="host").run()
    >>> out.tolist()
    [0.0, 1.0, 2.0, 3.0]
"""

from __future__ import annotations

from headrace import errors
from headrace._array import Array
from headrace._calls import version
from headrace._context import Context
from headrace._devices import Device, devices
from headrace._ends import NULL, DeviceMemory, Range
from headrace._kernel import Kernel
from headrace._load import load
from headrace._pipeline import Pipeline
from headrace._save import save
from headrace._stats import StageStats, Stats
from headrace._stream import Stream, stream
from headrace._transfer import to_device, to_host
from headrace.errors import (
    ArgumentError,
    BusyError,
    CanceledError,
    CorruptError,
    DeviceError,
    ElementTypeError,
    ForkError,
    FormatError,
    HeadraceError,
    LimitError,
    LoanedError,
    OutOfMemoryError,
    SpaceError,
    ThreadError,
    TimedOutError,
    TransferError,
    TruncatedError,
    UnsupportedError,
)

__version__ = version()

__all__ = [
    "NULL",
    "ArgumentError",
    "Array",
    "BusyError",
    "CanceledError",
    "Context",
    "CorruptError",
    "Device",
    "DeviceError",
    "DeviceMemory",
    "ElementTypeError",
    "ForkError",
    "FormatError",
    "HeadraceError",
    "Kernel",
    "LimitError",
    "LoanedError",
    "OutOfMemoryError",
    "Pipeline",
    "Range",
    "SpaceError",
    "StageStats",
    "Stats",
    "Stream",
    "ThreadError",
    "TimedOutError",
    "TransferError",
    "TruncatedError",
    "UnsupportedError",
    "devices",
    "errors",
    "load",
    "save",
    "stream",
    "to_device",
    "to_host",
    "version",
]
