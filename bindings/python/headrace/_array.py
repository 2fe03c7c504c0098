# SPDX-License-Identifier: Apache-2.0
"""Arrays in memory of the host or a GPU, that other libraries use where they are.

============================ ================================================================
NumPy                        ``array.numpy()``, ``numpy.asarray(array)``
a buffer                     ``array.numpy().data``; from Python 3.12 on ``memoryview(array)``,
                             too, which asked before says only that there is none
PyTorch, JAX, TensorFlow     ``torch.from_dlpack(array)``, ``jax.dlpack.from_dlpack(array)``
CuPy, Numba, PyCUDA          ``cupy.asarray(array)``, ``numba.cuda.as_cuda_array(array)``:
                             ``__cuda_array_interface__``
============================ ================================================================

Nothing is copied, but by ``numpy()`` of an array that is on a GPU. The memory stays as long as
anybody uses it: this array, a view of it, a NumPy view, a tensor of another library, in any order
and on any thread.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Optional, Union

import numpy

from headrace import _calls, _dlpack, _dtypes, _layout, _streams
from headrace._foreign import Foreign, contiguous, of_host
from headrace._handle import Handle, elsewhere
from headrace._library import ffi, lib, native
from headrace._memory import Memory

_Shape = tuple[int, ...]

_SHOWN = 6  # elements
_BYTES = _dtypes.find("uint8")
_ADDRESS = ffi.typeof("uintptr_t")


class Array(Handle):
    """Elements in memory, made by headrace; a handle for other libraries, which compute on them.

    Attributes
    ----------
    shape : tuple of int
        Elements of each axis. Types of less than a byte are counted in bytes, as NumPy has them.
    dtype : numpy.dtype
        Of an element; of types that NumPy lacks as ``ml_dtypes`` has them, without that package an
        unsigned integer of as many bits.
    dtype_name : str
        headrace's name of the type: "f32", "bf16", ...
    device : str
        "host", "cuda:N" or "hip:N".
    strides : tuple of int
        Bytes from one element to the next, of each axis.
    base : object or None
        The Python object whose memory it is, if it is one's.

    Notes
    -----
    Threads may share it. Memory of a GPU is there, that is written, when an array is handed out.
    Memory of a chunk is used again when its last user is gone, behind what is queued by then on
    the streams that were named to ``__dlpack__`` or `record_stream`, and on those that were
    PyTorch's and CuPy's current ones when ``__cuda_array_interface__`` was read. Streams live so
    long.

    What takes arithmetic, also ``==``, raises TypeError, and other methods of NumPy's arrays are
    missing; the text says who has them. Sets and dictionaries go by identity; ``in`` a list does
    not, as it compares.

    Examples
    --------
    >>> import headrace as hr
    >>> array = hr.to_device(numpy.arange(6, dtype="f4").reshape(2, 3), "host")
    >>> array
    <headrace.Array (2, 3) f32 on host: 0.0, 1.0, 2.0, 3.0, 4.0, 5.0>
    >>> array[:, ::2].tolist(), float(array[1, 2])
    ([[0.0, 2.0], [3.0, 5.0]], 5.0)
    >>> array[1].numpy()
    array([3., 4., 5.], dtype=float32)
    >>> array.reshape(3, -1).view("u1").shape
    (3, 8)
    """

    def __init__(
        self, memory: Memory, ptr: int, shape: _Shape, dtype: _dtypes.DType, order: str = "C"
    ) -> None:
        self._memory = memory
        self._ptr = ptr
        self._type = dtype
        self.shape = shape
        self.strides = _layout.strides_of(shape, order, dtype.numpy.itemsize)

    # ---- what it is ----

    @property
    def dtype(self) -> numpy.dtype[Any]:
        return self._type.numpy

    @property
    def dtype_name(self) -> str:
        return self._type.name

    @property
    def device(self) -> str:
        return self._memory.device

    @property
    def base(self) -> Any:
        return self._memory.base

    @property
    def readonly(self) -> bool:
        """Nobody may write to it."""
        return self._memory.readonly

    @property
    def stream(self) -> Optional[int]:
        """On which its elements are made; None: they are there."""
        return self._memory.stream

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return _layout.product(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self._type.numpy.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def order(self) -> Optional[str]:
        """ "C", "F" for column-major; None: the elements have gaps."""
        return _layout.order_of(self.shape, self.strides, self.itemsize)

    @property
    def ptr(self) -> int:
        """Address of the first element, valid as long as this array is.

        Raises
        ------
        ValueError
            It was released.
        """
        self._memory.check()
        return self._ptr

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("the array has no axis, and so no length")
        return self.shape[0]

    def __repr__(self) -> str:
        order = {"C": "", "F": ", column-major", None: ", with gaps"}[self.order]
        kind = f"{type(self).__name__} {self.shape} {self._type.name}"
        return f"<headrace.{kind} on {self.device}{order}{self._shown()}>"

    def _shown(self) -> str:
        """The first elements, where a look costs nothing."""
        if self.device != "host" or self._memory.ended or self._type.is_standin or not self.size:
            return ""
        first = self.numpy().flat[:_SHOWN]
        text = ", ".join(map(str, first))
        return f": {text}, ..." if self.size > _SHOWN else f": {text}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have bytes of their own: an address is of no use elsewhere."""
        if self.device != "host":
            raise TypeError(f"the array is on {self.device}: copy it by copy(), pickle its numpy()")
        return of_numpy, (self.numpy().copy(order="K"), self._type)

    # ---- views ----

    def _derive(
        self,
        ptr: int,
        shape: _Shape,
        dtype: _dtypes.DType,
        order: str = "C",
        strides: Optional[_Shape] = None,
    ) -> Array:
        """A view, of the same class; with strides it may have gaps."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._ptr, made.shape, made._type = ptr, shape, dtype
        made.strides = strides or _layout.strides_of(shape, order, dtype.numpy.itemsize)
        return made

    @property
    def T(self) -> Array:  # noqa: N802 - NumPy's name
        """The transpose, as a view."""
        return self._derive(self.ptr, self.shape[::-1], self._type, strides=self.strides[::-1])

    def view(self, dtype: Any) -> Array:
        """The same bytes as elements of another type.

        Parameters
        ----------
        dtype : str, numpy.dtype, type or DType
            As in ``headrace.load``: "f4", "bf16", numpy.float32, ...

        Returns
        -------
        Array
            The last axis is as long as its bytes make it. It shares the memory.

        Raises
        ------
        ValueError
            The bytes of the last axis are no whole elements, or do not lie together.
        """
        to = _dtypes.find(dtype)
        shape, strides = _layout.as_other(
            self.shape, self.strides, self._type.numpy.itemsize, to.numpy.itemsize
        )
        return self._derive(self.ptr, shape, to, strides=strides)

    def reshape(self, *shape: Union[int, _Shape]) -> Array:
        """The same elements with other axes.

        Parameters
        ----------
        *shape : int or one tuple of int
            Elements of each axis; one of them may be -1.

        Returns
        -------
        Array
            It shares the memory.

        Raises
        ------
        ValueError
            Not as many elements; or they are not in C order without gaps.
        """
        given: Any = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        wanted = [operator.index(length) for length in given]
        known = _layout.product(tuple(length for length in wanted if length != -1))
        if wanted.count(-1) == 1 and known and self.size % known == 0:
            wanted[wanted.index(-1)] = self.size // known
        if min(wanted, default=0) < 0 or _layout.product(tuple(wanted)) != self.size:
            raise ValueError(f"{self.size} elements do not fill the shape {given}")
        if self.order != "C":
            hint = _layout.copy_of(self.order)
            raise ValueError(f"another shape of elements out of C order: {hint}")
        return self._derive(self.ptr, tuple(wanted), self._type)

    def __getitem__(self, key: Any) -> Array:
        """A part, as a view: by integers, slices with steps above 0, ``...`` and None."""
        try:
            at, shape, strides = _layout.part(self.shape, self.strides, key)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}: {elsewhere(self)}") from None
        return self._derive(self.ptr + at, shape, self._type, strides=strides)

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    # ---- values ----

    def copy(self) -> Array:
        """The same elements in memory of their own, on the same device.

        Returns
        -------
        Array
            In C order, without gaps. Of a chunk it is no chunk any more, and stays.
        """
        if self.device == "host":
            return of_numpy(self.numpy().copy(), self._type)
        from headrace._transfer import to_device  # which needs this module

        source = self if self.order == "C" else of_numpy(self.numpy().copy(), self._type)
        made: Array = to_device(source, self.device)
        return made

    def tobytes(self) -> bytes:
        """The bytes of all elements, in C order; of a GPU they are fetched."""
        return self.numpy().tobytes()

    def tolist(self) -> Any:
        """The elements as numbers of Python in nested lists; of a GPU they are fetched.

        Raises
        ------
        TypeError
            NumPy lacks the type.
        """
        if self._type.is_standin:
            raise TypeError(
                f"NumPy lacks {self._type}, or has it by ml_dtypes: array.numpy() has the bits"
            )
        return self.numpy().tolist()

    def item(self) -> Any:
        """The only element as a number of Python; float(), int(), bool() and complex() use it.

        Raises
        ------
        ValueError
            There is not one element.
        TypeError
            As `tolist`.
        """
        if self.size != 1:
            raise ValueError(
                f"an array of {self.size} elements is no number and neither true nor false: "
                f"{elsewhere(self)}"
            )
        return self._derive(self.ptr, (), self._type).tolist()

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    # ---- NumPy and buffers ----

    def _fetched(self) -> numpy.ndarray[Any, Any]:
        from headrace._transfer import to_host  # which needs this module

        fetched: numpy.ndarray[Any, Any]
        if self.order is not None:
            fetched = to_host(self)
        else:  # the gaps come with it
            nbytes = _layout.span(self.shape, self.strides, self.itemsize)
            data = to_host(self._derive(self.ptr, (nbytes,), _dtypes.find("uint8")))
            fetched = numpy.ndarray(self.shape, self.dtype, data, strides=self.strides)
        return fetched

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The elements as a NumPy array.

        Returns
        -------
        numpy.ndarray
            On the host a view, which keeps the memory by itself; of a GPU a copy.
        """
        if self.device != "host":
            return self._fetched()
        view: numpy.ndarray[Any, Any]
        view = numpy.ndarray(self.shape, self.dtype, self._bytes(), strides=self.strides)
        return view

    def _bytes(self) -> memoryview:
        """On the host: a buffer that keeps the memory, whatever becomes of this array."""
        nbytes = _layout.span(self.shape, self.strides, self.itemsize)
        return self._memory.buffer(self.ptr, nbytes)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        if copy is False and self.device != "host":
            raise ValueError(f"the array is on {self.device}: NumPy cannot use it without a copy")
        array = self.numpy()
        if dtype is not None and numpy.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"the array is of {array.dtype}: as {dtype} it is a copy")
            return array.astype(dtype)
        return array.copy() if copy and self.device == "host" else array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.device != "host" or (self.dtype.kind == "V" and self.dtype.names is None):
            raise AttributeError("__array_interface__")  # NumPy asks __array__ then
        # no address for data: whoever has the dictionary keeps the memory
        return {**self.numpy().__array_interface__, "data": self._bytes()}

    def __buffer__(self, flags: int) -> memoryview:
        if self.device != "host":
            raise BufferError(f"the array is on {self.device}: copy it by numpy()")
        return self.numpy().data

    # ---- GPUs ----

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        memory = self._memory
        if memory.device == "host":
            raise AttributeError("__cuda_array_interface__")
        memory.check()
        if memory.stream is None:
            for stream in _streams.current(memory.device):
                memory.note(stream)
        return _interface(self._ptr, self.shape, self.strides, self._type, memory.readonly).copy()

    def record_stream(self, stream: Any) -> None:
        """Says that work on a stream uses the memory, so that it is used again only after it.

        Parameters
        ----------
        stream : int or object
            A handle, or a stream of PyTorch, CuPy, PyCUDA or Numba.

        Notes
        -----
        What counts is what is queued when the last user of the memory is gone. On the host it says
        nothing.
        """
        if self.device != "host":
            self._memory.note(_streams.handle(stream))

    # ---- DLPack ----

    def __dlpack_device__(self) -> tuple[int, int]:
        return _dlpack.device_pair(self.device)

    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        elsewhere = dl_device is not None and tuple(dl_device) != self.__dlpack_device__()
        if elsewhere or copy:
            return self._copied(dl_device, copy).__dlpack__(max_version=max_version)
        memory = self._memory
        memory.check()
        if stream is None or stream != memory.stream:
            self._order_for(stream)
        versioned = max_version is not None and max_version[0] >= 1
        if memory.base is not None:  # NumPy can keep a Python object
            return _dlpack.by_numpy(self.numpy(), self._type, versioned)
        return _dlpack.export(self._tensor(), memory.hold, versioned)

    def _tensor(self) -> _dlpack.Tensor:
        memory = self._memory
        return _dlpack.tensor(
            self._ptr, self.shape, self.strides, self._type, memory.device, memory.readonly
        )

    def _copied(self, dl_device: Optional[tuple[int, int]], copy: Optional[bool]) -> Array:
        to = tuple(dl_device or self.__dlpack_device__())
        if copy is False or to[0] != _dlpack.CPU:
            raise BufferError(
                f"the array is on {self.device}: on DLPack's device {to} it would be a copy, and "
                "copies are made to the host only, where they are allowed"
            )
        array = self.numpy()
        return of_numpy(array.copy(order="K") if self.device == "host" else array, self._type)

    def _order_for(self, stream: Optional[int]) -> None:
        """Between the work on this memory and the consumer's, if that is on another stream."""
        if self.device == "host":
            if stream is not None:
                raise BufferError("the array is on the host, where there are no streams")
            return
        used_on = _streams.of_consumer(stream, self.device)
        if self.stream is None and used_on is not None:
            self._memory.note(used_on)
        if self.stream is not None and used_on not in (None, self.stream):
            raise BufferError(
                f"the array is made on stream {self.stream:#x} and may be used there only: make "
                "that the current stream first"
            )

    # ---- as a source or sink ----

    def _described(self, writable: bool) -> Foreign:
        order = self.order
        if order is None and self.device == "host" and not writable:
            copied = of_host(self.numpy(), writable)
            copied.dtype = self._type  # where NumPy has a stand-in
            return copied
        return Foreign(
            ptr=self.ptr,
            nbytes=self.nbytes,
            shape=self.shape,
            dtype=self._type,
            device=self.device,
            order=contiguous(self, order),
            readonly=self.readonly,
            stream=self.stream,
            owner=self._memory.retained(),
        )


