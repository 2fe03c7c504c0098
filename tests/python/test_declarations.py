# SPDX-License-Identifier: Apache-2.0
"""What cffi is told is what the compiler sees."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

hr = pytest.importorskip("headrace")
from headrace._declarations import DECLARATIONS  # noqa: E402
from headrace._library import ffi, lib  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HEADERS = [ROOT / "engine/include/headrace.h"]
if (ROOT / "bindings/python/native").exists():
    HEADERS.append(ROOT / "bindings/python/native/headrace_python.h")


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "bindings/python/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def structs():
    """Names as C writes them: every complete struct that is declared."""
    typedefs, tags, _unions = ffi.list_types()
    names = [*typedefs, *(f"struct {tag}" for tag in tags)]
    types = ((name, ffi.typeof(name)) for name in names)
    return {n: t for n, t in types if t.kind == "struct" and t.fields is not None}


STRUCTS = structs()


def measured_by_c(folder):
    """What a C program says: {(struct, field): (offset, size)}, the field of a whole one is ""."""
    compiler = next(filter(shutil.which, [os.environ.get("CC", "cc"), "gcc", "clang"]), None)
    if compiler is None:
        pytest.skip("no C compiler")
    lines = []
    for name, of in STRUCTS.items():
        lines.append(f'    printf("{name}||0|%zu\\n", sizeof({name}));')
        for field, _ in of.fields:
            where = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
            lines.append(f'    printf("{name}|{field}|%zu|%zu\\n", {where});')
    includes = "".join(f'#include "{header}"\n' for header in HEADERS)
    source = folder / "measure.c"
    body = "\n".join(lines)
    source.write_text(f"#include <stdio.h>\n{includes}int main(void)\n{{\n{body}\n}}\n")
    program = folder / "measure"
    include = f"-I{HEADERS[0].parent}"
    subprocess.run([compiler, "-std=c11", include, "-o", program, source], check=True)
    told = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = (line.split("|") for line in told.splitlines())
    return {(name, field): (int(offset), int(size)) for name, field, offset, size in rows}


def test_every_size_and_offset_is_that_of_c(tmp_path):
    measured = {}
    for name, of in STRUCTS.items():
        measured[name, ""] = (0, ffi.sizeof(of))
        for field, entry in of.fields:
            measured[name, field] = (entry.offset, ffi.sizeof(entry.type))
    assert ("struct hr_stats", "unpinned_bytes") in measured
    assert measured == measured_by_c(tmp_path)


def test_the_file_is_what_the_generator_makes():
    made = generator().module(HEADERS)
    assert (ROOT / "bindings/python/headrace/_declarations.py").read_text() == made, (
        "run make headrace_python_declarations"
    )


def test_the_generator_is_short():
    assert len((ROOT / "bindings/python/generate.py").read_text().splitlines()) < 100


def test_the_generator_leaves_out_what_cffi_does_not_read():
    text = """// a line
    #define MANY \\
        lines
    /* a
     * block */
    #ifdef __cplusplus
    extern "C" {
    #endif
    int f(void) __attribute__((warn_unused_result));
    _Static_assert(sizeof(int) == 4, "as ever");
    int g(void) HR_MUST_CHECK;
    """.replace("\n    ", "\n")
    assert generator().declarations(text) == "int f(void);\nint g(void);\n"


def test_the_generator_runs_as_a_program(tmp_path):
    out = tmp_path / "made.py"
    program = str(ROOT / "bindings/python/generate.py")
    subprocess.run([sys.executable, program, out, *HEADERS], check=True)
    assert DECLARATIONS in out.read_text()


def test_every_function_is_in_a_library():
    from headrace._library import native

    prototypes = [line for line in DECLARATIONS.splitlines() if re.match(r"\w.*\(", line)]
    found = (re.search(r"\b(hrp?_\w+)\(", line) for line in prototypes)
    names = [match.group(1) for match in found if match]
    assert "hr_pipeline_run" in names
    for name in names:
        assert getattr(native if name.startswith("hrp_") else lib, name)


def test_the_version_is_that_of_the_library():
    assert hr.version() == hr.__version__ == ffi.string(lib.hr_version()).decode()


def test_cffi_does_not_parse_behind_the_import():
    """That the fixture of all tests sees it."""
    with pytest.raises(AssertionError, match="at import"):
        ffi.new("int[77]")
    with pytest.raises(AssertionError, match="at import"):
        lib.hr_no_such_function  # noqa: B018
