# SPDX-License-Identifier: Apache-2.0
"""Pipeline: everything that the C interface has, for one transfer."""

from __future__ import annotations

import asyncio
import operator
import os
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Callable, Optional, Union

import numpy

from headrace import _array, _calls, _devices, _ends, _kernel, _stats
from headrace._callbacks import Failures, inside
from headrace._context import Context, default_context
from headrace._drive import Drive
from headrace._library import ffi, lib
from headrace._stats import Stats

Progress = Union[bool, Callable[[Stats], object]]

dict_ = dict  # where an argument has its name

_CODECS = {"none": lib.HR_CODEC_NONE, "zstd": lib.HR_CODEC_ZSTD, "auto": lib.HR_CODEC_AUTO}
_DIRECT = {"auto": lib.HR_DIRECT_AUTO, "off": lib.HR_DIRECT_OFF, "on": lib.HR_DIRECT_ON}
_IO = {"auto": lib.HR_IO_AUTO, "uring": lib.HR_IO_URING, "threads": lib.HR_IO_THREADS}
_TYPES = {
    lib.HR_TYPE_I64: "i8",
    lib.HR_TYPE_U64: "u8",
    lib.HR_TYPE_F64: "f8",
    lib.HR_TYPE_U8: "u1",
    lib.HR_TYPE_I8: "i1",
    lib.HR_TYPE_U16: "u2",
    lib.HR_TYPE_I16: "i2",
    lib.HR_TYPE_I32: "i4",
    lib.HR_TYPE_F16: "f2",
    lib.HR_TYPE_BF16: "u2",
    lib.HR_TYPE_F32: "f4",
    lib.HR_TYPE_U32: "u4",
}


def _word(words: dict[str, int], name: str, given: Any) -> int:
    if given not in words:
        raise ValueError(f"{name} is {given!r}, not one of {', '.join(map(repr, words))}")
    return words[given]


def _size(name: str, given: Any, bits: int = 32) -> int:
    """A number that is not negative."""
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name} is {given!r}: an integer is wanted") from None
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name} is {number}: from 0 to 2^{bits} - 1 is possible")
    return number


