# SPDX-License-Identifier: Apache-2.0
"""What interop.py does with each library, in that library's own words.

    take     a chunk as the library's array, without a copy, in use on the side stream
    pointer  the address of an array
    own      an array of the library's, made of NumPy values; where it can be, on the side stream
    write    copies one array of the library over another one, on the side stream
    clone    a copy of an array, made on the side stream
    numpy    the values, after all that is queued
    kernel   ``out = x + 1``, a kernel function for a pipeline: work on ``call.stream``
    add_one  the same as a kernel function with the library's own arrays; ``word`` asks for these
    current  a context manager that makes the side stream the library's current one, if it has such

CuPy is used beside all of them, for kernels that take their time on a given stream.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the GPU, too
DEVICE = "cuda:0"
SPIN_CYCLES = 100_000_000  # about 50 ms
SPIN = """
extern "C" __global__ void spin(long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles)
        ;
}
"""


class NumPy:
    """On the host: nothing is queued, so there is no side stream."""

    device = "host"
    side = None
    word = "numpy"
    writes = True

    def take(self, chunk):
        return np.asarray(chunk)

    def pointer(self, array):
        return array.__array_interface__["data"][0]

    def own(self, values):
        return values.copy()

    def numpy(self, array):
        return array

    def kernel(self, x, out, call):
        np.add(x, np.float32(1), out=out)

    add_one = kernel


class Library:
    """A library with a GPU."""

    device = DEVICE
    word = None  # for ``arrays=`` of kernel functions
    writes = True  # into its arrays

    def __init__(self):
        import cupy

        self.cupy = cupy
        self._spin = cupy.RawKernel(SPIN, "spin")
        self.side = self.make_stream()
        self.spin(1)  # compiled now

    def handle(self):
        """The side stream, as a number."""
        return self.side.ptr

    def spin(self, cycles=SPIN_CYCLES, stream=None):
        """Keeps a stream, by default the side one, busy."""
        with self.cupy.cuda.ExternalStream(self.handle() if stream is None else stream):
            self._spin((1,), (1,), (np.int64(cycles),))

    def synchronize(self):
        self.cupy.cuda.runtime.deviceSynchronize()

    def current(self):
        return nullcontext()

    def note(self, chunk):
        """For libraries without a current stream, and without DLPack: their user says it."""
        chunk.record_stream(self.handle())


class CuPy(Library):
    word = "cupy"

    def make_stream(self):
        return self.cupy.cuda.Stream(non_blocking=True)

    def current(self):
        return self.side

    def take(self, chunk):
        return self.cupy.asarray(chunk)

    def pointer(self, array):
        return array.data.ptr

    def own(self, values):
        return self.cupy.asarray(values)

    def write(self, array, values):
        array[...] = values

    def clone(self, array):
        return array.copy()

    def numpy(self, array):
        return self.cupy.asnumpy(array)

    def kernel(self, x, out, call):
        with self.cupy.cuda.ExternalStream(call.stream):
            self.add_one(self.cupy.asarray(x), self.cupy.asarray(out), call)

    def add_one(self, x, out, call):
        assert self.cupy.cuda.get_current_stream().ptr == call.stream
        self.cupy.add(x, np.float32(1), out=out)


class PyTorch(Library):
    word = "torch"

    def make_stream(self):
        import torch

        self.torch = torch
        return torch.cuda.Stream()

    def handle(self):
        return self.side.cuda_stream

    def current(self):
        return self.torch.cuda.stream(self.side)

    def take(self, chunk):
        return self.torch.from_dlpack(chunk)

    def pointer(self, array):
        return array.data_ptr()

    def own(self, values):
        return self.torch.from_numpy(values).cuda()

    def write(self, array, values):
        array.copy_(values)

    def clone(self, array):
        return array.clone()

    def numpy(self, array):
        return array.cpu().numpy()

    def kernel(self, x, out, call):
        with self.torch.cuda.stream(self.torch.cuda.ExternalStream(call.stream)):
            x = self.torch.as_tensor(x, device="cuda")
            self.add_one(x, self.torch.from_dlpack(out), call)

    def add_one(self, x, out, call):
        assert self.torch.cuda.current_stream().cuda_stream == call.stream
        self.torch.add(x, 1, out=out)


class Numba(Library):
    word = "numba"

    def make_stream(self):
        from numba import cuda

        @cuda.jit
        def plus(x, out, what):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = x[i] + what

        self.cuda, self._plus = cuda, plus
        return cuda.stream()

    def handle(self):
        from headrace._streams import handle

        return handle(self.side)

    def plus(self, x, out, what, stream):
        self._plus[-(-x.size // 256), 256, stream](x, out, np.float32(what))

    def take(self, chunk):
        self.note(chunk)
        return self.cuda.as_cuda_array(chunk)

    def pointer(self, array):
        return array.__cuda_array_interface__["data"][0]

    def own(self, values):
        made = self.cuda.to_device(values, stream=self.side)  # which its interface tells
        self.side.synchronize()
        return made

    def write(self, array, values):
        self.plus(values, array, 0, self.side)

    def clone(self, array):
        made = self.cuda.device_array(array.shape, array.dtype, stream=self.side)
        self.plus(array, made, 0, self.side)
        return made

    def numpy(self, array):
        self.synchronize()
        return array.copy_to_host()

    def kernel(self, x, out, call):
        x, out = (self.cuda.as_cuda_array(one, sync=False) for one in (x, out))
        self.plus(x, out, 1, self.cuda.external_stream(call.stream))

    def add_one(self, x, out, call):
        self.plus(x, out, 1, call.stream_object)


class PyCUDA(Library):
    """Its arrays name no stream, and it launches on streams of its own only."""

    tells_stream = False

    def make_stream(self):
        import pycuda.autoprimaryctx  # noqa: F401 - the context that the others use
        import pycuda.driver
        import pycuda.gpuarray
        from pycuda.elementwise import ElementwiseKernel

        self.driver, self.gpuarray = pycuda.driver, pycuda.gpuarray
        self.plus = ElementwiseKernel("float *x, float *out, float what", "out[i] = x[i] + what")
        return pycuda.driver.Stream()

    def handle(self):
        return self.side.handle

    def _seen(self, array):
        interface = array.__cuda_array_interface__
        return self.gpuarray.GPUArray(
            interface["shape"], np.float32, gpudata=interface["data"][0], base=array
        )

    def take(self, chunk):
        self.note(chunk)
        return self._seen(chunk)

    def pointer(self, array):
        return int(array.gpudata)

    def own(self, values):
        return self.gpuarray.to_gpu(values)

    def write(self, array, values):
        self.plus(values, array, np.float32(0), stream=self.side)

    def clone(self, array):
        made = self.gpuarray.empty(array.shape, array.dtype)
        self.plus(array, made, np.float32(0), stream=self.side)
        return made

    def numpy(self, array):
        self.synchronize()
        return array.get()

    def kernel(self, x, out, call):
        theirs = self.cupy.cuda.ExternalStream(call.stream)
        ours = self.cupy.cuda.ExternalStream(self.side.handle)
        ours.wait_event(theirs.record())
        self.plus(self._seen(x), self._seen(out), np.float32(1), stream=self.side)
        theirs.wait_event(ours.record())


class JAX(Library):
    """It has streams of its own, that nobody else sees, and arrays that never change."""

    writes = False

    def make_stream(self):
        import jax
        import jax.dlpack
        import jax.numpy

        def late(x):
            """x, after a good while."""
            big = jax.numpy.full((4096, 4096), 1e-4, "float32")
            end = jax.lax.fori_loop(0, 40, lambda i, m: m @ big, big)
            return x + 0 * end[0, 0]

        self.jax, self.late = jax, jax.jit(late)
        return self.cupy.cuda.Stream(non_blocking=True)

    def take(self, chunk):
        return self.jax.dlpack.from_dlpack(chunk)

    def pointer(self, array):
        return array.unsafe_buffer_pointer()

    def own(self, values):
        return self.jax.block_until_ready(self.jax.device_put(values))

    def numpy(self, array):
        return np.asarray(array)

    def kernel(self, x, out, call):
        theirs = self.cupy.cuda.ExternalStream(call.stream)
        with theirs:
            x, out = self.cupy.asarray(x), self.cupy.asarray(out)
            theirs.synchronize()  # its work cannot be queued behind a stream of others
            made = self.jax.block_until_ready(self.jax.dlpack.from_dlpack(x) + np.float32(1))
            out[...] = self.cupy.from_dlpack(made)
            theirs.synchronize()  # before JAX uses the memory again


LIBRARIES = {one.__name__: one for one in (NumPy, PyTorch, CuPy, Numba, PyCUDA, JAX)}


@contextmanager
def nothing_kept():
    """Frees what the pools of loaded libraries keep, before and after."""
    _free_pools()
    yield
    _free_pools()


def _free_pools():
    import gc
    import sys

    gc.collect()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.empty_cache()
