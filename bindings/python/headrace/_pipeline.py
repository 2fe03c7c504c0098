# SPDX-License-Identifier: Apache-2.0
"""Pipeline: everything that the C interface has, for one transfer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Callable, Optional, Union

import numpy

from headrace import _array, _calls, _devices, _ends, _flow, _given, _options, _stats
from headrace._callbacks import Failures, inside
from headrace._context import Context, default_context
from headrace._drive import Drive
from headrace._kernel import reduction
from headrace._library import ffi, lib
from headrace._stats import Stats
from headrace._waiting import Waiting
from headrace.errors import ArgumentError

Progress = Union[bool, Callable[[Stats], object]]

dict_ = dict  # where an argument has its name

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
        A chain, in this order. A single one may stand without a list. Where the type of the
        stream is known, a built-in kernel has to name it, and a function that names no unit gets
        arrays of it.
    device : str, optional
        "auto", "host", "cuda:N", "hip:N". By default "auto" if there are kernels or an end is a
        device's memory, else bytes visit no device.
    chunk_size : int, default 0
        Decoded bytes; 0: what suits the ends.
    depth : int, default 0
        Chunks on their way at once; 0: what workers and device need.
    streams : int, default 0
        Kernels that run at once; 0: what suits the device.
    decode : {"auto", "none", "zstd"}, default "auto"
        Of all sources; "auto" looks at the first bytes of each, never at its name. "none" copies a
        ``.zst`` as it is. Arrays with a type are elements, and not decoded unless by "zstd".
    encode : {"none", "zstd"} or ("zstd", level), default "none"
        Of the sink; the level is an int as zstd counts, 3 by default.
    frame_size : int, default 0
        Decoded bytes of a zstd frame written; 0: 1 MiB.
    dict : bytes, optional
        zstd dictionary for both directions.
    window_log : int, default 0
        Frames that need a longer window are refused; 0: 27, that is 128 MiB.
    offset, length : int, optional
        Range of a single source in decoded bytes: ``headrace.Range``; what comes are bytes.
    direct : {"auto", "off", "on"}, default "auto"
        O_DIRECT for files: "auto" for what the page cache does not hold.
    unordered : bool, default False
        Chunks go on as they are read, and are delivered as they get done.
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
        A chunk on loan, of one axis: its memory is used again when the last array, view or consumer
        of it is gone. The data are there when it is handed out. Its dtype is the stream's, as far
        as that is known and in the machine's byte order; else it is of bytes (uint8).

    Raises
    ------
    HeadraceError
        An end cannot be opened, a kernel's text is wrong, a device is not there, ...: the table in
        ``headrace.errors``.
    TypeError
        An object is no source, sink or kernel. An ElementTypeError, which is a HeadraceError, too:
        a kernel or the sink is of another type than the stream.
    ValueError
        An option's value cannot be right; arrays of several types are one source; an array as a
        sink has not the size of the stream; a kernel would compute with the header of a file.

    Notes
    -----
    The type of a stream is that of the array that is its source (other than of bytes: uint8, int8,
    bool), or what a kernel writes: ``cast`` or a function with a dtype as ``unit_out``. Files,
    sockets, bytes and ranges are bytes, and may be read as anything. Where bytes and arrays are
    sources of one stream, all are bytes.

    An array as a sink has exactly the size of the stream, where that is known beforehand: from
    memory and files, unless they are encoded or a kernel drops elements. Else it may be larger;
    ``Stats.bytes_out`` tells how much of it was written.

    It runs once, and is iterated once: behind its end, iteration yields nothing, or raises a
    HeadraceError if it has failed. Threads may share it, or the tasks of one event loop: each chunk
    goes to one of them, all see the end, and an object's exception is raised to one of them. While
    one of them keeps a chunk, the others get about `depth` more, then LoanedError. ``async for``
    gives the event loop a turn for each chunk. ``cancel`` is for any thread at any time. All calls
    let other threads run Python. What the ends refer to is kept until the transfer has ended, and
    must not be changed meanwhile. Ctrl-C ends the transfer, waits until nothing is in flight, and
    raises KeyboardInterrupt. In a forked child it is refused.

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
        decode: str = "auto",
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
        self._waiting = Waiting()
        ends = _ends.sources(source, offset, length, self._failures)
        ends.append(_ends.sink(sink, self._failures))
        self._after = [end.after for end in ends if end.after is not None]
        self._pulls = sink is None

        given = _given.Given(ends, _flow.listed(kernels), decode, dict, window_log)
        given.check_sink(encode != "none")
        self._chain = given.kernels
        self._type = given.type_lent if self._pulls and encode == "none" else None
        config = _options.pipeline(
            chunk_size=given.whole(chunk_size),
            depth=depth,
            streams=streams,
            decode=given.decode,
            encode=encode,
            frame_size=frame_size,
            window_log=window_log,
            direct=direct,
            unordered=unordered,
            strict=strict,
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
            min_fill=min_fill,
            max_wait=max_wait,
        )
        if device is None:
            device = next((end.device for end in ends if end.device is not None), None)
        keep: list[Any] = [ends]
        _fill_ends(config, keep, ends)
        config.sink.flags |= lib.HR_FSYNC if fsync else 0
        config.sink.flags |= lib.HR_LEND_DEVICE if lend_device else 0
        self._fill_kernels(config, keep, device)
        if dict is not None:
            config.dict = _kept(keep, ffi.from_buffer(bytes(dict)))
            config.dict_size = len(dict)
        if trace is not None:
            config.trace_path = _kept(keep, _calls.text(os.fsencode(trace)))
        lent_from = None
        if self._pulls:
            lent_from = [end.addresses for end in ends if end.addresses is not None]
        self._drive = Drive(
            self._context.handle, _options.loop(io), config, keep, lent_from, self._failures
        )

    def _fill_kernels(self, config: Any, keep: list[Any], device: Optional[str]) -> None:
        chain = self._chain
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
        ArgumentError
            (ValueError) It is done or has failed already, or has no sink.
        BaseException
            What a Python object or function raised that it called; KeyboardInterrupt.

        Notes
        -----
        Blocks; other threads and signal handlers run meanwhile. Who calls it while it runs in
        another thread waits for that one's end.
        """
        self._check_run()
        try:
            self._run(progress)
        finally:
            self._waiting.wake()
        return self._ended()

    def _check_run(self) -> None:
        if self._pulls:
            raise ArgumentError("the pipeline has no sink: iterate over it, or give it one")
        state = self.state
        if state in ("done", "failed"):
            ended = "is done" if state == "done" else "has failed"
            raise ArgumentError(f"the pipeline {ended}, and runs once: make another")

    def _run(self, progress: Progress) -> None:
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

    def _ended(self) -> Stats:
        after_all, self._after = self._after, []  # once, of all who see the end
        for after in after_all:
            after()
        return self.stats()

    def __iter__(self) -> Iterator[_array.Array]:
        return self

    def __next__(self) -> _array.Array:
        chunk = self._next(wait=True)
        if chunk is None:
            raise StopIteration
        return self._typed(chunk)

    def _next(self, wait: bool) -> Any:
        """As `Drive.next_chunk`; who waits for the same learns what became of it."""
        chunk: Any = None
        try:
            chunk = self._drive.next_chunk(wait)
        finally:
            if chunk is not NotImplemented:
                self._waiting.wake()
        if chunk is None:
            self._ended()
        return chunk

    def _typed(self, chunk: _array.Array) -> _array.Array:
        return chunk if self._type is None else chunk.view(self._type)

    async def run_async(self) -> Stats:
        """``run`` for asyncio: the event loop goes on meanwhile, after a millisecond at most.

        Returns
        -------
        Stats
            What was done.

        Raises
        ------
        BaseException
            As ``run``. If the task is cancelled, the transfer ends early first.
        """
        self._check_run()
        try:
            async with self._waiting.turn():
                while not self._drive.step():
                    await self._waiting.readable(self._drive.descriptor)
        except BaseException:
            self._drive.close()
            raise
        finally:
            self._waiting.wake()
        return self._ended()

    def __aiter__(self) -> AsyncIterator[_array.Array]:
        return self

    async def __anext__(self) -> _array.Array:
        await asyncio.sleep(0)  # a turn for others: chunks may come without end
        async with self._waiting.turn():
            chunk = self._next(wait=False)
            while chunk is NotImplemented:
                await self._waiting.readable(self._drive.descriptor)
                chunk = self._next(wait=False)
        if chunk is None:
            raise StopAsyncIteration
        return self._typed(chunk)

    def cancel(self) -> None:
        """Ends the transfer early; who runs it gets CanceledError when nothing is in flight.

        Notes
        -----
        Any thread, also a signal handler. Does not wait.
        """
        self._drive.cancel()

    def close(self) -> None:
        """Ends the transfer if it runs, waits until nothing of it touches memory any more, and
        gives memory and descriptors back. Chunks on loan stay valid: with them stays what they lie
        in, until the package is called next after the last one went. Statistics and results stay.
        """
        self._drive.close(last_look=self._remember)
        self._waiting.wake()

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
            There is no such kernel, or it is no reduction.
        ValueError
            The transfer is not done.
        """
        kernel = reduction(kernel, self._chain)
        if self._results is not None:
            if kernel in self._results:
                return self._results[kernel]
            raise ValueError("the pipeline is closed, and was not done: there are no results")
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
        found = self._drive.gathered(self._context.handle)
        if found is None:
            raise ValueError("the transfer is not done: run it first")
        return _array.memory_array(*found)

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
