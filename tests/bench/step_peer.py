#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""step_peer.py RANK SIZE MODEL BATCH STEPS STORE: the same steps as step_bench, by PyTorch's own
DistributedDataParallel over gloo; prints a JSON list of seconds on rank 0."""
import json
import math
import sys
import time

sys.dont_write_bytecode = True
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from peer_models import SHAPES, make_model  # noqa: E402

rank, size = int(sys.argv[1]), int(sys.argv[2])
model_name, batch, steps, store = sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
torch.manual_seed(1)
model = make_model(model_name)
shape = SHAPES[model_name]
inputs = torch.sin(torch.arange(batch * math.prod(shape), dtype=torch.float32)).view(batch, *shape)
targets = torch.arange(batch) % 10
parallel = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

WARMUP = 5
seconds = []
for step in range(WARMUP + steps):
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(parallel(inputs), targets).backward()
    optimizer.step()
    if step >= WARMUP:
        seconds.append(time.perf_counter() - start)
dist.barrier()
if rank == 0:
    print(json.dumps(seconds))
dist.destroy_process_group()
