// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/adaptation/lr_rule.h"
#include "trainer/adaptation/rules.h"
#include "trainer/adaptation/shares.h"
#include "trainer/errors.h"

namespace bellows::trainer {

namespace po = boost::program_options;

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"mlp", "cnn", "resnet18", "transformer"};
  return names;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return names;
}

void require(bool good, const std::string& message) {
  if (!good) throw UsageError(message);
}

namespace {

const std::vector<std::string> kSchedules{"constant", "step", "cosine", "polynomial", "one-cycle"};
const std::vector<std::string> kNorms{"group", "batch"};
const std::vector<std::string> kBatchNorms{"local", "sync"};
const std::vector<std::string> kPrecisions{"single", "double"};
const std::vector<std::string> kDevices{"cpu", "cuda"};

void require_name(const char* option, const std::string& value,
                  const std::vector<std::string>& allowed) {
  require(std::find(allowed.begin(), allowed.end(), value) != allowed.end(),
          fmt::format("--{} {}: use one of {}", option, value, fmt::join(allowed, ", ")));
}

template <typename T>
void require_range(const char* option, T value, T low, T high) {
  require(value >= low && value <= high,
          fmt::format("--{} {}: must be from {} to {}", option, value, low, high));
}

void require_positive(const char* option, double value) {
  // Arithmetic is in floats.
  require(value > 0 && value <= std::numeric_limits<float>::max(),
          fmt::format("--{} {}: must be a positive number", option, value));
}

void check_adaptation(const Options& o) {
  require_name("batch-rule", o.batch_rule, batch_rule_names());
  require_name("lr-rule", o.lr_rule, lr_rule_names());
  require_range<std::int64_t>("rank-batch", o.rank_batch, 0, kMany);
  require_range<std::int64_t>("lr-ramp", o.lr_ramp, 0, kMany);
  const bool fixed = o.batch_rule == "fixed";
  const bool adaptive = o.batch_rule == "adaptive";
  require(!fixed || o.rank_batch == 0, "--rank-batch: needs a --batch-rule of per-rank or hybrid");
  require(!fixed || o.max_batch == 0 || !o.policy.empty(),
          "--max-batch: needs a --batch-rule other than fixed, or a --policy");
  require(fixed || o.policy.empty(), "--policy: takes the place of --batch-rule; use one of them");
  require(!adaptive || o.rank_batch == 0, "--rank-batch: not with --batch-rule adaptive");
  require(!adaptive || o.max_batch > 0,
          "--batch-rule adaptive: needs --max-batch, up to where the batch may grow");
  require(!o.adapts() || (o.micro_batch == 0 && o.logical_ranks == 0),
          "--micro-batch, --logical-ranks: not with --batch-rule adaptive or --policy; use "
          "--micro-batch-bounds");
  require_name("shares", o.shares, share_names());
  require(!times_ranks(o) || o.logical_ranks == 0,
          "--shares speed, --drop-stragglers: not with --logical-ranks");
  require_range<std::int64_t>("noise-interval", o.noise_interval, 1, 100000);
  require_range<std::int64_t>("decide-every", o.decide_every, 1, kMany);
  require(
      o.batch_rule != "hybrid" || o.rank_batch > 0,
      "--batch-rule hybrid: needs --rank-batch, the least samples with which a rank works well");
  require(
      o.max_batch == 0 || (o.max_batch >= o.batch && o.max_batch <= kMany),
      fmt::format("--max-batch {}: must be at least --batch, which is {}", o.max_batch, o.batch));
  require(o.lr_rule != "legw" || o.warmup > 0, "--lr-rule legw: needs --warmup");
}

}  // namespace

void check_network(Options& o, const po::variables_map& given) {
  require(!o.model.empty(),
          "--model is missing: use one of " + fmt::format("{}", fmt::join(model_names(), ", ")));
  require(!o.data.empty(),
          "--data is missing: use fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE "
          "or text:FILE");
  if (!is_script(o.model)) require_name("model", o.model, model_names());
  require_name("optimizer", o.optimizer, optimizer_names());
  require_name("norm", o.norm, kNorms);
  require_name("batch-norm", o.batch_norm, kBatchNorms);
  require(
      o.batch_norm == "local" || o.model == "resnet18",
      "--batch-norm sync: is for --model resnet18; other models have none that could be shared");
  require(o.batch_norm == "local" || o.logical_ranks == 0,
          "--batch-norm sync: not with --logical-ranks, whose parts have statistics of their own");
  require_name("precision", o.precision, kPrecisions);
  const bool text = o.data.starts_with("text");
  require(is_script(o.model) || text == (o.model == "transformer"),
          "--model " + o.model + " --data " + o.data +
              ": the transformer reads text:FILE, the other models read images or vectors");

  require(o.dropout >= 0 && o.dropout < 1,
          fmt::format("--dropout {}: must be at least 0 and below 1", o.dropout));
  require_range<std::int64_t>("width", o.width, 0, 65536);
  require_range<std::int64_t>("length", o.length, 1, 1 << 20);
  require_range<std::int64_t>("layers", o.layers, 1, 1000);
  require_range<std::int64_t>("heads", o.heads, 1, 1000);
  if (given.count("lr") == 0 || given["lr"].defaulted()) o.lr = o.optimizer == "sgd" ? 0.05 : 0.001;
  require_positive("lr", o.lr);
  require_range("momentum", o.momentum, 0.0, 1.0);
  require(!o.nesterov || (o.optimizer == "sgd" && o.momentum > 0),
          "--nesterov: needs --optimizer sgd and a --momentum above 0");
  require_range("beta1", o.beta1, 0.0, 0.9999999);
  require_range("beta2", o.beta2, 0.0, 0.9999999);
  require_positive("epsilon", o.epsilon);
  require_range("weight-decay", o.weight_decay, 0.0, 1e6);
  require(o.no_decay.empty() || o.weight_decay > 0, "--no-decay: needs a --weight-decay");
  require(o.ema >= 0 && o.ema < 1, fmt::format("--ema {}: must be at least 0 and below 1", o.ema));
}

