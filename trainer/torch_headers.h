// SPDX-License-Identifier: Apache-2.0
// libtorch's headers, in one place: the Makefile compiles this file once (a precompiled header) for
// all objects in TORCH_OBJS. Only files that work on tensors include it.
#pragma once

#include <torch/optim/adamw.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
