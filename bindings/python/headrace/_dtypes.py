# SPDX-License-Identifier: Apache-2.0
"""One place for the types of elements: what each is called by whom, and how wide it is.

A type has one name here (``DType.name``), and other names elsewhere: a NumPy dtype, the word of
the cast kernels, the name in a ``.safetensors`` header, the code of DLPack, the name in PyTorch.

NumPy has no bfloat16 and no float of 8 bits or less. With the package ``ml_dtypes`` installed,
``DType.numpy`` is its dtype of that name; without it, a stand-in: the unsigned integer of the same
width, the bits being those of the true type (``DType.is_standin`` says so, ``DType.name`` tells
the true type). Types of 4 and 6 bits are always ``uint8``, packed as in the file: the last
dimension of such an array counts bytes, see `DType.stored_shape`.

Words that mean one thing to NumPy and another to headrace's kernels, ``"i8"`` and ``"u8"``, are
refused by `find`: a silent choice would be wrong for half of those who write them.
"""

from __future__ import annotations

import functools
import importlib
import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, Optional, Tuple

import numpy as np

__all__ = [
    "DType",
    "cast_kernel",
    "find",
    "from_dlpack",
    "from_numpy",
    "from_safetensors",
    "from_torch",
    "known",
    "native",
    "swap_of",
    "swap_width",
    "unit",
]


