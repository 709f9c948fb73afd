# SPDX-License-Identifier: Apache-2.0
"""AdaptDL's own estimator of gradient noise, over the steps that bellows-train has made.

AdaptDL is no part of Bellows: its package is to be put into a folder before."""
import gzip
import glob
import importlib.util
import os
import sys
import types
import zipfile

import numpy
import torch


def estimator(folder):
    """The module with AdaptDL's estimator, from the package in `folder`; None where there is none."""
    wheels = glob.glob(os.path.join(folder, "adaptdl-*.whl"))
    if not wheels:
        return None
    zipfile.ZipFile(wheels[0]).extractall(folder)
    # Of its package only what the estimator needs; the rest wants a cluster.
    for name in ("adaptdl", "adaptdl.utils", "adaptdl.torch.gradient_noise_scale"):
        path = os.path.join(folder, *name.split("."))
        if name == "adaptdl":
            sys.modules[name] = types.ModuleType(name)
            continue
        spec = importlib.util.spec_from_file_location(name, path + ".py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
        if name == "adaptdl.utils":
            sys.modules["adaptdl"].utils = module
    return sys.modules["adaptdl.torch.gradient_noise_scale"]


def images(folder):
    """Fashion-MNIST's training data as bellows-train reads it, in double precision."""
    pixels = numpy.frombuffer(gzip.open(os.path.join(folder, "train-images-idx3-ubyte.gz")).read()[16:], numpy.uint8)
    labels = numpy.frombuffer(gzip.open(os.path.join(folder, "train-labels-idx1-ubyte.gz")).read()[8:], numpy.uint8)
    mean, deviation = pixels.mean(), pixels.std()
    table = torch.tensor(((numpy.arange(256) - mean) / deviation).astype(numpy.float32), dtype=torch.float64)
    return table, torch.tensor(pixels.reshape(-1, 1, 28, 28)), torch.tensor(labels, dtype=torch.int64)


class Passes:
    """Stands for AdaptDL's parallel module: says which backward pass is the last of a step."""
    require_backward_grad_sync = True


def averages(module, net, steps, micro_batch, optimizer_name, lr, data, forget_at):
    """After each of `steps` (lists of samples): AdaptDL's averages |G|^2 and tr(C)/B0, and the noise
    scale in samples that they make. `net` is trained. They begin anew after `forget_at` steps."""
    table, pixels, labels = data
    passes = Passes()
    if optimizer_name == "adam":
        optimizer, kind = torch.optim.Adam(net.parameters(), lr=lr), module.AdamGradientNoiseScale
    else:
        optimizer, kind = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9), module.GradientNoiseScale
    batch = len(steps[0])
    scale = kind(passes, optimizer, num_replicas=1, accum_scale=micro_batch / batch)
    if optimizer_name == "adam":
        optimizer.state["gns"]["prev_scale"] = 1.0  # no change of the batch: the moments stay
    found = []
    for number, samples in enumerate(steps, 1):
        scale.reset_accumulation()
        for first in range(0, batch, micro_batch):
            part = samples[first:first + micro_batch]
            passes.require_backward_grad_sync = first + micro_batch >= batch
            loss = torch.nn.functional.cross_entropy(net(table[pixels[part].long()]), labels[part])
            loss.backward()
        # AdaptDL leaves this to its own parallel module.
        for parameter in net.parameters():
            parameter.grad.mul_(micro_batch / batch)
        optimizer.step()
        if number == forget_at:
            scale._reset_avg("sqr_avg")
            scale._reset_avg("var_avg")
        square, variance = scale.sqr_avg(), scale.var_avg()
        found.append((square, variance, batch * variance / square if square > 0 else float("inf")))
    return found
