// SPDX-License-Identifier: Apache-2.0
// What is trained, as the training sees it: bellows-train's networks, or a program of the user's.
#pragma once

#include <memory>
#include <optional>

#include "trainer/data/dataset.h"
#include "trainer/state/training_state.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

class Training;

/// How a training leaves a world.
enum class Outcome {
  kFinished,        // a limit is reached
  kStopped,         // a signal came; checkpoint written
  kStoppedUnsaved,  // a signal came; no --checkpoint-dir, or writing failed
  kChange,          // the world is to be changed
};

/// Samples of the pass in which a process that is to join warms up, at most.
inline constexpr std::uint64_t kWarmUp = 32;

class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  /// Once in a process, before everything below: gets the data and a fresh state ready for passes
  /// on `device`. Throws UsageError, DataError.
  virtual std::unique_ptr<TrainingState> load(const torch::Device& device) = 0;
  virtual const Dataset& dataset() const = 0;
  /// A first forward and backward pass, in which kernels are chosen and memory is taken, of a
  /// process that is to join. Leaves no gradients.
  virtual void warm_up() = 0;
  /// Trains in one world, on all its ranks, by `training`.
  virtual Outcome train(Training& training) = 0;
  /// Sums over the test data and all ranks; collective. Nothing where this is not the training's
  /// to do.
  virtual std::optional<Sums> evaluate(Team& team) = 0;
  /// Whether it is; otherwise there may be a test after each pass over the data, and after the last
  /// step.
  virtual bool evaluates() const { return true; }
};

}  // namespace bellows::trainer
