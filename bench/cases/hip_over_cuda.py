# SPDX-License-Identifier: Apache-2.0
"""HIP API over CUDA: transfers by the HIP backend on an NVIDIA GPU, beside the CUDA backend's.

The HIP backend runs over a library of our own, ``tests/support/hip_over_cuda``, which has HIP's
calls on top of NVIDIA's driver. What it costs is the backend's way of using HIP; nothing is said of
GPUs of AMD. One process runs each pipeline by both backends in turn, on the same memory, and
compares the contents after each run. Without a GPU or the library there are no figures.
``--size 4G`` is better than the usual 1G.
"""

import os
import statistics

from gpu_transfers import inputs, measure, pipeline_summary, print_cases
from report import Report, arguments

WAYS = ("cached file to device", "device to pinned memory", "memory, kernel, memory")
TARGET = 0.95


def add_options(parser):
    """Add the options of this case."""
    parser.add_argument("--rocm", type=int, choices=(5, 6, 7), default=7,
                        help="whose library (7)")


def use_library(given):
    """Have headrace find the library of the build that the command belongs to; return its path."""
    build = os.path.dirname(os.path.dirname(given.headrace))
    folder = os.path.join(build, "tests", f"hip_over_cuda_{given.rocm}")
    library = os.path.join(folder, f"libamdhip64.so.{given.rocm}")
    os.environ["HR_LIBAMDHIP64"] = library
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(
        filter(None, (folder, os.environ.get("LD_LIBRARY_PATH"))))
    return library


def judge(report, way):
    """Compare the medians of both backends, and the medians of what the pairs of runs took."""
    cuda, hip = report.cases[f"CUDA: {way}"], report.cases[f"HIP API over CUDA: {way}"]
    pairs = [a["wall_ns"] / b["wall_ns"] for a, b in zip(cuda["samples"], hip["samples"])]
    report.figure(f"HIP API over CUDA: {way}",
                  hip["gigabytes_per_s"] / cuda["gigabytes_per_s"], "GB/s, hip / cuda", TARGET)
    report.figure("  the same, median of pairs", statistics.median(pairs), "GB/s, hip / cuda")
    report.figure("  CPU seconds", hip["cpu_s_median"] / cuda["cpu_s_median"], "hip / cuda")


def main():
    """Measure, judge, write."""
    given = arguments(__doc__, add_options)
    report = Report()
    report.machine["hip_library"] = os.path.basename(use_library(given))
    gpus, why = inputs.gpus()
    if "cuda:0" not in gpus or "hip:0" not in gpus:
        print(f"not run, it needs a GPU by both backends: {why}")
        report.cases["HIP API over CUDA"] = {"not_run": why}
        report.write(given.report)
        return
    report.machine["gpu"], report.machine["gpu_by_hip"] = gpus["cuda:0"], gpus["hip:0"]
    said = measure(given, "cuda:0,hip:0", *WAYS)
    for way in WAYS:
        report.cases[f"CUDA: {way}"] = pipeline_summary(said["pipelines"][way])
        report.cases[f"HIP API over CUDA: {way}"] = pipeline_summary(said["peer_pipelines"][way])
    print_cases(report.cases)
    for way in WAYS:
        judge(report, way)
    report.write(given.report)


if __name__ == "__main__":
    main()
