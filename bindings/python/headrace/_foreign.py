# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as sources and sinks, where they are.

======================================= ====================================================
object                                  how it is seen
======================================= ====================================================
headrace.Array                          as it is
tensor of PyTorch                       by its attributes: also what requires a gradient,
                                        bfloat16 and floats of 8 bits; on GPUs (CUDA, ROCm)
                                        behind PyTorch's current stream
CuPy, Numba, PyCUDA, HIP-Python, ...    ``__cuda_array_interface__``, behind its stream
NumPy, bytes, bytearray, mmap, ...      the buffer protocol, ``__array_interface__``
JAX and others                          DLPack, behind the exporter's work
======================================= ====================================================

No other library is imported for it. Bytes are taken in the order in which they lie, so arrays are
contiguous, in C or in Fortran order; lengths of 1 and empty arrays are contiguous whatever their
strides say. Of others, a source on the host is copied first (in C order); one on a GPU, and every
destination, is refused.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy

from headrace import _dlpack, _dtypes, _streams
from headrace._layout import order_of, product


@dataclass
class Foreign:
    """Memory of an array.

    Attributes
    ----------
    ptr : int
        Address of the first byte; it may be 0 if there is none.
    nbytes : int
        Bytes, without gaps.
    shape : tuple of int
        Elements of each axis.
    dtype : DType
        Of an element.
    device : str
        "host", "cuda:N" or "hip:N".
    order : str
        "C" or "F": which axis is the outermost; "C" where both are right.
    readonly : bool
        It is not to be written to.
    stream : int or None
        What is queued on it by now comes before the first use; None: nothing.
    owner : object
        Keeps the memory: it stays as long as a transfer uses the memory.
    swap : int
        Width of the ``bswap`` kernel that brings the elements to the machine's byte order; 0: they
        have it.
    """

    ptr: int
    nbytes: int
    shape: tuple[int, ...]
    dtype: _dtypes.DType
    device: str
    order: str
    readonly: bool
    stream: Optional[int] = None
    owner: Any = field(default=None, repr=False)
    swap: int = 0


# ---- what an object is -----------------------------------------------------------------------


def _library_of(obj: Any) -> str:
    return type(obj).__module__.partition(".")[0]


def _name(obj: Any) -> str:
    return f"{_library_of(obj)}.{type(obj).__name__}"


def _is_torch(obj: Any) -> bool:
    return _library_of(obj) == "torch" and hasattr(obj, "data_ptr")


def refuse_masked(obj: Any) -> None:
    """What is masked cannot be told in bytes.

    Raises
    ------
    TypeError
        A masked array of NumPy.
    """
    if isinstance(obj, numpy.ma.MaskedArray):
        raise TypeError(
            "a masked array: no bytes tell what is masked; give array.filled(value), or array.data"
        )


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except (TypeError, BufferError, ValueError):
        return False
    return True


def is_array(obj: Any) -> bool:
    """Whether `describe` knows how to look at an object.

    Examples
    --------
    >>> is_array(b"abc"), is_array("abc"), is_array([1, 2])
    (True, False, False)
    """
    names = ("__cuda_array_interface__", "__array_interface__", "__dlpack__")
    return any(hasattr(obj, name) for name in names) or _is_torch(obj) or _has_buffer(obj)


# ---- layout ----------------------------------------------------------------------------------


def contiguous(obj: Any, order: Optional[str]) -> str:
    """The order of an array, for whose transfer there has to be one."""
    if order is None:
        raise ValueError(
            f"the {_name(obj)} is not contiguous: its elements do not lie one behind the other; "
            "make a contiguous copy of it first"
        )
    return order


def _size(shape: tuple[int, ...], dtype: _dtypes.DType) -> int:
    return product(shape) * int(dtype.numpy.itemsize)


# ---- the host --------------------------------------------------------------------------------


def _numpy_view(obj: Any) -> Any:
    """Without a copy; a buffer stays exported, so that a bytearray keeps its size."""
    if isinstance(obj, numpy.ndarray):
        return obj
    return numpy.asarray(memoryview(obj) if _has_buffer(obj) else obj)


def of_host(obj: Any, writable: bool) -> Foreign:
    """What NumPy can see; a source with gaps is copied."""
    array = _numpy_view(obj)
    dtype = _dtypes.from_numpy(array.dtype)
    readonly = not array.flags.writeable
    order = order_of(array.shape, array.strides, array.itemsize)
    if order is None and not writable:
        array, order = numpy.ascontiguousarray(array), "C"
    return Foreign(
        ptr=int(array.__array_interface__["data"][0]) if array.nbytes else 0,
        nbytes=int(array.nbytes),
        shape=array.shape,
        dtype=dtype,
        device="host",
        order=contiguous(obj, order),
        readonly=readonly,
        owner=array,
        swap=_dtypes.swap_width(array.dtype),
    )


# ---- GPUs ------------------------------------------------------------------------------------


def _index_of(obj: Any) -> int:
    """The number of a GPU, where an object tells it; else that of the first."""
    device = getattr(obj, "device", None)
    for name in ("id", "index", "ordinal"):
        number = getattr(device, name, None)
        if isinstance(number, int):
            return number
    return 0


def _backend_of(obj: Any) -> str:
    """Libraries for ROCm have the interface of the same name."""
    library = _library_of(obj)
    if library == "cupy" and sys.modules["cupy"].cuda.runtime.is_hip:
        return "hip"
    return "hip" if library == "hip" else "cuda"


def _type_of(interface: dict[str, Any]) -> numpy.dtype[Any]:
    """Records are told by descr: typestr says only how many bytes they have."""
    descr = interface.get("descr")
    is_plain = not descr or (len(descr) == 1 and descr[0][0] == "")
    return numpy.dtype(interface["typestr"] if is_plain else descr)