@dataclass(frozen=True)
class DType:
    """A type of element.

    Attributes
    ----------
    name : str
        headrace's own name, e.g. ``"f32"``, ``"bf16"``, ``"f8_e4m3"``; for types that only NumPy
        has (records, dates, strings) the text of the NumPy dtype.
    bits : int
        Width of one element in bits.
    numpy : numpy.dtype
        What an array of it has in NumPy; in the machine's byte order, except within records.
    is_standin : bool, default False
        ``numpy`` is an unsigned integer that carries the bits of another type.
    kernel : str or None, default None
        The word in ``cast:FROM,TO`` and other kernels; None: no kernel computes with it.
    safetensors : str or None, default None
        The name in a ``.safetensors`` header; None: the format has none.
    dlpack : tuple of (int, int) or None, default None
        Type code and bits of one lane; None: DLPack has none.
    torch : str or None, default None
        The attribute of module ``torch``; it may be missing in old versions.

    Examples
    --------
    >>> find("f32").safetensors, find("float32") is find("f32")
    ('F32', True)
    """

    name: str
    bits: int
    numpy: np.dtype[Any] = field(compare=False)
    is_standin: bool = field(default=False, compare=False)
    kernel: Optional[str] = None
    safetensors: Optional[str] = None
    dlpack: Optional[Tuple[int, int]] = None
    torch: Optional[str] = None

    @property
    def group(self) -> Tuple[int, int]:
        """The fewest elements that fill whole bytes, and those bytes; (1, itemsize) mostly.

        Examples
        --------
        >>> find("f64").group, find("F4").group, find("F6_E2M3").group
        ((1, 8), (2, 1), (4, 3))
        """
        elements = 8 // math.gcd(self.bits, 8)
        return elements, elements * self.bits // 8

    def stored_shape(self, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        """The shape of the NumPy array that holds a tensor of this type.

        Parameters
        ----------
        shape : tuple of int
            Counts of elements.

        Returns
        -------
        tuple of int
            The same; for types narrower than a byte the last dimension counts bytes.

        Examples
        --------
        >>> find("F4").stored_shape((3, 8)), find("bf16").stored_shape((3, 8))
        ((3, 4), (3, 8))
        """
        if self.bits % 8 == 0 or not shape:
            return shape
        return shape[:-1] + (shape[-1] * self.bits // 8,)

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:  # what is looked up for every chunk is kept by types, too
        return hash(self.name)


# Type codes of dlpack.h 1.1, enum DLDataTypeCode.
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_E4M3FN, _E4M3FNUZ, _E5M2, _E5M2FNUZ, _E8M0FNU = 10, 11, 12, 13, 14
_F6_E2M3, _F6_E3M2, _F4_E2M1 = 15, 16, 17

# name, bits, NumPy or ml_dtypes, kernels, safetensors, DLPack's code, torch. The order is that in
# which the reference implementation of safetensors ranks types: files are written highest first.
_ROWS: Tuple[Tuple[str, int, str, Optional[str], Optional[str], int, Optional[str]], ...] = (
    ("bool", 8, "bool", None, "BOOL", _BOOL, "bool"),
    ("f4_e2m1", 4, "uint8", None, "F4", _F4_E2M1, "float4_e2m1fn_x2"),
    ("f6_e2m3", 6, "uint8", None, "F6_E2M3", _F6_E2M3, None),
    ("f6_e3m2", 6, "uint8", None, "F6_E3M2", _F6_E3M2, None),
    ("u8", 8, "uint8", "u8", "U8", _UINT, "uint8"),
    ("i8", 8, "int8", "i8", "I8", _INT, "int8"),
    ("f8_e5m2", 8, "float8_e5m2", None, "F8_E5M2", _E5M2, "float8_e5m2"),
    ("f8_e4m3", 8, "float8_e4m3fn", None, "F8_E4M3", _E4M3FN, "float8_e4m3fn"),
    ("f8_e8m0", 8, "float8_e8m0fnu", None, "F8_E8M0", _E8M0FNU, "float8_e8m0fnu"),
    ("f8_e4m3fnuz", 8, "float8_e4m3fnuz", None, "F8_E4M3FNUZ", _E4M3FNUZ, "float8_e4m3fnuz"),
    ("f8_e5m2fnuz", 8, "float8_e5m2fnuz", None, "F8_E5M2FNUZ", _E5M2FNUZ, "float8_e5m2fnuz"),
    ("i16", 16, "int16", "i16", "I16", _INT, "int16"),
    ("u16", 16, "uint16", "u16", "U16", _UINT, "uint16"),
    ("f16", 16, "float16", "f16", "F16", _FLOAT, "float16"),
    ("bf16", 16, "bfloat16", "bf16", "BF16", _BFLOAT, "bfloat16"),
    ("i32", 32, "int32", "i32", "I32", _INT, "int32"),
    ("u32", 32, "uint32", None, "U32", _UINT, "uint32"),
    ("f32", 32, "float32", "f32", "F32", _FLOAT, "float32"),
    ("c64", 64, "complex64", None, "C64", _COMPLEX, "complex64"),
    ("f64", 64, "float64", "f64", "F64", _FLOAT, "float64"),
    ("i64", 64, "int64", "i64", "I64", _INT, "int64"),
    ("u64", 64, "uint64", None, "U64", _UINT, "uint64"),
    ("c128", 128, "complex128", None, None, _COMPLEX, "complex128"),
)

_AMBIGUOUS = {"i8": ("int8", "int64"), "u8": ("uint8", "uint64")}


def _optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def _numpy_dtype(word: str, bits: int, ml_dtypes: Any) -> Tuple[np.dtype[Any], bool]:
    """The dtype, and whether it stands in for another type."""
    scalar = getattr(ml_dtypes, word, None)
    if scalar is not None:
        return np.dtype(scalar), False
    try:
        return np.dtype(word), bits % 8 != 0
    except TypeError:
        return np.dtype(f"uint{bits}"), True


def _table() -> Dict[str, DType]:
    ml_dtypes = _optional("ml_dtypes")
    table = {}
    for name, bits, word, kernel, safetensors, code, torch in _ROWS:
        dtype, standin = _numpy_dtype(word, bits, ml_dtypes)
        table[name] = DType(name, bits, dtype, standin, kernel, safetensors, (code, bits), torch)
    return table


_BY_NAME = _table()
_BY_SAFETENSORS = {t.safetensors: t for t in _BY_NAME.values() if t.safetensors}
_BY_TORCH = {t.torch: t for t in _BY_NAME.values() if t.torch}
_BY_DLPACK = {t.dlpack: t for t in _BY_NAME.values()}
_BY_NUMPY = {t.numpy: t for t in _BY_NAME.values() if not t.is_standin}


def known() -> Iterator[DType]:
    """All types with a name of their own, in the order in which safetensors ranks them.

    Yields
    ------
    DType
        Lowest rank first.

    Examples
    --------
    >>> next(known()).name
    'bool'
    """
    return iter(_BY_NAME.values())


def from_numpy(dtype: Any) -> DType:
    """The type of a NumPy dtype.

    Parameters
    ----------
    dtype : numpy.dtype or anything that numpy.dtype accepts
        Byte order is ignored, except within records: see `swap_width`.

    Returns
    -------
    DType
        One of `known`, or one made up for what only NumPy has.

    Raises
    ------
    ValueError
        Objects: they hold pointers, not data.

    Examples
    --------
    >>> from_numpy(">f4").name, from_numpy("M8[ns]").name
    ('f32', 'datetime64[ns]')
    """
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(f"dtype {dtype}: objects hold pointers and cannot be transferred")
    if dtype.names is None and dtype.subdtype is None:
        dtype = dtype.newbyteorder("=")
    return _BY_NUMPY.get(dtype) or DType(str(dtype), 8 * dtype.itemsize, dtype)


_of_dtype = functools.lru_cache(maxsize=256)(from_numpy)


def from_safetensors(name: str) -> DType:
    """The type of a name in a ``.safetensors`` header.

    Parameters
    ----------
    name : str
        For example ``"BF16"``; upper case only.

    Returns
    -------
    DType

    Raises
    ------
    ValueError
        Unknown name.

    Examples
    --------
    >>> from_safetensors("F8_E5M2").bits
    8
    """
    if name not in _BY_SAFETENSORS:
        raise ValueError(f'unknown dtype "{name[:40]}": known are {", ".join(_BY_SAFETENSORS)}')
    return _BY_SAFETENSORS[name]


def from_torch(name: str) -> DType:
    """The type of a dtype of PyTorch.

    Parameters
    ----------
    name : str
        ``str(tensor.dtype)``, with or without ``"torch."``.

    Returns
    -------
    DType

    Raises
    ------
    ValueError
        Unknown name, e.g. a quantised type.

    Examples
    --------
    >>> from_torch("torch.bfloat16").name
    'bf16'
    """
    word = name[len("torch.") :] if name.startswith("torch.") else name
    if word not in _BY_TORCH:
        raise ValueError(f'unknown dtype "{name}" of PyTorch: known are {", ".join(_BY_TORCH)}')
    return _BY_TORCH[word]


def from_dlpack(code: int, bits: int, lanes: int = 1) -> DType:
    """The type of a DLDataType.

    Parameters
    ----------
    code : int
        DLDataTypeCode.
    bits : int
        Bits of one lane.
    lanes : int, default 1
        Vectors are refused, except the pair of 4-bit floats that fills one byte.

    Returns
    -------
    DType

    Raises
    ------
    ValueError
        A type that headrace does not know.

    Examples
    --------
    >>> from_dlpack(2, 32).name
    'f32'
    """
    dtype = _BY_DLPACK.get((code, bits))
    if dtype is None or lanes not in (1, dtype.group[0]):
        raise ValueError(f"unknown DLPack type: code {code}, {bits} bits, {lanes} lanes")
    return dtype


def find(word: Any) -> DType:
    """What a user means by ``dtype=``.

    Parameters
    ----------
    word : str, numpy.dtype, type, torch.dtype or DType
        headrace's names (``"bf16"``), NumPy's (``"f4"``, ``">i2"``, ``numpy.float32``), PyTorch's
        (``"bfloat16"``) and those of safetensors, in upper case (``"F8_E4M3"``). ``"f4"`` is
        NumPy's, 4 bytes; ``"F4"`` is 4 bits. ``"f16"`` has 16 bits, where NumPy's has 16 bytes:
        that is ``numpy.longdouble``.

    Returns
    -------
    DType

    Raises
    ------
    ValueError
        Unknown; or ``"i8"`` and ``"u8"``, which have 8 bytes to NumPy and 8 bits to kernels.

    Examples
    --------
    >>> find("f4").name, find("F4").name, find("bf16").bits, find(np.int64).name
    ('f32', 'f4_e2m1', 16, 'i64')
    >>> find("i8")
    Traceback (most recent call last):
    ValueError: dtype "i8" is 8 bits to kernels and 8 bytes to NumPy: write "int8" or "int64"
    """
    if isinstance(word, DType):
        return word
    if isinstance(word, np.dtype):  # of every chunk, and their text takes long to make
        return _of_dtype(word)
    text = word if isinstance(word, str) else str(word)
    if isinstance(word, str) or text.startswith("torch."):
        if text in _AMBIGUOUS:
            narrow, wide = _AMBIGUOUS[text]
            raise ValueError(
                f'dtype "{text}" is 8 bits to kernels and 8 bytes to NumPy: '
                f'write "{narrow}" or "{wide}"'
            )
        short = text[len("torch.") :] if text.startswith("torch.") else text
        named = _BY_NAME.get(short) or _BY_SAFETENSORS.get(short) or _BY_TORCH.get(short)
        if named is not None:
            return named
    try:
        return from_numpy(word)
    except TypeError:
        raise ValueError(f'unknown dtype "{text}": known are {", ".join(_BY_NAME)}') from None


def native(word: Any) -> DType:
    """`find`, for what has the machine's byte order.

    Raises
    ------
    ValueError
        As `find`; or a type in the other byte order.

    Examples
    --------
    >>> native("f4").name
    'f32'
    """
    found = find(word)
    if swap_of(word):
        raise ValueError(
            f"dtype {word}: what comes out is in the machine's byte order: give {found.name!r}"
        )
    return found


def swap_of(word: Any) -> int:
    """`swap_width` of what `find` takes.

    Examples
    --------
    >>> swap_of(">f4"), swap_of("bf16"), swap_of(None)
    (4, 0, 0)
    """
    try:
        return 0 if word is None or isinstance(word, DType) else swap_width(np.dtype(word))
    except TypeError:  # a word that NumPy does not know has no byte order
        return 0


def unit(word: Any) -> np.dtype[Any]:
    """The dtype of a function's unit: words as `find` has them, with their byte order.

    Parameters
    ----------
    word : str, numpy.dtype, type, DType, or tuple of one of these and a shape
        Of an element, or of a row of them.

    Returns
    -------
    numpy.dtype
        Of a row: one with a subdtype.

    Raises
    ------
    ValueError
        As `find`.

    Examples
    --------
    >>> unit("bf16").itemsize, unit(">f4").str, unit(("int8", (3,))).shape
    (2, '>f4', (3,))
    """
    if isinstance(word, tuple) and len(word) == 2:
        return np.dtype((unit(word[0]), word[1]))
    found = find(word).numpy
    if isinstance(word, np.dtype):
        return word
    return found.newbyteorder("S") if swap_of(word) else found


def swap_width(dtype: np.dtype[Any]) -> int:
    """Which ``bswap:WIDTH`` kernel brings data of a NumPy dtype to the machine's byte order.

    Parameters
    ----------
    dtype : numpy.dtype
        With the byte order of the file.

    Returns
    -------
    int
        0: none is needed, or a record, whose description tells the order of each field. 2, 4, 8:
        the width. 16 (extended floats): needed, but there is no such kernel.

    Examples
    --------
    >>> [swap_width(np.dtype(d)) for d in ("<f4", ">f4", ">c16", ">U5", ">M8[s]", "u1")]
    [0, 4, 8, 4, 8, 0]
    """
    if dtype.isnative or dtype.names is not None:
        return 0
    if dtype.kind == "U":
        return 4
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


def cast_kernel(source: DType, target: DType) -> str:
    """The text of the kernel that casts one type to another.

    Parameters
    ----------
    source : DType
        Of the data.
    target : DType
        Wanted.

    Returns
    -------
    str
        For example ``"cast:f64,f32"``; empty if the types are the same.

    Raises
    ------
    ValueError
        No kernel reads or writes one of them.

    Examples
    --------
    >>> cast_kernel(find("f64"), find("bf16"))
    'cast:f64,bf16'
    """
    if source == target:
        return ""
    for dtype in (source, target):
        if dtype.kernel is None:
            words = " ".join(t.kernel for t in known() if t.kernel)
            raise ValueError(
                f"no cast from {source} to {target}: kernels have {words}; NumPy's astype has more"
            )
    return f"cast:{source.kernel},{target.kernel}"
