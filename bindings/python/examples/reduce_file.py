# SPDX-License-Identifier: Apache-2.0
"""Sum, extremes and deviation of a file of numbers that need not fit into memory, plain or zstd.

    python reduce_file.py data.f32.zst [f32 | f64 | i16 | ...] [host | cuda:0 | ...]
"""

import sys

import numpy as np

import headrace as hr


def main(path, dtype="f32", device="host"):
    # Reductions of headrace: exact, on the device; no byte comes back.
    kernels = [f"{word}:{dtype}" for word in ("sum", "min", "max", "mean")]
    pipeline = hr.Pipeline(path, hr.NULL, kernels=kernels, decode="auto", device=device)
    stats = pipeline.run()
    for word, kernel in zip(("sum", "min", "max", "mean"), range(4)):
        print(f"{word:9} {pipeline.result(kernel)!r}")

    # A reduction of one's own: a chunk at a time, while the next ones are read and decoded.
    mean, squares, n = pipeline.result(3), 0.0, 0
    for chunk in hr.stream(path, dtype=dtype):
        difference = chunk.numpy().astype("f8") - mean
        squares += float(np.square(difference).sum())
        n += len(chunk)
    print(f"{'deviation':9} {np.sqrt(squares / n)!r}")
    print(f"{'numbers':9} {n}")
    print(stats, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
