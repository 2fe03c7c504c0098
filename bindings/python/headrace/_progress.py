# SPDX-License-Identifier: Apache-2.0
"""A progress bar, by tqdm if it is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable

from headrace._stats import Stats


@contextmanager
def bar() -> Iterator[Callable[[Stats], None]]:
    """Shows a bar of the bytes that were read, on stderr.

    Yields
    ------
    callable
        To be called with the Stats from time to time.

    Raises
    ------
    ImportError
        tqdm is not installed.
    """
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError(
            "progress=True shows a bar by tqdm, which is not installed: install it, or give a "
            "function that is called with the Stats"
        ) from error
    with tqdm(unit="B", unit_scale=True, unit_divisor=1024) as shown:

        def show(stats: Stats) -> None:
            shown.total = stats.total_bytes_in or None
            shown.update(stats.bytes_in - shown.n)

        yield show
