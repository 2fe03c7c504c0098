# SPDX-License-Identifier: Apache-2.0
"""Stand-in for libheadrace_python: a box counted in Python."""

from __future__ import annotations

from typing import Any

from headrace import _library

_boxes: dict[int, list[Any]] = {}


def hrp_box_create(loop: Any, pipeline: Any) -> Any:
    box = _library.ffi.new("char *")
    _boxes[id(box)] = [1, loop, pipeline]
    return box


def box_retain(box: Any) -> None:
    _boxes[id(box)][0] += 1


def hrp_box_drop(box: Any) -> None:
    entry = _boxes[id(box)]
    entry[0] -= 1
    if entry[0] == 0:
        del _boxes[id(box)]
        lib = _library.lib
        lib.hr_loop_take(entry[1], _library.ffi.NULL)
        lib.hr_pipeline_free(entry[2])
        lib.hr_loop_free(entry[1])


def hrp_box_n_users(box: Any) -> int:
    return int(_boxes[id(box)][0])
