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


_CHUNK = ffi.typeof("struct hr_chunk *")
_CHUNK_SIZE = ffi.sizeof("struct hr_chunk")


def new_chunk() -> Any:
    """A struct hr_chunk, as new_struct makes it, without a look at its name."""
    made = ffi.new(_CHUNK)
    made.struct_size = _CHUNK_SIZE
    return made


def version() -> str:
    """The version of the C library in use."""
    return str(ffi.string(lib.hr_version()).decode())


def context_create(config: Any) -> Any:
    """A context, freed when the last reference to what is returned is gone."""
    out, error = ffi.new("hr_context **"), new_error()
    check(lib.hr_context_create(config, out, error), error)
    return ffi.gc(out[0], lib.hr_context_free)


def loop_create(context: Any, config: Any, out: Any) -> None:
    """A loop, that the caller frees or gives to a box: it is in ``out`` also if a signal's handler
    raises."""
    error = new_error()
    check(lib.hr_loop_create(context, config, out, error), error)


def pipeline_create(loop: Any, config: Any, out: Any) -> None:
    """A pipeline, as `loop_create` makes a loop.

    Raises
    ------
    BusyError
        The context's memory is all leased: HR_AGAIN.
    """
    error = new_error()
    status = lib.hr_pipeline_create(loop, config, out, error)
    if status != lib.HR_OK:
        raise errors.from_c(error, status, paths(config))


def paths(config: Any) -> list[bytes]:
    """The files that a struct hr_pipeline_config names."""
    ends = [*config.sources[0 : config.n_sources], config.sink]
    named = [end.path for end in ends if end.kind == lib.HR_FILE] + [config.trace_path]
    return [ffi.string(path) for path in named if path != ffi.NULL]


def box_create(loop: Any, pipeline: Any) -> Any:
    """A counted owner of both, that frees them when the last hold is dropped."""
    box = native.hrp_box_create(loop, pipeline)
    if box == ffi.NULL:
        raise MemoryError("headrace: no memory for a pipeline")
    return box


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


def gathered(pipeline: Any) -> tuple[Any, int] | None:
    """Memory and bytes that a device sink has gathered; None before the pipeline is done. The
    caller owns the memory."""
    memory, size, error = ffi.new("void **"), ffi.new("uint64_t *"), new_error()
    status = check(lib.hr_pipeline_gathered(pipeline, memory, size, error), error)
    return None if status == lib.HR_PENDING else (memory[0], int(size[0]))


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
