# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for arrays of libraries that are not here."""

from __future__ import annotations

import ctypes
from typing import Any

from headrace import _dlpack
from headrace._library import ffi, native

_new_capsule = _dlpack._capsule_call(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)

_DELETERS = {
    kind: ffi.typeof(f"void(*)(struct hrp_dl_{kind} *)") for kind in ("managed", "versioned")
}


class ByHand:
    """A capsule with any device, and a count of how often it was ended."""

    def __init__(self, versioned: bool = True, device: Any = (2, 0), **fields: Any) -> None:
        self.n_ended = 0
        self.shape = ffi.new("int64_t[]", [2, 3])
        kind = "versioned" if versioned else "managed"
        self.managed = ffi.new(f"struct hrp_dl_{kind} *")
        tensor = self.managed.tensor
        tensor.data = ffi.cast("void *", 0x1000)
        tensor.device_type, tensor.device_id = device
        tensor.ndim, tensor.shape = 2, self.shape
        tensor.code, tensor.bits, tensor.lanes = 2, 32, 1
        for name, value in fields.items():
            setattr(tensor if hasattr(tensor, name) else self.managed, name, value)
        if versioned and "major" not in fields:
            self.managed.major = 1
        self.deleter = ffi.callback(_DELETERS[kind], self.end)
        self.managed.deleter = self.deleter
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.device = device

    def end(self, managed: Any) -> None:
        self.n_ended += 1

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, stream: Any = None, max_version: Any = None) -> Any:
        self.stream = stream
        end = _dlpack._address(native.hrp_capsule_destructor)
        return _new_capsule(_dlpack._address(self.managed), self.name, end)
