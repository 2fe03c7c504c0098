# SPDX-License-Identifier: Apache-2.0
"""Which tensors of a file a user means by ``keys=``."""

from __future__ import annotations

import difflib
import fnmatch
from typing import Dict, Iterable, List, Mapping, TypeVar, Union

from .tensor import quote

__all__ = ["select"]

T = TypeVar("T")


def select(tensors: Mapping[str, T], keys: Union[None, str, Iterable[str]] = None) -> Dict[str, T]:
    """The tensors that were asked for.

    Parameters
    ----------
    tensors : mapping of str to object
        All that there are.
    keys : None, str or iterable of str, default None
        Names, or patterns with ``*``, ``?`` and ``[...]`` as the shell's, matched against whole
        names, case and all. A name that exists is a name, whatever characters it has. None: all.

    Returns
    -------
    dict of str to object
        In the order of ``tensors``.

    Raises
    ------
    KeyError
        A name or pattern that nothing answers to.

    Examples
    --------
    >>> list(select({"a.weight": 1, "a.bias": 2, "b.weight": 3}, "*.weight"))
    ['a.weight', 'b.weight']
    """
    if keys is None:
        return dict(tensors)
    wanted = set()
    for key in [keys] if isinstance(keys, str) else keys:
        wanted.update(_matching(tensors, key))
    return {name: tensor for name, tensor in tensors.items() if name in wanted}


def _matching(tensors: Mapping[str, T], key: str) -> List[str]:
    if key in tensors:
        return [key]
    found = [name for name in tensors if fnmatch.fnmatchcase(name, key)]
    if not found:
        near = difflib.get_close_matches(key, list(tensors)[:5000], n=3)
        hint = f"; near it: {', '.join(map(quote, near))}" if near else ""
        raise KeyError(f"no tensor {quote(key)} among {len(tensors)}{hint}")
    return found