def _of_interface(obj: Any, interface: dict[str, Any]) -> Foreign:
    if interface.get("mask") is not None:
        raise ValueError(f"the {_name(obj)} has a mask: what is masked cannot be told in bytes")
    stored = _type_of(interface)
    dtype = _dtypes.from_numpy(stored)
    shape = tuple(int(length) for length in interface["shape"])
    ptr, readonly = interface["data"]
    order = order_of(shape, interface.get("strides"), dtype.numpy.itemsize)
    return Foreign(
        ptr=int(ptr or 0),
        nbytes=_size(shape, dtype),
        shape=shape,
        dtype=dtype,
        device=f"{_backend_of(obj)}:{_index_of(obj)}",
        order=contiguous(obj, order),
        readonly=bool(readonly),
        stream=_streams.of_producer(interface.get("stream")),
        owner=obj,
        swap=_dtypes.swap_width(stored),
    )


# ---- PyTorch: the module is loaded, the tensor is its own -------------------------------------


def _torch_device(tensor: Any) -> str:
    kind, index = tensor.device.type, tensor.device.index
    if kind == "cpu":
        return "host"
    if kind != "cuda":
        raise TypeError(f'a tensor on device "{kind}" cannot be read or written: copy it first')
    return f"{'hip' if sys.modules['torch'].version.hip else 'cuda'}:{index or 0}"


def _torch_stream(tensor: Any, device: str) -> Optional[int]:
    if device == "host":
        return None
    return _streams.handle(sys.modules["torch"].cuda.current_stream(tensor.device))


def _of_torch(tensor: Any, writable: bool) -> Foreign:
    if str(tensor.layout) != "torch.strided":
        raise TypeError(f"the elements of a tensor of layout {tensor.layout} are no array")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError("the tensor is a conjugate or negative view: resolve it first")
    dtype = _dtypes.from_torch(str(tensor.dtype))
    device = _torch_device(tensor)
    shape, width = tuple(tensor.shape), int(tensor.element_size())
    order = order_of(shape, tuple(stride * width for stride in tensor.stride()), width)
    if order is None and device == "host" and not writable:
        tensor, order = tensor.detach().contiguous(), "C"
    return Foreign(
        ptr=int(tensor.data_ptr()),
        nbytes=int(tensor.numel()) * width,
        shape=shape,
        dtype=dtype,
        device=device,
        order=contiguous(tensor, order),
        readonly=False,
        stream=_torch_stream(tensor, device),
        owner=tensor,
    )


# ---- DLPack ----------------------------------------------------------------------------------


def _of_dlpack(obj: Any, writable: bool) -> Foreign:
    device = _dlpack.device_name(*obj.__dlpack_device__())
    # the default stream: 1 for CUDA, 0 for ROCm
    asked = {"host": None, "cuda": _streams.LEGACY, "hip": 0}[device.partition(":")[0]]
    tensor = _dlpack.consume(_dlpack.request(obj, asked))
    width = int(tensor.dtype.numpy.itemsize)
    strides = None if tensor.strides is None else tuple(s * width for s in tensor.strides)
    order = order_of(tensor.shape, strides, width)
    if order is None and device == "host" and not writable:
        return of_host(numpy.from_dlpack(obj), writable)
    # arrays of JAX never change, which a capsule of before DLPack 1.0 does not say
    is_constant = _library_of(obj) in ("jax", "jaxlib")
    return Foreign(
        ptr=tensor.ptr,
        nbytes=_size(tensor.shape, tensor.dtype),
        shape=tensor.shape,
        dtype=tensor.dtype,
        device=device,
        order=contiguous(obj, order),
        readonly=tensor.readonly or is_constant,
        stream=None if device == "host" else _streams.LEGACY,
        owner=(tensor.owner, obj),
    )


# ---- all -------------------------------------------------------------------------------------


def _look(obj: Any, writable: bool) -> Foreign:
    refuse_masked(obj)
    described = getattr(type(obj), "_described", None)
    if described is not None:  # an Array
        own: Foreign = described(obj, writable)
        return own
    if _is_torch(obj):
        return _of_torch(obj, writable)
    interface = getattr(obj, "__cuda_array_interface__", None)
    # One that tells no stream (of JAX) orders nothing, as DLPack does.
    if interface is not None and ("stream" in interface or not hasattr(obj, "__dlpack__")):
        return _of_interface(obj, interface)
    if hasattr(obj, "__array_interface__") or _has_buffer(obj):
        return of_host(obj, writable)
    if hasattr(obj, "__dlpack__"):
        return _of_dlpack(obj, writable)
    raise TypeError(f"{_name(obj)} is no array: it has no buffer, no array interface, no DLPack")


def describe(obj: Any, writable: bool) -> Foreign:
    """The memory of an array, without copying it.

    Parameters
    ----------
    obj : object
        See the table above.
    writable : bool
        It is to be written to.

    Returns
    -------
    Foreign
        Its ``owner`` is kept until no transfer uses the memory any more.

    Raises
    ------
    TypeError
        It is no array, one whose elements do not lie in memory, or a masked array.
    ValueError
        It is not contiguous, has a mask or holds objects; or the stream in its interface is none.
    BufferError
        To be written to, but read-only; or of a device or type that DLPack has and headrace not.

    Examples
    --------
    >>> found = describe(numpy.zeros((2, 3), "f4"), writable=True)
    >>> found.nbytes, found.device, found.order, found.dtype.name
    (24, 'host', 'C', 'f32')
    """
    found = _look(obj, writable)
    if writable and found.readonly:
        raise BufferError(f"the {_name(obj)} is read-only: it cannot be written to")
    return found
