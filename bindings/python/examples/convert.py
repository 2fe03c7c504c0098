# SPDX-License-Identifier: Apache-2.0
"""Convert a plain .npy file, say of float64, to float16, chunk by chunk; compressed, if the name of
the new one says so. The types are those that .npy has: float16, float32, int16, ...

    python convert.py data.npy data16.npy.zst [float16 | float32 | int16 | ...]
"""

import sys

import numpy as np

import headrace as hr


def main(source, target, dtype="float16"):
    if str(source).endswith(".zst"):
        sys.exit("the source is compressed: its shape cannot be looked up without decoding it")
    shape = np.load(source, mmap_mode="r").shape  # only its header is read
    with hr.stream(source) as chunks:
        hr.save(target, chunks, dtype=dtype, shape=shape)
        print(chunks.stats())


if __name__ == "__main__":
    main(*sys.argv[1:])
