// SPDX-License-Identifier: Apache-2.0
// One update: this rank's share of the next batch, the gradients of all, the optimizer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "mpi_elastic/elastic_world.h"
#include "trainer/adaptation/shares.h"
#include "trainer/data/sample_record.h"
#include "trainer/state/course.h"
#include "trainer/step/buffer_mean.h"
#include "trainer/step/gradients.h"
#include "trainer/step/logical_ranks.h"
#include "trainer/step/passes.h"
#include "trainer/step/usage.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

/// What rank 0 decides, bit by bit; it travels with the sums of each step.
enum Control : unsigned {
  kGoOn = 0,
  kCheckpoint = 1,  // checkpoint after this step
  kEnd = 2,         // this step is the last (a time limit)
  kChange = 4,      // the world changes after this step
};

/// What rank 0 has decided to change from the next step on; 0: as it is.
struct Choice {
  std::int64_t batch = 0;
  std::int64_t micro_batch = 0;
  double lr_factor = 0;
};

struct StepResult {
  Sums sums;                 // of the batch, over all ranks
  unsigned control = kGoOn;  // of rank 0
  bool stop = false;         // a rank has had a stop signal: checkpoint and leave
  bool pass_ended = false;
  std::uint64_t samples = 0;
  double rate = 0;           // learning rate used
  double scale = 1;          // batch, as planned, over the base batch
  double gain = 1;           // steps of the base batch that this one was worth, as far as known
  double gradient_norm = 0;  // before clipping; 0 when not clipping
  std::int64_t fits = 0;     // samples at once that memory holds, where that was learnt just now
  int short_of_memory = 0;   // the rank of which it was learnt
  StepClock::Seconds parts{};
  int nodes = 1;
  std::vector<Usage> usage;  // of each rank; nothing without --metrics
};

class Stepper {
 public:
  /// All must outlive it. `choice` is the same on all ranks, `nodes` that they are on. `seconds`
  /// per sample are what earlier worlds have found of each rank (0: nothing); the same on all.
  Stepper(const PassContext& context, Team& team, ElasticWorld& world, Course& course,
          SampleRecord& record, const Choice& choice, int nodes, std::vector<double> seconds = {});
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  ~Stepper();

  /// One step, collective. `control` and `choice` count on rank 0, `stop_signal` on any rank; every
  /// rank gets the same result. Throws MpiError with the state as it was before the step. The
  /// update is made when all reductions of the step have completed here, so each other rank has
  /// given its share to all of them: after a failure ranks are one step apart at most.
  StepResult step(unsigned control, const Choice& choice, bool stop_signal);

  /// The same for who runs the passes elsewhere: begin(), the passes until they are over, finish().
  void begin(unsigned control, const Choice& choice, bool stop_signal);
  /// Null where no step is in hand.
  Passes* passes() { return in_hand_ && in_hand_->passes ? &*in_hand_->passes : nullptr; }
  /// The model's passes over the data.
  void run_passes();
  /// Collective.
  StepResult finish();

  /// Null where the speeds of the ranks are not measured.
  const Shares* shares() const { return shares_ ? &*shares_ : nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  /// The step between begin() and finish().
  struct InHand {
    Clock::time_point start{};
    Clock::time_point reduced{};
    Range batch;
    std::vector<double> words;  // of this rank, then of all
    std::optional<Passes> passes;
    std::optional<Pending> counters;
    std::optional<Pending> norms;
    std::optional<BufferMean> buffers;
    Sums sums;                    // over all ranks
    std::vector<double> squares;  // likewise, of the passes' norms, by group
  };
  BatchPlan plan_for(const Choice& choice) const;
  Range share_of(int rank, Range batch) const;
  std::int64_t micro_batch_for(Range own) const;
  double count_all_passes(Range batch) const;
  Cut cut_for(Range batch) const;
  std::int64_t unannounced_limit() const;
  void learn_limit(std::int64_t fits, Adaptation& after, StepResult& result);
  void note_samples(Range batch);
  /// What is summed over the ranks beside gradients and counters.
  std::vector<double> words_of(unsigned control, const Choice& choice, bool stop_signal) const;
  /// This rank's share of the batch. Starts the sum of the counters between the last two passes, so
  /// that it costs no time of its own.
  void begin_passes();
  /// Waits for the sums over the ranks.
  void reduce();
  /// What the passes of all ranks say of gradient noise, by group, if anything; `squares` is summed
  /// over them.
  std::vector<MicroGradients> measure(Range batch, const std::vector<double>& squares);
  /// Whether gradient noise is measured in the step after `steps`.
  bool measures_after(std::int64_t steps) const;
  /// Room for what each rank uses at the end of the words that are summed, with this rank's in it;
  /// read_usage() takes it away again.
  void add_usage(std::vector<double>& words) const;
  std::vector<Usage> read_usage(std::vector<double>& words) const;
  /// Of this rank, for the step that is done.
  void take_times(const InHand& step);
  void apply(const Choice& choice);
  void update(Range batch, const AdaptedStep& adapted, StepResult& result);

  PassContext context_;
  TrainingState& state_;
  Team& team_;
  ElasticWorld& world_;
  Course& course_;
  SampleRecord& record_;
  PreviousGradient own_;       // becomes the state's with the update
  BatchPlan plan_;             // of the next step
  std::int64_t own_fits_ = 0;  // samples at once that fit on this rank, where more did not; or 0
  double first_factor_ = 0;    // of the policy, from this world's first step on
  int nodes_;
  // Step times: of the last step on this rank, whether they count (on all ranks alike), and the
  // steps made by the present plan.
  StepTimes times_;
  bool timed_ = false;
  std::int64_t settled_ = 0;
  std::optional<Shares> shares_;
  double seconds_per_sample_ = 0;           // of the last step on this rank; 0: does not count
  std::optional<GradientReducer> reducer_;  // one of the two
  std::optional<LogicalRanks> logical_;
  std::optional<InHand> in_hand_;
};

}  // namespace bellows::trainer
