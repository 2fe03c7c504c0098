# SPDX-License-Identifier: Apache-2.0
"""JSON from files that are not trusted: bounded depth, no key twice, numbers kept as they are."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

from . import FormatError
from .tensor import quote

__all__ = ["Object", "encodable", "parse"]

_STRING = re.compile(rb'"[^"]*"')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_MAX_DIGITS = 20  # of 2^64


class Object(Dict[str, Any]):
    """A JSON object. ``twice`` is a key that stood in it more than once, or None."""

    twice: Optional[str] = None


def _object(pairs: List[Tuple[str, Any]]) -> Object:
    result = Object(pairs)
    if len(result) < len(pairs):
        result.twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return result


def _integer(text: str) -> int:
    """Long ones become 2^64: too large for whoever checks, and cheap."""
    return int(text) if len(text) <= _MAX_DIGITS else 1 << 64


def _check_depth(text: bytes, max_depth: int, where: str) -> None:
    """Before anything recursive sees the text: take away the innermost pairs, level by level."""
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = _STRING.sub(b"", plain).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
    if brackets.count(b"[") != brackets.count(b"]"):
        raise FormatError(f"{where}: not JSON: brackets do not match")
    if brackets:
        raise FormatError(f"{where}: JSON of more than {max_depth} levels")


def parse(text: bytes, *, max_depth: int, where: str) -> Object:
    """The object that a JSON text is.

    Parameters
    ----------
    text : bytes
        UTF-8; it must begin with ``{``.
    max_depth : int
        Levels of objects and arrays, the outermost included.
    where : str
        For messages.

    Returns
    -------
    Object
        Fractions are float, also where their value is whole; integers over 64 bits are 2^64.

    Raises
    ------
    FormatError
        Not JSON; too deep; not an object; a key of the outermost object that stands twice.

    Examples
    --------
    >>> parse(b'{"a": [1, 2.0]}', max_depth=2, where="x")
    {'a': [1, 2.0]}
    >>> parse(b'{"a": 1, "a": 2}', max_depth=2, where="x")
    Traceback (most recent call last):
    headrace.errors.FormatError: x: the name "a" stands twice
    """
    if text[:1] != b"{":
        raise FormatError(f"{where}: JSON must begin with '{{', not with {bytes(text[:8])!r}")
    _check_depth(text, max_depth, where)
    try:
        result = json.loads(text.decode("utf-8"), object_pairs_hook=_object, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise FormatError(f"{where}: not JSON: {error.msg} at character {error.pos}") from None
    if result.twice is not None:
        raise FormatError(f"{where}: the name {quote(result.twice)} stands twice")
    return result  # type: ignore[no-any-return]


def encodable(text: str) -> bool:
    r"""Whether a string can be written as UTF-8: JSON escapes can make halves of characters.

    Examples
    --------
    >>> encodable("\u03b1"), encodable("\ud800")
    (True, False)
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