def _milliseconds(name: str, seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    if not 0 < seconds < 4e6:
        raise ValueError(f"{name} is {seconds!r}: seconds, more than 0")
    return max(1, round(seconds * 1000))


class Pipeline:
    """One transfer: sources, kernels, a sink.

    Parameters
    ----------
    source : object
        Path (str or os.PathLike); address ("tcp://HOST:PORT", "tcp-listen://HOST:PORT",
        "unix:PATH", "unix-listen:PATH"); descriptor (int), socket or binary file object; bytes,
        bytearray, memoryview or contiguous array, also of a GPU; an object with ``read()``; an
        iterable of bytes-like objects; ``headrace.Range`` of one of these; or a list of these,
        which is one stream.
    sink : object, optional
        The same where it can be written, or "peer:" (the connection of the first source),
        ``headrace.NULL``, ``headrace.DeviceMemory()``. None, the default: iterate over the
        pipeline.
    kernels : iterable of str, Kernel or callable, default ()
        A chain, in this order. A single one may stand without a list.
    device : str, optional
        "auto", "host", "cuda:N", "hip:N". By default "auto" if there are kernels or an end is a
        device's memory, else bytes visit no device.
    chunk_size : int, default 0
        Decoded bytes; 0: what suits the ends.
    depth : int, default 0
        Chunks on their way at once; 0: what workers and device need.
    streams : int, default 0
        Kernels that run at once; 0: what suits the device.
    decode : {"none", "auto", "zstd"}, default "none"
        Of all sources; "auto" looks at the first bytes of each.
    encode : {"none", "zstd"} or ("zstd", level), default "none"
        Of the sink; the level is an int as zstd counts, 3 by default.
    frame_size : int, default 0
        Decoded bytes of a zstd frame written; 0: 1 MiB.
    dict : bytes, optional
        zstd dictionary for both directions.
    window_log : int, default 0
        Frames that need a longer window are refused; 0: 27, that is 128 MiB.
    offset, length : int, optional
        Range of a single source in decoded bytes: ``headrace.Range``.
    direct : {"auto", "off", "on"}, default "auto"
        O_DIRECT for files: "auto" for what the page cache does not hold.
    unordered : bool, default False
        Chunks are delivered as they get done.
    strict : bool, default False
        What would be a silent fall-back fails.
    connect_timeout, idle_timeout : float, optional
        Seconds for a socket to connect or be connected; for a socket or pipe to move no byte.
    min_fill : int, default 0
        Bytes: a chunk of a socket or pipe with fewer does not leave early.
    max_wait : float, optional
        Seconds, with min_fill: how long a chunk waits for it.
    trace : str or os.PathLike, optional
        A file for a timeline in Trace Event JSON, which Perfetto opens.
    lend_device : bool, default False
        Iteration lends chunks in the device's memory.
    fsync : bool, default False
        A file is on stable storage before the transfer is done.
    io : {"auto", "uring", "threads"}, default "auto"
        The I/O engine.
    context : Context, optional
        By default the process's default context.

    Yields
    ------
    Array
        A chunk of bytes (dtype uint8) on loan: its memory is used again when the last array, view
        or consumer of it is gone. The data are there when it is handed out.

    Raises
    ------
    HeadraceError
        An end cannot be opened, a kernel's text is wrong, a device is not there, ...: the table in
        ``headrace.errors``.
    TypeError
        An object is no source, sink or kernel.
    ValueError
        An option's value cannot be right.

    Notes
    -----
    Any thread may use it, one at a time; ``cancel`` at any time. All calls let other threads run
    Python. What the ends refer to is kept until the transfer has ended, and must not be changed
    meanwhile. Ctrl-C ends the transfer, waits until nothing is in flight, and raises
    KeyboardInterrupt. In a forked child it is refused.

    Examples
    --------
    >>> import headrace as hr
    >>> data = bytes(range(256)) * 1000
    >>> with hr.Pipeline(data, kernels="histogram", chunk_size=65536, device="host") as pipeline:
    ...     total = sum(chunk.nbytes for chunk in pipeline)
    ...     counts = pipeline.result(0)
    >>> total, counts.tolist() == [1000] * 256
    (256000, True)
    """

    def __init__(
        self,
        source: Any,
        sink: Any = None,
        *,
        kernels: Any = (),
        device: Optional[str] = None,
        chunk_size: int = 0,
        depth: int = 0,
        streams: int = 0,
        decode: str = "none",
        encode: Union[str, tuple[str, int]] = "none",
        frame_size: int = 0,
        dict: Optional[bytes] = None,  # noqa: A002 - zstd's word
        window_log: int = 0,
        offset: Optional[int] = None,
        length: Optional[int] = None,
        direct: str = "auto",
        unordered: bool = False,
        strict: bool = False,
        connect_timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        min_fill: int = 0,
        max_wait: Optional[float] = None,
        trace: Union[None, str, os.PathLike[str]] = None,
        lend_device: bool = False,
        fsync: bool = False,
        io: str = "auto",
        context: Optional[Context] = None,
    ) -> None:
        # In a callback, which takes one of its context's workers, others than these do the work.
        self._context = context or (Context() if inside() else default_context())
        self._stats: Optional[Stats] = None
        self._results: Optional[dict_[int, Any]] = None
        self._failures = Failures()
        ends = _ends.sources(source, offset, length, self._failures)
        ends.append(_ends.sink(sink, self._failures))
        self._after = [end.after for end in ends if end.after is not None]
        self._pulls = sink is None

        config = _calls.new_struct("hr_pipeline_config")
        config.chunk_size = _size("chunk_size", chunk_size, 64)
        config.depth = _size("depth", depth)
        config.n_streams = _size("streams", streams)
        config.decode = _word(_CODECS, "decode", decode)
        codec, level = encode if isinstance(encode, tuple) else (encode, 0)
        if codec == "auto":
            raise ValueError('encode is "none", "zstd" or ("zstd", level)')
        config.encode = _word(_CODECS, "encode", codec)
        config.encode_level = level
        config.frame_size = _size("frame_size", frame_size, 64)
        config.window_log = _size("window_log", window_log)
        config.direct = _word(_DIRECT, "direct", direct)
        config.flags = (lib.HR_UNORDERED if unordered else 0) | (lib.HR_STRICT if strict else 0)
        config.connect_ms = _milliseconds("connect_timeout", connect_timeout)
        config.idle_ms = _milliseconds("idle_timeout", idle_timeout)
        config.min_fill = _size("min_fill", min_fill, 64)
        config.max_wait_ms = _milliseconds("max_wait", max_wait)

        if device is None:
            device = next((end.device for end in ends if end.device is not None), None)
        keep: list[Any] = [ends]
        _fill_ends(config, keep, ends)
        config.sink.flags |= lib.HR_FSYNC if fsync else 0
        config.sink.flags |= lib.HR_LEND_DEVICE if lend_device else 0
        self._fill_kernels(config, keep, kernels, device)
        if dict is not None:
            config.dict = _kept(keep, ffi.from_buffer(bytes(dict)))
            config.dict_size = len(dict)
        if trace is not None:
            config.trace_path = _kept(keep, _calls.text(os.fsencode(trace)))
        loop_config = _calls.new_struct("hr_loop_config")
        loop_config.io = _word(_IO, "io", io)
        loop_config.flags = lib.HR_LOOP_SHARED
        lent_from = None
        if self._pulls:
            lent_from = [end.addresses for end in ends if end.addresses is not None]
        self._drive = Drive(
            self._context.handle, loop_config, config, keep, lent_from, self._failures
        )

    def _fill_kernels(
        self, config: Any, keep: list[Any], kernels: Any, device: Optional[str]
    ) -> None:
        if isinstance(kernels, (str, _kernel.Kernel)) or callable(kernels):
            kernels = [kernels]
        chain = self._chain = [_kernel.kernel(one) for one in kernels]
        if any(one.is_function for one in chain):  # which is called in another way on a GPU
            device = _devices.resolve(device)
        structs = ffi.new("struct hr_kernel[]", len(chain))
        for struct, one in zip(structs, chain):
            keep.append(one.fill(struct, device or "host", self._failures))
        keep.append(structs)
        config.kernels = structs
        config.n_kernels = len(chain)
        if device is not None:
            config.device = _kept(keep, _calls.text(device.encode()))

    # ---- transfer ----

    def run(self, progress: Progress = False) -> Stats:
        """Runs the transfer to its end.

        Parameters
        ----------
        progress : bool or callable, default False
            True: a bar of tqdm. A callable is called with the Stats about ten times a second.

        Returns
        -------
        Stats
            What was done.

        Raises
        ------
        HeadraceError
            Why it failed; everything before the failing position was delivered.
        BaseException
            What a Python object or function raised that it called; KeyboardInterrupt.

        Notes
        -----
        Blocks; other threads and signal handlers run meanwhile.
        """
        if self._pulls:
            raise ValueError("the pipeline has no sink: iterate over it, or give it one")
        if progress is False:
            self._drive.run()
        elif callable(progress):
            tell = progress
            self._drive.run(lambda: tell(self.stats()))
            tell(self.stats())
        else:
            from headrace._progress import bar

            with bar() as show:
                self._drive.run(lambda: show(self.stats()))
                show(self.stats())
        return self._ended()

    def _ended(self) -> Stats:
        for after in self._after:
            after()
        self._after = []
        return self.stats()

    def __iter__(self) -> Iterator[_array.Array]:
        return self

    def __next__(self) -> _array.Array:
        chunk = self._drive.next_chunk()
        if chunk is None:
            self._ended()
            raise StopIteration
        lent: _array.Array = chunk
        return lent

    async def run_async(self) -> Stats:
        """``run`` for asyncio: the event loop goes on meanwhile.

        Returns
        -------
        Stats
            What was done.

        Raises
        ------
        BaseException
            As ``run``. If the task is cancelled, the transfer ends early first.
        """
        if self._pulls:
            raise ValueError("the pipeline has no sink: iterate over it, or give it one")
        try:
            while not self._drive.step():
                await _readable(self._drive.fileno())
        except BaseException:
            self._drive.close()
            raise
        return self._ended()

    def __aiter__(self) -> AsyncIterator[_array.Array]:
        return self

    async def __anext__(self) -> _array.Array:
        while True:
            chunk = self._drive.next_chunk(wait=False)
            if chunk is None:
                self._ended()
                raise StopAsyncIteration
            if isinstance(chunk, _array.Array):
                return chunk
            await _readable(self._drive.fileno())

    def cancel(self) -> None:
        """Ends the transfer early; who runs it gets CanceledError when nothing is in flight.

        Notes
        -----
        Any thread, also a signal handler. Does not wait.
        """
        self._drive.cancel()

    def close(self) -> None:
        """Ends the transfer if it runs, waits until nothing of it touches memory any more, and
        gives memory and descriptors back. Chunks on loan stay valid. Statistics and results stay.
        """
        self._drive.close(last_look=self._remember)

    def _remember(self) -> None:
        self._stats = self.stats()
        self._results = self.results()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        drive = getattr(self, "_drive", None)
        if drive is not None:
            drive.dropped()

    # ---- what is known of it ----

    @property
    def state(self) -> str:
        """One of "running" (also before the start), "done", "failed", "closed"."""
        if self._drive.closed:
            return "closed"
        status = self._drive.look(lambda pipeline: lib.hr_pipeline_state(pipeline, ffi.NULL))
        if status == lib.HR_PENDING:
            return "running"
        return "failed" if status < 0 else "done"

    def stats(self) -> Stats:
        """What was done so far.

        Returns
        -------
        Stats
            A copy. While another thread runs the pipeline this waits for it.
        """
        if self._stats is not None:
            return self._stats
        return _stats.from_c(self._drive.look(_calls.stats), self._drive.io)

    def result(self, kernel: int) -> Any:
        """What a reduction found.

        Parameters
        ----------
        kernel : int
            Its index in the chain.

        Returns
        -------
        int, float, numpy.ndarray or None
            A number; the counts of a histogram, shape (bins,), dtype uint64, a copy; None for the
            minimum or maximum of nothing. A bf16 is given as a float.

        Raises
        ------
        ArgumentError
            The kernel is no reduction.
        ValueError
            The transfer is not done.
        """
        if self._results is not None:
            if kernel in self._results:
                return self._results[kernel]
            raise ValueError(f"there is no result of kernel {kernel}")
        found = self._drive.look(lambda pipeline: _calls.result(pipeline, kernel))
        if found is None:
            raise ValueError("the transfer is not done: results come with its end")
        return _value(found, self._chain[kernel].is_histogram)

    def results(self) -> dict_[int, Any]:
        """What all reductions found.

        Returns
        -------
        dict of int to object
            By index in the chain, as ``result`` gives them; empty if the transfer is not done.
        """
        if self._results is not None:
            return dict_(self._results)
        if self.state != "done":
            return {}
        reductions = (i for i, one in enumerate(self._chain) if one.is_reduction)
        return {i: self.result(i) for i in reductions}

    def gathered(self) -> _array.Array:
        """What a ``headrace.DeviceMemory`` sink gathered.

        Returns
        -------
        Array
            Of bytes (uint8) in the device's memory, which it owns. Only the first call gives it.

        Raises
        ------
        ArgumentError
            The sink is another one.
        ValueError
            The transfer is not done.
        """
        found = self._drive.look(_calls.gathered)
        if found is None:
            raise ValueError("the transfer is not done: run it first")
        memory, nbytes = found
        return _array.memory_array(self._context.handle, self.stats().device, memory, nbytes)

    def __repr__(self) -> str:
        return f"<headrace.Pipeline {self.state}>"


def _fill_ends(config: Any, keep: list[Any], ends: list[_ends.End]) -> None:
    *sources, sink = ends
    structs = ffi.new("struct hr_source[]", len(sources))
    for struct, end in zip(structs, sources):
        end.fill(struct)
    keep.append(structs)
    config.sources = structs
    config.n_sources = len(sources)
    sink.fill(config.sink)


def _kept(keep: list[Any], memory: Any) -> Any:
    keep.append(memory)
    return memory


async def _readable(fd: int) -> None:
    """Waits until a descriptor is readable, in the running event loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(fd, ready)
    try:
        await future
    finally:
        loop.remove_reader(fd)


def _value(found: Any, is_histogram: bool) -> Any:
    """Of a struct hr_result: a Python number, an array, or None for nothing."""
    dtype = numpy.dtype(_TYPES[found.type])
    n = int(found.n_values)
    if n == 0:
        return None
    data = ffi.buffer(ffi.cast("char *", found.data), n * dtype.itemsize)
    values = numpy.frombuffer(bytes(data), dtype=dtype)
    if found.type == lib.HR_TYPE_BF16:
        values = (values.astype("u4") << 16).view("f4")
    return values if is_histogram else values[0].item()
