# SPDX-License-Identifier: Apache-2.0
"""Integers that users give: each is checked with its name and range before C sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import headrace as hr
from headrace import _array


def pipeline(**options: Any) -> Any:
    with hr.Pipeline(bytes(64), hr.NULL, **options) as made:
        made.run()
        return made


def stream(path: Path, **options: Any) -> Any:
    return hr.stream(path, dtype="u1", device="host", **options)


def on_gpu() -> Any:
    return _array.lent_array("cuda:0", 4096, (8,), "f4", stream=None, readonly=False)[0]


SUMS = ["sum:u8"] * 6
USES: dict[str, Callable[[Any, Path], Any]] = {
    "Context threads": lambda n, _: hr.Context(threads=n),
    "Context max_memory": lambda n, _: hr.Context(max_memory=n),
    "Pipeline chunk_size": lambda n, _: pipeline(chunk_size=n),
    "Pipeline depth": lambda n, _: pipeline(depth=n),
    "Pipeline streams": lambda n, _: pipeline(streams=n),
    "Pipeline frame_size": lambda n, _: pipeline(frame_size=n),
    "Pipeline window_log": lambda n, _: pipeline(window_log=n),
    "Pipeline min_fill": lambda n, _: pipeline(min_fill=n),
    "Pipeline offset": lambda n, _: pipeline(offset=n),
    "Pipeline length": lambda n, _: pipeline(length=n),
    "Pipeline zstd level": lambda n, _: pipeline(encode=("zstd", n)),
    "Pipeline kernel": lambda n, _: pipeline(kernels=SUMS, device="host").result(n),
    "Range offset": lambda n, _: hr.Range(b"", n),
    "Range length": lambda n, _: hr.Range(b"", 0, n),
    "DeviceMemory limit": lambda n, _: hr.DeviceMemory(n),
    "source descriptor": lambda n, _: hr.Pipeline(n, hr.NULL),
    "sink descriptor": lambda n, _: hr.Pipeline(b"", n),
    "Kernel.source unit_in": lambda n, _: hr.Kernel.source("", "k", n, 4),
    "Kernel.source unit_out": lambda n, _: hr.Kernel.source("", "k", 4, n),
    "Kernel.image unit_in": lambda n, _: hr.Kernel.image(b"", "k", n, 4),
    "Kernel.image unit_out": lambda n, _: hr.Kernel.image(b"", "k", 4, n),
    "Kernel.function unit": lambda n, _: hr.Kernel.function(print, n, n),
    "load shape": lambda n, path: hr.load(path, dtype="u1", shape=n, length=4),
    "load offset": lambda n, path: hr.load(path, dtype="u1", offset=n),
    "load chunk_size": lambda n, path: hr.load(path, dtype="u1", chunk_size=n),
    "load depth": lambda n, path: hr.load(path, dtype="u1", depth=n),
    "save shape": lambda n, path: hr.save(path, iter([bytes(4)]), shape=n),
    "save frame_size": lambda n, path: hr.save(path, b"", compress="zstd", frame_size=n),
    "save chunk_size": lambda n, path: hr.save(path, b"", chunk_size=n),
    "save depth": lambda n, path: hr.save(path, b"", depth=n),
    "save zstd level": lambda n, path: hr.save(path, b"", compress=("zstd", n)),
    "stream shape": lambda n, path: next(stream(path, shape=n)),
    "stream chunk_size": lambda n, path: next(stream(path, chunk_size=n)),
    "stream kernel": lambda n, path: run(stream(path, kernels=SUMS)).result(n),
    "share index": lambda n, path: stream(path).share(n, 5),
    "share n": lambda n, path: stream(path).share(0, n),
    "share record_bytes": lambda n, path: stream(path).share(0, 1, n),
    "record_stream stream": lambda n, _: on_gpu().record_stream(n),
    "__dlpack__ stream": lambda n, _: on_gpu().__dlpack__(stream=n),
}
NEGATIVE = ("zstd level", "load shape", "__dlpack__ stream")  # may be -1


def run(stream: Any) -> Any:
    for _ in stream:
        pass
    return stream


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "64"
    made.write_bytes(bytes(64))
    return made


@pytest.mark.parametrize("what", USES)
@pytest.mark.parametrize("given", [-1, 2**64, 1.5, "x", True], ids=repr)
def test_what_cannot_be_is_refused_by_name(what: str, given: Any, path: Path) -> None:
    if given == -1 and what.endswith(NEGATIVE):
        return
    is_other_source = what.endswith("descriptor") and isinstance(given, str)
    is_dtype = what == "Kernel.function unit" and not isinstance(given, int)
    if is_other_source or is_dtype:  # which have their own tests
        return
    with pytest.raises((TypeError, ValueError)) as raised:
        USES[what](given, path)
    assert what.split()[-1] in str(raised.value) or what.endswith(("descriptor", "stream"))


@pytest.mark.parametrize("what", [name for name in USES if "descriptor" not in name])
def test_integers_of_numpy_are_integers(what: str, path: Path) -> None:
    USES[what](np.int64(16 if what.endswith("window_log") else 4), path)
