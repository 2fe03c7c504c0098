# SPDX-License-Identifier: Apache-2.0
"""A filter: each byte x of the standard input becomes 255 - x, by NumPy, a block at a time."""

import sys

import numpy

while block := sys.stdin.buffer.read(1 << 22):
    sys.stdout.buffer.write(255 - numpy.frombuffer(block, dtype=numpy.uint8))
