# SPDX-License-Identifier: Apache-2.0
"""A stream as a dataset of PyTorch. This module needs PyTorch; nothing else imports it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch.utils.data import IterableDataset, get_worker_info

from headrace._numbers import size
from headrace._stream import Stream


def _place(rank: Optional[int], world_size: Optional[int]) -> tuple[int, int]:
    """Which share this process reads, and of how many."""
    ranks: Any = getattr(torch, "distributed", None)
    if rank is None and ranks is not None and ranks.is_available() and ranks.is_initialized():
        rank, world_size = ranks.get_rank(), ranks.get_world_size()
    rank, world_size = rank or 0, world_size or 1
    worker = get_worker_info()
    n_workers, number = (1, 0) if worker is None else (worker.num_workers, worker.id)
    return rank * n_workers + number, world_size * n_workers


class StreamDataset(IterableDataset):  # type: ignore[misc]
    """The dataset that ``Stream.torch`` describes.

    Notes
    -----
    It has only what describes the stream, so that it can be sent to workers; each opens its own.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        options: dict[str, Any],
        rank: Optional[int],
        world_size: Optional[int],
        batch: Optional[int],
        record_bytes: Optional[int],
    ) -> None:
        super().__init__()
        if rank is not None and world_size is not None:
            rank, world_size = size("rank", rank), size("world_size", world_size, least=1)
        if (rank is None) != (world_size is None) or not 0 <= (rank or 0) < (world_size or 1):
            raise ValueError(f"rank {rank} of world_size {world_size}")
        if batch is not None:
            batch = size("batch", batch, 63, least=1)
        if record_bytes is not None:
            record_bytes = size("record_bytes", record_bytes, 63, least=1)
        if options.get("context") is not None:
            raise TypeError("a context is this process's own, and workers are others")
        self._arguments, self._options = arguments, options
        self._place = (rank, world_size)
        self._batch = batch
        self._record_bytes = record_bytes

    def __iter__(self) -> Iterator[Any]:
        index, n = _place(*self._place)
        stream = Stream(self._arguments, self._options, False)
        if n > 1:
            stream = stream.share(index, n, self._record_bytes)
        with stream:
            for chunk in stream:
                step = self._batch or len(chunk)
                for at in range(0, len(chunk), step):
                    yield torch.from_dlpack(chunk[at : at + step])
