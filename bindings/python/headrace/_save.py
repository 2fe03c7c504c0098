# SPDX-License-Identifier: Apache-2.0
"""save: arrays of the host and of GPUs, and iterables of them, to files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from headrace import _checks, _dtypes, _foreign, _names
from headrace._context import Context
from headrace._numbers import lengths
from headrace._pipeline import Pipeline, Progress
from headrace._save_given import Given, Items, describe, pulled
from headrace._stats import Stats
from headrace.errors import HeadraceError
from headrace.formats import npy, safetensors
from headrace.formats.tensor import measure, quote

Compress = Union[None, str, tuple[str, int]]


def save(
    path: Union[str, os.PathLike[str]],
    data: Any,
    dtype: Any = None,
    compress: Compress = None,
    *,
    shape: Union[None, int, tuple[int, ...]] = None,
    metadata: Optional[Mapping[str, str]] = None,
    format: Optional[str] = None,  # noqa: A002 - what it is called
    frame_size: int = 0,
    chunk_size: int = 0,
    depth: int = 0,
    io: str = "auto",
    direct: str = "auto",
    fsync: bool = False,
    progress: Progress = False,
    context: Optional[Context] = None,
) -> Stats:
    """Saves arrays to a file.

    Parameters
    ----------
    path : str or os.PathLike
        ``.npy``, ``.safetensors``, or anything else: the bytes of the numbers without a header. But
        endings that other formats have (``.gz``, ``.npz``, ``.h5``, ``.csv``, ...) are refused.
        With ``.zst`` behind it, compressed. It is written beside its target and takes its name when
        whole: a failure leaves the old file, or none. If a signal ends the process (SIGTERM without
        a handler), a ``.NAME.partial-...`` stays there, too.
    data : array, iterable of arrays or bytes, or dict of str to array
        Arrays of any library, on the host or a GPU; for ``.safetensors`` a dict. Items of an
        iterable are of one type and follow one another; they are asked for as they are written.
    dtype : str, numpy.dtype or dict of str to these, optional
        Type in the file: values are cast on the way, where the array is, see the notes. As in
        `load`, a dict has names or patterns, and a single floating-point word for several tensors
        is for floating-point ones only.
    compress : {"zstd", "none"} or ("zstd", level), optional
        By default the name tells. Levels are 1 to 22, 3 by default, and faster ones below 0. Such
        files have a seek table. `load` knows them by their first bytes.
    shape : int or tuple of int, optional
        Of all items of an iterable together, which a ``.npy`` has to tell before the first one is
        there. Each item is a row of it or several, or a stretch of bytes; what they are in the end
        is compared with it, too.
    metadata : dict of str to str, optional
        For ``.safetensors``.
    format : {"npy", "safetensors", "raw"}, optional
        By default the name of the file tells.
    frame_size : int, default 0
        Bytes of a zstd frame, decoded; 0: 1 MiB. Of compressed files only.
    chunk_size, depth, io, direct, fsync, context
        As of `Pipeline`.
    progress : bool or callable, default False
        As of `Pipeline.run`.

    Returns
    -------
    Stats
        What was done.

    Raises
    ------
    ValueError
        A type that the format does not have; a cast that no kernel does; an array of a GPU that is
        not contiguous, or column-major where the format knows no such; items that do not fit, an
        argument that the file has no use for. Nothing was written.
    TypeError
        ``data`` is no array, iterable or dict.
    HeadraceError
        The transfer failed: the table in ``headrace.errors``.

    Notes
    -----
    Arrays of a GPU stream out of its memory, behind what is queued on their streams by now. A
    ``.npy`` keeps byte order and column-major order; the others are row-major, ``.safetensors``
    little-endian: of the host, copies are made for it.

    Casts round to the nearest value, ties to even; to integers they saturate and make NaN 0. That
    is not NumPy's ``astype``, which truncates towards zero and wraps around: 2.7 becomes 3 here,
    and 300.0 becomes 255 as uint8. To floats, what is too large becomes infinite.

    Files are those that ``numpy.save`` and the safetensors package write, byte by byte.

    Other threads run meanwhile, and must not change the arrays.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy
    >>> from headrace import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors.zst")
    ...     stats = save(path, {"w": numpy.arange(4.0), "ids": numpy.arange(3)}, dtype="f2")
    ...     {name: (a.dtype_name, a.tolist()) for name, a in load(path).items()}
    {'ids': ('i64', [0, 1, 2]), 'w': ('f16', [0.0, 1.0, 2.0, 3.0])}
    """
    where = _checks.path_of(path, is_source=False)
    shape = None if shape is None else lengths("shape", shape)
    kind, says_zstd = _names.format_of(where, format)
    encode = _encode(where, compress, says_zstd)
    if frame_size and encode == "none":
        raise ValueError(f"{where}: frame_size= is of zstd: the file is not compressed")
    options: dict[str, Any] = {
        "chunk_size": chunk_size,
        "depth": depth,
        "io": io,
        "context": context,
    }
    if kind == "safetensors":
        if shape is not None:
            raise ValueError(f"{where}: shape= is for iterables: tensors have their own")
        made = _of_dict(where, data, dtype, metadata, options)
    elif kind in ("npz", "index"):
        instead = "numpy.savez writes it" if kind == "npz" else "save its files one by one"
        raise ValueError(
            f"{where}: written are .npy, .safetensors and numbers without a header; {instead}"
        )
    elif metadata is not None:
        raise ValueError(f"{where}: metadata are for .safetensors")
    else:
        made = _of_one(where, data, dtype, shape, kind == "npy", options)
    try:
        with Pipeline(
            made.sources or [b""],
            path,
            kernels=made.kernels,
            device=made.device,
            decode="none",
            encode=encode,
            frame_size=frame_size,
            direct=direct,
            fsync=fsync,
            **options,
        ) as pipeline:
            return pipeline.run(progress)
    except HeadraceError as error:
        if where in error.text:
            raise
        raise error.retold(f"{where}: {error.text}", where) from None


def _encode(where: str, compress: Compress, says_zstd: bool) -> Union[str, tuple[str, int]]:
    """As a pipeline takes it."""
    if compress is None:
        return "zstd" if says_zstd else "none"
    if isinstance(compress, tuple) and len(compress) == 2 and compress[0] == "zstd":
        return "zstd", _checks.zstd_level(compress[1])
    if compress not in ("zstd", "none"):
        raise ValueError(
            f'{where}: compress is {compress!r}: "zstd", "none" or ("zstd", level) is wanted'
        )
    return str(compress)


class _Made:
    """What the pipeline is made of."""

    def __init__(self, sources: list[Any], device: Optional[str] = None) -> None:
        self.sources = sources
        self.device = device
        self.kernels: list[str] = []


def _of_dict(
    where: str, data: Any, dtype: Any, metadata: Optional[Mapping[str, str]], options: Any
) -> _Made:
    if not isinstance(data, Mapping):
        raise TypeError(f"{where}: .safetensors take a dict of name to array")
    tensors = {
        name: describe(array, f"{where}: tensor {quote(name)}").in_c_order()
        for name, array in data.items()
    }
    targets = _targets(where, dtype, tensors)
    try:
        header, layout = safetensors.build_header(
            {name: (targets[name], given.shape) for name, given in tensors.items()}, metadata
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    device = next((g.found.device for g in tensors.values() if g.found.device != "host"), None)
    sources: list[Any] = [header]
    for info in layout:
        given = tensors[info.name]
        kernels = given.kernels(targets[info.name], is_native=True)
        if info.nbytes:
            sources.append(given.as_source(kernels, device, options))
    return _Made(sources, device)


def _targets(where: str, dtype: Any, tensors: Mapping[str, Given]) -> dict[str, _dtypes.DType]:
    types = {name: given.found.dtype for name, given in tensors.items()}
    try:
        return {**types, **_names.casts_of(dtype, types)}
    except (ValueError, KeyError) as error:
        raise type(error)(f"{where}: {error.args[0]}") from None


def _of_one(
    where: str,
    data: Any,
    dtype: Any,
    shape: Optional[tuple[int, ...]],
    has_header: bool,
    options: Any,
) -> _Made:
    if isinstance(data, (Mapping, str)):
        hint = ": .safetensors take it" if isinstance(data, Mapping) else ""
        raise TypeError(f"{where}: an array is wanted, not a {type(data).__name__}{hint}")
    if _foreign.is_array(data):
        if shape is not None:
            raise ValueError(f"{where}: shape= is for iterables: reshape the array instead")
        return _of_array(where, describe(data, where), dtype, has_header, options)
    if not isinstance(data, Iterable):
        raise TypeError(f"{where}: a {type(data).__name__} is no array and no iterable of arrays")
    return _of_items(where, Items(data, where, options), dtype, shape, has_header, options)


def _of_array(where: str, given: Given, dtype: Any, has_header: bool, options: Any) -> _Made:
    if not has_header:
        given = given.in_c_order()
    to = _targets(where, dtype, {"": given})[""]
    kernels = given.kernels(to, is_native=False)
    on_host = given.found.device == "host"
    if not has_header:
        made = _Made([given.source] if given.found.nbytes else [])
        made.kernels = kernels if made.sources else []
        made.device = "host" if on_host and kernels else None
        return made
    stored = to if kernels else given.stored
    header = _npy_header(where, stored, given.found.shape, given.found.order)
    device = None if on_host else given.found.device
    array = [given.as_source(kernels, device, options)] if given.found.nbytes else []
    return _Made([header, *array], device)


def _of_items(
    where: str,
    items: Items,
    dtype: Any,
    shape: Optional[tuple[int, ...]],
    has_header: bool,
    options: Any,
) -> _Made:
    if has_header and shape is None:
        raise ValueError(
            f"{where}: a .npy begins with its shape: give shape= of all items together, or save "
            "without a header"
        )
    first = items.first
    if first is None:
        found = to = _dtypes.find("uint8" if dtype is None else dtype)
        stored: Any = to
    else:
        found, to = first.found.dtype, _targets(where, dtype, {"": first})[""]
        stored = to if to != found else first.stored
    nbytes = None if shape is None else measure(found, shape, where)
    kernels = [] if first is None else first.kernels(to, is_native=False)
    pieces = items.pieces(shape, nbytes)
    if not has_header:
        made = _Made([pieces])
        made.kernels, made.device = kernels, "host" if kernels else None
        return made
    header = _npy_header(where, stored, shape or (), "C")
    return _Made([header, pulled(pieces, kernels, True, where, options) if kernels else pieces])


def _npy_header(where: str, stored: Any, shape: tuple[int, ...], order: str) -> bytes:
    try:
        return npy.build_header(stored, shape, order)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
