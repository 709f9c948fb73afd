// SPDX-License-Identifier: Apache-2.0
// The training from start to end, through all worlds: what is made once (state, report), what is
// made anew in each world, and what happens between two.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "mpi_elastic/elastic_world.h"
#include "trainer/adaptation/policy.h"
#include "trainer/data/sample_record.h"
#include "trainer/report.h"
#include "trainer/state/state_transfer.h"
#include "trainer/training.h"
#include "trainer/workload.h"

namespace bellows::trainer {

class ElasticTraining {
 public:
  /// Both must outlive it.
  ElasticTraining(const Options& options, Workload& workload);
  ElasticTraining(const ElasticTraining&) = delete;
  ElasticTraining& operator=(const ElasticTraining&) = delete;
  ~ElasticTraining();

  /// Trains, and gives the exit code; what it says goes to standard error. Throws MpiError and
  /// ElasticError when the world breaks and cannot be changed, and other exceptions that the other
  /// ranks do not know of.
  int run();

 private:
  void load(int local_rank);
  void prepare_to_join();
  int run_in(ElasticWorld& world);  // in it and those that follow
  Outcome train_in(ElasticWorld& world);
  void enter_report(Team& team);
  void require_same_options(Team& team) const;
  void tell_of_change(const Gathering& gathering, ElasticWorld& world);
  int code_of(Outcome outcome) const;
  void save_image(int file) const;

  const Options& options_;
  Workload& workload_;
  torch::Device device_ = torch::kCPU;
  std::unique_ptr<TrainingState> state_;
  std::atomic<TrainingState*> loaded_ = nullptr;  // for save_image, on another thread
  Course course_;
  std::unique_ptr<SampleRecord> record_;
  std::unique_ptr<Report> report_;
  std::unique_ptr<Policy> policy_;
  double seconds_per_sample_ = 0;
  Arrival arrival_;
};

}  // namespace bellows::trainer
