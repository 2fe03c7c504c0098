# SPDX-License-Identifier: Apache-2.0
"""load: files of arrays into memory of the host or a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Optional, Union

from headrace import _devices, _foreign, _names
from headrace._array import Array
from headrace._context import Context, default_context
from headrace._load_file import File
from headrace._load_headers import Headers, Infos, Raw
from headrace._load_run import Group, allocated, order_of, run, view
from headrace._pipeline import Pipeline
from headrace.formats.plan import ALIGN, Placed, plan
from headrace.formats.select import select
from headrace.formats.tensor import quote


def load(
    path: Union[str, os.PathLike[str]],
    keys: Union[None, str, Iterable[str]] = None,
    slices: Any = None,
    dtype: Any = None,
    out: Any = None,
    device: str = "host",
    *,
    shape: Union[None, int, tuple[int, ...]] = None,
    stored: Any = None,
    offset: int = 0,
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
        files beside it), or anything else: numbers without a header. ``.npy``, ``.safetensors`` and
        numbers may be zstd: ``.npy.zst``.
    keys : str or iterable of str, optional
        Tensors wanted, by name or pattern (``"layers.0.*"``); by default all.
    slices : index or dict of str to index, optional
        Parts wanted, by name; of a single array the index itself. An index is an int, a slice with
        a positive step, an Ellipsis or a tuple of these. Only what is needed is read where runs of
        bytes are long, else the range that covers them; encoded files are decoded up to the last.
    dtype : str, numpy.dtype or dict of str to these, optional
        Type wanted: values are cast on the way. A dict has names or patterns. A single word for
        several tensors is for all, but a floating-point one is for floating-point tensors only, as
        in PyTorch's ``Module.to``. Of numbers without a header it is also the type in the file.
    out : array or dict of str to array, optional
        Where to put them: arrays of any library, on the host or a GPU, of the right shape and type,
        contiguous in the order of the file. Without ``keys``, its names are what is wanted.
    device : str, default "host"
        "host", "cuda:N", "hip:N", or "auto": the first GPU, else the host. With ``out``, theirs.
    shape : int or tuple of int, optional
        Of numbers without a header, in elements; one axis may be -1. By default one axis.
    stored : str or numpy.dtype, optional
        Type in the file, of numbers without a header, if it is not ``dtype``; ``">f4"`` is
        big-endian.
    offset : int, default 0
        Decoded byte at which numbers without a header begin.
    format : {"npy", "npz", "safetensors", "index", "raw"}, optional
        By default the name of the file tells.
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
    headrace.formats.FormatError
        The file is not what its format demands. A ValueError.
    ValueError
        A cast that no kernel does; a slice or an ``out`` that does not fit. Nothing was written.
    KeyError
        A tensor that the file does not have.
    HeadraceError
        The transfer failed: the table in ``headrace.errors``. ``out`` is written in part.
    OSError
        A file cannot be opened.

    Notes
    -----
    Byte order is the machine's afterwards: of a big-endian ``.npy``, values are those of
    ``numpy.load``, not bytes. Column-major arrays stay so. bfloat16 and floats of 8 bits have the
    types of ``ml_dtypes`` in NumPy, without it unsigned integers of as many bits. Types of 4 bits
    are bytes. Objects (pickles) are refused.

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
    <headrace.Array (2, 3) f64 on host>
    >>> part.numpy()
    array([[1., 2.],
           [4., 5.]], dtype=float32)
    """
    where = os.fspath(path)
    options: dict[str, Any] = {"chunk_size": chunk_size, "depth": depth, "io": io}
    options["direct"] = direct
    kind, encoded = _names.format_of(where, format)
    with ExitStack() as opened:
        headers = Headers(opened, {**options, "context": context})
        infos = headers.read(where, kind, encoded, Raw(stored or dtype, shape, offset))
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
            done: Any = loading.fresh(groups, _devices.resolve(device))
        else:
            done = loading.into(groups, outs)
    return done[""] if kind in ("npy", "raw") else {name: done[name] for name in infos}


def _is_dict(given: Any) -> bool:
    return isinstance(given, Mapping)


def _chosen(where: str, infos: Infos, keys: Union[None, str, Iterable[str]]) -> Infos:
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

    def fresh(self, groups: list[Group], device: str) -> dict[str, Array]:
        """In new memory."""
        memory = allocated(self.context, device, groups[-1].end if groups else 0)
        for group in groups:
            sink = memory[group.begin : group.end]
            run(group, sink, device == "host", self.files, self.options)
        return {t.info.name: view(memory, t) for group in groups for t in group.placed}

    def into(self, groups: list[Group], outs: Any) -> dict[str, Any]:
        """In arrays that are there."""
        tensors = {t.info.name: t for group in groups for t in group.placed}
        if not _is_dict(outs) or set(outs) != set(tensors):
            raise ValueError(f"out is a dict with an array for each of {_listed(tensors)}")
        _check_apart({name: _check_out(tensor, outs[name]) for name, tensor in tensors.items()})
        if len(tensors) > 1 and any(file.encoded for file in self.files.values()):
            self._by_copies(groups, outs)
            return dict(outs)
        for name, tensor in tensors.items():
            on_host = _foreign.describe(outs[name], writable=True).device == "host"
            run(Group([tensor]), outs[name], on_host, self.files, self.options)
        return dict(outs)

    def _by_copies(self, groups: list[Group], outs: Mapping[str, Any]) -> None:
        """What is encoded is decoded once, not once for each array."""
        for name, array in self.fresh(groups, "host").items():
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


def _check_out(tensor: Placed, out: Any) -> _foreign.Foreign:
    """Before anything is written: place, shape, type and order."""
    name = tensor.info.name
    where = f"{tensor.info.path}: {f'tensor {quote(name)}' if name else 'the array'}"
    try:
        found = _foreign.describe(out, writable=True)
    except (TypeError, ValueError, BufferError) as error:
        raise type(error)(f"{where}: out: {error}") from None
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
