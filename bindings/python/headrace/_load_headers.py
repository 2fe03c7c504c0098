# SPDX-License-Identifier: Apache-2.0
"""Files to load from, opened, and what their headers say."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Optional

from headrace import _sniff
from headrace._load_file import File
from headrace.errors import HeadraceError
from headrace.formats import FormatError, index, npy, npz, raw, safetensors
from headrace.formats.tensor import TensorInfo, quote

Infos = dict[str, TensorInfo]


@dataclass
class Raw:
    """What a user says of numbers without a header."""

    dtype: Any
    shape: Optional[tuple[int, ...]]
    offset: int
    length: Optional[int]
    is_sure: bool  # that there is no header: format= says so


class Headers:
    """The files of one call of load.

    Parameters
    ----------
    opened : ExitStack
        Closes them.
    decode : {"auto", "none", "zstd"}
        How they are read.
    options : dict
        For the pipelines that read them.

    Attributes
    ----------
    files : dict of str to File
        By path, as `TensorInfo.path` has it.
    """

    def __init__(self, opened: ExitStack, decode: str, options: dict[str, Any]) -> None:
        self.opened = opened
        self.decode = decode
        self.options = options
        self.files: dict[Optional[str], File] = {}

    def read(self, path: str, kind: str, says_zstd: bool, given: Raw) -> Infos:
        """The tensors of a file or of an index, by name; "" is the name of a single one."""
        if kind == "index":
            return self._index(path)
        file = self._file(path, self.decode)
        if kind == "npz" and file.encoded:
            raise ValueError(f"{path}: an .npz within zstd cannot be read in one pass")
        if kind == "raw":
            if says_zstd and not file.encoded and self.decode == "auto":
                said = 'its name says zstd, its first bytes do not; decode="none" takes it as it is'
                raise FormatError(f"{path}: {said}", filename=path)
            if not given.is_sure and given.offset == 0:
                _check_bytes(file)
            infos = {"": _raw(file, given)}
        else:
            infos = _of_header(kind, file)
        for name, info in infos.items():
            _check(file, name, info)
        return {name: replace(info, path=path) for name, info in infos.items()}

    def _file(self, path: str, decode: str) -> File:
        file = self.files[path] = File(path, decode, self.options)
        self.opened.callback(file.close)
        return file

    def _index(self, path: str) -> Infos:
        if self.decode == "zstd":
            raise ValueError(f"{path}: an index and its files are not zstd")
        found = index.read(path)
        for shard, header in found.shards.items():
            size = self._file(shard, "none").size
            if size != header.size:
                said = f"{shard}: it had {header.size} bytes, now it has {size}"
                raise FormatError(said, filename=shard)
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
        raise file.named(error) from None
    finally:
        if file.encoded:
            header.close()
    if file.encoded:
        file.ends = found.size
    return found.tensors


def _check_bytes(file: File) -> None:
    """What is named like numbers without a header, has none."""
    header = file.header()
    try:
        found = _sniff.container_of(header.read(_sniff.FIRST), file.path)
    finally:
        if file.encoded:
            header.close()
    if found is not None:
        raise FormatError(
            f"{file.path}: its first bytes are those of a {found.kind} file, its name says nothing "
            f'of it: format="{found.kind[1:]}" loads its arrays, format="raw" takes its bytes',
            filename=file.path,
        )


def _raw(file: File, given: Raw) -> TensorInfo:
    if given.dtype is None or isinstance(given.dtype, Mapping):
        raise ValueError(f"{file.path}: no header tells what is in it: give its dtype (and shape)")
    size = file.size
    if size is None and given.length is None and _needs_length(given.shape):
        size = sum(piece.size for piece in file.pieces(0, None))
    info = raw.describe(
        size,
        given.dtype,
        given.shape,
        offset=given.offset,
        length=given.length,
        where=file.path,
    )
    if size is None and given.length is None:
        file.ends, file.ends_by = info.end, f"shape= (length={info.nbytes} leaves the rest)"
    return info


def _needs_length(shape: Optional[tuple[int, ...]]) -> bool:
    """Whether the bytes have to be counted beforehand: of no element, nothing is read later."""
    return shape is None or -1 in shape or 0 in shape


def _check(file: File, name: str, info: TensorInfo) -> None:
    if file.size is not None and info.end > file.size:
        said = f"it ends at byte {info.end}, the decoded file at {file.size}"
        raise FormatError(f"{_named(file, name)}: {said}", filename=file.path)
    if info.swap > 8:
        raise ValueError(f"{_named(file, name)}: no kernel swaps the bytes of {info.file_dtype}")


def _named(file: File, name: str) -> str:
    return f"{file.path}: tensor {quote(name)}" if name else file.path
