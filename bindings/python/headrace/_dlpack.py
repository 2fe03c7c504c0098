# SPDX-License-Identifier: Apache-2.0
"""Capsules of DLPack, made and consumed.

What ends the use of an exported tensor is in C and needs no interpreter: it may be called on any
thread. Both kinds of capsules are spoken: "dltensor", and "dltensor_versioned" of version 1.x,
which can say that the memory is not to be written to.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any, Callable, Optional

from headrace import _calls, _dtypes
from headrace._library import ffi, native

CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, CUDA_MANAGED = 1, 2, 3, 10, 11, 13
"""DLDeviceType."""

VERSION = (1, 0)
"""The newest version that is spoken."""

_HOST = (CPU, CUDA_HOST, ROCM_HOST)
_NAMES = (b"dltensor", b"dltensor_versioned")  # a capsule refers to its name: constants
_USED = (b"used_dltensor", b"used_dltensor_versioned")


def _capsule_call(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_valid = _capsule_call("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_pointer = _capsule_call(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)


def _address(of: Any) -> int:
    return int(ffi.cast("uintptr_t", of))


# By ctypes, as cffi gives the interpreter's lock up. Each is one step, in which Ctrl-C cannot show.
_make = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
)(_address(native.hrp_dlpack_capsule))
_take = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)(
    _address(native.hrp_dlpack_consume)
)


@functools.lru_cache(maxsize=64)
def device_pair(device: str) -> tuple[int, int]:
    """What ``__dlpack_device__`` says of a device.

    Examples
    --------
    >>> device_pair("cuda:1"), device_pair("host")
    ((2, 1), (1, 0))
    """
    if device == "host":
        return CPU, 0
    backend, _, number = device.partition(":")
    return (CUDA if backend == "cuda" else ROCM), int(number or 0)


def device_name(kind: int, number: int) -> str:
    """The device of a ``__dlpack_device__``.

    Raises
    ------
    BufferError
        A kind that headrace has no backend for.

    Examples
    --------
    >>> device_name(10, 0), device_name(3, 0)
    ('hip:0', 'host')
    """
    if kind in _HOST:
        return "host"
    if kind in (CUDA, CUDA_MANAGED):
        return f"cuda:{number}"
    if kind == ROCM:
        return f"hip:{number}"
    raise BufferError(f"DLPack's device type {kind} is not the host's, nor CUDA's or ROCm's")


@dataclass
class Tensor:
    """A tensor as DLPack tells of it.

    Attributes
    ----------
    ptr : int
        Address of the first element.
    shape : tuple of int
        Elements of each axis.
    strides : tuple of int or None
        In elements; None: C order.
    dtype : DType
        Of an element.
    device : str
        "host", "cuda:N" or "hip:N".
    readonly : bool
        It says so; capsules that are not versioned cannot.
    owner : object or None
        Of what is imported: ends the exporter's use when it is gone.
    """

    ptr: int
    shape: tuple[int, ...]
    strides: Optional[tuple[int, ...]]
    dtype: _dtypes.DType
    device: str
    readonly: bool
    owner: Any = None

    @functools.cached_property
    def struct(self) -> tuple[int, Any]:
        """Address of a struct hrp_dl_tensor, which C copies, and what keeps it.

        Raises
        ------
        BufferError
            A type that DLPack does not have.
        """
        struct = ffi.new("struct hrp_dl_tensor *")
        lengths = ffi.new("int64_t[]", self.shape)
        steps = ffi.NULL if self.strides is None else ffi.new("int64_t[]", self.strides)
        struct.data = ffi.cast("void *", self.ptr)
        struct.device_type, struct.device_id = device_pair(self.device)
        struct.ndim, struct.shape, struct.strides = len(self.shape), lengths, steps
        struct.code, struct.bits = _code_of(self.dtype)
        struct.lanes = 1
        return _address(struct), (struct, lengths, steps)


@functools.lru_cache(maxsize=256)
def tensor(
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: _dtypes.DType,
    device: str,
    readonly: bool,
) -> Tensor:
    """A Tensor of strides in bytes. Chunks come in the same memory again and again, and to fill one
    in takes longer than all else of an export.

    Raises
    ------
    BufferError
        The strides are no whole elements.
    """
    return Tensor(
        ptr, shape, in_elements(strides, dtype.numpy.itemsize), dtype, device, readonly
    )


def in_elements(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides as DLPack has them, of strides in bytes.

    Raises
    ------
    BufferError
        They are no whole elements.

    Examples
    --------
    >>> in_elements((24, 8), 8)
    (3, 1)
    """
    if any(stride % itemsize for stride in strides):
        raise BufferError("rows are no whole elements apart, as DLPack has it: use copy()")
    return tuple(stride // itemsize for stride in strides)


def _code_of(dtype: _dtypes.DType) -> tuple[int, int]:
    """Type code and bits."""
    if dtype.bits % 8:  # its bytes, as NumPy has them
        dtype = _dtypes.find("uint8")
    if dtype.dlpack is None:
        raise BufferError(f"DLPack has no type for {dtype}")
    return dtype.dlpack


def export(tensor: Tensor, hold: Any, versioned: bool) -> Any:
    """A capsule for another library.

    Parameters
    ----------
    tensor : Tensor
        What is in it.
    hold : cffi pointer to hrp_hold, or None
        Retained until the consumer, or the capsule if there is none, has ended its use.
    versioned : bool
        The kind that can say readonly.

    Returns
    -------
    PyCapsule
        "dltensor_versioned" or "dltensor".

    Raises
    ------
    BufferError
        A type that DLPack does not have, or a read-only tensor in a capsule that cannot say it.
    """
    if tensor.readonly and not versioned:
        raise BufferError(
            "the array is read-only, which only capsules of DLPack 1.0 say, and the library asked "
            "for an older one: give it a copy, array.numpy().copy()"
        )
    flags = native.HRP_DL_READ_ONLY if tensor.readonly else 0
    return _make(tensor.struct[0], None if hold is None else _address(hold), versioned, flags)


def _struct(capsule: Any) -> tuple[Any, bool]:
    """The managed tensor in a capsule, and whether it is versioned."""
    for versioned, name in enumerate(_NAMES):
        if _is_valid(capsule, name):
            kind = ("managed", "versioned")[versioned]
            return ffi.cast(f"struct hrp_dl_{kind} *", _get_pointer(capsule, name)), bool(versioned)
    if any(_is_valid(capsule, name) for name in _USED):
        raise ValueError("the capsule of DLPack was consumed before: ask for a new one")
    raise TypeError(f"{capsule!r} is no capsule of DLPack")


def consume(capsule: Any) -> Tensor:
    """Takes the tensor out of a capsule, once.

    Parameters
    ----------
    capsule : PyCapsule
        From ``__dlpack__()``.

    Returns
    -------
    Tensor
        The exporter's memory, in use until ``owner`` is gone.

    Raises
    ------
    ValueError
        It was consumed before.
    BufferError
        A version, device or type that is not spoken.
    """
    managed, versioned = _struct(capsule)
    if versioned and managed.major > VERSION[0]:
        raise BufferError(f"the capsule is of DLPack {managed.major}: 1 is spoken here")
    tensor = managed.tensor
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides != ffi.NULL:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    try:
        dtype = _dtypes.from_dlpack(tensor.code, tensor.bits, tensor.lanes)
    except ValueError as error:
        raise BufferError(str(error)) from None
    device = device_name(tensor.device_type, tensor.device_id)
    owner = _calls.new_owner("struct hrp_dl_owner *", native.hrp_dlpack_end)
    _take(capsule, versioned, _address(owner))
    return Tensor(
        ptr=_address(tensor.data) + tensor.byte_offset,
        shape=shape,
        strides=strides,
        dtype=dtype,
        device=device,
        readonly=bool(versioned and managed.flags & native.HRP_DL_READ_ONLY),
        owner=owner,
    )


def request(exporter: Any, stream: Optional[int], versioned: bool = True) -> Any:
    """Asks an object for a capsule, versioned if it can.

    Parameters
    ----------
    exporter : object
        With ``__dlpack__``.
    stream : int or None
        What the memory is used on: the exporter orders its work before that. None for the host.
    versioned : bool, default True
        Whether that kind is wanted.

    Returns
    -------
    PyCapsule
        Not consumed yet.
    """
    arguments = {} if stream is None else {"stream": stream}
    if not versioned:
        return exporter.__dlpack__(**arguments)
    try:
        return exporter.__dlpack__(max_version=VERSION, **arguments)
    except TypeError:  # of before DLPack 1.0
        return exporter.__dlpack__(**arguments)


def by_numpy(array: Any, dtype: _dtypes.DType, versioned: bool) -> Any:
    """A capsule by NumPy, also of types that NumPy does not export or has a stand-in for.

    Parameters
    ----------
    array : numpy.ndarray
        What the consumer keeps.
    dtype : DType
        The true type of its elements.
    versioned : bool
        As for `request`.

    Returns
    -------
    PyCapsule
        Not consumed yet.

    Raises
    ------
    BufferError
        A type that DLPack does not have; or as NumPy.
    """
    code, bits = _code_of(dtype)
    if array.itemsize <= 8:
        array = array.view(f"u{array.itemsize}")
    capsule = request(array, None, versioned)
    tensor = _struct(capsule)[0].tensor
    tensor.code, tensor.bits = code, bits
    return capsule
