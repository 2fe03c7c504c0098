# SPDX-License-Identifier: Apache-2.0
"""Makes headrace/_declarations.py, what cffi is told of the C interfaces, from their headers.

    python generate.py OUTPUT HEADER...

cffi reads C declarations, but no preprocessor, attributes or comments: these are left out, and
enums, structs, typedefs and prototypes stay as they are. The headers are written for it: no inline
functions, no function-like macros, no bit-fields.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Made by generate.py from {names}: change these instead.
"""The C interfaces, as cffi reads them."""

DECLARATIONS = """
{text}"""
'''

LEFT_OUT = (
    (r"/\*.*?\*/", " "),  # comments, of both kinds
    (r"//[^\n]*", " "),
    (r"^[ \t]*#([^\n]*\\\n)*[^\n]*$", ""),  # directives, with the lines that they go on in
    (r'extern\s+"C"\s*\{', ""),
    (r"\bHRP?_MUST_CHECK\b", ""),
    (r"__attribute__\s*\(\(.*?\)\)", ""),
    (r"\b_Static_assert\s*\(.*?\)\s*;", ""),
)


def declarations(text: str) -> str:
    """What a header declares.

    Parameters
    ----------
    text : str
        The header.

    Returns
    -------
    str
        Its declarations, one line after the other, without empty ones.
    """
    in_cplusplus = re.compile(r"^#ifdef __cplusplus\n.*?^#endif$", re.DOTALL | re.MULTILINE)
    text = in_cplusplus.sub("", text)
    for pattern, instead in LEFT_OUT:
        text = re.sub(pattern, instead, text, flags=re.DOTALL | re.MULTILINE)
    lines = (line.rstrip() for line in text.splitlines())
    return "".join(re.sub(r" +;", ";", line) + "\n" for line in lines if line.strip())


def module(headers: list[Path]) -> str:
    """The text of headrace/_declarations.py.

    Parameters
    ----------
    headers : list of Path
        In the order in which a C program would include them.

    Returns
    -------
    str
        A Python module with one constant, DECLARATIONS.
    """
    text = "".join(declarations(header.read_text(encoding="utf-8")) for header in headers)
    return HEAD.format(names=", ".join(header.name for header in headers), text=text)


def main(arguments: list[str]) -> None:
    """Writes the file, if it would change."""
    if len(arguments) < 2:
        sys.exit(__doc__)
    output = Path(arguments[0])
    text = module([Path(name) for name in arguments[1:]])
    if not output.exists() or output.read_text(encoding="utf-8") != text:
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
