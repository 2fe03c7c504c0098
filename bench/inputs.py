# SPDX-License-Identifier: Apache-2.0
"""Inputs of the bench: real files, their zstd forms, and small programs in C.

They are made once, in a folder of the user's under TMPDIR, and stay there for the next run.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import zlib

BENCH = os.path.dirname(os.path.abspath(__file__))
BLOCK = 1 << 24


def folder():
    """Return the folder of inputs; it belongs to the user alone."""
    path = os.path.join(tempfile.gettempdir(), f"headrace-bench-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    if os.stat(path).st_uid != os.getuid():
        raise SystemExit(f"{path} belongs to another user; set TMPDIR")
    return path


def need_space(n_bytes):
    """Stop if the folder's disk has not n_bytes free."""
    free = shutil.disk_usage(folder()).free
    if free < n_bytes:
        raise SystemExit(f"{folder()}: {n_bytes / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are "
                         "free; set TMPDIR")


def made(name, n_bytes, make):
    """Return the path of an input, made by ``make(path)`` if it is not there yet."""
    path = os.path.join(folder(), name)
    if not os.path.exists(path):
        need_space(2 * n_bytes)
        make(path + ".part")
        os.rename(path + ".part", path)
    return path


def system_tar(n_bytes):
    """Return a tar of the machine's own files, cut at n_bytes."""
    script = os.path.join(BENCH, "make_tar.sh")
    return made(f"{n_bytes}.tar", n_bytes,
                lambda path: subprocess.run(["bash", script, path, str(n_bytes)], check=True))


def many_frames(n_bytes):
    """Return the tar in many zstd frames, as pzstd packs it."""
    tar = system_tar(n_bytes)
    return made(f"{n_bytes}.tar.many.zst", n_bytes,
                lambda path: subprocess.run(["pzstd", "-q", "-f", tar, "-o", path], check=True))


def frames(n_bytes):
    """Return the tar in many zstd frames, as pzstd packs it, or headrace where that is missing."""
    if shutil.which("pzstd"):
        return many_frames(n_bytes)
    tar = system_tar(n_bytes)
    return made(f"{n_bytes}.tar.headrace.zst", n_bytes,
                lambda path: subprocess.run(["headrace", "run", tar, path, "--encode", "zstd"],
                                            check=True))


def one_frame(n_bytes):
    """Return the tar in one zstd frame."""
    tar = system_tar(n_bytes)
    return made(f"{n_bytes}.tar.one.zst", n_bytes,
                lambda path: subprocess.run(["zstd", "-q", "-f", tar, "-o", path], check=True))


def sparse(n_bytes):
    """Return a file that is one hole."""
    def make(path):
        with open(path, "wb") as file:
            file.truncate(n_bytes)
    return made(f"{n_bytes}.hole", 0, make)


def program(name, *options):
    """Compile ``bench/programs/NAME.c``, always, since it is quick.

    Parameters
    ----------
    name : str
        Of the program.
    *options : str
        More for the compiler: libraries, and other files of the folder by their paths.

    Returns
    -------
    str
        Its path.
    """
    path = os.path.join(folder(), name)
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O3", "-o", path, source_of(name),
                    *options], check=True)
    return path


def source_of(name):
    """Return the path of ``bench/programs/NAME.c``."""
    return os.path.join(BENCH, "programs", name + ".c")


def program_of_library(name, headrace, *others):
    """Compile a program against the public header and the library that the command uses.

    Parameters
    ----------
    name : str
        Of the program.
    headrace : str
        The command.
    *others : str
        Names of more files that the program consists of.

    Returns
    -------
    str
        Its path.
    """
    libraries = os.path.join(os.path.dirname(os.path.dirname(headrace)))
    include = os.path.join(BENCH, "..", "engine", "include")
    # What the library itself needs may be where the linker does not look.
    return program(name, *map(source_of, others), "-I" + include, "-L" + libraries,
                   "-Wl,-rpath," + libraries, "-Wl,--allow-shlib-undefined", "-lheadrace",
                   "-pthread", "-ldl")


def gpu_transfers(headrace):
    """Compile the program that measures transfers from and to a GPU, and return its path."""
    return program_of_library("gpu_transfers", headrace, "gpu_ceilings", "gpu_parts",
                              "gpu_samples", "gpu_verify", "gpu_ways")


def crc32_of(path):
    """Return the CRC-32 of a file, by zlib; afterwards the page cache holds the file."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def stats_of(*command):
    """Run headrace with ``--stats json`` and return what it tells."""
    said = subprocess.run([*command, "--stats", "json"], check=True, capture_output=True, text=True)
    return json.loads(said.stderr)


def gpus():
    """List the GPUs that headrace sees.

    Returns
    -------
    tuple
        A dict of each one's name to title, version and memory; and a line that tells why there is
        none of each vendor that has none.
    """
    said = subprocess.run(["headrace", "devices", "--json"], check=True, capture_output=True,
                          text=True)
    devices = [device for device in json.loads(said.stdout)["devices"] if device["name"] != "host"]
    why = "; ".join(f"{device['name']}: {device['why']}" for device in devices
                    if not device["present"])
    return {device["name"]: device for device in devices if device["present"]}, why


def check_null(source, crc, *options):
    """Stop unless null: sees a stream with this CRC-32."""
    seen = stats_of("headrace", "run", source, "null:", *options)["crc32"]
    if seen != crc:
        raise SystemExit(f"{source}: null: saw CRC-32 {seen:08x}, it should be {crc:08x}")


def check_same(left, right):
    """Stop unless two bash command lines print the same bytes."""
    subprocess.run(["bash", "-c", f"set -o pipefail; {left} | cmp - <({right})"], check=True)


def free_port():
    """Return a TCP port of the loopback that nobody listens on at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
