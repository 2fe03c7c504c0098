# SPDX-License-Identifier: Apache-2.0
"""stream: the chunks of a source as arrays of records."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Callable, Optional

from headrace import _array, _devices, _foreign, _options, _progress
from headrace._context import Context
from headrace._ends import NULL, Range, ranged
from headrace._kernel import reduction
from headrace._pipeline import Pipeline, Progress
from headrace._records import Shape, Unit
from headrace._stats import Stats
from headrace._stream_plan import StreamPlan
from headrace.errors import TruncatedError


def _check(options: dict[str, Any], progress: Any) -> None:
    """What cannot be right is told at once, not at the first chunk."""
    inspect.signature(Pipeline).bind(None, None, **options)  # there is such an option
    _options.check(**options)
    if not (isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress is {progress!r}: True, False or a function is wanted")


@functools.lru_cache(maxsize=64)
def _check_text(text: str) -> None:
    """The library knows the kernel; asked in a context of its own, which leaves nothing behind."""
    Pipeline(b"", NULL, kernels=text, device="host", context=Context(threads=1)).close()


def _device(device: Optional[str], source: Any) -> str:
    """Where kernels run: on the host, if neither the caller nor the source's memory says else."""
    if device is not None:
        return _devices.resolve(device)
    if isinstance(source, (list, tuple)):
        source = source[0]
    if isinstance(source, Range):
        source = source.source
    if _foreign.is_array(source):
        return _foreign.describe(source, writable=False).device
    return "host"


