# SPDX-License-Identifier: Apache-2.0
"""The interpreter's exit, while chunks and what refers to them are there: each in a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

FUNCTION = """
import sys
import numpy as np
import headrace as hr

def plus_one(x, out, call):
    np.add(x, 1, out=out)

transfer = hr.stream(np.arange(9000.0), kernels=plus_one, chunk_size=8000)
"""
CLASS = """
import io, sys
import numpy as np
import headrace as hr

class Reader:
    data = io.BytesIO(bytes(72000))

    def read(self, n=-1):
        return self.data.read(n)

transfer = hr.stream(Reader(), chunk_size=8000)
"""
PIPELINE = FUNCTION + "transfer = hr.Pipeline(np.arange(9000.0), kernels=plus_one, chunk_size=8000)\n"


@pytest.mark.parametrize("begin", [FUNCTION, CLASS, PIPELINE])
@pytest.mark.parametrize("rest, status", [
    ("view = next(iter(transfer)).numpy()", 0),
    ("views = [np.asarray(chunk)[:1] for chunk, _ in zip(transfer, range(3))]", 0),
    ("for chunk in transfer: view = np.from_dlpack(chunk)", 0),
    ("for chunk in transfer: view = chunk.numpy(); sys.exit(3)", 3),
    ("with transfer as t:\n    view = next(iter(t)).numpy()\nall = [t, view]; all.append(all)", 0),
    ("view = next(iter(transfer)).numpy(); transfer.close()", 0),
])
def test_what_globals_refer_to_at_the_exit(begin, rest, status):
    done = subprocess.run([sys.executable, "-c", begin + rest], timeout=60, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (status, "")
