# SPDX-License-Identifier: Apache-2.0
# The other side of tests/bench/checkpoint: saves and loads the tensors of a Bellows checkpoint with
# PyTorch, on order from standard input; answers with milliseconds.
import os
import sys
import time

import h5py
import torch

folder, source = sys.argv[1:]
with h5py.File(source) as file:
    state = {
        group: {name: torch.from_numpy(data[()]) for name, data in file[group].items()}
        for group in ("parameters", "optimizer")
    }
path = os.path.join(folder, "torch.pt")


def save():
    with open(path + ".tmp", "wb") as out:
        torch.save(state, out)
        out.flush()
        os.fsync(out.fileno())
    os.rename(path + ".tmp", path)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def load():
    torch.load(path, weights_only=True)


for order in sys.stdin:
    start = time.perf_counter()
    {"save": save, "load": load}[order.strip()]()
    print((time.perf_counter() - start) * 1000, flush=True)
