# SPDX-License-Identifier: Apache-2.0
"""The calls of the C interface, one to one: a status that is a failure raises, and nothing else is
decided here. All of them let other threads run Python meanwhile."""

from __future__ import annotations

from typing import Any

from headrace import errors
from headrace._library import ffi, lib, native


def new_error() -> Any:
    """A struct for the C library to say in what failed; a pipeline uses one again and again."""
    return ffi.new("hr_error *")


def check(status: int, error: Any) -> int:
    """Raises what a negative status stands for.

    Parameters
    ----------
    status : int
        What a call returned.
    error : cffi pointer to hr_error
        What it was given.

    Returns
    -------
    int
        The status, when it is no failure.

    Raises
    ------
    HeadraceError
        The class in the table of ``headrace.errors``.
    """
    if status < 0:
        raise errors.from_c(error, status)
    return status


def new_struct(name: str) -> Any:
    """A struct of zeros, all its defaults, that says its size."""
    made = ffi.new(f"struct {name} *")
    made.struct_size = ffi.sizeof(f"struct {name}")
    return made


def text(given: bytes) -> Any:
    """Text as C takes it, which must not go on behind its end there.

    Raises
    ------
    ValueError
        It has a zero byte.
    """
    if b"\0" in given:
        raise ValueError(f"embedded null byte: {given!r:.80}")
    return ffi.from_buffer(given + b"\0")


# Types that are made for each chunk, without a look at their names.
_HOLD = ffi.typeof("hrp_hold **")
_CHUNK = ffi.typeof("struct hr_chunk *")
_CHUNK_SIZE = ffi.sizeof("struct hr_chunk")


def new_chunk() -> Any:
    """A struct hr_chunk, as new_struct makes it."""
    made = ffi.new(_CHUNK)
    made.struct_size = _CHUNK_SIZE
    return made


def version() -> str:
    """The version of the C library in use."""
    return str(ffi.string(lib.hr_version()).decode())


def new_owner(kind: Any, end: Any) -> Any:
    """An empty place for a handle of C, which ends what is in it when it is forgotten.

    A call puts the handle there itself. So Ctrl-C, which shows between any two steps of Python,
    finds no handle without an owner; and an end in C cannot be interrupted.
    """
    return ffi.gc(ffi.new(kind), end)


def new_hold() -> Any:
    """For a hrp_hold."""
    return new_owner(_HOLD, native.hrp_hold_end)


def new_box() -> Any:
    """For a hrp_box."""
    return new_owner("hrp_box **", native.hrp_box_close)


def context_create(config: Any) -> Any:
    """A context, in a place that frees it when it is forgotten."""
    out, error = new_owner("hr_context **", native.hrp_context_end), new_error()
    check(lib.hr_context_create(config, out, error), error)
    return out


def box_open(context: Any, loop_config: Any, config: Any, out: Any) -> None:
    """A loop and a pipeline, in the place for a box.

    Raises
    ------
    BusyError
        The context's memory is all leased: HR_AGAIN.
    """
    error = new_error()
    status = native.hrp_box_open(context, loop_config, config, out, error)
    if status != lib.HR_OK:
        raise errors.from_c(error, status, paths(config))


def paths(config: Any) -> list[bytes]:
    """The files that a struct hr_pipeline_config names."""
    ends = [*config.sources[0 : config.n_sources], config.sink]
    named = [end.path for end in ends if end.kind == lib.HR_FILE] + [config.trace_path]
    return [ffi.string(path) for path in named if path != ffi.NULL]


def stats(pipeline: Any) -> Any:
    """A pipeline's struct hr_stats as it is now."""
    filled = new_struct("hr_stats")
    check(lib.hr_pipeline_stats(pipeline, filled), new_error())
    return filled


def result(pipeline: Any, kernel: int) -> Any:
    """What a reduction found, as struct hr_result; None before the pipeline is done."""
    found, error = new_struct("hr_result"), new_error()
    status = check(lib.hr_pipeline_result(pipeline, kernel, found, error), error)
    return None if status == lib.HR_PENDING else found


def gathered(box: Any, context: Any) -> tuple[Any, int] | None:
    """A hold of the memory that a device sink has gathered, and its bytes; None before the pipeline
    is done."""
    hold, size, error = new_hold(), ffi.new("uint64_t *"), new_error()
    status = check(native.hrp_box_gathered(box, context, size, hold, error), error)
    return None if status == lib.HR_PENDING else (hold, int(size[0]))


def allocated(context: Any, device: str, nbytes: int) -> Any:
    """A hold of new memory of a device."""
    hold, error = new_hold(), new_error()
    check(native.hrp_hold_alloc(context, device.encode(), nbytes, hold, error), error)
    return hold


def devices() -> list[Any]:
    """The struct hr_device of each device, and of each backend without one."""
    n, error = ffi.new("size_t *", 16), new_error()
    while True:
        room = n[0]
        found = ffi.new("struct hr_device[]", room)
        found[0].struct_size = ffi.sizeof("struct hr_device")
        check(lib.hr_devices(found, n, error), error)
        if n[0] <= room:
            return [found[i] for i in range(n[0])]
