# SPDX-License-Identifier: Apache-2.0
"""The Python package beside the libraries it is used with: files and arrays to a GPU, Python
functions as kernels, and what its iterator costs.

One process measures all in turn (A/B/A/B), warm, after one run of each that is not counted; what is
made is compared with what it should be, outside the clock. Files are in the page cache. CPU seconds
are those of all threads. Without a GPU the parts that need none run on the host. ``--size 4G`` is
what the targets are for. Needs NumPy and cffi, with a GPU PyTorch, too; safetensors, CuPy and
Numba as peers.
"""

import dataclasses
import gc
import importlib.util
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import inputs  # noqa: E402
from measure import cache  # noqa: E402
from report import Report, arguments  # noqa: E402

MIB = 1 << 20
SAMPLES = 5
FEW = 4096  # bytes of a chunk, where only the number of chunks counts
TENSORS = 32
OPTIONAL = ("torch", "cupy", "numba", "safetensors")


def libraries(given):
    """Import headrace and what there is of the others, as a dict of name to module or reason.

    The package is that of this tree with the libraries of the command's build folder; where these
    are not, the one that is installed.
    """
    build = os.path.dirname(os.path.dirname(given.headrace))
    if os.path.exists(os.path.join(build, "libheadrace.so.0")):
        os.environ.setdefault("HEADRACE_LIBRARY_DIR", build)
        sys.path.insert(0, os.path.join(HERE, "..", "..", "bindings", "python"))
    found = {"np": importlib.import_module("numpy"), "hr": importlib.import_module("headrace")}
    for name in OPTIONAL:
        try:
            found[name] = importlib.import_module(name)
        except ImportError as error:
            found[name] = str(error)
    return found


