# SPDX-License-Identifier: Apache-2.0
"""A cached file to the device, by PyTorch, NumPy, CuPy and KvikIO."""

import concurrent.futures
import os

from work import N_THREADS, Peer, found

PIECE = 4 << 20
BIG_PIECE = 16 << 20
CEILING = "torch: pinned memory (ceiling)"


class Pinned(Peer):
    """All of it in pinned memory before: what the link allows, no file is read."""

    name = CEILING
    needs = ("torch",)
    gpu_only = True

    def run(self):
        """See `Peer`."""
        return [self.work.out.copy_(self.work.pinned, non_blocking=True)]


class Numpy(Peer):
    """Read whole, then copied; on the host: read whole."""

    name = "numpy.fromfile"
    needs = ("numpy",)

    def run(self):
        """See `Peer`."""
        read = found("numpy").fromfile(self.path, dtype="u1")
        return [found("torch").from_numpy(read).to(self.work.device) if self.work.on_gpu else read]


class FromFile(Peer):
    """Mapped, then copied."""

    name = "torch.from_file"
    needs = ("torch",)

    def run(self):
        """See `Peer`."""
        torch = found("torch")
        mapped = torch.from_file(self.path, size=self.work.n_bytes, dtype=torch.uint8)
        return [mapped.to(self.work.device) if self.work.on_gpu else mapped.clone()]


class Cupy(Peer):
    """As CuPy reads a file."""

    name = "cupy.fromfile"
    needs = ("cupy", "torch")
    gpu_only = True

    def run(self):
        """See `Peer`."""
        cupy = found("cupy")
        with cupy.cuda.Device(int(self.work.device.partition(":")[2])):
            return [cupy.fromfile(self.path, dtype=cupy.uint8)]


class DoubleBuffer(Peer):
    """By hand: threads with two small pinned buffers and a stream each.

    A buffer is read into while the other one is copied from.
    """

    n_threads = 1
    needs = ("torch",)
    gpu_only = True

    def prepare(self):
        """See `Peer`."""
        torch = found("torch")
        self.file = os.open(self.path, os.O_RDONLY)
        self.threads = concurrent.futures.ThreadPoolExecutor(self.n_threads)
        self.buffers = [[torch.empty(PIECE, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
                        for _ in range(self.n_threads)]
        self.streams = [torch.cuda.Stream(self.work.device) for _ in range(self.n_threads)]

    def read(self, index):
        """Do the pieces of one thread."""
        torch, out = found("torch"), self.work.out
        events = [torch.cuda.Event() for _ in range(2)]
        views = [buffer.numpy() for buffer in self.buffers[index]]
        with torch.cuda.stream(self.streams[index]):
            for turn, begin in enumerate(range(index * PIECE, len(out), self.n_threads * PIECE)):
                k = turn % 2
                n = min(PIECE, len(out) - begin)
                events[k].synchronize()
                if os.preadv(self.file, [views[k][:n]], begin) != n:
                    raise OSError("a short read")
                out[begin : begin + n].copy_(self.buffers[index][k][:n], non_blocking=True)
                events[k].record()
        self.streams[index].synchronize()

    def run(self):
        """See `Peer`."""
        for _ in self.threads.map(self.read, range(self.n_threads)):
            pass
        return [self.work.out]

    def close(self):
        """See `Peer`."""
        if hasattr(self, "file"):
            self.threads.shutdown()
            os.close(self.file)


class DoubleBuffer1(DoubleBuffer):
    """What is usually written."""

    name = "torch: two pinned buffers by hand"


class DoubleBufferMany(DoubleBuffer):
    """The best that is written by hand."""

    name = f"torch: two pinned buffers by hand, {N_THREADS} threads"
    n_threads = N_THREADS


class Pieces:
    """A map-style dataset: the pieces of a file."""

    def __init__(self, path, n_bytes):
        self.path, self.n_bytes = path, n_bytes

    def __len__(self):
        return -(-self.n_bytes // BIG_PIECE)

    def __getitem__(self, index):
        numpy = found("numpy")
        read = numpy.fromfile(self.path, "u1", BIG_PIECE, offset=index * BIG_PIECE)
        return found("torch").from_numpy(read)


class Loader(Peer):
    """``torch.utils.data.DataLoader``: workers that stay, pinned memory, asynchronous copies."""

    name = f"torch DataLoader, pin_memory, {N_THREADS} workers"
    needs = ("torch", "numpy")
    gpu_only = True
    foreign = True  # it forks beside the threads of all others

    def prepare(self):
        """See `Peer`."""
        self.loader = found("torch.utils.data").DataLoader(
            Pieces(self.path, self.work.n_bytes), batch_size=None, num_workers=N_THREADS,
            pin_memory=True, prefetch_factor=4, persistent_workers=True)

    def run(self):
        """See `Peer`."""
        at = 0
        for piece in self.loader:
            self.work.out[at : at + len(piece)].copy_(piece, non_blocking=True)
            at += len(piece)
        return [self.work.out]

    def close(self):
        """See `Peer`."""
        self.loader = None  # ends the workers


class Kvikio(Peer):
    """KvikIO without GPUDirect Storage, past no cache: its threads and bounce buffers."""

    name = f"kvikio, {N_THREADS} threads"
    needs = ("kvikio",)
    gpu_only = True  # it wants the driver's library even for memory of the host
    foreign = True

    def prepare(self):
        """See `Peer`."""
        kvikio = found("kvikio")
        found("kvikio.defaults").set({"compat_mode": kvikio.CompatMode.ON, "num_threads": N_THREADS,
                                      "task_size": PIECE, "bounce_buffer_size": BIG_PIECE,
                                      "auto_direct_io_read": False})

    def run(self):
        """See `Peer`."""
        with found("kvikio").CuFile(self.path, "r") as file:
            if file.pread(self.work.out).get() != self.work.n_bytes:
                raise OSError("a short read")
        return [self.work.out]


PEERS = (Pinned, Numpy, FromFile, Cupy, DoubleBuffer1, DoubleBufferMany, Loader, Kvikio)
