# SPDX-License-Identifier: Apache-2.0
"""A cached safetensors file to the device, by the loaders that are made for it."""

import subprocess

from work import N_THREADS, Peer, found


def in_order(tensors):
    """The tensors of a dict as they are in the file, where names sort as places do."""
    return [tensors[name] for name in sorted(tensors)]


class Safetensors(Peer):
    """The reference: ``safetensors.torch.load_file``; on the host its NumPy version."""

    name = "safetensors.load_file"
    needs = ("safetensors", "numpy")

    def run(self):
        """See `Peer`."""
        if self.work.on_gpu:
            load = found("safetensors.torch").load_file
            return in_order(load(self.path, device=self.work.device))
        return in_order(found("safetensors.numpy").load_file(self.path))


class Fastsafetensors(Peer):
    """Its threads and bounce buffers, as on machines without GPUDirect Storage."""

    name = f"fastsafetensors, nogds, {N_THREADS} threads"
    needs = ("fastsafetensors", "torch")
    foreign = True

    def run(self):
        """See `Peer`."""
        device = self.work.device if self.work.on_gpu else "cpu"
        loader = found("fastsafetensors").SafeTensorsFileLoader(None, device, nogds=True,
                                                                max_threads=N_THREADS)
        loader.add_filenames({0: [self.path]})
        buffers = loader.copy_files_to_device()
        tensors = {name: buffers.get_tensor(name) for name in loader.get_keys()}
        buffers.close()  # the tensors own their memory
        loader.close()
        return in_order(tensors)


class InstantTensor(Peer):
    """Buffered, as its manual says for files in the page cache; on a tmpfs by its own choice."""

    name = "InstantTensor"
    needs = ("instanttensor", "torch")
    gpu_only = True
    foreign = True

    def prepare(self):
        """See `Peer`."""
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.path], check=True, text=True,
                              capture_output=True).stdout.strip()
        policy = found("instanttensor").BackendPolicy
        self.backend = None if kind in ("tmpfs", "ramfs") else policy.BUFFERED

    def run(self):
        """See `Peer`."""
        with found("instanttensor").safe_open(self.path, framework="pt", device=self.work.device,
                                              backend=self.backend) as file:
            return in_order(dict(file.tensors()))


class Runai(Peer):
    """Run:ai model streamer; threads and piece size are its defaults, 16 and 2 MiB."""

    name = "Run:ai model streamer"
    needs = ("runai_model_streamer", "torch")
    foreign = True

    def run(self):
        """See `Peer`."""
        device = self.work.device if self.work.on_gpu else "cpu"
        with found("runai_model_streamer").SafetensorsStreamer() as streamer:
            streamer.stream_file(self.path, device=device)
            return in_order(dict(streamer.get_tensors()))


PEERS = (Safetensors, Fastsafetensors, InstantTensor, Runai)
