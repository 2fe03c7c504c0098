# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, on a machine with a GPU: both ways, without copies, in stream order.

    python tests/gpu/interop.py [LIBRARY...]      all checks, a table at the end
    pytest tests/gpu/interop.py                   the same, a test for each

Slow kernels on side streams prove the order: a producer's write is late, a consumer's read is late.
Checks of what cannot be are "n/a" with the reason, libraries that are missing are skipped; with
HR_REQUIRE=cuda that is a failure.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from interop_libraries import DEVICE, LIBRARIES, nothing_kept  # noqa: E402

import headrace as hr  # noqa: E402

CHUNK = 1 << 16
N_CHUNKS = 24
REPEATS = int(os.environ.get("HR_REPEATS", "1000"))
DATA = np.arange(N_CHUNKS * CHUNK // 4, dtype="f4")


class NotApplicable(Exception):
    """The library has no such thing."""


@cache
def library(name):
    """The library of that name, or why it cannot be used."""
    if name != "NumPy" and not any(d.present for d in hr.devices() if d.name == DEVICE):
        return f"no {DEVICE}"
    try:
        return LIBRARIES[name]()
    except ImportError as error:
        return f"not installed: {error}"


def chunks_of(lib, depth=3):
    return hr.stream(DATA, "f4", lib.device, chunk_size=CHUNK, depth=depth)


def each(stream):
    """The chunks of a stream, without holding one; some libraries give theirs back late."""
    while True:
        try:
            yield next(stream)
        except StopIteration:
            return
        except hr.errors.LoanedError:
            time.sleep(0.001)


def on_gpu(lib):
    if lib.device == "host":
        raise NotApplicable("nothing is queued on the host")


# ---- the checks ----


def a_chunk_is_taken_without_a_copy(lib):
    """(a) The addresses are the same, and the memory stays while the library uses it."""
    seen = []
    for chunk in chunks_of(lib):
        array = lib.take(chunk)
        assert lib.pointer(array) == chunk.ptr
        seen.append(np.array(lib.numpy(array)))
    assert np.array_equal(np.concatenate(seen), DATA)
    stream = chunks_of(lib)
    array = lib.take(next(stream))
    stream.close()
    del stream
    assert np.array_equal(lib.numpy(array), DATA[: CHUNK // 4])


def memory_of_a_late_reader_is_not_used_again(lib):
    """Each array is dropped at once, while a slow kernel on the side stream still reads it."""
    on_gpu(lib)
    late = []
    for chunk in each(chunks_of(lib, depth=2)):
        if chunk.index % 8 == 0 and not hasattr(lib, "late"):
            lib.spin()
        with lib.current():
            array = lib.take(chunk)
            late.append(lib.late(array) if hasattr(lib, "late") else lib.clone(array))
        del array, chunk
    lib.synchronize()
    assert np.array_equal(np.concatenate([lib.numpy(one) for one in late]), DATA)


def late_stage(lib):
    """A kernel of the library that at times takes long."""
    slow = getattr(lib, "spin", None)

    def kernel(x, out, call):
        if slow and call.chunk % 8 == 0:
            slow(stream=call.stream)
        lib.kernel(x, out, call)

    return hr.Kernel.function(kernel, "f4")


def its_kernel_is_a_stage(lib):
    """(b) On the pipeline's stream; what comes back is waited for, however slow it is."""
    stage = late_stage(lib)
    out = np.zeros_like(DATA)
    hr.Pipeline(DATA, out, kernels=[stage], device=lib.device, chunk_size=CHUNK).run()
    assert np.array_equal(out, DATA + 1)
    out[:] = 0
    chain = ["scale:f32,2,0", stage, "scale:f32,0.5,0"]
    hr.Pipeline(DATA, out, kernels=chain, device=lib.device, chunk_size=CHUNK).run()
    assert np.array_equal(out, DATA + np.float32(0.5))


def its_kernel_gets_its_arrays(lib):
    """(b) By ``arrays=``: the same ones for the same memory, behind what is late on the stream."""
    if lib.word is None:
        raise NotApplicable("there is no word for its arrays")
    seen, lengths = {}, set()

    def kernel(x, out, call):
        for one in (x, out) if lib.device != "host" else ():
            place = (one is x, lib.pointer(one), call.n_units)
            assert seen.setdefault(place, id(one)) == id(one)
        lengths.add(call.n_units)
        lib.add_one(x, out, call)

    chain = [late_stage(lib), hr.Kernel.function(kernel, "f4", arrays=lib.word)]
    data = DATA[:-5]
    out = np.zeros_like(data)
    hr.Pipeline(data, out, kernels=chain, device=lib.device, chunk_size=CHUNK).run()
    assert np.array_equal(out, data + 2)
    assert lib.device == "host" or lengths == {CHUNK // 4, CHUNK // 4 - 5}
    wrong = hr.Kernel.function(lambda x, out, call: x.no_such_thing, "f4", arrays=lib.word)
    with pytest.raises(AttributeError):
        hr.Pipeline(data, hr.NULL, kernels=wrong, device=lib.device).run()
    its_kernel_is_a_stage(lib)  # its current stream is again what it was


def its_array_is_a_source(lib):
    """(c) Through kernels on the GPU, back to the host; and by to_host."""
    array, out = lib.own(DATA), np.zeros_like(DATA)
    hr.Pipeline(array, out, kernels="scale:f32,2,0", device=lib.device).run()
    assert np.array_equal(out, 2 * DATA)
    assert np.array_equal(hr.to_host(array), DATA)


def its_array_is_a_sink(lib):
    """(c) Written in place; an array that never changes is refused before anything starts."""
    array = lib.own(np.zeros_like(DATA))
    if not lib.writes:
        with pytest.raises(BufferError):
            hr.Pipeline(DATA, array, device=lib.device)
        raise NotApplicable("its arrays never change: refused")
    hr.Pipeline(DATA, array, device=lib.device).run()
    assert np.array_equal(lib.numpy(array), DATA)
    assert hr.to_device(DATA[::-1].copy(), out=array) is array
    assert np.array_equal(lib.numpy(array), DATA[::-1])


def a_late_producer_is_waited_for(lib):
    """The array is still empty when it is given to the pipeline."""
    on_gpu(lib)
    if hasattr(lib, "late"):
        array = lib.late(lib.own(DATA))
    else:
        if not getattr(lib, "tells_stream", True):
            raise NotApplicable("its arrays name no stream: its user waits")
        array, values = lib.own(np.zeros_like(DATA)), lib.own(DATA)
        lib.synchronize()
        lib.spin()
        with lib.current():
            lib.write(array, values)
    out = np.zeros_like(DATA)
    with lib.current():
        hr.Pipeline(array, out).run()
    assert np.array_equal(out, DATA)


def a_late_reader_of_a_sink_is_waited_for(lib):
    """The array is still being read when the pipeline is to write to it."""
    on_gpu(lib)
    if not lib.writes:
        raise NotApplicable("its arrays never change")
    if not getattr(lib, "tells_stream", True):
        raise NotApplicable("its arrays name no stream: its user waits")
    array = lib.own(DATA)
    lib.synchronize()
    lib.spin()
    with lib.current():
        before = lib.clone(array)
        hr.Pipeline(np.zeros_like(DATA), array).run()
    lib.synchronize()
    assert np.array_equal(lib.numpy(before), DATA)
    assert not lib.numpy(array).any()


def slow_is_slow_enough(lib):
    """What the checks of order rest on: who does not wait sees the old values."""
    on_gpu(lib)
    if hasattr(lib, "late"):
        raise NotApplicable("nobody can look at its memory without it")
    array, values = lib.own(np.zeros_like(DATA)), lib.own(DATA)
    lib.synchronize()
    lib.spin()
    with lib.current():
        lib.write(array, values)
    seen = np.ones_like(DATA)
    runtime = lib.cupy.cuda.runtime
    with lib.cupy.cuda.Stream(non_blocking=True) as stream:
        runtime.memcpyAsync(seen.ctypes.data, lib.pointer(array), seen.nbytes, 2, stream.ptr)
        stream.synchronize()
    lib.synchronize()
    assert not seen.any()


def memory_in_use():
    """Of the device, of the process, and its descriptors."""
    free = 0
    if "cupy" in sys.modules:
        free = sys.modules["cupy"].cuda.runtime.memGetInfo()[0]
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return free, resident, len(os.listdir("/proc/self/fd"))


def nothing_is_left(lib):
    """Its array in, its kernel as a stage, a chunk taken: again and again."""
    kernels = [hr.Kernel.function(lib.kernel, "f4")]
    if lib.word is not None:
        kernels.append(hr.Kernel.function(lib.add_one, "f4", arrays=lib.word))
    array = lib.own(DATA[: 3 * CHUNK // 4])

    def once():
        for chunk in each(hr.stream(array, "f4", lib.device, kernels, chunk_size=CHUNK)):
            lib.take(chunk)

    for _ in range(max(REPEATS // 10, 10)):
        once()
    with nothing_kept():
        free, resident, n_fds = memory_in_use()
        for _ in range(REPEATS):
            once()
    free_then, resident_then, n_fds_then = memory_in_use()
    assert free - free_then <= 4 << 20, f"{free - free_then} bytes of the device"
    assert resident_then - resident <= 32 << 20, f"{resident_then - resident} bytes"
    assert n_fds_then == n_fds, f"{n_fds_then - n_fds} descriptors"


CHECKS = [
    a_chunk_is_taken_without_a_copy,
    memory_of_a_late_reader_is_not_used_again,
    its_kernel_is_a_stage,
    its_kernel_gets_its_arrays,
    its_array_is_a_source,
    its_array_is_a_sink,
    slow_is_slow_enough,
    a_late_producer_is_waited_for,
    a_late_reader_of_a_sink_is_waited_for,
    nothing_is_left,
]


# ---- as tests, and as a table ----


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", LIBRARIES)
def test_interop(name, check):
    lib = library(name)
    if isinstance(lib, str):
        (pytest.fail if os.environ.get("HR_REQUIRE") == "cuda" else pytest.skip)(lib)
    try:
        check(lib)
    except NotApplicable as why:
        pytest.skip(str(why))


def outcome(name, check):
    """One word or line for the table, and whether it is good."""
    lib = library(name)
    if isinstance(lib, str):
        return f"skipped: {lib}", os.environ.get("HR_REQUIRE") != "cuda"
    try:
        check(lib)
    except NotApplicable as why:
        return f"n/a: {why}", True
    except Exception as error:  # noqa: BLE001 - the others are to run, too
        traceback.print_exc()
        return f"FAILED: {type(error).__name__}: {str(error).splitlines()[:1]}", False
    return "ok", True


def main(names):
    rows, good = [], True
    for name in names or LIBRARIES:
        for check in CHECKS:
            said, is_good = outcome(name, check)
            good = good and is_good
            rows.append(f"{name:8} {check.__name__:44} {said}")
            print(rows[-1], file=sys.stderr, flush=True)
    print("\n".join(rows))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
