# SPDX-License-Identifier: Apache-2.0
"""Streams as datasets of PyTorch: each record once over all ranks and workers. Where PyTorch is not
installed, over a double of it (fake_torch), in processes of its own."""

from __future__ import annotations

import importlib.util
import os
import textwrap
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import headrace as hr

DOUBLES = str(Path(__file__).parent / "fake_torch")
HAS_TORCH = importlib.util.find_spec("torch") is not None
N = 50_000
START = """
    import sys
    sys.argv = sys.argv[1:]
    __file__ = sys.argv[0]
    exec(compile(open(__file__).read(), __file__, "exec"))
"""
HEAD = """
    import sys, numpy as np
    import headrace as hr
    from torch.utils.data import DataLoader
    path, rank, world_size, n_workers, method = sys.argv[1:]

    def main():
        stream = hr.stream(path, dtype="int64", shape=4, chunk_size=8192)
"""


@pytest.fixture
def run(python: Callable[..., Any], monkeypatch: Any) -> Callable[..., str]:
    """A function that runs a program to its end, and gives what it prints."""
    if not HAS_TORCH:
        paths = [DOUBLES, os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def go(tmp_path: Path, text: str, *arguments: Any) -> str:
        program = tmp_path / "program.py"  # spawned workers read it again
        program.write_text(text, encoding="utf-8")
        process = python(START, str(program), *map(str, arguments))
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        return str(out)

    return go


def program(body: str) -> str:
    lines = textwrap.dedent(body).strip().splitlines()
    inner = "\n".join(f"    {line}" if line else "" for line in lines)
    return f'{textwrap.dedent(HEAD)}{inner}\n\n\nif __name__ == "__main__":\n    main()\n'


COLLECT = program(
    """
    dataset = stream.torch(int(rank), int(world_size), batch=100)
    how = {"multiprocessing_context": method} if int(n_workers) else {}
    firsts = []
    for tensor in DataLoader(dataset, batch_size=None, num_workers=int(n_workers), **how):
        rows = np.asarray(tensor)
        assert rows.shape[1:] == (4,) and len(rows) <= 100, rows.shape
        assert (rows == rows[:, :1] + np.arange(4)).all()
        firsts += (rows[:, 0] // 4).tolist()
    print(*firsts)
    """
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.arange(4 * N, dtype="i8").tofile(tmp_path / "raw")
    return tmp_path / "raw"


@pytest.mark.parametrize(
    "is_packed, world_size, n_workers, method",
    [
        (False, 1, 0, ""),
        (True, 2, 0, ""),
        (True, 1, 3, "spawn"),
        (False, 2, 2, "spawn"),
        (True, 1, 2, "fork"),
    ],
)
def test_each_record_comes_once(
    run: Any, path: Path, is_packed: bool, world_size: int, n_workers: int, method: str
) -> None:
    source = path
    if is_packed:
        source = path.with_suffix(".zst")
        hr.Pipeline(path, source, encode="zstd", frame_size=100_000).run()
    seen: list[int] = []
    for rank in range(world_size):
        said = run(path.parent, COLLECT, source, rank, world_size, n_workers, method)
        numbers = list(map(int, said.split()))
        assert len(numbers) > N // (4 * world_size)
        seen += numbers
    assert sorted(seen) == list(range(N))


def test_a_fork_after_use_is_told_to_spawn(run: Any, path: Path) -> None:
    text = program(
        """
        next(stream)
        loader = DataLoader(stream.torch(), batch_size=None, num_workers=1,
                            multiprocessing_context="fork")
        try:
            list(loader)
        except Exception as error:
            print(error)
        """
    )
    assert "spawn" in run(path.parent, text, path, 0, 1, 0, "")


def test_arguments_that_are_wrong_are_told(run: Any, path: Path) -> None:
    text = program(
        """
        for wrong in ({"rank": 2, "world_size": 2}, {"rank": 0}, {"batch": 0},
                      {"batch": 2**64}, {"rank": -1, "world_size": 2}, {"record_bytes": 0}):
            try:
                stream.torch(**wrong)
            except ValueError as error:
                print("told", error)
        try:
            hr.stream(path, context=hr.Context()).torch()
        except TypeError as error:
            print("told", error)
        try:
            list(hr.stream(b"abcd").torch(0, 2))
        except TypeError as error:
            print("told", error)
        """
    )
    assert run(path.parent, text, path, 0, 1, 0, "").count("told") == 8


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
def test_without_pytorch_it_says_so(path: Path) -> None:
    with pytest.raises(ImportError, match="torch"):
        hr.stream(path).torch()
