# SPDX-License-Identifier: Apache-2.0
"""``model.safetensors.index.json``: one model in several ``.safetensors`` files.

    {"metadata": {...}, "weight_map": {"tensor": "model-00001-of-00002.safetensors", ...}}

The files (shards) stand beside the index, by the path that was given for it: an index that is a
symbolic link has its shards beside the link, as download caches lay them out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Tuple, Union

from ..errors import HeadraceError
from . import FormatError, safetensors
from .reading import opened, read_prefix
from .safetensors import Safetensors
from .strict_json import Object, parse
from .tensor import TensorInfo, quote

__all__ = ["Index", "is_index", "read", "read_map"]

MAX_INDEX = 100_000_000
_DEPTH = 8  # of what others put into "metadata"; weight_map needs 2


@dataclass(frozen=True)
class Index:
    """A model in several files.

    Attributes
    ----------
    tensors : dict of str to TensorInfo
        Those of the map, file after file, each in the order of its data.
    shards : dict of str to Safetensors
        By path, in the order of their names.
    """

    tensors: Dict[str, TensorInfo]
    shards: Dict[str, Safetensors]


def is_index(path: Union[str, os.PathLike[str]]) -> bool:
    """Whether a path is named like an index.

    Examples
    --------
    >>> is_index("model.safetensors.index.json"), is_index("model.safetensors")
    (True, False)
    """
    return os.fspath(path).endswith(".safetensors.index.json")


def read_map(path: Union[str, os.PathLike[str]]) -> Dict[str, str]:
    """Which tensor is in which file.

    Parameters
    ----------
    path : str or os.PathLike
        Of the index.

    Returns
    -------
    dict of str to str
        Name of the tensor to path of the file; files are not opened.

    Raises
    ------
    FormatError
        Not such an index; a tensor that stands twice; a shard that is no plain file name, and
        would lead to another folder.
    OSError
        The index cannot be read.
    """
    with opened(path) as (file, _, where, size):
        if size is None or size > MAX_INDEX:
            raise FormatError(f"{where}: an index is a regular file of at most {MAX_INDEX} bytes")
        text = read_prefix(file, lambda _: size, where, size)
    index = parse(text.strip(), max_depth=_DEPTH, where=where)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, Object):
        raise FormatError(f'{where}: "weight_map" is missing or no object')
    if weight_map.twice is not None:
        raise FormatError(f"{where}: tensor {quote(weight_map.twice)} stands twice")
    folder = os.path.dirname(where)
    return {
        name: os.path.join(folder, _plain(shard, f"{where}: tensor {quote(name)}"))
        for name, shard in weight_map.items()
    }


def _plain(shard: Any, where: str) -> str:
    """A file name that cannot lead elsewhere, on any system."""
    if not isinstance(shard, str):
        raise FormatError(f"{where}: the file is a {type(shard).__name__}, not a string")
    if shard in ("", ".", "..") or any(c in "/\\:" or ord(c) < 32 for c in shard):
        raise FormatError(f"{where}: {quote(shard)} is not the plain name of a file beside it")
    return shard


def read(path: Union[str, os.PathLike[str]]) -> Index:
    """Read an index and the headers of all its files.

    Parameters
    ----------
    path : str or os.PathLike
        Of the index.

    Returns
    -------
    Index
        Tensors that a file has but the map does not are left out.

    Raises
    ------
    FormatError
        See `read_map` and `headrace.formats.safetensors.parse_header`; a tensor is missing in the
        file that the map names, or is in another one, too.
    TransferError
        (OSError) A file is missing, or cannot be opened or read.
    """
    where = os.fspath(path)
    weight_map = read_map(path)
    shards: Dict[str, Safetensors] = {}
    for shard in sorted(set(weight_map.values())):
        try:
            shards[shard] = safetensors.read(shard)
        except FileNotFoundError as error:
            assert isinstance(error, HeadraceError)
            raise error.retold(f"{where}: its file {quote(shard)} is missing", shard) from None
    tensors = _mapped(shards, weight_map, where)
    for name, shard in weight_map.items():
        if name not in tensors:
            raise FormatError(f"{where}: tensor {quote(name)} is not in {quote(shard)}")
    return Index(tensors, shards)


def _mapped(
    shards: Dict[str, Safetensors], weight_map: Dict[str, str], where: str
) -> Dict[str, TensorInfo]:
    tensors = {}
    for shard, header in shards.items():
        for name, info in header.tensors.items():
            mapped = weight_map.get(name)
            if mapped == shard:
                tensors[name] = info
            elif mapped is not None and name in shards[mapped].tensors:
                both: Tuple[str, str] = (quote(mapped), quote(shard))
                raise FormatError(f"{where}: tensor {quote(name)} is in {both[0]} and {both[1]}")
    return tensors
