# SPDX-License-Identifier: Apache-2.0
"""Stand-in for P2's part: arrays by the buffer protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from headrace._library import ffi


@dataclass
class Foreign:
    ptr: int
    nbytes: int
    device: str
    owner: Any
    stream: Optional[int] = None


def is_array(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def describe(obj: Any, writable: bool) -> Foreign:
    if writable and memoryview(obj).readonly:
        raise BufferError(f"{type(obj).__name__} is read-only: it cannot be a sink")
    owner = ffi.from_buffer(obj, require_writable=writable)
    return Foreign(int(ffi.cast("uintptr_t", owner)), len(owner), "host", owner)
