# SPDX-License-Identifier: Apache-2.0
"""The files: the same bytes raw, as safetensors, and as zstd of many frames."""

import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402

TENSORS = 32
UNIT = TENSORS * 4096
FRAMES = {"zstd, 1 MiB frames": "1M", "zstd, 64 KiB frames": "64K"}


def header(n_bytes):
    """The begin of a safetensors file of equal f32 tensors, a multiple of eight bytes long."""
    step = n_bytes // TENSORS
    text = json.dumps({f"t{i:02}": {"dtype": "F32", "shape": [step // 4],
                                    "data_offsets": [i * step, (i + 1) * step]}
                       for i in range(TENSORS)}).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def safetensors(n_bytes):
    """Return the tar as a safetensors file."""
    def make(path):
        with open(inputs.system_tar(n_bytes), "rb") as tar, open(path, "wb") as file:
            file.write(header(n_bytes))
            shutil.copyfileobj(tar, file, inputs.BLOCK)
    return inputs.made(f"{n_bytes}.tar.safetensors", n_bytes, make)


def framed(n_bytes, frame):
    """Return the tar as zstd of frames of so many decoded bytes, with a seek table."""
    command = ["headrace", "run", inputs.system_tar(n_bytes), "--encode", "zstd", "--frame", frame]
    return inputs.made(f"{n_bytes}.tar.{frame}.zst", n_bytes,
                       lambda path: subprocess.run([*command, path], check=True))


def files(n_bytes):
    """Return paths by form."""
    return {"raw": inputs.system_tar(n_bytes), "safetensors": safetensors(n_bytes),
            **{form: framed(n_bytes, frame) for form, frame in FRAMES.items()}}
