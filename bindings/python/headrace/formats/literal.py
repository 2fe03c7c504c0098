# SPDX-License-Identifier: Apache-2.0
"""Python literals as NumPy writes them into headers: parsed as data, never evaluated.

Dictionaries, lists, tuples, strings, integers, True, False and None: no operators, no calls, no
names. A small parser of our own, since ``ast.literal_eval`` may exhaust the stack on hostile text.
"""

from __future__ import annotations

import re
from typing import Any, List, Match

__all__ = ["LiteralError", "parse"]

MAX_DEPTH = 64

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<open>[\[({]) | (?P<close>[\])}]) | (?P<comma>,) | (?P<colon>:)
    | (?P<int>-?[0-9]{1,20})L?(?![0-9A-Za-z_.])
    | (?P<word>True|False|None)(?![0-9A-Za-z_])
    | u?(?P<string>'(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*")
    )""",
    re.VERBOSE,
)
# Those that repr() writes.
_ESCAPE = re.compile(r"\\(?:([\\'\"ntr])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_ONE = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_WORDS = {"True": True, "False": False, "None": None}
_CLOSE = {"[": "]", "(": ")", "{": "}"}


class LiteralError(ValueError):
    """The text is not a literal."""


def parse(text: str) -> Any:
    """The value of a literal.

    Parameters
    ----------
    text : str
        One literal, and white space around it. Integers may end with L, as Python 2 wrote them.

    Returns
    -------
    object

    Raises
    ------
    LiteralError
        Anything else; more than 64 levels; a key that stands twice; the text says where.

    Examples
    --------
    >>> parse("{'shape': (3, 4L), 'fortran_order': False}")
    {'shape': (3, 4), 'fortran_order': False}
    >>> parse("__import__('os')")
    Traceback (most recent call last):
    headrace.formats.literal.LiteralError: not a literal at character 0: "__import__('os')"
    """
    parser = _Parser(text)
    value = parser.value(parser.next(), MAX_DEPTH)
    parser.end()
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, what: str) -> LiteralError:
        return LiteralError(f"{what} at character {self.at}: {self.text[self.at :][:20]!r}")

    def next(self) -> Match[str]:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise self.fail("not a literal")
        self.at = found.end()
        return found

    def end(self) -> None:
        if self.text[self.at :].strip():
            raise self.fail("more text")

    def value(self, token: Match[str], depth: int) -> Any:
        kind, text = token.lastgroup, token.group(token.lastgroup or 0)
        if kind == "int":
            return int(text)
        if kind == "word":
            return _WORDS[text]
        if kind == "string":
            return self.string(text[1:-1])
        if kind != "open":
            raise self.fail(f"unexpected {text!r} before what is")
        if depth == 0:
            raise self.fail(f"more than {MAX_DEPTH} levels")
        if text == "{":
            return self.dictionary(depth - 1)
        return self.sequence(text, depth - 1)

    def string(self, body: str) -> str:
        def one(escape: Match[str]) -> str:
            short, *numbers = escape.groups()
            return _ONE[short] if short else chr(int(next(n for n in numbers if n), 16))

        if "\\" in _ESCAPE.sub("", body):
            raise self.fail("an escape that repr() does not write, before what is")
        try:
            return _ESCAPE.sub(one, body)
        except (ValueError, OverflowError):
            raise self.fail("a character beyond Unicode before what is") from None

    def separated(self, opening: str) -> bool:
        """After an item: True if another may follow."""
        token = self.next()
        if token.lastgroup == "comma":
            return True
        if token.lastgroup != "close" or token.group("close") != _CLOSE[opening]:
            raise self.fail(f"expected , or {_CLOSE[opening]} before what is")
        return False

    def sequence(self, opening: str, depth: int) -> Any:
        items: List[Any] = []
        comma = True
        while comma:
            token = self.next()
            if token.group("close") == _CLOSE[opening]:
                break
            items.append(self.value(token, depth))
            comma = self.separated(opening)
        if opening == "[":
            return items
        # (x) is x in Python: only a comma makes a tuple.
        return items[0] if len(items) == 1 and not comma else tuple(items)

    def dictionary(self, depth: int) -> Any:
        result = {}
        comma = True
        while comma:
            token = self.next()
            if token.group("close") == "}":
                break
            key = self.value(token, depth)
            if not isinstance(key, str) or key in result:
                raise self.fail(f"key {key!r} is no string or stands twice, before what is")
            if self.next().lastgroup != "colon":
                raise self.fail("expected : before what is")
            result[key] = self.value(self.next(), depth)
            comma = self.separated("{")
        return result
