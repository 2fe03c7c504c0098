# SPDX-License-Identifier: Apache-2.0
"""load: files of arrays into memory of the host or a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Optional, Union

from headrace import _checks, _devices, _dtypes, _foreign, _names
from headrace._array import Array
from headrace._context import Context, default_context
from headrace._load_file import File
from headrace._load_headers import Headers, Infos, Raw
from headrace._load_run import Group, allocated, order_of, run, view
from headrace._numbers import lengths, size
from headrace._pipeline import Pipeline
from headrace.errors import OutOfMemoryError, about
from headrace.formats.plan import ALIGN, Placed, plan
from headrace.formats.select import select
from headrace.formats.tensor import quote


def load(
    path: Union[str, os.PathLike[str]],
    keys: Union[None, str, Iterable[str]] = None,
    slices: Any = None,
    dtype: Any = None,
    out: Any = None,
    device: Optional[str] = None,
    *,
    shape: Union[None, int, tuple[int, ...]] = None,
    stored: Any = None,
    offset: int = 0,
    length: Optional[int] = None,
    decode: str = "auto",
    format: Optional[str] = None,  # noqa: A002 - what it is called
    chunk_size: int = 0,
    depth: int = 0,
    io: str = "auto",
    direct: str = "auto",
    context: Optional[Context] = None,
) -> Any:
    """Loads arrays of a file, at the speed of the link.

    Parameters
    ----------
    path : str or os.PathLike
        ``.npy``, ``.npz`` (stored members), ``.safetensors``, ``.safetensors.index.json`` (with its
        files beside it), or anything else: numbers without a header. But endings that other formats
        have (``.gz``, ``.h5``, ``.csv``, ...) are refused. ``.npy``, ``.safetensors`` and numbers
        may be zstd: see ``decode``.
    keys : str or iterable of str, optional
        Tensors wanted, by name or pattern (``"layers.0.*"``); by default all.
    slices : index or dict of str to index, optional
        Parts wanted, by name; of a single array the index itself. An index is an int, a slice with
        a positive step, an Ellipsis or a tuple of these; None is the whole, as no index, and not
        NumPy's new axis. Only what is needed is read where runs of bytes are long, else the range
        that covers them; encoded files are decoded up to the last.
    dtype : str, numpy.dtype or dict of str to these, optional
        Type wanted: values are cast on the way, see the notes. A dict has names or patterns. A
        single word for several tensors is for all, but a floating-point one is for floating-point
        tensors only, as in PyTorch's ``Module.to``. Of numbers without a header it is the type in
        the file, byte order and all, where `stored` tells no other.
    out : array or dict of str to array, optional
        Where to put them: arrays of any library, on the host or a GPU, of the right shape and type,
        contiguous in the order of the file. Without ``keys``, its names are what is wanted.
    device : str, optional
        "host", "cuda:N", "hip:N", or "auto": the first GPU, else the host. By default the host;
        with ``out``, theirs, and another one is an error.
    shape : int or tuple of int, optional
        Of numbers without a header, in elements; one axis may be -1. By default one axis. It takes
        all bytes from ``offset`` on, or ``length``, and neither more nor fewer.
    stored : str or numpy.dtype, optional
        Type in the file, of numbers without a header, if it is not ``dtype``; ``">f4"`` is
        big-endian.
    offset : int, default 0
        Decoded byte at which numbers without a header begin.
    length : int, optional
        Decoded bytes that numbers without a header take. By default all to the end of the file.
    decode : {"auto", "none", "zstd"}, default "auto"
        "auto": the first bytes tell whether it is zstd, whatever its name says; but numbers without
        a header are refused if the name ends with ``.zst`` and they are not zstd. "none" takes the
        bytes as they are.
    format : {"npy", "npz", "safetensors", "index", "raw"}, optional
        By default the name of the file tells. What is named like none of them, and begins like
        one, is refused without it; so is a file whose name and bytes differ in any case.
    chunk_size, depth, io, direct, context
        As of `Pipeline`.

    Returns
    -------
    Array or dict of str to Array
        A single array; of ``.safetensors``, index and ``.npz`` a dict, in the order of the data.
        Those of one file share one allocation, each aligned to 256 bytes, which their last user
        frees. With ``out``, the objects in it.

    Raises
    ------
    FormatError
        The file is not what its format demands, or the shape not what is in it. A ValueError.
    ValueError
        A cast that no kernel does, or to the other byte order; a slice or an ``out`` that does not
        fit; an argument that the file itself decides. Nothing was written.
    TypeError
        An argument of another type than wanted; or slices and ``out`` that are no dicts where
        tensors have names.
    KeyError
        A tensor that the file does not have.
    TransferError
        (OSError: FileNotFoundError, PermissionError, ...) A file cannot be opened or read.
    HeadraceError
        The transfer failed: the table in ``headrace.errors``. ``out`` is written in part.

    Notes
    -----
    Byte order is the machine's afterwards: of a big-endian ``.npy``, values are those of
    ``numpy.load``, not bytes. Column-major arrays stay so. bfloat16 and floats of 8 bits have the
    types of ``ml_dtypes`` in NumPy, without it unsigned integers of as many bits. Types of 4 bits
    are bytes. Objects (pickles) are refused.

    Casts round to the nearest value, ties to even; to integers they saturate and make NaN 0. That
    is not NumPy's ``astype``, which truncates towards zero and wraps around: 2.7 becomes 3 here,
    and 300.0 becomes 255 as uint8. To floats, what is too large becomes infinite.

    One transfer takes all tensors with the same cast. Other threads run meanwhile; Ctrl-C ends it.

    A ``.zst`` without a seek table (files of ``headrace.save`` have one) is read from its begin; if
    it has no header and no full ``shape``, twice.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.npy")
    ...     numpy.save(path, numpy.arange(6.0).reshape(2, 3))
    ...     whole = load(path)
    ...     part = load(path, slices=(slice(None), slice(1, 3)), dtype="f4")
    >>> whole
    <headrace.Array (2, 3) f64 on host: 0.0, 1.0, 2.0, 3.0, 4.0, 5.0>
    >>> part.numpy()
    array([[1., 2.],
           [4., 5.]], dtype=float32)
    """
    where = _checks.path_of(path, is_source=True)
    options: dict[str, Any] = {"chunk_size": chunk_size, "depth": depth, "io": io}
    options["direct"] = direct
    if decode not in ("auto", "none", "zstd"):
        raise ValueError(f"{where}: decode is {decode!r}, not one of 'auto', 'none', 'zstd'")
    offset = size("offset", offset, 63)
    shape = None if shape is None else lengths("shape", shape, least=-1)
    kind, says_zstd = _names.format_of(where, format)
    if kind != "raw":
        _check_header_tells(where, kind, shape=shape, stored=stored, offset=offset, length=length)
    given = Raw(dtype if stored is None else stored, shape, offset, length, format is not None)
    if kind == "raw" and stored is None and not _is_dict(dtype):  # the file's: it may be swapped
        dtype = None if dtype is None else _dtypes.find(dtype)
    with about(where), ExitStack() as opened:
        headers = Headers(opened, decode, {**options, "context": context})
        infos = headers.read(where, kind, says_zstd, given)
        if kind in ("npy", "raw"):
            if keys is not None:
                raise ValueError(f"{where}: it has a single array: keys= says nothing")
            slices = {"": slices} if slices is not None and not _is_dict(slices) else slices
            outs = None if out is None else {"": out}
        else:
            for name, given in (("slices", slices), ("out", out)):
                if given is not None and not _is_dict(given):
                    raise TypeError(f"{where}: it has tensors with names: {name} is a dict of them")
            outs = out
            infos = _chosen(where, infos, outs if keys is None and outs is not None else keys)
        groups = _placed(where, infos, slices or {}, dtype)
        loading = _Loading(headers.files, context or default_context(), headers.options)
        if outs is None:
            done: Any = loading.fresh(where, groups, _devices.resolve(device))
        else:
            done = loading.into(where, groups, outs, device)
    return done[""] if kind in ("npy", "raw") else {name: done[name] for name in infos}


def _check_header_tells(where: str, kind: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None and (name != "offset" or value != 0):
            raise ValueError(
                f"{where}: {name}= is for numbers without a header: of {kind} the file tells"
            )


def _is_dict(given: Any) -> bool:
    return isinstance(given, Mapping)


def _chosen(where: str, infos: Infos, keys: Union[None, str, Iterable[str]]) -> Infos:
    if not (keys is None or isinstance(keys, Iterable)):
        raise TypeError(f"{where}: keys is {keys!r}: a name or pattern, or several, is wanted")
    try:
        return select(infos, keys)
    except KeyError as error:
        raise KeyError(f"{where}: {error.args[0]}") from None


def _placed(where: str, infos: Infos, slices: Mapping[str, Any], dtype: Any) -> list[Group]:
    """Where tensors go: those with the same cast beside each other, for one transfer each."""
    try:
        casts = _names.casts_of(dtype, {name: info.dtype for name, info in infos.items()})
        placed = plan(infos.values(), slices=slices, casts=casts)
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise type(error)(f"{where}: {error.args[0]}") from None
    groups: dict[tuple[str, ...], list[Placed]] = {}
    for tensor in placed.tensors.values():
        groups.setdefault(tensor.kernels, []).append(tensor)
    at = 0
    for group in groups.values():
        for i, tensor in enumerate(group):
            group[i] = replace(tensor, offset=at)
            at += -(-tensor.nbytes // ALIGN) * ALIGN
    return [Group(group) for group in groups.values()]


class _Loading:
    """The transfers of one call."""

    def __init__(
        self, files: dict[Optional[str], File], context: Context, options: dict[str, Any]
    ) -> None:
        self.files = files
        self.context = context
        self.options = options

    def fresh(self, where: str, groups: list[Group], device: str) -> dict[str, Array]:
        """In new memory."""
        try:
            memory = allocated(self.context, device, groups[-1].end if groups else 0)
        except OutOfMemoryError as error:
            raise error.retold(f"{where}: {error.text}", where) from None
        for group in groups:
            sink = memory[group.begin : group.end]
            run(group, sink, device == "host", self.files, self.options)
        return {t.info.name: view(memory, t) for group in groups for t in group.placed}

    def into(
        self, where: str, groups: list[Group], outs: Any, device: Optional[str]
    ) -> dict[str, Any]:
        """In arrays that are there, and on a device, if one is named."""
        tensors = {t.info.name: t for group in groups for t in group.placed}
        if not _is_dict(outs) or set(outs) != set(tensors):
            raise ValueError(f"out is a dict with an array for each of {_listed(tensors)}")
        _check_apart(
            {name: _check_out(tensor, outs[name], device) for name, tensor in tensors.items()}
        )
        if len(tensors) > 1 and any(file.encoded for file in self.files.values()):
            self._by_copies(where, groups, outs)
            return dict(outs)
        for name, tensor in tensors.items():
            on_host = _foreign.describe(outs[name], writable=True).device == "host"
            run(Group([tensor]), outs[name], on_host, self.files, self.options)
        return dict(outs)

    def _by_copies(self, where: str, groups: list[Group], outs: Mapping[str, Any]) -> None:
        """What is encoded is decoded once, not once for each array."""
        for name, array in self.fresh(where, groups, "host").items():
            if array.nbytes:
                Pipeline(array, outs[name], decode="none", context=self.context).run()


def _listed(names: Iterable[str]) -> str:
    listed = [quote(name) for name in names]
    return ", ".join(listed[:4] + [f"... ({len(listed)})"] * (len(listed) > 4))


def _check_apart(outs: Mapping[str, _foreign.Foreign]) -> None:
    """No two of them share memory."""
    ranges = sorted(
        (found.device, found.ptr, found.ptr + found.nbytes, name)
        for name, found in outs.items()
        if found.nbytes
    )
    for one, other in zip(ranges, ranges[1:]):
        if one[0] == other[0] and other[1] < one[2]:
            raise ValueError(f"out: {quote(one[3])} and {quote(other[3])} overlap in memory")


def _check_out(tensor: Placed, out: Any, device: Optional[str]) -> _foreign.Foreign:
    """Before anything is written: place, shape, type and order."""
    name = tensor.info.name
    where = f"{tensor.info.path}: {f'tensor {quote(name)}' if name else 'the array'}"
    try:
        found = _foreign.describe(out, writable=True)
    except (TypeError, ValueError, BufferError) as error:
        raise type(error)(f"{where}: out: {error}") from None
    if device not in (None, "auto", found.device):
        raise ValueError(f"{where}: out is on {found.device}, device= names {device}")
    if tuple(found.shape) != tensor.stored_shape:
        raise ValueError(
            f"{where}: out has shape {tuple(found.shape)}, the data {tensor.stored_shape}"
        )
    if found.swap:
        raise ValueError(f"{where}: out is not in the machine's byte order, as the data will be")
    if found.dtype != tensor.target and found.dtype.numpy != tensor.target.numpy:
        raise ValueError(f"{where}: out is of {found.dtype}, the data of {tensor.target}")
    if sum(n > 1 for n in tensor.shape) > 1 and tensor.nbytes and found.order != order_of(tensor):
        raise ValueError(
            f"{where}: out is in order {found.order}, the data are in {order_of(tensor)}"
        )
    return found
