# SPDX-License-Identifier: Apache-2.0
"""What arrays of NumPy do and an Array does not: it says who does.

An Array is memory, on which other libraries compute. What would need arithmetic is refused with
the way to them, and never answered in another sense: ``==`` is not whether it is the same object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

# Names of methods, and what is written for them; the binary ones are there reflected, too.
_OTHERS = "eq == ne != lt < le <= gt > ge >= neg - pos + abs abs() invert ~ setitem [...]="
_BINARY = (
    "add + sub - mul * truediv / floordiv // mod % divmod divmod() pow ** matmul @ lshift << "
    "rshift >> and & or | xor ^"
)


def elsewhere(array: Any) -> str:
    """Who computes on the memory of an Array, for messages."""
    if array.device == "host":
        return "array.numpy() is NumPy's view of it"
    return (
        "torch.from_dlpack(array) and cupy.asarray(array) are views of it on its device, "
        "array.numpy() is a copy on the host"
    )


def _refused(sign: str) -> Callable[..., Any]:
    def refuse(self: Any, *others: Any) -> Any:
        raise TypeError(f"an Array does not compute, here {sign}: {elsewhere(self)}")

    return refuse


class Handle:
    """Memory that others compute on. The base of Array."""

    __hash__ = object.__hash__  # of the object, as dictionaries and sets of arrays need it

    if not TYPE_CHECKING:  # which knows by itself what is not there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # what libraries look for
                raise AttributeError(name)
            raise AttributeError(f"an Array has no {name!r}: {elsewhere(self)}")

        def __index__(self) -> int:
            # Before Python 3.12 bytearray(array) would take each element for a byte.
            raise TypeError("an Array is no index: int(array) is its number, array.tobytes() bytes")


def _signs(words: str) -> Iterator[tuple[str, str]]:
    pairs = iter(words.split())
    return zip(pairs, pairs)


if not TYPE_CHECKING:
    for _word, _sign in _signs(_OTHERS):
        setattr(Handle, f"__{_word}__", _refused(_sign))
    for _word, _sign in _signs(_BINARY):
        setattr(Handle, f"__{_word}__", _refused(_sign))
        setattr(Handle, f"__r{_word}__", _refused(_sign))
