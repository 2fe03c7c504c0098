# SPDX-License-Identifier: Apache-2.0
"""What names of files, and words for several tensors, stand for: the same in load and save."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional

from headrace import _dtypes
from headrace.formats.select import select

FORMATS = ("npy", "npz", "safetensors", "index", "raw")

# Endings of other formats, and what to do instead.
_OTHERS = {
    ".zstd": 'zstd files end with ".zst" here',
    ".gz .bz2 .xz .lzma .lz4 .br .sz .z .zip .7z .tar .tgz": (
        "headrace has no compression but zstd, .zst; Pipeline takes what gzip.open, bz2.open and "
        "the like give"
    ),
    ".pt .pth .ckpt .pkl .pickle .joblib": (
        "that is a pickle, of torch.save for example; tensors with names go to .safetensors"
    ),
    ".h5 .hdf5 .nc .zarr .mat .parquet .feather .arrow .orc .avro .tfrecord .gguf .onnx": (
        "the library of that format has arrays to read and write; .npy, .safetensors and numbers "
        "without a header are headrace's"
    ),
    ".csv .tsv .txt .json .jsonl .yaml .xml": (
        "that is text, which numpy.loadtxt and numpy.savetxt read and write"
    ),
    ".png .jpg .jpeg .tif .tiff .wav .flac .mp4": "its numbers are encoded, by other libraries",
}
_OF_ENDING = {ending: said for endings, said in _OTHERS.items() for ending in endings.split()}


def format_of(path: str, given: Optional[str]) -> tuple[str, bool]:
    """The format of a file, and whether it is zstd, by its name.

    Parameters
    ----------
    path : str
        Of the file.
    given : str or None
        The format, where the name does not tell.

    Returns
    -------
    format : str
        One of `FORMATS`.
    encoded : bool
        The name ends with ".zst".

    Raises
    ------
    ValueError
        ``given`` is none of them, or nothing is given and the name ends as those of other formats.

    Examples
    --------
    >>> format_of("a.npy.zst", None), format_of("a.f32", None)
    (('npy', True), ('raw', False))
    """
    name = path.lower()
    encoded = name.endswith(".zst")
    name = name[: -len(".zst")] if encoded else name
    if given is not None:
        if given not in FORMATS:
            raise ValueError(f"format is {given!r}, not one of {', '.join(map(repr, FORMATS))}")
        return given, encoded
    if name.endswith(".safetensors.index.json"):
        return "index", encoded
    ending = os.path.splitext(name)[1]
    if ending in _OF_ENDING:
        raise ValueError(
            f'{path}: "{ending}" is of another format: {_OF_ENDING[ending]}; format="raw" takes it '
            "for numbers without a header"
        )
    return (ending[1:] if ending in (".npy", ".npz", ".safetensors") else "raw"), encoded


def casts_of(dtype: Any, types: Mapping[str, _dtypes.DType]) -> dict[str, _dtypes.DType]:
    """The types that tensors are cast to.

    Parameters
    ----------
    dtype : None, word or mapping of str to word
        See ``headrace.load``.
    types : mapping of str to DType
        Of the tensors as they are.

    Returns
    -------
    dict of str to DType
        Of those that become another type.

    Raises
    ------
    ValueError
        An unknown type, or one in the other byte order.
    KeyError
        A name or pattern that no tensor answers to.

    Examples
    --------
    >>> types = {"w": _dtypes.find("f64"), "ids": _dtypes.find("int64")}
    >>> {name: str(to) for name, to in casts_of("f32", types).items()}
    {'w': 'f32'}
    >>> {name: str(to) for name, to in casts_of({"*": "f32"}, types).items()}
    {'w': 'f32', 'ids': 'f32'}
    """
    if dtype is None:
        return {}
    if isinstance(dtype, Mapping):
        wanted = {
            name: _dtypes.native(word) for key, word in dtype.items() for name in select(types, key)
        }
    else:
        to = _dtypes.native(dtype)
        alone = list(types) == [""]
        wanted = {
            name: to
            for name, found in types.items()
            if alone or not is_float(to) or is_float(found)
        }
    return {name: to for name, to in wanted.items() if to != types[name]}


def is_float(dtype: _dtypes.DType) -> bool:
    """Whether it is a floating-point type, of any width."""
    return dtype.name.lstrip("b").startswith("f") or dtype.numpy.kind == "f"