@functools.lru_cache(maxsize=256)
def _interface(
    ptr: int, shape: _Shape, strides: _Shape, dtype: _dtypes.DType, readonly: bool
) -> dict[str, Any]:
    """A ``__cuda_array_interface__``, which is made once for each place that chunks come in."""
    of, order = dtype.numpy, _layout.order_of(shape, strides, dtype.numpy.itemsize)
    return {
        "shape": shape,
        "typestr": of.str,
        "descr": of.descr if of.names else [("", of.str)],
        "data": (ptr if _layout.product(shape) * of.itemsize else 0, readonly),
        "strides": None if order == "C" else strides,
        "version": 3,
        # In a kernel's call work is queued on the call's stream. Were it named here, CuPy and
        # Numba would wait for all that is queued there.
        "stream": None,
    }


class Chunk(Array):
    """A part of a stream, on loan from its pipeline, whose memory is used again.

    Attributes
    ----------
    index : int
        Its number in the stream.
    stream_offset : int
        Of its first byte in the stream that enters the kernels.
    source_offset : int
        Decoded byte of its source where its first byte was.
    source : int
        Number of that source.
    n_units : int
        Units of the last kernel's output in it; bytes, without kernels.
    first, last : bool
        Whether it is the first; whether it is known to be the last.
    verified : bool
        Decoded from frames whose checksums were checked.

    Notes
    -----
    It goes back to the pipeline when its last user is gone, or by `release`. A pipeline stops when
    all its chunks are out.
    """

    def __init__(self, memory: Memory, ptr: int, chunk: Any) -> None:
        Array.__init__(self, memory, ptr, (chunk.size,), _BYTES)
        self._chunk = chunk

    @property
    def index(self) -> int:
        return int(self._chunk.index)

    @property
    def stream_offset(self) -> int:
        return int(self._chunk.stream_offset)

    @property
    def source_offset(self) -> int:
        return int(self._chunk.source_offset)

    @property
    def source(self) -> int:
        return int(self._chunk.source)

    @property
    def n_units(self) -> int:
        return int(self._chunk.n_units)

    @property
    def first(self) -> bool:
        return bool(self._chunk.flags & lib.HR_CHUNK_FIRST)

    @property
    def last(self) -> bool:
        return bool(self._chunk.flags & lib.HR_CHUNK_LAST)

    @property
    def verified(self) -> bool:
        return bool(self._chunk.flags & lib.HR_CHUNK_VERIFIED)

    def release(self, stream: Any = None) -> None:
        """Gives the chunk back now, not when Python forgets it.

        Parameters
        ----------
        stream : int or object, optional
            As for `record_stream`.

        Notes
        -----
        Its views (`view`, slices) are of no use afterwards. NumPy views and tensors of other
        libraries are: they keep the memory until they are gone. A second call does nothing.
        """
        if stream is not None and not self._memory.ended:
            self.record_stream(stream)
        self._memory.end("the chunk was released")

    def __enter__(self) -> Chunk:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.release()


