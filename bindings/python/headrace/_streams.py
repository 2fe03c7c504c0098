# SPDX-License-Identifier: Apache-2.0
"""Streams of GPUs on which other libraries work, as the numbers that the C library takes.

A stream is named by its handle (CUstream, hipStream_t), a default stream by its constant. A handle
of 0 is never passed on: what it means depends on how the library that says it was compiled.

No other library is imported here; one that is not loaded has no work on a GPU.
"""

from __future__ import annotations

import sys
from typing import Any, Optional

from headrace._numbers import size

LEGACY = 1
"""The default stream, CU_STREAM_LEGACY."""

PER_THREAD = 2
"""The calling thread's default stream, CU_STREAM_PER_THREAD."""


def handle(stream: Any) -> int:
    """The number of a stream of any library.

    Parameters
    ----------
    stream : int or object
        A handle; a stream of PyTorch (``cuda_stream``), CuPy (``ptr``), PyCUDA or Numba
        (``handle``), or of another library with ``__cuda_stream__``. 0 is the default stream.

    Returns
    -------
    int
        Not 0.

    Raises
    ------
    TypeError
        It is no stream.

    Examples
    --------
    >>> handle(0), handle(0x7f00)
    (1, 32512)
    """
    if hasattr(stream, "__cuda_stream__"):
        of = stream.__cuda_stream__
        stream = (of() if callable(of) else of)[1]
    for name in ("cuda_stream", "ptr", "handle", "value"):
        stream = getattr(stream, name, stream)
    if not hasattr(stream, "__index__") and stream is not None:
        raise TypeError(f"{type(stream).__name__} is no stream: give its handle, an integer")
    return size("stream", stream or LEGACY, 64)


def of_producer(stream: Optional[int]) -> Optional[int]:
    """What to wait for before the memory of a ``__cuda_array_interface__`` is used.

    Parameters
    ----------
    stream : int or None
        The value of "stream" there; None also where there is none.

    Returns
    -------
    int or None
        None: nothing.

    Raises
    ------
    ValueError
        0, which the interface does not allow, or less.
    """
    if stream is None:
        return None
    if stream <= 0:
        raise ValueError(
            f"the stream of a __cuda_array_interface__ is {stream}: it may be None, 1 (the "
            "default stream), 2 (the thread's default stream) or a handle"
        )
    return int(stream)


def of_consumer(stream: Optional[int], device: str) -> Optional[int]:
    """On which stream a caller of ``__dlpack__(stream=...)`` will use the memory.

    Parameters
    ----------
    stream : int or None
        As the array API standard has it: None is the default stream; -1: the caller sees to the
        order by itself. CUDA refuses 0, ROCm 1 and 2.
    device : str
        "cuda:N" or "hip:N".

    Returns
    -------
    int or None
        None: it is not known.

    Raises
    ------
    ValueError
        A number that the device does not allow.
    """
    refused = (0,) if device.startswith("cuda") else (1, 2)
    if stream is None:
        return LEGACY
    stream = size("stream", stream, 64, least=-1)
    if stream in refused:
        raise ValueError(f"stream {stream} is not allowed for {device}")
    return None if stream == -1 else stream or LEGACY


def _torch(index: int) -> Optional[int]:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    return handle(cuda.current_stream(index))


def _cupy(index: int) -> Optional[int]:
    cuda = getattr(sys.modules.get("cupy"), "cuda", None)
    if cuda is None:
        return None
    with cuda.Device(index):
        return handle(cuda.get_current_stream())


def current(device: str) -> set[int]:
    """The streams on which loaded libraries put their work for a device now.

    Parameters
    ----------
    device : str
        "cuda:N" or "hip:N".

    Returns
    -------
    set of int
        That of PyTorch, that of CuPy; the default stream if neither is loaded.
    """
    index = index_of(device)
    found = {_torch(index), _cupy(index)} - {None}
    return {stream for stream in found if stream is not None} or {LEGACY}


def index_of(device: str) -> int:
    """The number in "cuda:N"; 0 for names without one.

    Examples
    --------
    >>> index_of("cuda:3"), index_of("host")
    (3, 0)
    """
    number = device.partition(":")[2]
    return int(number) if number.isdigit() else 0
