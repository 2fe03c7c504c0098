# SPDX-License-Identifier: Apache-2.0
"""The two C libraries: found, opened and declared to cffi.

They lie beside this file in an installed package. For development, the environment variable
HEADRACE_LIBRARY_DIR names the build folder of CMake instead.

``lib`` is libheadrace, ``native`` the package's own libheadrace_python.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cffi

from headrace._declarations import DECLARATIONS

ffi: Any = cffi.FFI()
ffi.cdef(DECLARATIONS)


def _folder() -> Path:
    named = os.environ.get("HEADRACE_LIBRARY_DIR")
    return Path(named).resolve() if named else Path(__file__).resolve().parent


def _open(name: str) -> Any:
    path = _folder() / name
    # Names stay the library's own; all are looked up now, so that a misfit shows here. It is never
    # unloaded: at the interpreter's end what cffi calls to give memory back may go after the library.
    flags = ffi.RTLD_NOW | ffi.RTLD_LOCAL | os.RTLD_NODELETE
    try:
        return ffi.dlopen(str(path), flags)
    except OSError as error:
        raise ImportError(
            f"headrace: cannot open {path}: {error}; install the package by pip, or set "
            "HEADRACE_LIBRARY_DIR to the build folder of CMake"
        ) from error


# Texts of types that the package gives to cffi, but for those of each struct.
_TYPES = """char *, void *, uintptr_t, size_t *, uint64_t *, int64_t[], hr_error *, hr_context **,
hrp_hold **, hrp_box **, struct hr_source[], struct hr_kernel[], struct hr_device[]"""


def _parse_all() -> None:
    """All texts of types that the package uses. Later, cffi finds them without its lock, which is
    not recursive: a collector or a signal handler that came while it is held, and ends a pipeline,
    would wait for it for ever. Ctrl-C, too, would leave a struct half laid out."""
    for name in ffi.list_types()[1]:
        ffi.typeof(f"struct {name}")
        ffi.typeof(f"struct {name} *")
    for text in _TYPES.split(","):
        ffi.typeof(text.strip())


def _bind_all(library: Any, others: str) -> Any:
    """Makes all functions and constants that are declared attributes, for the same reason."""
    for name in dir(library):
        if not name.startswith(others):
            getattr(library, name)
    return library


_parse_all()
lib: Any = _bind_all(_open("libheadrace.so.0"), others="hrp_")
native: Any = _bind_all(_open("libheadrace_python.so"), others="hr_")