# ---- making them -----------------------------------------------------------------------------


def chunk_array(hold: Any, chunk: Any, own: Sequence[tuple[int, int]] = ()) -> Chunk:
    """A chunk that was lent by hrp_box_next, as bytes.

    Parameters
    ----------
    hold : place for a hrp_hold
        It is taken over.
    chunk : cffi pointer to struct hr_chunk
        What it is.
    own : sequence of (int, int), default ()
        Addresses of the sources' own memory, begins and ends: a chunk that lies there is not the
        pipeline's, and is not to be written to.

    Returns
    -------
    Chunk
        When its data are there.

    Raises
    ------
    DeviceError
        The device has failed.
    """
    device = "host"
    if chunk.flags & lib.HR_CHUNK_DEVICE:
        device = ffi.string(native.hrp_hold_device(hold[0])).decode()
        error = _calls.new_error()
        _calls.check(lib.hr_chunk_wait(chunk, ffi.NULL, error), error)
    ptr = int(ffi.cast(_ADDRESS, chunk.data))
    readonly = False
    for begin, end in own:
        readonly = readonly or begin <= ptr < end
    return Chunk(Memory(device, hold, None, None, readonly), ptr, chunk)


def memory_array(
    hold: Any,
    nbytes: int,
    dtype: Any = "uint8",
    shape: Optional[_Shape] = None,
    order: str = "C",
) -> Array:
    """Memory of a device as an array, which is to free it.

    Parameters
    ----------
    hold : place for a hrp_hold
        Of `_calls.allocated` or `_calls.gathered`. It is taken over.
    nbytes : int
        Bytes.
    dtype : str, numpy.dtype or DType, default "uint8"
        Of an element.
    shape : tuple of int, optional
        Elements of each axis, by default one axis of all.
    order : str, default "C"
        "C" or "F".

    Returns
    -------
    Array
        Its last user frees the memory.

    Raises
    ------
    ValueError
        The elements are not as many bytes.
    """
    kind = _dtypes.find(dtype)
    width = int(kind.numpy.itemsize)
    axes = (nbytes // width,) if shape is None else tuple(shape)
    if _layout.product(axes) * width != nbytes:
        raise ValueError(f"{axes} elements of {kind} are not {nbytes} bytes")
    device = ffi.string(native.hrp_hold_device(hold[0])).decode()
    ptr = int(ffi.cast("uintptr_t", native.hrp_hold_memory(hold[0])))
    return Array(Memory(device, hold), ptr, axes, kind, order)


def of_numpy(array: numpy.ndarray[Any, Any], dtype: Any = None) -> Array:
    """A NumPy array as an Array, in its memory.

    Parameters
    ----------
    array : numpy.ndarray
        Contiguous, in C or Fortran order.
    dtype : str or DType, optional
        The true type, where NumPy has a stand-in.

    Returns
    -------
    Array
        Its ``base`` is the array.

    Raises
    ------
    ValueError
        It has gaps.
    """
    kind = _dtypes.from_numpy(array.dtype) if dtype is None else _dtypes.find(dtype)
    order = _layout.order_of(array.shape, array.strides, array.itemsize)
    if order is None:
        raise ValueError("the NumPy array is not contiguous: make a contiguous copy of it first")
    memory = Memory("host", base=array, readonly=not array.flags.writeable)
    return Array(memory, array.ctypes.data, array.shape, kind, order)


def lent_array(
    device: str, ptr: int, shape: _Shape, dtype: Any, stream: Optional[int], readonly: bool
) -> tuple[Array, Memory]:
    """Memory that is somebody else's for a while: of a kernel's call.

    Parameters
    ----------
    device : str
        "cuda:N" or "hip:N".
    ptr : int
        Its address.
    shape : tuple of int
        Elements of each axis.
    dtype : str, numpy.dtype or DType
        Of an element.
    stream : int or None
        On which it is made and may be used.
    readonly : bool
        It is an input.

    Returns
    -------
    array : Array
        Other libraries can use it on the stream.
    memory : Memory
        Whose ``end(why)`` makes later use of the array raise.
    """
    memory = Memory(device, stream=stream, readonly=readonly)
    return Array(memory, ptr, shape, _dtypes.find(dtype)), memory
