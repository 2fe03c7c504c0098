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
    try:
        # Names stay the library's own; all are looked up now, so that a misfit shows here.
        return ffi.dlopen(str(path), ffi.RTLD_NOW | ffi.RTLD_LOCAL)
    except OSError as error:
        raise ImportError(
            f"headrace: cannot open {path}: {error}; install the package by pip, or set "
            "HEADRACE_LIBRARY_DIR to the build folder of CMake"
        ) from error


def _lay_out() -> None:
    """cffi does it at the first use of a struct, which Ctrl-C would leave half done for ever."""
    for name in ffi.list_types()[1]:
        ffi.typeof(f"struct {name}")


_lay_out()
lib: Any = _open("libheadrace.so.0")
native: Any = _open("libheadrace_python.so")
