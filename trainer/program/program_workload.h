// SPDX-License-Identifier: Apache-2.0
// A training whose passes are those of a program: it asks for samples, gives back losses, and is
// left and called again when the world changes (bellows.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/options/options.h"
#include "trainer/program/roll_call.h"
#include "trainer/program/torch_optimizer.h"
#include "trainer/training.h"
#include "trainer/workload.h"

namespace bellows::trainer {

/// The program's data, of which we know how much it is: reading is its own affair.
class ProgramDataset : public Dataset {
 public:
  explicit ProgramDataset(std::uint64_t size) : size_(size) {}
  SampleShape shape() const override { return {}; }
  std::uint64_t size(Split split) const override { return split == Split::kTrain ? size_ : 0; }
  void read(Split split, std::span<const std::uint64_t> ids,
            const SampleBuffers& out) const override;

 private:
  std::uint64_t size_;
};

class ProgramWorkload : public Workload {
 public:
  /// What the program's calls throw when its body is to end; `Body` lets it through.
  struct Leave {};
  using Body = std::function<void()>;

  /// All must outlive it. `rate` of the options becomes that of the optimizer. Throws UsageError
  /// when model and optimizer do not go together, or not with the options.
  ProgramWorkload(Options& options, std::uint64_t samples, torch::nn::Module& model,
                  torch::optim::Optimizer& optimizer, Body body);

  std::unique_ptr<TrainingState> load(const torch::Device& device) override;
  const Dataset& dataset() const override { return dataset_; }
  void warm_up() override;
  Outcome train(Training& training) override;
  /// The program's own affair.
  std::optional<Sums> evaluate(Team& /*team*/) override { return std::nullopt; }
  bool evaluates() const override { return false; }

  // Called from within the body, on all ranks alike. They throw Leave, also for errors of the
  // world, and std::logic_error when they are called out of turn.

  /// The samples of the next pass; empty at the end of a pass over the data, or of the run.
  std::vector<std::size_t> next_samples();
  /// Of the next pass over the data, or of the one of which something is left, from 1 on; 0: none.
  std::size_t next_epoch();
  /// The program has read the samples of the pass.
  void samples_read();
  void backward(const torch::Tensor& loss);
  bool step();
  std::vector<double> sum(const std::vector<double>& values);
  Sums evaluated(const Sums& own);

  int rank() const;  // -1 while warming up
  int size() const;  // 0 while warming up
  std::int64_t steps() const;
  /// "rank 2 of 4, after step 17": where the body was when it was last left by an exception.
  const std::string& place() const { return place_; }

 private:
  enum class Stage { kSamples, kBackward, kStep };  // what the program has to do next
  template <typename F>
  auto guarded(F f) -> decltype(f());
  void expect(Stage stage, const char* call);
  std::vector<std::size_t> first_samples();
  std::vector<std::size_t> samples_of(const Passes& passes);
  bool unsettled() const;
  std::uint64_t present_epoch() const;
  void settle();
  [[noreturn]] void leave_between_steps(Call call);
  void check_parameters() const;
  std::string here() const;
  [[noreturn]] void leave(Outcome outcome);

  Options& options_;
  ProgramDataset dataset_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  Body body_;
  NamedTensors parameters_;
  NamedTensors buffers_;
  TrainingState* state_ = nullptr;

  // Of one call of the body.
  bool rehearsing_ = false;
  Training* training_ = nullptr;
  Stage stage_ = Stage::kSamples;
  std::size_t samples_ = 0;  // of the pass in hand
  std::uint64_t epoch_ = 0;  // the pass over the data that the program believes in, from 0 on
  bool epoch_known_ = false;
  bool epochs_used_ = false;   // next_epoch() has been called
  bool loader_ended_ = false;  // in this epoch
  std::chrono::steady_clock::time_point ended_{};
  std::optional<Outcome> outcome_;
  std::exception_ptr error_;
  std::string place_;
};

}  // namespace bellows::trainer