class Bench:
    """What the cases share: libraries, the device, the report, the data and its files."""

    def __init__(self, given):
        self.report = Report()
        self.libraries = libraries(given)
        self.hr, self.np = self.libraries["hr"], self.libraries["np"]
        devices = self.hr.devices()
        gpus = {one.name: dataclasses.asdict(one) for one in devices if one.present}
        self.why = "; ".join(f"{one.name}: {one.why}" for one in devices if not one.present)
        self.device = next((name for name in gpus if name.startswith("cuda")), "host")
        if not self.has("torch"):
            self.device, self.why = "host", self.why or "PyTorch, which compares, is not there"
        self.on_gpu = self.device != "host"
        self.report.machine["gpu"] = gpus.get(self.device)
        for module in self.libraries.values():
            if not isinstance(module, str):
                self.report.machine[module.__name__] = getattr(module, "__version__", "")
        self.n_bytes = given.size // (TENSORS * 4096) * TENSORS * 4096
        rng = self.np.random.default_rng(1)
        self.data = rng.integers(0, 1 << 24, self.n_bytes // 4, dtype="i4").astype("f4")
        self._wanted = None

    def has(self, *names):
        """Whether all these libraries are there."""
        return not any(isinstance(self.libraries[name], str) for name in names)

    def not_run(self, case, why):
        """Say in the report, and on the screen, what was not measured."""
        self.report.cases[case] = {"not_run": why}
        print(f"{case}: not run: {why}", flush=True)

    def synchronize(self):
        """Wait for all that other libraries have queued."""
        if self.on_gpu:
            self.libraries["torch"].cuda.synchronize()

    def wanted(self):
        """Return the data, where what is made is compared with it."""
        if self.on_gpu and self._wanted is None:
            self._wanted = self.libraries["torch"].from_numpy(self.data).cuda()
        return self._wanted if self.on_gpu else self.data

    def npy(self):
        """Return the path of the data as a .npy file."""
        return inputs.made(f"{self.n_bytes}.npy", self.n_bytes, self._save_npy)

    def _save_npy(self, path):
        with open(path, "wb") as file:
            self.np.save(file, self.data)

    def safetensors(self):
        """Return the path of the data as a .safetensors file of equal tensors."""
        save = importlib.import_module("safetensors.numpy").save_file
        parts = {f"t{i:02}": part for i, part in enumerate(self.np.split(self.data, TENSORS))}
        return inputs.made(f"{self.n_bytes}.safetensors", self.n_bytes,
                           lambda path: save(parts, path))


def timed(bench, call):
    """Return what a call makes, and its wall and CPU seconds."""
    gc.collect()
    bench.synchronize()
    cpu, wall = time.process_time(), time.perf_counter()
    made = call()
    bench.synchronize()
    return made, time.perf_counter() - wall, time.process_time() - cpu


def compare(bench, case, ways, n_bytes, check, source=None):
    """Measure calls in turn, as ``measure.compare`` does commands; the first one is headrace.

    Parameters
    ----------
    bench : Bench
        Gets the case.
    case : str
        Its name.
    ways : dict of str to callable
        What is measured; what it returns goes to ``check``.
    n_bytes : int
        Bytes that each moves.
    check : callable
        Given what a way made, tells whether that is right.
    source : str, optional
        A file that all read, kept in the page cache.
    """
    runs = {name: [] for name in ways}
    for sample in range(SAMPLES + 1):
        for name, call in ways.items():
            if source:
                cache(source)
            made, wall, cpu = timed(bench, call)
            if not check(made):
                raise SystemExit(f"{case}: {name} made something wrong")
            del made
            if sample:
                runs[name].append((wall, cpu))
    result = {name: summary(name, pairs, n_bytes) for name, pairs in runs.items()}
    first = next(iter(ways))
    result["ratios"] = {
        name: result[name]["wall_s"]["median"] / result[first]["wall_s"]["median"]
        for name in ways if name != first
    }
    bench.report.add(case, result)


def summary(name, pairs, n_bytes):
    """Return medians of wall and CPU seconds."""
    walls = [wall for wall, _ in pairs]
    median = statistics.median(walls)
    return {"command": name, "wall_s": {"median": median, "min": min(walls), "max": max(walls)},
            "cpu_s_median": statistics.median(cpu for _, cpu in pairs),
            "gigabytes_per_s": n_bytes / median / 1e9}


def is_data(bench, made):
    """Whether an array of any library, or a dict of equal parts, has the data."""
    wanted = bench.wanted()
    if not isinstance(made, dict):
        return same(bench, made, wanted)
    step = len(wanted) // len(made)
    return all(same(bench, made[name], wanted[i * step : (i + 1) * step])
               for i, name in enumerate(sorted(made)))


def same(bench, made, wanted):
    """Whether two arrays have the same values, compared where they are."""
    if bench.on_gpu:
        torch = bench.libraries["torch"]
        return torch.equal(torch.from_dlpack(made), wanted)
    return bench.np.array_equal(bench.np.asarray(made), wanted)


# ---- the cases ----


def load_safetensors(bench):
    """A cached .safetensors file to the GPU (without one: to the host)."""
    if not bench.has("safetensors"):
        bench.not_run("load .safetensors", bench.libraries["safetensors"])
        return
    path = bench.safetensors()
    ways = {"headrace.load": lambda: bench.hr.load(path, device=bench.device)}
    if not bench.on_gpu:
        load = importlib.import_module("safetensors.numpy").load_file
        ways["safetensors.numpy.load_file"] = lambda: load(path)
    else:
        load = importlib.import_module("safetensors.torch").load_file
        ways["safetensors.torch.load_file"] = lambda: load(path, device="cuda")
    compare(bench, "load .safetensors", ways, bench.n_bytes, lambda m: is_data(bench, m), path)


def load_npy(bench):
    """A cached .npy file to the GPU (without one: to the host)."""
    path, np = bench.npy(), bench.np
    ways = {"headrace.load": lambda: bench.hr.load(path, device=bench.device)}
    if not bench.on_gpu:
        ways["numpy.load"] = lambda: np.load(path)
    elif bench.has("cupy"):
        asarray = bench.libraries["cupy"].asarray
        ways["cupy.asarray(numpy.load)"] = lambda: asarray(np.load(path))
    compare(bench, "load .npy", ways, bench.n_bytes, lambda m: is_data(bench, m), path)


def to_device(bench):
    """A pageable array to the GPU (without one: a copy on the host)."""
    ways = {"headrace.to_device": lambda: bench.hr.to_device(bench.data, bench.device)}
    if not bench.on_gpu:
        ways["numpy copy"] = bench.data.copy
    else:
        from_numpy = bench.libraries["torch"].from_numpy
        ways["torch.from_numpy.cuda"] = lambda: from_numpy(bench.data).cuda()
    compare(bench, "pageable array to device", ways, bench.n_bytes, lambda m: is_data(bench, m))


def iterator(bench):
    """Chunks so small that their bytes do not count; the same transfer without Python beside."""
    hr, n_chunks = bench.hr, 16384
    few = bench.np.zeros(n_chunks * FEW, "u1")
    options = {"chunk_size": FEW, "depth": 16}
    ways = {
        "for chunk in Pipeline": lambda: sum(1 for _ in hr.Pipeline(few, **options)),
        "for chunk in stream": lambda: sum(1 for _ in hr.stream(few, **options)),
        "Pipeline.run, no chunk in Python":
            lambda: hr.Pipeline(few, hr.NULL, **options).run() and n_chunks,
    }
    compare(bench, "iterator", ways, few.nbytes, lambda n: n == n_chunks)
    cases = bench.report.cases["iterator"]
    walls = {name: cases[name]["wall_s"]["median"] for name in ways}
    for name in ways:
        bench.report.figure(f"{name}: all of a chunk", walls[name] / n_chunks * 1e6, "us")
        bench.report.figure(f"{name}: all of a chunk, CPU",
                            cases[name]["cpu_s_median"] / n_chunks * 1e6, "us")
    alone = walls["Pipeline.run, no chunk in Python"]
    for name in list(ways)[:2]:
        bench.report.figure(f"{name}: Python's part", (walls[name] - alone) / n_chunks * 1e6, "us",
                            50, "<")


def functions(bench):
    """Return the same kernel, out = 2 x + 1, by functions of each library that is there: those that
    make their arrays and streams by themselves, and those that get them (``arrays=``)."""
    def kernel(function, arrays=None):
        return bench.hr.Kernel.function(function, "f4", arrays=arrays)

    found = {}
    if not bench.on_gpu:
        np = bench.np
        return {"NumPy function": kernel(
            lambda x, out, call: np.add(np.multiply(x, 2, out=out), 1, out=out))}
    if bench.has("cupy"):
        cupy = bench.libraries["cupy"]
        work = cupy.ElementwiseKernel("float32 x", "float32 out", "out = x * 2 + 1", "two_x_one")

        def by_cupy(x, out, call):
            with cupy.cuda.ExternalStream(call.stream):
                work(cupy.asarray(x), cupy.asarray(out))
        found["CuPy function"] = kernel(by_cupy)
        found['CuPy function, arrays="cupy"'] = kernel(lambda x, out, call: work(x, out), "cupy")
    if bench.has("numba"):
        found["Numba function"] = kernel(by_numba(keeps=False))
        found["Numba function that keeps its arrays"] = kernel(by_numba(keeps=True))
        launch = numba_launch()
        found['Numba function, arrays="numba"'] = kernel(
            lambda x, out, call: launch(x, out, call.stream_object), "numba")
    torch = bench.libraries["torch"]
    one = torch.ones((), device="cuda")

    def by_torch(x, out, call):
        with torch.cuda.stream(torch.cuda.ExternalStream(call.stream)):
            torch.add(one, torch.from_dlpack(x), alpha=2, out=torch.from_dlpack(out))
    found["PyTorch function"] = kernel(by_torch)
    found['PyTorch function, arrays="torch"'] = kernel(
        lambda x, out, call: torch.add(one, x, alpha=2, out=out), "torch")
    return found


def numba_launch():
    """Return a function that launches the kernel by Numba: of input, output and stream."""
    cuda = importlib.import_module("numba.cuda")

    @cuda.jit("void(float32[::1], float32[::1])")
    def work(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] * 2 + 1

    def launch(x, out, stream):
        work[-(-x.size // 256), 256, stream](x, out)
    return launch


def by_numba(keeps):
    """Return the kernel as a function by Numba.

    To make one of its arrays takes Numba long, and chunks come back in the same memory: ``keeps``
    is whether the arrays are made once for each address.
    """
    cuda, launch = importlib.import_module("numba.cuda"), numba_launch()
    arrays, streams = {}, {}

    def of(made, key, make, given):
        if not keeps:
            return make(given)
        if key not in made:
            made[key] = make(given)
        return made[key]

    def array(given):
        return of(arrays, (given.ptr, given.size),
                  lambda one: cuda.as_cuda_array(one, sync=False), given)

    def function(x, out, call):
        stream = of(streams, call.stream, cuda.external_stream, call.stream)
        launch(array(x), array(out), stream)
    return function


def kernels(bench):
    """Memory to a kernel and back, in chunks of 8 MiB: a kernel in C, and Python functions."""
    hr, np = bench.hr, bench.np
    n = min(bench.n_bytes, 1 << 30) // 4
    x, out = bench.data[:n], np.zeros(n, "f4")
    if bench.on_gpu:  # pinned: then the link is what is slowest
        torch = bench.libraries["torch"]
        pinned = [torch.empty(n, pin_memory=True) for _ in range(2)]
        x, out = (one.numpy() for one in pinned)
        x[:] = bench.data[:n]
    wanted = x * np.float32(2) + np.float32(1)

    def run(kernel):
        out[:FEW] = 0
        hr.Pipeline(x, out, kernels=[kernel], device=bench.device, chunk_size=8 * MIB).run()
        return out

    texts = {"built-in kernel": "scale:f32,2,1"}
    made = {**texts, **functions(bench)}
    ways = {name: lambda kernel=kernel: run(kernel) for name, kernel in made.items()}
    compare(bench, "kernel, 8 MiB chunks", ways, 2 * x.nbytes, lambda o: np.array_equal(o, wanted))
    for name, ratio in bench.report.cases["kernel, 8 MiB chunks"]["ratios"].items():
        bench.report.figure(f"{name}, 8 MiB chunks", 1 / ratio, "of the built-in kernel's speed",
                            0.95 if bench.on_gpu else None)


TARGETS = {
    "load .safetensors": "safetensors.torch.load_file",
    "load .npy": "cupy.asarray(numpy.load)",
    "pageable array to device": "torch.from_numpy.cuda",
}


def main():
    """Measure, judge, write."""
    given = arguments(__doc__)
    missing = [name for name in ("numpy", "cffi") if not importlib.util.find_spec(name)]
    if missing:
        report = Report()
        report.cases["python"] = {"not_run": f"{sys.executable} has no {' and no '.join(missing)}"}
        print(f"not run: {report.cases['python']['not_run']}")
        report.write(given.report)
        return
    bench = Bench(given)
    if not bench.on_gpu:
        bench.not_run("all of a GPU", f"there is none: {bench.why}")
    for case in (load_safetensors, load_npy, to_device):
        case(bench)
    for case, peer in TARGETS.items():
        for name in bench.report.cases[case].get("ratios", {}):
            bench.report.ratio(case, name, 5 if name == peer else None)
    iterator(bench)
    kernels(bench)
    bench.report.write(given.report)


if __name__ == "__main__":
    main()
