# SPDX-License-Identifier: Apache-2.0
"""Peak resident memory: of whole processes (raw, decode, encode), and of 256 pipelines in one.

A process may hold what it says that it leased, the contexts of libzstd (one for each worker and
direction, measured by a program of their own), and 16 MiB. It does not depend on the length of the
stream: files of 2 GiB and 20 GiB, one hole each, are read past the page cache.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import inputs  # noqa: E402
from report import Report, arguments  # noqa: E402

MIB = 1 << 20
N_PIPELINES = 256


def peak_of(watch, command):
    """Run a headrace command; return its peak resident memory and its statistics."""
    with tempfile.NamedTemporaryFile("r", dir=inputs.folder()) as told:
        said = subprocess.run(["bash", "-c", f"{watch} {command} --stats json 3>{told.name}"],
                              check=True, stderr=subprocess.PIPE, text=True).stderr
        return int(told.read()), json.loads(said)


def length(report, watch):
    """The peak for a short and a long file."""
    peaks = {}
    for n_gib in (2, 20):
        hole = inputs.sparse(n_gib << 30)
        peaks[n_gib], stats = peak_of(watch, f"headrace run {hole} null: --direct on")
        report.cases[f"memory: {n_gib} GiB"] = {"peak_bytes": peaks[n_gib],
                                                "leased_bytes": stats["leased_bytes"],
                                                "direct_bytes": stats["direct_bytes"]}
    report.figure("memory: 20 GiB beyond 2 GiB", (peaks[20] - peaks[2]) / MIB, "MiB", 2, "<")


def beyond_leases(report, watch, size):
    """What a process holds beyond its leases and libzstd's contexts."""
    tar, many, one = inputs.system_tar(size), inputs.many_frames(size), inputs.one_frame(size)
    n_workers = len(os.sched_getaffinity(0))
    ask = inputs.program("codec_sizes", "-lzstd")
    for name, options, n_encoders, n_decoders in (
            ("raw", f"{tar} null:", 0, 0),
            ("decode, many frames", f"{many} null:", 0, n_workers),
            ("decode, one frame", f"{one} null:", 0, n_workers),
            ("encode", f"{tar} null: --encode zstd", n_workers, 0),
            ("decode, kernel, encode", f"{many} null: --kernel scale:u8,-1,255 --encode zstd",
             n_workers, n_workers)):
        said = subprocess.run([ask, one if "one" in name else many], check=True,
                              capture_output=True, text=True).stdout
        encoder, decoder = (int(word) for word in said.split())
        peak, stats = peak_of(watch, f"headrace run {options}")
        codecs = n_encoders * encoder + n_decoders * decoder
        report.cases[f"memory: {name}"] = {"peak_bytes": peak, "codec_bytes": codecs,
                                           "leased_bytes": stats["leased_bytes"]}
        report.figure(f"memory beyond leases: {name}",
                      (peak - stats["leased_bytes"] - codecs) / MIB, "MiB", 16, "<=")


def many_pipelines(report, headrace, size):
    """The peak of many pipelines at once, whose chunks the context's memory just admits or not."""
    measure = inputs.program_of_library("many_pipelines", headrace)
    for name, chunk, limit in (("all have memory", MIB // 2, 256 * MIB),
                               ("half have memory", 2 * MIB, 256 * MIB)):
        said = subprocess.run([measure, inputs.system_tar(size), str(N_PIPELINES), str(chunk),
                               str(limit)], check=True, capture_output=True, text=True).stdout
        at_once, peak = (int(word) for word in said.split())
        report.cases[f"memory: {N_PIPELINES} pipelines, {name}"] = {
            "at_once": at_once, "chunk_bytes": chunk, "max_memory_bytes": limit,
            "peak_bytes": peak}
        report.figure(f"memory beyond limit: {at_once} at once of {N_PIPELINES}",
                      (peak - limit) / MIB, "MiB", 16, "<=")


def main():
    """Measure, check, write."""
    given = arguments(__doc__)
    report = Report()
    watch = inputs.program("peak_rss")
    length(report, watch)
    beyond_leases(report, watch, given.size)
    many_pipelines(report, given.headrace, min(given.size, 64 * MIB))
    report.write(given.report)


if __name__ == "__main__":
    main()