void check(Options& o, const po::variables_map& given) {
  require_name("lr-schedule", o.lr_schedule, kSchedules);
  require_name("device", o.device, kDevices);
  require_range<std::int64_t>("batch", o.batch, 1, kMany);
  require_range<std::int64_t>("micro-batch", o.micro_batch, 0, kMany);
  require_range<std::int64_t>("logical-ranks", o.logical_ranks, 0, 65536);
  require_range<std::int64_t>("lr-step", o.lr_step, 1, kMany);
  require_positive("lr-gamma", o.lr_gamma);
  require_range<std::int64_t>("warmup", o.warmup, 0, kMany);
  require(std::isfinite(o.clip) && o.clip >= 0, "--clip: must be a positive number");

  for (const char* limit : {"passes", "steps", "train-seconds"})
    if (given.count(limit) != 0)
      require(given.count(limit) != 0 &&
                  (std::string(limit) == "train-seconds"
                       ? std::isfinite(o.train_seconds) && o.train_seconds > 0
                       : (std::string(limit) == "passes" ? o.passes : o.steps) > 0),
              fmt::format("--{}: must be positive", limit));
  if (o.passes == 0 && o.steps == 0 && o.train_seconds == 0) o.passes = 5;
  const bool ends = o.lr_schedule != "constant" && o.lr_schedule != "step";
  require(!ends || o.passes > 0 || o.steps > 0,
          "--lr-schedule " + o.lr_schedule + ": needs a limit of --passes or --steps to end at");
  require(o.lr_schedule != "one-cycle" || o.warmup == 0,
          "--warmup: --lr-schedule one-cycle has its own");
  require(o.lr_power >= 0 && o.lr_power <= 100, "--lr-power: must be from 0 to 100");
  require(o.lr_rise >= 0 && o.lr_rise <= 1, "--lr-rise: must be from 0 to 1");
  check_adaptation(o);
  if (!o.optimizer.empty()) check_optimizer(o);

  require_range("keep", o.keep, 1, 1000000);
  require_range("requeue-code", o.requeue_code, 1, 125);
  require(o.checkpoint_dir.empty() ? o.checkpoint_steps == 0 && o.checkpoint_seconds == 0 : true,
          "--checkpoint-every: needs --checkpoint-dir");
  require_range("threads", o.threads, 0, 4096);
  require(std::isfinite(o.bucket_mb) && o.bucket_mb > 0 && o.bucket_mb <= 1024,
          fmt::format("--bucket-mb {}: must be above 0 and at most 1024", o.bucket_mb));
  require(o.timeline_mb > 0 && o.timeline_mb <= 1e9,
          fmt::format("--timeline-mb {}: must be a positive number", o.timeline_mb));
  require_range<std::int64_t>("log-every", o.log_every, 1, kMany);
  require_range<std::int64_t>("evaluate-every", o.evaluate_every, 0, kMany);
  require_range<std::int64_t>("evaluate-steps", o.evaluate_steps, 0, kMany);
}

void check_optimizer(const Options& o) {
  const bool adam = o.optimizer.starts_with("adam");
  require(o.lr_rule != "adamscale" || adam,
          "--lr-rule adamscale: is for adam and adamw; use adascale with sgd");
  require(o.lr_rule != "adascale" || o.optimizer == "sgd",
          "--lr-rule adascale: is for sgd; use adamscale with adam and adamw");
  require(!o.measures_noise() || adam || o.optimizer == "sgd",
          "gradient noise cannot be measured with " + o.optimizer +
              ": use sgd, adam or adamw with --measure-noise, --batch-rule adaptive and --policy");
}

}  // namespace bellows::trainer
