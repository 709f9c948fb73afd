#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scaling_peer.py RANK SIZE MODEL DATA BATCH STEPS STORE: trains as bellows-train does with one
thread per rank, by PyTorch's DistributedDataParallel over gloo, with its defaults. DATA is a folder
with the files of Fashion-MNIST (cnn) or of CIFAR-10's binary version (resnet18), BATCH that of all
ranks. Prints a JSON object on rank 0: the number of parameters, and seconds of each step from its
first sample to its update."""
import glob
import gzip
import json
import os
import sys
import time

sys.dont_write_bytecode = True
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from peer_models import SHAPES, make_model, parameters_of  # noqa: E402

rank, size, model_name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
data, batch, steps, store = sys.argv[4], int(sys.argv[5]), int(sys.argv[6]), sys.argv[7]


def read_bytes(path, skip):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[skip:]), dtype=torch.uint8)


def read_data():
    """Images and labels of the training part, as bytes."""
    if model_name == "cnn":
        images, labels = (glob.glob(os.path.join(data, f"train-{what}-ubyte*"))[0]
                          for what in ("images-idx3", "labels-idx1"))
        return read_bytes(images, 16).view(-1, *SHAPES[model_name]), read_bytes(labels, 8)
    files = sorted(glob.glob(os.path.join(data, "data_batch_*.bin")))
    records = torch.cat([read_bytes(file, 0) for file in files]).view(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, *SHAPES[model_name]), records[:, 0]


torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
torch.manual_seed(1)
model = make_model(model_name)
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = read_data()
mean = images.float().mean((0, 2, 3), keepdim=True)
deviation = images.float().std((0, 2, 3), keepdim=True)
order = torch.randperm(len(labels))
share = batch // size
assert share * size == batch and len(order) >= batch, "each rank needs the same share"

seconds = []
dist.barrier()
last = time.perf_counter()
for step in range(steps):
    first = step * batch % (len(order) - batch + 1) + rank * share
    ids = order[first:first + share]
    inputs, targets = (images[ids].float() - mean) / deviation, labels[ids].long()
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(parallel(inputs), targets).backward()
    optimizer.step()
    now = time.perf_counter()
    seconds.append(now - last)
    last = now
dist.barrier()
if rank == 0:
    print(json.dumps({"parameters": parameters_of(model), "seconds": seconds}))
dist.destroy_process_group()
