# SPDX-License-Identifier: Apache-2.0
"""The options of a pipeline that are words, numbers and flags, checked and as the C library takes
them. What they mean is told by ``headrace.Pipeline``."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from headrace import _calls, _checks
from headrace._context import Context
from headrace._library import lib
from headrace._numbers import size

_CODECS = {"none": lib.HR_CODEC_NONE, "zstd": lib.HR_CODEC_ZSTD, "auto": lib.HR_CODEC_AUTO}
_DIRECT = {"auto": lib.HR_DIRECT_AUTO, "off": lib.HR_DIRECT_OFF, "on": lib.HR_DIRECT_ON}
_IO = {"auto": lib.HR_IO_AUTO, "uring": lib.HR_IO_URING, "threads": lib.HR_IO_THREADS}


def _word(words: dict[str, int], name: str, given: Any) -> int:
    if not isinstance(given, str) or given not in words:
        raise ValueError(f"{name} is {given!r}, not one of {', '.join(map(repr, words))}")
    return words[given]


def _milliseconds(name: str, seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    if not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} is {seconds!r}: seconds are wanted")
    if not 0 < seconds < 4e6:
        raise ValueError(f"{name} is {seconds!r}: seconds, more than 0")
    return max(1, round(seconds * 1000))


def _encode(config: Any, encode: Union[str, tuple[str, int]]) -> None:
    codec, level = encode if isinstance(encode, tuple) else (encode, 0)
    if codec not in ("none", "zstd"):
        raise ValueError(f'encode is {encode!r}: "none", "zstd" or ("zstd", level) is wanted')
    config.encode = _word(_CODECS, "encode", codec)
    config.encode_level = _checks.zstd_level(level)


def loop(io: str) -> Any:
    """A struct hr_loop_config."""
    made = _calls.new_struct("hr_loop_config")
    made.io = _word(_IO, "io", io)
    made.flags = lib.HR_LOOP_SHARED
    return made


def pipeline(
    *,
    chunk_size: int = 0,
    depth: int = 0,
    streams: int = 0,
    decode: str = "auto",
    encode: Union[str, tuple[str, int]] = "none",
    frame_size: int = 0,
    window_log: int = 0,
    direct: str = "auto",
    unordered: bool = False,
    strict: bool = False,
    connect_timeout: Optional[float] = None,
    idle_timeout: Optional[float] = None,
    min_fill: int = 0,
    max_wait: Optional[float] = None,
) -> Any:
    """A struct hr_pipeline_config with what stands for itself.

    Raises
    ------
    TypeError, ValueError
        A value cannot be right.
    """
    config = _calls.new_struct("hr_pipeline_config")
    config.chunk_size = size("chunk_size", chunk_size, 64)
    config.depth = size("depth", depth)
    config.n_streams = size("streams", streams)
    config.decode = _word(_CODECS, "decode", decode)
    _encode(config, encode)
    config.frame_size = size("frame_size", frame_size, 64)
    config.window_log = size("window_log", window_log)
    config.direct = _word(_DIRECT, "direct", direct)
    config.flags = (lib.HR_UNORDERED if unordered else 0) | (lib.HR_STRICT if strict else 0)
    config.connect_ms = _milliseconds("connect_timeout", connect_timeout)
    config.idle_ms = _milliseconds("idle_timeout", idle_timeout)
    config.min_fill = size("min_fill", min_fill, 64)
    config.max_wait_ms = _milliseconds("max_wait", max_wait)
    return config


def check(
    *,
    device: Optional[str] = None,
    dict: Optional[bytes] = None,  # noqa: A002 - zstd's word
    trace: Union[None, str, os.PathLike[str]] = None,
    lend_device: bool = False,
    fsync: bool = False,
    io: str = "auto",
    context: Optional[Context] = None,
    **more: Any,
) -> None:
    """Options of a pipeline that is made later: what cannot be right is told now.

    Raises
    ------
    TypeError, ValueError
        An option that there is not, or a value that cannot be right.
    """
    if not isinstance(device, (str, type(None))):
        raise TypeError(f'device is {device!r}: "host", "cuda:0", ... is wanted')
    if not isinstance(context, (Context, type(None))):
        raise TypeError(f"context is {context!r}: a headrace.Context is wanted")
    if dict is not None:
        memoryview(dict)
    if trace is not None:
        os.fspath(trace)
    loop(io)
    pipeline(**more)
