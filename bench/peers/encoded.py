# SPDX-License-Identifier: Apache-2.0
"""A cached zstd file of many frames to the device: decoded by the GPU, or by threads."""

import concurrent.futures
import os
import struct

from work import N_THREADS, Peer, found

ALIGN = 16  # of frames in memory, what nvCOMP asks for where in doubt
GROUPS = 8  # read, copied and decoded one after the other, so that these overlap
AT_ONCE = 512  # buffers of one preadv, below IOV_MAX
SEEK_MAGIC = 0x8F92EAB1
HAS_CHECKSUMS = 0x80


def frames_of(path):
    """Read the seek table of a file (zstd's seekable format): encoded and decoded sizes."""
    with open(path, "rb") as file:
        file.seek(-9, os.SEEK_END)
        n, descriptor, magic = struct.unpack("<IBI", file.read(9))
        if magic != SEEK_MAGIC:
            raise OSError(f"{path} has no seek table")
        entry = struct.Struct("<III" if descriptor & HAS_CHECKSUMS else "<II")
        file.seek(-9 - n * entry.size, os.SEEK_END)
        return [fields[:2] for fields in entry.iter_unpack(file.read(n * entry.size))]


def offsets_of(sizes, align=1):
    """Where each begins if one follows the other, and where the last one ends."""
    at, offsets = 0, []
    for size in sizes:
        offsets.append(at)
        at += -(-size // align) * align
    return offsets, at


class Frames(Peer):
    """Knows the frames of its file and reads them by threads."""

    def prepare(self):
        """See `Peer`."""
        frames = frames_of(self.path)
        self.sizes, self.decoded = [list(sizes) for sizes in zip(*frames)]
        self.in_file, _ = offsets_of(self.sizes)
        self.in_out, _ = offsets_of(self.decoded)
        self.file = os.open(self.path, os.O_RDONLY)
        self.threads = concurrent.futures.ThreadPoolExecutor(N_THREADS)

    def shares(self, n):
        """Cut the frames into n runs of about as many."""
        step = -(-len(self.sizes) // n)
        return [range(begin, min(begin + step, len(self.sizes)))
                for begin in range(0, len(self.sizes), step)]

    def read(self, frames, places):
        """Read frames that follow each other into places."""
        begin = self.in_file[frames[0]]
        if os.preadv(self.file, places, begin) != sum(self.sizes[i] for i in frames):
            raise OSError("a short read")

    def close(self):
        """See `Peer`."""
        if hasattr(self, "file"):
            self.threads.shutdown()
            os.close(self.file)


class Nvcomp(Frames):
    """nvCOMP: encoded bytes over the link, frames decoded in batches on the GPU."""

    name = "nvCOMP, decoded by the GPU"
    needs = ("nvidia.nvcomp", "torch")
    gpu_only = True
    foreign = True

    def prepare(self):
        """See `Peer`."""
        super().prepare()
        torch, nvcomp = found("torch"), found("nvidia.nvcomp")
        self.at, size = offsets_of(self.sizes, ALIGN)
        self.here = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        self.there = torch.empty(size, dtype=torch.uint8, device=self.work.device)
        self.stream = torch.cuda.Stream(self.work.device)
        self.codec = nvcomp.Codec(algorithm="Zstd", bitstream_kind=nvcomp.BitstreamKind.RAW,
                                  device_id=int(self.work.device.partition(":")[2]),
                                  cuda_stream=self.stream.cuda_stream)
        self.views = [memoryview(self.here.numpy())[at : at + size]
                      for at, size in zip(self.at, self.sizes)]
        self.groups = [(group, self.batch(self.there, self.at, self.sizes, group),
                        self.batch(self.work.out, self.in_out, self.decoded, group))
                       for group in self.shares(GROUPS)]

    def batch(self, memory, offsets, sizes, group):
        """Frames of a group as nvCOMP sees them."""
        return found("nvidia.nvcomp").as_arrays(memory, [offsets[i] for i in group],
                                                [sizes[i] for i in group],
                                                self.stream.cuda_stream)

    def run(self):
        """See `Peer`."""
        torch = found("torch")
        reads = [[self.threads.submit(self.read, part, self.views[part[0] : part[-1] + 1])
                  for part in (group[i : i + step] for i in range(0, len(group), step))]
                 for group, _, _ in self.groups
                 for step in [min(AT_ONCE, -(-len(group) // N_THREADS))]]
        with torch.cuda.stream(self.stream):
            for (group, encoded, decoded), parts in zip(self.groups, reads):
                for part in parts:
                    part.result()
                begin, end = self.at[group[0]], self.at[group[-1]] + self.sizes[group[-1]]
                self.there[begin:end].copy_(self.here[begin:end], non_blocking=True)
                self.codec.decode(encoded, out=decoded)
        self.stream.synchronize()
        return [self.work.out]


class Zstandard(Frames):
    """Threads decode into pinned memory and copy from there; on the host they only decode."""

    name = f"zstandard, {N_THREADS} threads"
    needs = ("zstandard", "numpy")

    def prepare(self):
        """See `Peer`."""
        super().prepare()
        self.here = self.work.out
        if self.work.on_gpu:
            torch = found("torch")
            self.here = torch.empty(self.work.n_bytes, dtype=torch.uint8, pin_memory=True)
        self.view = memoryview(self.here.numpy() if self.work.on_gpu else self.here)

    def decode(self, frame, decompressor):
        """Decode one."""
        encoded = os.pread(self.file, self.sizes[frame], self.in_file[frame])
        begin, end = self.in_out[frame], self.in_out[frame] + self.decoded[frame]
        with decompressor.stream_reader(encoded) as reader:
            if reader.readinto(self.view[begin:end]) != end - begin:
                raise OSError("a frame is shorter than the seek table says")
        if self.work.on_gpu:
            self.work.out[begin:end].copy_(self.here[begin:end], non_blocking=True)

    def share(self, frames):
        """Decode those of one thread."""
        decompressor = found("zstandard").ZstdDecompressor()
        for frame in frames:
            self.decode(frame, decompressor)

    def run(self):
        """See `Peer`."""
        for _ in self.threads.map(self.share, self.shares(4 * N_THREADS)):
            pass
        return [self.work.out]


PEERS = (Nvcomp, Zstandard)
