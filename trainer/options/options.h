// SPDX-License-Identifier: Apache-2.0
// Everything a user can say to bellows-train, on the command line or in a file of the same names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bellows::trainer {

struct Options {
  std::string program = "bellows-train";  // what its messages begin with

  // What to train.
  std::string model;
  std::string data;
  double dropout = 0.25;
  std::string norm = "group";
  std::string batch_norm = "local";  // or sync
  std::int64_t width = 0;            // 0: the model's own
  std::int64_t length = 64;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::string precision = "single";

  // How.
  std::string optimizer = "sgd";
  double lr = 0;  // 0: the optimizer's own
  std::string lr_schedule = "constant";
  std::int64_t lr_step = 10;
  double lr_gamma = 0.1;
  double lr_power = 1;
  double lr_rise = 0.3;
  std::int64_t warmup = 0;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::vector<std::string> no_decay;                       // of bias, norm
  std::vector<std::pair<std::string, double>> lr_factors;  // of patterns of parameters' names
  double ema = 0;                                          // decay; 0: no averages
  double clip = 0;
  std::int64_t batch = 128;
  std::int64_t micro_batch = 0;
  std::int64_t logical_ranks = 0;  // 0: as many as there are ranks
  std::uint64_t seed = 1;

  // How batch and learning rate follow the allocation.
  std::string batch_rule = "fixed";
  std::int64_t rank_batch = 0;  // 0: of the start
  std::int64_t max_batch = 0;   // 0: no bound
  std::int64_t micro_batch_least = 0;
  std::int64_t micro_batch_most = 0;
  std::string lr_rule = "none";
  std::int64_t lr_ramp = 100;
  bool measure_noise = false;
  std::int64_t noise_interval = 4;
  std::int64_t decide_every = 50;
  std::string policy;            // file
  std::string shares = "equal";  // or speed
  bool drop_stragglers = false;

  // How long, in steps of the base batch or what is worth as much. The first limit that is reached
  // ends the run; 0: no limit.
  std::int64_t passes = 0;
  std::int64_t steps = 0;
  double train_seconds = 0;

  // Checkpoints.
  std::string checkpoint_dir;
  std::int64_t checkpoint_steps = 0;
  double checkpoint_seconds = 0;
  int keep = 3;
  std::string resume = "auto";
  bool accept_changes = false;
  int requeue_code = 85;

  // Where and what to show.
  std::string device = "cpu";
  int threads = 0;
  double bucket_mb = 4;
  std::string metrics;
  std::string timeline;
  double timeline_mb = 256;
  std::string record_samples;
  std::int64_t log_every = 50;
  std::int64_t evaluate_every = 1;  // passes
  std::int64_t evaluate_steps = 0;  // updates; 0: not by these

  bool help = false;
  bool version = false;

  /// Options that decide the mathematics of the run, as texts by name: a checkpoint holds them and
  /// a resumed run must have the same.
  std::map<std::string, std::string> mathematics() const;
  /// What has to be the same on all ranks of a run: those, and what is done when.
  std::map<std::string, std::string> common() const;

  /// Whether gradient noise is measured: a rule needs it, or it was asked for.
  bool measures_noise() const;
  /// Whether decisions depend on more than the ranks, so that step times are kept.
  bool adapts() const { return batch_rule == "adaptive" || !policy.empty(); }
};

/// Whether --model names a file with a network that was exported from Python.
inline bool is_script(const std::string& model) { return model.ends_with(".pt"); }

/// Names that --model, --optimizer, ... accept; also used by the factories.
const std::vector<std::string>& model_names();
const std::vector<std::string>& optimizer_names();

/// Parses and checks a command line. Throws UsageError naming the option and what is allowed.
Options parse_options(int argc, const char* const* argv);

/// For a program that brings its own model, data and optimizer: takes the options that it can have
/// out of the arguments before a lone "--" (which goes as well) and leaves the others in their
/// order. `defaults` are what the program says. options.optimizer is to be filled in, and
/// check_optimizer() called, when it is known. Throws UsageError.
Options take_program_options(int& argc, char** argv, const Options& defaults);
/// Whether the rules suit options.optimizer. Throws UsageError.
void check_optimizer(const Options& options);
/// What --bellows-help of such a program shows.
std::string program_help_text(const Options& defaults);

/// The text of --help.
std::string help_text();

}  // namespace bellows::trainer
