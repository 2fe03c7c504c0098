# SPDX-License-Identifier: Apache-2.0
"""Files of arrays: headers are read, checked and built here, in Python; the data never is.

Each reader gives `TensorInfo`: type, shape and the byte range in the file. `plan` turns those that
are asked for into ranges to read and places to put them; the engine moves the bytes.

Headers are treated as hostile: every number is checked against the file before anything of its
size is allocated, no text is evaluated, and nothing is unpickled.
"""

from headrace.errors import FormatError

__all__ = ["FormatError"]
