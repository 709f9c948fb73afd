// SPDX-License-Identifier: Apache-2.0
// One update: this rank's share of the next batch, the gradients of all, the optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mpi_elastic/elastic_world.h"
#include "trainer/course.h"
#include "trainer/gradients.h"
#include "trainer/logical_ranks.h"
#include "trainer/passes.h"
#include "trainer/sample_record.h"
#include "trainer/team.h"

namespace bellows::trainer {

/// What rank 0 decides, bit by bit; it travels with the sums of each step.
enum Control : unsigned {
  kGoOn = 0,
  kCheckpoint = 1,  // checkpoint after this step
  kEnd = 2,         // this step is the last (a time limit)
  kChange = 4,      // the world changes after this step
};

struct StepResult {
  Sums sums;                 // of the batch, over all ranks
  unsigned control = kGoOn;  // of rank 0
  bool stop = false;         // a rank has had a stop signal: checkpoint and leave
  bool pass_ended = false;
  std::uint64_t samples = 0;
  double rate = 0;           // learning rate used
  double gradient_norm = 0;  // before clipping; 0 when not clipping
  StepClock::Seconds parts{};
};

class Stepper {
 public:
  /// All must outlive it.
  Stepper(const PassContext& context, Team& team, ElasticWorld& world, Course& course,
          SampleRecord& record);

  /// One step, collective. `control` counts on rank 0, `stop_signal` on any rank; every rank gets
  /// the same result. Throws MpiError with the state as it was before the step. The update is made
  /// when all reductions of the step have completed here, so each other rank has given its share
  /// to all of them: after a failure ranks are one step apart at most.
  StepResult step(unsigned control, bool stop_signal);

 private:
  void note_samples(Range batch);
  /// Forward and backward passes of this rank's share, with the sum over the ranks. Starts the sum
  /// of the counters between the last two passes, so that it costs no time of its own.
  Sums reduce(Range batch, std::vector<double>& words);
  void update(Range batch, StepResult& result);

  PassContext context_;
  TrainingState& state_;
  Team& team_;
  ElasticWorld& world_;
  Course& course_;
  SampleRecord& record_;
  std::optional<GradientReducer> reducer_;  // one of the two
  std::optional<LogicalRanks> logical_;
};

}  // namespace bellows::trainer