class Stream:
    """An iterator of chunks; made by ``headrace.stream``.

    Notes
    -----
    Files are looked at when it is made, for their type; nothing is opened before the first chunk is
    asked for. It is iterated once: behind its end, iteration yields nothing. As of
    ``headrace.Pipeline``: threads, or the tasks of one event loop, may share it, each chunk goes to
    one of them, and other threads run Python meanwhile.
    """

    def __init__(self, arguments: dict[str, Any], options: dict[str, Any], progress: Progress):
        _check(options, progress)
        self._arguments = arguments
        self._options = options
        self._progress = progress
        look = {name: options[name] for name in ("dict", "window_log") if name in options}
        encodes = options.get("encode", "none") != "none"
        self._plan = StreamPlan(**arguments, decode=options["decode"], encodes=encodes, **look)
        for kernel in self._plan.kernels:
            if kernel.text is not None:
                _check_text(kernel.text)
        self._opening = threading.RLock()
        self._pipeline: Optional[Pipeline] = None
        self._show: Optional[Callable[[Stats], object]] = None
        self._shown = ExitStack()

    # ---- opening ----

    def _open(self) -> Pipeline:
        if self._pipeline is None:
            with self._opening:  # one opens it for all threads that share it
                if self._pipeline is None:
                    self._pipeline = self._opened()
        return self._pipeline

    def _opened(self) -> Pipeline:
        plan = self._plan
        options = {**self._options, "decode": plan.decode}
        if options["device"] is not None or plan.kernels:
            options["device"] = _device(options["device"], self._arguments["source"])
            options.setdefault("lend_device", options["device"] != "host")
        pipeline = Pipeline(plan.ends, kernels=plan.kernels, **options)
        if callable(self._progress):
            self._show = self._progress
        elif self._progress:
            self._show = self._shown.enter_context(_progress.bar())
        return pipeline

    # ---- iteration ----

    def __iter__(self) -> Iterator[_array.Array]:
        return self

    def __next__(self) -> _array.Array:
        pipeline = self._open()
        try:
            return self._typed(next(pipeline))
        except StopIteration:
            self._ended()
            raise
        except TruncatedError as error:
            raise self._plan.explained(error) from None

    def __aiter__(self) -> AsyncIterator[_array.Array]:
        return self

    async def __anext__(self) -> _array.Array:
        pipeline = self._open()
        try:
            return self._typed(await pipeline.__anext__())
        except StopAsyncIteration:
            self._ended()
            raise
        except TruncatedError as error:
            raise self._plan.explained(error) from None

    def _typed(self, chunk: _array.Array) -> _array.Array:
        typed = self._plan.record.of(chunk)
        if self._show is not None:
            self._show(self.stats())
        return typed

    def _ended(self) -> None:
        with self._opening:
            self._shown.close()
        wanted = self._plan.n_records
        if wanted is None:
            return
        found = self.stats().bytes_out // self._plan.record.nbytes  # in whatever thread they came
        if found < wanted:
            raise TruncatedError(
                f"{self._arguments['source']}: the header tells of {wanted} records, "
                f"{found} are there"
            )

    # ---- what is known of it ----

    @property
    def dtype(self) -> Any:
        """The numpy.dtype of its chunks."""
        return self._plan.record.dtype.numpy

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a record; () if it is one element."""
        return self._plan.record.stored_shape

    def stats(self) -> Stats:
        """What was done so far: ``Pipeline.stats``."""
        return self._open().stats()

    def result(self, kernel: int) -> Any:
        """What a reduction among the kernels that were given found: ``Pipeline.result``.

        Parameters
        ----------
        kernel : int
            Its index among them.
        """
        plan = self._plan
        given = [one for one in plan.kernels[plan.n_before :] if not isinstance(one, Unit)]
        return self._open().result(reduction(kernel, given) + plan.n_before)

    # ---- the end ----

    def cancel(self) -> None:
        """Ends it early; who iterates gets CanceledError. Any thread, also a signal handler."""
        if self._pipeline is not None:
            self._pipeline.cancel()

    def close(self) -> None:
        """Ends it, waits until nothing of it touches memory any more, and gives descriptors and
        memory back. Chunks stay valid."""
        with self._opening:
            self._shown.close()
        if self._pipeline is not None:
            self._pipeline.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "not opened" if self._pipeline is None else self._pipeline.state
        return f"<headrace.Stream of {self._arguments['source']!r:.60}, {state}>"

    # ---- shares ----

    def share(self, index: int, n: int, record_bytes: Optional[int] = None) -> Stream:
        """A part of the stream, for `n` workers that read the same files side by side.

        Parameters
        ----------
        index, n : int
            Share `index` of `n`.
        record_bytes : int, optional
            Bytes of a record in the files; needed where kernels change it.

        Returns
        -------
        Stream
            A new one. All shares together have each record once. Their sizes differ: zstd files are
            split between frames, those without a seek table not at all.

        Raises
        ------
        TypeError
            The source is no path, or list of paths; or an argument no integer.
        ValueError
            There is no such share; `record_bytes` is needed; or a file ends inside of a record.
        """
        part = Stream(self._arguments, self._options, self._progress)
        part._plan.share(index, n, record_bytes)
        return part

    def torch(
        self,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        batch: Optional[int] = None,
        record_bytes: Optional[int] = None,
    ) -> Any:
        """The stream as a dataset of PyTorch, split over ranks and workers.

        Parameters
        ----------
        rank, world_size : int, optional
            By default those of ``torch.distributed`` if it is initialised, else 0 of 1.
        batch : int, optional
            Records of a tensor, at most; by default a tensor for each chunk.
        record_bytes : int, optional
            As for `share`.

        Returns
        -------
        torch.utils.data.IterableDataset
            Of tensors whose first axis are records, in the chunks' own memory: it is used again
            when they are gone. Each record comes once over all ranks and workers.

        Raises
        ------
        ImportError
            PyTorch is not installed.
        TypeError
            A source that cannot be split, or sent to workers.

        Notes
        -----
        For ``DataLoader(dataset, batch_size=None, num_workers=N)``. Workers are to be started by
        "spawn" (``multiprocessing_context="spawn"``); by "fork" only before the process has used
        headrace, after which they raise ForkError. Shares differ in size: ranks that wait for one
        another need ``torch.distributed.algorithms.join``, or a number of steps.
        """
        from headrace._torch import StreamDataset  # the only use of PyTorch

        return StreamDataset(self._arguments, self._options, rank, world_size, batch, record_bytes)


def stream(
    source: Any,
    dtype: Any = None,
    device: Optional[str] = None,
    kernels: Any = (),
    decode: str = "auto",
    shape: Shape = None,
    progress: Progress = False,
    **options: Any,
) -> Stream:
    """Iterates over the chunks of a source, read ahead while the loop works.

    Parameters
    ----------
    source : object
        Path, list of paths, open binary file, socket, bytes, iterable of bytes, array of any
        library: see ``headrace.Pipeline``. Files of ``.npy``, plain or zstd, are known by their
        first bytes, and their headers skipped. ``headrace.Range(path, 0)`` is any file as bytes.
    dtype : str, numpy.dtype or DType, optional
        What chunks are arrays of, also structured. By default what is known: of an array or a
        ``.npy`` file its type, behind kernels what they make of it; else bytes. What is known is
        not contradicted: kernels cast (``kernels="cast:f64,f32"``), and ``array.view("u1")`` is
        bytes. A byte order that is not the machine's (``">f4"``) is that of the source; chunks have
        the machine's.
    device : str, optional
        "cuda:N", "hip:N" or "auto": kernels run there, and chunks are in its memory. By default
        those of the host; for an array on a GPU that GPU.
    kernels : iterable of str, Kernel or callable, default ()
        A chain, as of ``headrace.Pipeline``; `dtype` is of what leaves it.
    decode : {"auto", "none", "zstd"}, default "auto"
        "auto" looks at the first bytes of each source.
    shape : int or tuple of int, optional
        A record is a row of this shape, by default one element; of an array or ``.npy`` file of
        several axes a row of it. No record straddles two chunks.
    progress : bool or callable, default False
        True: a bar of tqdm. A callable is called with the Stats for each chunk.
    **options
        More of ``headrace.Pipeline``: chunk_size, depth, offset, length, unordered, ...; with
        ``lend_device=False`` chunks of a GPU's kernels come back to the host.

    Returns
    -------
    Stream
        An iterator, also for ``async for``, and a context manager. It is iterated once: behind its
        end it yields nothing.

    Yields
    ------
    Array
        On loan, with ``index``, ``stream_offset``, ``last``, ...; of shape (n, \\*shape). Its
        memory is used again when the last array, view or consumer of it is gone.

    Raises
    ------
    LoanedError
        (BufferError) More chunks are kept than there are: ``list(stream)``. Copy what is to stay,
        or set `depth`.
    TruncatedError
        (EOFError) The stream ends inside of a record, or before the end of a ``.npy``'s array.
    FormatError
        (ValueError) A ``.npy`` header is wrong, its files differ, or are in Fortran order; a file
        is of ``.npz`` or ``.safetensors``, whose arrays ``headrace.load`` gives.
    ElementTypeError
        (TypeError) `dtype` or a kernel is of another type than what comes.
    TypeError, ValueError
        An argument that cannot be right. All of these at once, not at the first chunk.
    HeadraceError, BaseException
        As ``headrace.Pipeline``; at the first chunk, when the source is opened.

    Notes
    -----
    See ``headrace.Pipeline`` for threads, Ctrl-C and fork.

    Examples
    --------
    >>> import headrace as hr, numpy as np
    >>> data = np.arange(30, dtype="f4").tobytes()
    >>> for chunk in hr.stream(data, dtype="f4", shape=3, chunk_size=64):
    ...     print(chunk.shape, chunk.numpy().sum())
    (5, 3) 105.0
    (5, 3) 330.0
    """
    source = ranged(source, options.pop("offset", None), options.pop("length", None))
    arguments = {"source": source, "dtype": dtype, "shape": shape, "kernels": kernels}
    return Stream(arguments, {"device": device, "decode": decode, **options}, progress)
