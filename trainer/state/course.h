// SPDX-License-Identifier: Apache-2.0
// How far the run has come, beside its state: what has been evaluated, saved and said, and for how
// long it has been going. It outlives worlds and moves along when another rank becomes rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "trainer/state/training_state.h"

namespace bellows::trainer {

struct Course {
  using Clock = std::chrono::steady_clock;

  bool begun = false;                // the training has been announced; the clocks below run
  bool ending = false;               // the limit on time is reached
  bool stopping = false;             // a signal has come
  bool ended = false;                // the closing line is out
  std::int64_t settled_step = -1;    // evaluations and checkpoints due up to here are made
  std::int64_t evaluated_step = -1;  // `test` is of this step
  std::int64_t told_step = -1;       // the evaluation of this step has been reported
  std::int64_t saved_step = -1;
  std::int64_t committed_epoch = 0;  // of the world that made the last step
  std::int64_t ranks = 0;            // of the last world
  std::int64_t batch = 0;            // of the last step, as it was told; 0: none was made
  std::int64_t micro_batch = 0;
  Sums test;
  double evaluation_seconds = 0;
  Clock::time_point started = Clock::now();
  Clock::time_point saved = Clock::now();
  Clock::time_point worked = Clock::now();  // end of the last step, evaluation or checkpoint
  double first_done = 0;                    // share of the run that was done at its start
  double training_seconds = 0;              // without evaluations and checkpoints
  std::uint64_t trained_samples = 0;

  /// The same as bytes, with durations for points in time, since each process has its own clock.
  struct Note {
    std::uint64_t begun = 0, ending = 0, stopping = 0, ended = 0;
    std::int64_t settled_step = -1, evaluated_step = -1, told_step = -1, saved_step = -1,
                 committed_epoch = 0;
    std::int64_t ranks = 0, batch = 0, micro_batch = 0;
    Sums test;
    double evaluation_seconds = 0, started_ago = 0, saved_ago = 0, worked_ago = 0, first_done = 0,
           training_seconds = 0;
    std::uint64_t trained_samples = 0;
  };
  Note note() const;
  /// The durations of `note` end at `noted`.
  void take(const Note& note, Clock::time_point noted = Clock::now());
};

/// What several ranks know together: all that one of them has seen done is done. Clocks, the sums
/// of the training and the epoch are those of `leader`.
Course::Note combine(std::span<const Course::Note> notes, std::size_t leader);

}  // namespace bellows::trainer
