# SPDX-License-Identifier: Apache-2.0
"""Datasets and a loader whose workers are processes, as PyTorch's are: each gets the dataset by
pickle (or by fork), iterates over all of it, and sends copies of what it gives."""

import multiprocessing
from dataclasses import dataclass


class IterableDataset:
    pass


@dataclass
class WorkerInfo:
    id: int
    num_workers: int


_info = None


def get_worker_info():
    return _info


def _work(dataset, number, num_workers, queue):
    global _info
    _info = WorkerInfo(number, num_workers)
    try:
        for tensor in dataset:
            queue.put(tensor.copy())
    except Exception as error:  # noqa: BLE001 - told to the parent
        queue.put(f"{type(error).__name__}: {error}")
    queue.put(None)


class DataLoader:
    def __init__(self, dataset, batch_size=None, num_workers=0, multiprocessing_context="spawn"):
        self.dataset = dataset
        self.num_workers = num_workers
        self.context = multiprocessing.get_context(multiprocessing_context)

    def __iter__(self):
        if self.num_workers == 0:
            yield from self.dataset
            return
        queue = self.context.Queue()
        workers = [
            self.context.Process(target=_work, args=(self.dataset, i, self.num_workers, queue))
            for i in range(self.num_workers)
        ]
        for worker in workers:
            worker.start()
        left = len(workers)
        while left:
            item = queue.get(timeout=60)
            if isinstance(item, str):
                raise RuntimeError(f"a worker: {item}")
            if item is None:
                left -= 1
            else:
                yield item
        for worker in workers:
            worker.join()
