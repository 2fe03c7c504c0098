# SPDX-License-Identifier: Apache-2.0
"""Files to load from, opened, and what their headers say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from headrace._load_file import File
from headrace.errors import HeadraceError
from headrace.formats import FormatError, index, npy, npz, raw, safetensors
from headrace.formats.tensor import MAX_BYTES, TensorInfo, quote

Infos = dict[str, TensorInfo]


@dataclass
class Raw:
    """What a user says of numbers without a header."""

    dtype: Any
    shape: Union[None, int, tuple[int, ...]]
    offset: int


class Headers:
    """The files of one call of load.

    Parameters
    ----------
    opened : ExitStack
        Closes them.
    options : dict
        For the pipelines that read them.

    Attributes
    ----------
    files : dict of str to File
        By path, as `TensorInfo.path` has it.
    """

    def __init__(self, opened: ExitStack, options: dict[str, Any]) -> None:
        self.opened = opened
        self.options = options
        self.files: dict[Optional[str], File] = {}

    def read(self, path: str, kind: str, encoded: bool, given: Raw) -> Infos:
        """The tensors of a file or of an index, by name; "" is the name of a single one."""
        if kind == "index":
            return self._index(path)
        if kind == "npz" and encoded:
            raise ValueError(f"{path}: an .npz within .zst cannot be read in one pass")
        file = self._file(path, encoded)
        if kind == "raw":
            infos = {"": _raw(file, given)}
        else:
            infos = _of_header(kind, file)
        for name, info in infos.items():
            _check(file, name, info)
        return {name: replace(info, path=path) for name, info in infos.items()}

    def _file(self, path: str, encoded: bool) -> File:
        file = self.files[path] = File(path, encoded, self.options)
        self.opened.callback(file.close)
        return file

    def _index(self, path: str) -> Infos:
        found = index.read(path)
        for shard, header in found.shards.items():
            size = self._file(shard, False).size
            if size != header.size:
                raise FormatError(f"{shard}: it had {header.size} bytes, now it has {size}")
        return found.tensors


def _of_header(kind: str, file: File) -> Infos:
    header = file.header()
    try:
        if kind == "npy":
            return {"": npy.read(header)}
        if kind == "npz":
            return {name: member.info for name, member in npz.read(header).items()}
        found = safetensors.read(header)
    except HeadraceError as error:
        raise file.named(error) from error
    finally:
        if file.encoded:
            header.close()
    if file.encoded:
        file.ends = found.size
    return found.tensors


def _raw(file: File, given: Raw) -> TensorInfo:
    if given.dtype is None or isinstance(given.dtype, Mapping):
        raise ValueError(f"{file.path}: no header tells what is in it: give its dtype (and shape)")
    size = file.size
    if size is None:
        size = _counted(file, given.shape)
    try:
        return raw.describe(size, given.dtype, given.shape, offset=given.offset, where=file.path)
    except HeadraceError as error:
        raise file.named(error) from error


def _counted(file: File, shape: Union[None, int, tuple[int, ...]]) -> int:
    """Decoded bytes of a file without a seek table, if they have to be known beforehand."""
    dims = shape if isinstance(shape, tuple) else (-1 if shape is None else shape,)
    return sum(piece.size for piece in file.pieces(0, None)) if -1 in dims else MAX_BYTES


def _check(file: File, name: str, info: TensorInfo) -> None:
    if file.size is not None and info.end > file.size:
        said = f"it ends at byte {info.end}, the decoded file at {file.size}"
        raise FormatError(f"{_named(file, name)}: {said}")
    if info.swap > 8:
        raise ValueError(f"{_named(file, name)}: no kernel swaps the bytes of {info.file_dtype}")


def _named(file: File, name: str) -> str:
    return f"{file.path}: tensor {quote(name)}" if name else file.path
