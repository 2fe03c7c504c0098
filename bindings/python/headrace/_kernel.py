# SPDX-License-Identifier: Apache-2.0
"""Kernels: built in, compiled, or Python functions."""

from __future__ import annotations

from typing import Any, Callable, Optional

from headrace import _calls, _kernel_call, _libraries
from headrace._callbacks import Failures
from headrace._function import Function, Layout, Unit
from headrace._library import ffi, lib
from headrace._numbers import size
from headrace.errors import ArgumentError

_REDUCTIONS = ("sum", "mean", "min", "max", "histogram", "count", "crc32")


class Kernel:
    """A stage of computation, made by one of the class methods.

    Kernels are descriptions: one may be used in any number of pipelines, at once. Wherever kernels
    are taken, a str stands for ``Kernel.builtin`` of it, and a callable for ``Kernel.function``.

    Notes
    -----
    A unit (an element, a record) never straddles two calls. Any thread may use a kernel.
    """

    def __init__(self, kind: Optional[int] = None, **fields: Any) -> None:
        if not isinstance(kind, int):
            raise TypeError(
                "a Kernel is made by Kernel.builtin(text), Kernel.source, Kernel.image or "
                "Kernel.function"
            )
        self._kind = kind
        self._fields = fields
        self._function: Optional[Function] = None

    @classmethod
    def builtin(cls, text: str) -> Kernel:
        """A kernel of the library.

        Parameters
        ----------
        text : str
            One of the specifications below.

        Returns
        -------
        Kernel
            A wrong text is found by the pipeline that uses it.

        Notes
        -----
        TYPE, FROM and TO are u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64, whose numbers are bits: i8
        is NumPy's int8. OP is lt le gt ge eq ne. A kernel that names no type is of bytes.

        cast:FROM,TO
            To an integer: rounds to the nearest, ties to even, saturates, and makes NaN 0 (NumPy's
            astype truncates and wraps around). To a float: one rounding to the nearest, ties to
            even; overflow gives an infinity.
        scale:TYPE,MUL,ADD
            x * MUL + ADD with a rounding after each. Integers are computed in f64, so that those
            beyond 2^53 lose their last digits even with MUL 1, then rounded as by cast; f16 and
            bf16 in f32.
        bswap:2|4|8
            Reverses the bytes of each element.
        shuffle:WIDTH,BLOCK and unshuffle:WIDTH,BLOCK
            In each BLOCK bytes: byte 0 of all elements of WIDTH bytes, byte 1 of all, ...; and the
            inverse.
        filter:TYPE,OP,VALUE
            The elements that satisfy, in order; NaN satisfies only ne.

        Reductions pass on what they read; ``Pipeline.result`` tells what they found, the same bits
        whatever the chunk size:

        sum:TYPE
            Of floats the exact sum, rounded once to f64. Of integers modulo 2^64: it wraps around,
            as int64 (signed types) or uint64.
        mean:TYPE
            The exact sum by the number of elements, rounded to f64; NaN of nothing.
        min:TYPE and max:TYPE
            NaN counts only if there is nothing else; -0 is below +0; None of nothing.
        histogram[:TYPE,LO,HI,BINS]
            Counts as numpy.histogram; without parameters of bytes, in 256 bins.
        count:TYPE,OP,VALUE
            How many satisfy.
        crc32
            Of the bytes, as zlib's.

        Examples
        --------
        >>> import headrace as hr, numpy as np
        >>> out = np.zeros(3, "f4")
        >>> stats = hr.Pipeline(np.arange(3.0), out, kernels=["cast:f64,f32"], device="host").run()
        >>> out.tolist()
        [0.0, 1.0, 2.0]
        """
        return cls(lib.HR_KERNEL_BUILTIN, text=text.encode())

    @classmethod
    def source(
        cls, text: str, entry: str, unit_in: int, unit_out: int, args: bytes = b""
    ) -> Kernel:
        """A kernel in CUDA C++ or HIP, compiled when a pipeline is made; GPUs only.

        Parameters
        ----------
        text : str
            The source. Its parameters are those of "Kernel ABI 1" in headrace.h.
        entry : str
            Name of the ``extern "C" __global__`` function.
        unit_in, unit_out : int
            Bytes read and written for each unit; unit_out 0: the input passes on unchanged.
        args : bytes, default b""
            Copied to the device; the last parameter points there.

        Returns
        -------
        Kernel
            Compiled by each pipeline's device.
        """
        fields = {"text": text.encode(), "entry": entry.encode()}
        return cls(lib.HR_KERNEL_SOURCE, **_units(unit_in, unit_out), args=bytes(args), **fields)

    @classmethod
    def image(
        cls, image: bytes, entry: str, unit_in: int, unit_out: int, args: bytes = b""
    ) -> Kernel:
        """A compiled kernel: PTX, cubin or code object; GPUs only.

        Parameters
        ----------
        image : bytes
            As the compiler wrote it.
        entry, unit_in, unit_out, args
            As for ``source``.

        Returns
        -------
        Kernel
            Loaded by each pipeline's device.
        """
        return cls(
            lib.HR_KERNEL_IMAGE,
            image=bytes(image),
            entry=entry.encode(),
            **_units(unit_in, unit_out),
            args=bytes(args),
        )

    @classmethod
    def function(
        cls,
        function: Callable[[Any, Any, KernelCall], Optional[int]],
        unit_in: Optional[Unit] = None,
        unit_out: Optional[Unit] = None,
        counted: bool = False,
        arrays: Optional[str] = None,
    ) -> Kernel:
        """A Python function, called once for each chunk: ``function(x, out, call)``.

        Parameters
        ----------
        function : callable
            ``x`` is the input and ``out`` what it fills, arrays of ``call.n_units`` elements. On
            the host they are NumPy arrays. On a GPU they are each an Array of the device (by
            ``__cuda_array_interface__`` and DLPack), and the function enqueues work of any library
            on ``call.stream`` and returns without waiting for it. Unless counted, it returns None
            (or ``out``). What it does not write in ``out`` is what the memory held before, and goes
            on so: only a counted function may leave units out, behind those that it counts.
        unit_in : int or dtype, optional
            The unit: an element of this dtype, a row of them (``("f4", (3,))``, arrays of shape
            (n_units, 3)), or so many bytes (arrays of uint8, of shape (n_units, unit_in), or
            (n_units,) for single bytes), at least one. By default what comes: of an array, its
            elements, or its rows if it has several axes in C order; single bytes, where no type is
            known. Arrays of uint8, int8 and bool are bytes, too, however many axes they have:
            ``"i1"`` is an element of them, ``("i1", (3,))`` a row.
        unit_out : int or dtype, optional
            Likewise for what it writes for each unit; by default the same. The int 0: it writes
            nothing, ``out`` is None, and the input passes on unchanged. A dtype has bytes.
        counted : bool, default False
            It writes at most as many units as it got. On the host it returns how many, an int, or
            assigns it to ``call.count[0]``, which is no number to add to before; that it does
            neither is a TypeError. On a GPU its work stores it there (one uint64).
        arrays : {None, "torch", "cupy", "numba", "numpy"}, default None
            The library whose own arrays it gets: ``torch.Tensor`` (on the host, too),
            ``cupy.ndarray``, ``DeviceNDArray`` of Numba; ``numpy.ndarray`` on the host only. On a
            GPU they are made once for each place in memory, which chunks come back to, and the
            pipeline's stream is the library's current one during the call. Numba has none: a launch
            names ``call.stream_object``. Of all ways this one takes the least time for a chunk.

        Returns
        -------
        Kernel
            Owns a reference to the function.

        Raises
        ------
        ImportError
            The library of ``arrays`` is not installed.
        ValueError
            A word or a unit that is not known, or a unit of no bytes; ``Pipeline`` raises it where
            the library's arrays are never on the device, and TypeError where the library lacks the
            type.

        Notes
        -----
        The arrays are valid during the call: copy what is to be kept. ``x`` is not to be written
        to, which only NumPy's arrays refuse. On the host a view that is kept ends the transfer with
        BufferError. On a GPU a later use of headrace's arrays raises; a library's own array
        (``arrays``) shows whatever comes to the memory next, and may not be used behind the end of
        the pipeline. The same object comes again with the memory: leave its shape as it is. An
        exception ends the transfer, and is raised as it is by ``run()`` or ``next()``.

        On the host the function is called on threads of the library, several at once, so that calls
        overlap, and chunks come in any order: ``call.first_unit`` tells where this one is. What the
        calls share needs a lock. ``Pipeline(streams=1)`` has them one after the other, in the order
        of the stream (not with ``unordered=True``), but not always on the same thread. What a
        thread or context has for itself is not the caller's: ``numpy.errstate``, decimal contexts,
        ``threading.local``, ``contextvars``; set it in the function. On a GPU it is called on the
        thread that runs the pipeline, one call at a time.

        Examples
        --------
        >>> import headrace as hr, numpy as np
        >>> def double(x, out, call):
        ...     np.multiply(x, 2, out=out)
        >>> out = np.zeros(3, "i4")
        >>> kernel = hr.Kernel.function(double, "i4")
        >>> x = np.arange(3, dtype="i4")
        >>> stats = hr.Pipeline(x, out, kernels=[kernel], device="host").run()
        >>> out.tolist()
        [0, 2, 4]
        """
        if not callable(function):
            raise TypeError(f"{function!r} cannot be called")
        if arrays is not None:
            _libraries.find(arrays)  # it is told now, where it is asked for
        read = None if unit_in is None else Layout(unit_in)
        if read is not None and not read.nbytes:
            raise ArgumentError("unit_in is 0: a unit that is read has at least a byte")
        written = None if unit_out is None else Layout(unit_out)
        made = cls(lib.HR_KERNEL_FUNCTION)
        made._function = Function(function, read, written, counted, arrays)
        return made

    def __repr__(self) -> str:
        if self._function is not None:
            return f"headrace.Kernel.function({self._function.function!r})"
        text = self._fields.get("entry") or self._fields.get("text")
        return f"<headrace.Kernel {text.decode() if text else ''}>"

    @property
    def is_function(self) -> bool:
        """Whether it is a Python function."""
        return self._function is not None

    @property
    def is_histogram(self) -> bool:
        """Whether its result is an array."""
        return self.words[0] == "histogram"

    @property
    def is_reduction(self) -> bool:
        """Whether it has a result."""
        return self.words[0] in _REDUCTIONS

    @property
    def is_counted(self) -> bool:
        """Whether a function writes as many units as it likes."""
        return self._function is not None and self._function.counted

    @property
    def text(self) -> Optional[str]:
        """Of a built-in kernel; None: it is another one."""
        is_builtin = self._kind == lib.HR_KERNEL_BUILTIN
        return self._fields["text"].decode() if is_builtin else None

    @property
    def words(self) -> tuple[str, list[str]]:
        """The name of a built-in kernel and its arguments; "" for all others."""
        word, _, arguments = (self.text or "").partition(":")
        return word, arguments.split(",") if arguments else []

    @property
    def unit_in(self) -> Optional[Layout]:
        """What a function reads; None: it is none, or takes what comes."""
        return None if self._function is None else self._function.unit_in

    @property
    def unit_out(self) -> Optional[Layout]:
        """What a function writes; None: it is none, or the same as it reads."""
        return None if self._function is None else self._function.unit_out

    @property
    def unit_bytes(self) -> tuple[int, int]:
        """Bytes of a unit read and written: of functions that are bound, and compiled kernels."""
        if self.unit_in is not None and self.unit_out is not None:
            return self.unit_in.nbytes, self.unit_out.nbytes
        return self._fields.get("unit_in", 1), self._fields.get("unit_out", 0)

    @property
    def title(self) -> str:
        """What it is called in messages."""
        if self._function is not None:
            return self._function.name
        text = self._fields.get("entry") or self._fields.get("text")
        return f'"{text.decode()}"' if text else "which does nothing"

    def bound(self, unit: Any) -> Kernel:
        """The kernel for a stream: a function that names no unit takes the stream's.

        Parameters
        ----------
        unit : dtype or None
            Of what comes; None: bytes.

        Returns
        -------
        Kernel
            Itself, if there is nothing to settle.
        """
        if self._function is None or self._function.is_bound:
            return self
        made = Kernel(self._kind)
        made._function = self._function.bound(1 if unit is None else unit)
        return made

    def fill(self, struct: Any, device: str, failures: Failures) -> list[Any]:
        """Sets a struct hr_kernel.

        Parameters
        ----------
        struct : cffi struct hr_kernel
            Zeros.
        device : str
            Where it will run; counts for functions only.
        failures : Failures
            Where exceptions of a function go.

        Returns
        -------
        list
            What must stay as long as the pipeline.
        """
        struct.struct_size = ffi.sizeof("struct hr_kernel")
        struct.kind = self._kind
        if self._function is not None:
            return self._function.fill(struct, device, failures)
        keep = []
        for name, value in self._fields.items():
            if not isinstance(value, bytes):
                setattr(struct, name, value)
                continue
            if name == "args" and not value:
                continue
            is_text = name not in ("args", "image")
            memory = _calls.text(value) if is_text else ffi.from_buffer(value + b"\0")
            keep.append(memory)
            setattr(struct, name, memory)
            if not is_text:
                setattr(struct, f"{name}_size", len(value))
        return keep


KernelCall = _kernel_call.KernelCall


def _units(unit_in: Any, unit_out: Any) -> dict[str, int]:
    return {"unit_in": size("unit_in", unit_in), "unit_out": size("unit_out", unit_out)}


def reduction(index: Any, chain: list[Kernel]) -> int:
    """The index of a reduction in a chain, checked.

    Raises
    ------
    ArgumentError
        (ValueError) There is no such kernel, or it is no reduction.
    TypeError
        No integer.
    """
    index = size("kernel", index)
    if index >= len(chain):
        raise ArgumentError(f"there is no kernel {index} among the {len(chain)} that were given")
    if not chain[index].is_reduction:
        raise ArgumentError(f"kernel {index}, {chain[index].title}, is no reduction: no result")
    return int(index)


def kernel(given: Any) -> Kernel:
    """The kernel that an object stands for: a Kernel, a text, or a function of what comes."""
    if isinstance(given, Kernel):
        return given
    if isinstance(given, str):
        return Kernel.builtin(given)
    if callable(given):
        return Kernel.function(given)
    raise TypeError(f"{type(given).__name__} is no kernel: a text, a callable or headrace.Kernel")
