#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""step_peer.py RANK SIZE MODEL BATCH STEPS STORE: the same steps as step_bench, by PyTorch's own
DistributedDataParallel over gloo; prints a JSON list of seconds on rank 0."""
import json
import math
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

rank, size = int(sys.argv[1]), int(sys.argv[2])
model_name, batch, steps, store = sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]


class Cnn(nn.Module):
    def __init__(self, width=32, hidden=128):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.hidden = nn.Linear(2 * width * 49, hidden)
        self.output = nn.Linear(hidden, 10)

    def forward(self, x):
        x = x.contiguous(memory_format=torch.channels_last)
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.output(F.relu(self.hidden(x.flatten(1))))


def conv(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


def norm(channels):
    return nn.GroupNorm(math.gcd(channels, 32), channels)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.conv2 = conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3, 1)
        self.norm1, self.norm2 = norm(outputs), norm(outputs)
        self.short = None
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(conv(inputs, outputs, 1, stride), norm(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet18(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv, self.norm = conv(3, width, 3, 1), norm(width)
        blocks, inputs = [], width
        for stage in range(4):
            for i in range(2):
                blocks.append(Block(inputs, width << stage, 2 if stage > 0 and i == 0 else 1))
                inputs = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(inputs, 10)

    def forward(self, x):
        x = x.contiguous(memory_format=torch.channels_last)
        x = self.blocks(F.relu(self.norm(self.conv(x))))
        return self.output(x.mean((2, 3)))


torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
torch.manual_seed(1)
model = Cnn() if model_name == "cnn" else ResNet18()
shape = (1, 28, 28) if model_name == "cnn" else (3, 32, 32)
inputs = torch.sin(torch.arange(batch * math.prod(shape), dtype=torch.float32)).view(batch, *shape)
targets = torch.arange(batch) % 10
parallel = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
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
