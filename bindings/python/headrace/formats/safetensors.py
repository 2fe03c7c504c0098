# SPDX-License-Identifier: Apache-2.0
"""``.safetensors`` files: reading and building headers.

    bytes 0-7   length of the header, little-endian
    then        the header: a JSON object, name -> {"dtype", "shape", "data_offsets": [begin, end]},
                and "__metadata__" -> {string: string}; it may end with spaces
    then        the data, which the tensors cover without overlap or hole; offsets count from here

Numbers are little-endian, the order is C. What the reference implementation refuses is refused;
beyond it: keys that are not known, a name twice, and rows of 4- or 6-bit elements that end within
a byte. Tensors of no bytes may claim any place within the data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import _dtypes
from .._dtypes import DType
from . import FormatError
from .reading import Readable, opened, read_prefix
from .strict_json import Object, encodable, parse
from .tensor import MAX_BYTES, TensorInfo, measure, quote

__all__ = ["MAX_HEADER", "Safetensors", "build_header", "bytes_needed", "parse_header", "read"]

MAX_HEADER = 100_000_000  # as the reference implementation
_LENGTH_BYTES = 8
_DEPTH = 3
_METADATA = "__metadata__"
_FIELDS = {"dtype", "shape", "data_offsets"}
_RANK = {dtype: rank for rank, dtype in enumerate(_dtypes.known())}


@dataclass(frozen=True)
class Safetensors:
    """What the header of a file says.

    Attributes
    ----------
    tensors : dict of str to TensorInfo
        In the order of the data; offsets count from the start of the file.
    metadata : dict of str to str
        Empty if there is none.
    data_offset : int, bytes
        Where the data begin: the length of the header with its own length before it.
    size : int, bytes
        What the whole file must have.
    """

    tensors: Dict[str, TensorInfo]
    metadata: Dict[str, str] = field(default_factory=dict)
    data_offset: int = 0
    size: int = 0


def bytes_needed(prefix: bytes, where: str = "<safetensors>") -> int:
    """How many of a file's first bytes `parse_header` wants.

    Parameters
    ----------
    prefix : bytes
        The first bytes of the file, as many as there are.
    where : str, default "<safetensors>"
        For messages.

    Returns
    -------
    int, bytes
        At least 8.

    Raises
    ------
    FormatError
        A header of more than `MAX_HEADER` bytes.

    Examples
    --------
    >>> bytes_needed(b""), bytes_needed(bytes([100, 0, 0, 0, 0, 0, 0, 0]))
    (8, 108)
    """
    if len(prefix) < _LENGTH_BYTES:
        return _LENGTH_BYTES
    length = int.from_bytes(prefix[:_LENGTH_BYTES], "little")
    if length > MAX_HEADER:
        raise FormatError(f"{where}: header of {length} bytes, more than {MAX_HEADER}")
    return _LENGTH_BYTES + length


def parse_header(
    prefix: bytes,
    *,
    size: Optional[int] = None,
    where: str = "<safetensors>",
    path: Optional[str] = None,
) -> Safetensors:
    """What the header says, checked.

    Parameters
    ----------
    prefix : bytes
        At least `bytes_needed` bytes from the start of the file.
    size : int or None, bytes, default None
        Of the whole file. None: unknown; compare ``Safetensors.size`` when the end has come.
    where : str, default "<safetensors>"
        For messages.
    path : str or None, default None
        For ``TensorInfo.path``.

    Returns
    -------
    Safetensors

    Raises
    ------
    FormatError
        Anything that the format does not allow; the text names the tensor.

    Examples
    --------
    >>> header, _ = build_header({"a": (_dtypes.find("bf16"), (2, 3))})
    >>> parse_header(header, size=len(header) + 12).tensors["a"].nbytes
    12
    """
    end = bytes_needed(prefix, where)
    if len(prefix) < end or (size is not None and size < end):
        have = len(prefix) if size is None else min(size, len(prefix))
        raise FormatError(f"{where}: the header needs {end} bytes, there are {have}")
    header = parse(bytes(prefix[_LENGTH_BYTES:end]), max_depth=_DEPTH, where=where)
    metadata = _metadata(header.pop(_METADATA, Object()), where)
    found = [_tensor(name, entry, end, where, path) for name, entry in header.items()]
    found.sort(key=lambda t: (t.offset, t.end))
    last = _check_cover(found, end, size, where)
    return Safetensors({t.name: t for t in found}, metadata, end, last)


def _metadata(entry: Any, where: str) -> Dict[str, str]:
    if not isinstance(entry, Object) or not all(isinstance(v, str) for v in entry.values()):
        raise FormatError(f"{where}: {_METADATA} must map strings to strings")
    if entry.twice is not None:
        raise FormatError(f"{where}: {_METADATA} has {quote(entry.twice)} twice")
    return dict(entry)


def _tensor(name: str, entry: Any, data_at: int, where: str, path: Optional[str]) -> TensorInfo:
    where = f"{where}: tensor {quote(name)}"
    if not encodable(name):
        raise FormatError(f"{where}: the name is not valid Unicode")
    if not isinstance(entry, Object):
        raise FormatError(f"{where}: an object is wanted, not {_kind(entry)}")
    if entry.twice is not None:
        raise FormatError(f"{where}: {quote(entry.twice)} stands twice")
    if set(entry) != _FIELDS:
        raise FormatError(
            f"{where}: wants {sorted(_FIELDS)}, has {', '.join(map(quote, sorted(entry)[:8]))}"
        )
    shape = tuple(_numbers(entry["shape"], "shape", where))
    offsets = _numbers(entry["data_offsets"], "data_offsets", where)
    if len(offsets) != 2:
        raise FormatError(f"{where}: data_offsets has {len(offsets)} numbers, not 2")
    dtype = _dtype(entry["dtype"], where)
    begin, end = offsets
    if end > MAX_BYTES - data_at:
        raise FormatError(f"{where}: data_offsets {begin} to {end} lead beyond 63 bits")
    if begin > end:
        raise FormatError(f"{where}: data_offsets {begin} to {end}: the end is before the begin")
    nbytes = measure(dtype, shape, where)
    if end - begin != nbytes:
        raise FormatError(
            f"{where}: shape {list(shape)} of {dtype.safetensors} is {nbytes} bytes, "
            f"data_offsets {begin} to {end} are {end - begin}"
        )
    return TensorInfo(name, dtype, shape, data_at + begin, nbytes, path=path)


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _numbers(values: Any, key: str, where: str) -> List[int]:
    if not isinstance(values, list):
        raise FormatError(f"{where}: {key} is {_kind(values)}, not a list")
    for value in values:
        if type(value) is not int:  # bool is an int, and no number here
            raise FormatError(f"{where}: {key} has {_kind(value)}, not a whole number")
        if not 0 <= value <= MAX_BYTES:
            raise FormatError(f"{where}: {key} has a number below 0 or over 63 bits")
    return values


def _dtype(name: Any, where: str) -> DType:
    if not isinstance(name, str):
        raise FormatError(f"{where}: dtype is {_kind(name)}, not a string")
    try:
        return _dtypes.from_safetensors(name)
    except ValueError as error:
        raise FormatError(f"{where}: {error}") from None


def _check_cover(found: List[TensorInfo], data_at: int, size: Optional[int], where: str) -> int:
    """Tensors, in the order of their data, must follow one another. Returns where they end."""
    at = data_at
    previous = None
    for tensor in found:
        if tensor.nbytes == 0:
            continue
        if tensor.offset != at:
            name, gap = quote(tensor.name), tensor.offset - at
            if gap > 0:
                raise FormatError(f"{where}: tensor {name}: {gap} bytes before it belong to none")
            raise FormatError(f"{where}: tensor {name} overlaps tensor {quote(previous)}")
        at, previous = tensor.end, tensor.name
    for tensor in found:
        if tensor.offset > at:
            raise FormatError(f"{where}: tensor {quote(tensor.name)} begins behind the data")
    if size is not None and size != at:
        if size > at:
            after = "the header" if previous is None else f"tensor {quote(previous)}"
            raise FormatError(f"{where}: {size - at} bytes behind {after} belong to no tensor")
        cut = next(t for t in found if t.end > size)
        raise FormatError(
            f"{where}: tensor {quote(cut.name)} ends at byte {cut.end}, the file at {size}"
        )
    return at


def read(source: Readable) -> Safetensors:
    """Read the header of a file.

    Parameters
    ----------
    source : str, os.PathLike or binary file object
        A file object need not be seekable; it is read from where it stands, and left at the data.

    Returns
    -------
    Safetensors

    Raises
    ------
    FormatError
        See `parse_header`.
    OSError
        The file cannot be opened or read.

    Notes
    -----
    Thread-safe for different files. Reads the header only.
    """
    with opened(source) as (file, path, where, size):
        prefix = read_prefix(file, lambda have: bytes_needed(have, where), where, size)
        return parse_header(prefix, size=size, where=where, path=path)


def build_header(
    tensors: Mapping[str, Tuple[DType, Tuple[int, ...]]],
    metadata: Optional[Mapping[str, str]] = None,
) -> Tuple[bytes, Tuple[TensorInfo, ...]]:
    """The header of a file, and where each tensor's data go.

    Tensors are sorted as the reference implementation does, so that data are aligned: wide types
    first, then by name.

    Parameters
    ----------
    tensors : mapping of str to (DType, shape)
        By name; in any order.
    metadata : mapping of str to str or None, default None
        Written in the order given.

    Returns
    -------
    header : bytes
        A multiple of 8 bytes; the same as the reference implementation's, but for the order of
        metadata, which is random there.
    layout : tuple of TensorInfo
        In the order of the data, without a gap; offsets count from the start of the file.

    Raises
    ------
    ValueError
        A type that the format does not have, a name that it reserves or cannot encode, metadata
        that are no strings, or a header beyond `MAX_HEADER`.

    Examples
    --------
    >>> header, layout = build_header({"a": (_dtypes.find("u1"), (3,)),
    ...                                "b": (_dtypes.find("f4"), ())})
    >>> header[8:61]
    b'{"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},'
    >>> [(t.name, t.offset - len(header), t.nbytes) for t in layout]
    [('b', 0, 4), ('a', 4, 3)]
    """
    header: Dict[str, Any] = {}
    if metadata is not None:
        header[_METADATA] = _checked_metadata(metadata)
    at = 0
    ranges = []
    for name, dtype, shape in _in_order(tensors):
        nbytes = measure(dtype, shape, f"tensor {quote(name)}")
        header[name] = {
            "dtype": dtype.safetensors,
            "shape": list(shape),
            "data_offsets": [at, at + nbytes],
        }
        ranges.append((name, dtype, shape, at, nbytes))
        at += nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ValueError(f"header of {len(text)} bytes, more than {MAX_HEADER}")
    start = _LENGTH_BYTES + len(text)
    layout = tuple(TensorInfo(n, d, s, start + begin, size) for n, d, s, begin, size in ranges)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text, layout


def _checked_metadata(metadata: Mapping[str, str]) -> Dict[str, str]:
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(f"metadata {quote(key)}: keys and values must be strings")
        if not encodable(key + value):
            raise ValueError(f"metadata {quote(key)}: not valid Unicode")
    return dict(metadata)


def _in_order(
    tensors: Mapping[str, Tuple[DType, Tuple[int, ...]]],
) -> List[Tuple[str, DType, Tuple[int, ...]]]:
    for name, (dtype, _) in tensors.items():
        if not isinstance(name, str) or name == _METADATA or not encodable(name):
            raise ValueError(f"tensor {quote(name)}: this name cannot be written")
        if dtype.safetensors is None:
            raise ValueError(f"tensor {quote(name)}: .safetensors has no dtype {dtype}")
    ranked = sorted(tensors.items(), key=lambda item: (-_RANK[item[1][0]], item[0]))
    return [(name, dtype, tuple(map(int, shape))) for name, (dtype, shape) in ranked]
