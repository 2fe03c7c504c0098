# SPDX-License-Identifier: Apache-2.0
"""The examples, on the host device, the Python lines of the package's README, and those of all
docstrings."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

ROOT = Path(__file__).resolve().parents[2] / "bindings" / "python"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DATA = np.random.default_rng(5).standard_normal((4000, 7))


def run(name: str, *arguments: Any) -> str:
    command = [sys.executable, ROOT / "examples" / name, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 40


def test_there_are_three() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("is_packed", [False, True])
def test_reduce_file(tmp_path: Path, is_packed: bool) -> None:
    path = tmp_path / "data"
    if is_packed:  # and it has a header
        np.save(tmp_path / "data.npy", DATA.astype("f4"))
        hr.Pipeline(tmp_path / "data.npy", path, encode="zstd", frame_size=10_000).run()
    else:
        DATA.astype("f4").tofile(path)
    said = dict(line.split(maxsplit=1) for line in run("reduce_file.py", path).splitlines())
    values = DATA.astype("f4").astype("f8")
    numbers = {name: float(re.sub(r"np\.float64\((.*)\)", r"\1", said[name])) for name in said}
    assert numbers["numbers"] == values.size
    for name in ("sum", "mean", "min", "max"):
        assert numbers[name] == pytest.approx(getattr(values, name)(), rel=1e-9), name
    assert numbers["deviation"] == pytest.approx(values.std(), rel=1e-9)


@pytest.mark.skipif(not hasattr(hr, "load"), reason="load is not there yet")
def test_use_model(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    tensors = {"a.weight": DATA.astype("f4"), "a.bias": np.arange(3, dtype="f2")}
    tensors["a.ids"] = np.arange(4, dtype="u4")  # which no kernel casts
    numpy.save_file(tensors, tmp_path / "m.safetensors")
    first, *lines = run("use_model.py", tmp_path / "m.safetensors", "host", "a.*").splitlines()
    assert ("NumPy" in first) == (importlib.util.find_spec("torch") is None)
    assert sorted(line.split()[0] for line in lines) == ["a.bias", "a.ids", "a.weight"]
    for line in lines:
        name, norm = line.split()[0], float(line.split()[-1])
        assert norm == pytest.approx(np.linalg.norm(tensors[name].astype("f8")), rel=1e-4)


@pytest.mark.skipif(not hasattr(hr, "save"), reason="save is not there yet")
def test_convert(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA)
    run("convert.py", tmp_path / "a.npy", tmp_path / "b.npy.zst", "float16")
    assert (tmp_path / "b.npy.zst").stat().st_size < DATA.nbytes / 4
    got = hr.load(tmp_path / "b.npy.zst").numpy()
    assert got.dtype == np.float16 and np.array_equal(got, DATA.astype("f2"))
    example = runpy.run_path(str(ROOT / "examples" / "convert.py"))
    example["main"](tmp_path / "a.npy", tmp_path / "c.npy", "float16")
    assert np.array_equal(np.load(tmp_path / "c.npy"), got)
    with pytest.raises(SystemExit, match="compressed"):
        example["main"](tmp_path / "b.npy.zst", tmp_path / "d.npy")


def lines_of_package() -> str:
    """All of its blocks, one after the other."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?m)(?<=\n\n)(?:    .*\n|\n(?=    ))+", text)
    return "\n".join(line[4:] for block in blocks for line in block.splitlines())


def lines_of_project() -> str:
    text = (ROOT.parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?s)```python\n(.*?)```", text)
    return str(block)


@pytest.mark.parametrize("lines", [lines_of_package(), lines_of_project()], ids=["own", "project's"])
def test_the_lines_of_the_readme_run(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    DATA.astype("f4").tofile("data.f32")
    hr.Pipeline("data.f32", "data.f32.zst", encode="zstd").run()
    np.save("weights.npy", DATA)
    pytest.importorskip("safetensors.numpy").save_file({"w": DATA}, "model.safetensors")
    exec(compile(lines, "README.md", "exec"), {})
    assert np.array_equal(hr.load("out.npy.zst").numpy(), DATA.astype("f2"))


MODULES = [
    module.name
    for module in pkgutil.walk_packages(hr.__path__, "headrace.")
    if module.name != "headrace._torch" or importlib.util.find_spec("torch")
]


@pytest.fixture
def cffi_is_not_locked() -> None:
    """It is here: doctest asks cffi's libraries for names that they do not have."""


@pytest.mark.parametrize("name", ["headrace", *MODULES])
def test_docstrings_tell_what_happens(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
