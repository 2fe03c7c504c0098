# SPDX-License-Identifier: Apache-2.0
"""Sum, extremes and deviation of a file of numbers that need not fit into memory: .npy, or numbers
without a header; plain or zstd.

    python reduce_file.py data.f32.zst [f32 | f64 | i16 | ...] [host | cuda:0 | ...]
"""

import sys

import numpy as np

import headrace as hr


def main(path, dtype="f32", device="host"):
    # Reductions of headrace, on the device; no byte comes back. Sums of floats are exact, those of
    # integers wrap around at 2^64.
    words = ("sum", "min", "max", "mean")
    reduced = hr.stream(path, device=device, kernels=[f"{word}:{dtype}" for word in words])
    for _ in reduced:
        pass
    for kernel, word in enumerate(words):
        print(f"{word:9} {reduced.result(kernel)!r}")

    # A reduction of one's own: a chunk at a time, while the next ones are read and decoded.
    mean, squares, n = reduced.result(3), 0.0, 0
    for chunk in hr.stream(path, dtype=dtype):
        difference = chunk.numpy().astype("f8") - mean
        squares += float(np.square(difference).sum())
        n += difference.size
    print(f"{'deviation':9} {np.sqrt(squares / n)!r}")
    print(f"{'numbers':9} {n}")
    print(reduced.stats(), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
