// SPDX-License-Identifier: Apache-2.0
// The options that decide the result of a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/adaptation/lr_rule.h"
#include "trainer/options/options.h"

namespace bellows::trainer {

namespace {

using Texts = std::map<std::string, std::string>;

template <typename T>
std::string number(T value) {
  return fmt::format("{}", value);
}

void adaptation(const Options& o, Texts& all) {
  if (o.batch_rule != "fixed") {
    all["rank-batch"] = number(o.rank_batch);
    all["max-batch"] = number(o.max_batch);
    all["micro-batch-bounds"] = fmt::format("{},{}", o.micro_batch_least, o.micro_batch_most);
  }
  if (o.lr_rule == "linear" || o.lr_rule == "sqrt") all["lr-ramp"] = number(o.lr_ramp);
  if (!o.policy.empty()) all["policy"] = o.policy;
  // How gradient noise is measured.
  if (counts_gain(o.lr_rule) || o.adapts()) {
    all["noise-interval"] = number(o.noise_interval);
    all["micro-batch"] = number(o.micro_batch);
    all["micro-batch-bounds"] = fmt::format("{},{}", o.micro_batch_least, o.micro_batch_most);
  }
}

}  // namespace

bool Options::measures_noise() const { return measure_noise || counts_gain(lr_rule) || adapts(); }

Texts Options::mathematics() const {
  Texts all{
      {"model", model.substr(model.rfind('/') + 1)},
      {"data", data.substr(0, data.find(':'))},
      {"width", number(width)},
      {"optimizer", optimizer},
      {"lr", number(lr)},
      {"lr-schedule", lr_schedule},
      {"warmup", number(warmup)},
      {"weight-decay", number(weight_decay)},
      {"clip", number(clip)},
      {"batch", number(batch)},
      {"seed", number(seed)},
      {"batch-rule", batch_rule},
      {"lr-rule", lr_rule},
  };
  adaptation(*this, all);
  if (logical_ranks > 0) all["logical-ranks"] = number(logical_ranks);
  if (precision != "single") all["precision"] = precision;
  all["batch-norm"] = batch_norm;
  all["ema"] = number(ema);
  all["no-decay"] = fmt::format("{}", fmt::join(no_decay, ","));
  std::string& factors = all["lr-factors"];
  for (const auto& [pattern, factor] : lr_factors)
    factors += fmt::format("{}{}={}", factors.empty() ? "" : ",", pattern, factor);
  if (model != "resnet18" && !is_script(model)) all["dropout"] = number(dropout);
  if (model == "resnet18") all["norm"] = norm;
  if (model == "transformer") {
    all["length"] = number(length);
    all["layers"] = number(layers);
    all["heads"] = number(heads);
  }
  if (optimizer == "sgd") {
    all["momentum"] = number(momentum);
    all["nesterov"] = number(nesterov);
  } else {
    all["beta1"] = number(beta1);
    all["beta2"] = number(beta2);
    all["epsilon"] = number(epsilon);
  }
  if (lr_schedule == "step") {
    all["lr-step"] = number(lr_step);
    all["lr-gamma"] = number(lr_gamma);
  }
  if (lr_schedule == "polynomial") all["lr-power"] = number(lr_power);
  if (lr_schedule == "one-cycle") all["lr-rise"] = number(lr_rise);
  if (lr_schedule == "cosine" || lr_schedule == "polynomial" || lr_schedule == "one-cycle") {
    all["passes"] = number(passes);
    all["steps"] = number(steps);
  }
  return all;
}

std::map<std::string, std::string> Options::common() const {
  Texts all = mathematics();
  all["passes"] = number(passes);
  all["steps"] = number(steps);
  all["train-seconds"] = number(train_seconds);
  all["checkpoint-every"] = fmt::format("{} steps, {} s", checkpoint_steps, checkpoint_seconds);
  all["evaluate-every"] = number(evaluate_every);
  all["evaluate-steps"] = number(evaluate_steps);
  all["device"] = device;
  all["bucket-mb"] = number(bucket_mb);
  all["measure-noise"] = number(measure_noise);
  all["shares"] = shares;
  all["drop-stragglers"] = number(drop_stragglers);
  all["policy"] = policy;
  // Where they are may differ.
  all["checkpoint-dir"] = checkpoint_dir.empty() ? "(none)" : "(one)";
  all["metrics"] = metrics.empty() ? "(none)" : "(some)";
  return all;
}

}  // namespace bellows::trainer
