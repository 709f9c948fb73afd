# SPDX-License-Identifier: Apache-2.0
"""bellows-train's models for PyTorch, as they are without options and without dropout, which the
peers of benchmarks train."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


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


SHAPES = {"cnn": (1, 28, 28), "resnet18": (3, 32, 32)}


def make_model(name):
    return {"cnn": Cnn, "resnet18": ResNet18}[name]()


def parameters_of(model):
    return sum(parameter.numel() for parameter in model.parameters())
