// SPDX-License-Identifier: Apache-2.0
#include "trainer/decision_points.h"

#include <cmath>
#include <exception>
#include <limits>

#include "trainer/adaptation/goodput.h"
#include "trainer/report.h"

namespace bellows::trainer {

DecisionPoints::DecisionPoints(const PassContext& context, Policy& policy, Report& report,
                               Team& team, ElasticWorld& world, int nodes)
    : context_(context),
      policy_(policy),
      report_(report),
      team_(team),
      world_(world),
      nodes_(nodes) {}

Choice DecisionPoints::begin() {
  Choice choice;
  if (team_.rank() == 0) choice = ask(true);
  torch::Tensor words = torch::tensor({static_cast<double>(choice.batch),
                                       static_cast<double>(choice.micro_batch), choice.lr_factor},
                                      torch::kFloat64);
  team_.broadcast(std::vector{words});
  const auto* word = words.const_data_ptr<double>();
  choice.batch = static_cast<std::int64_t>(word[0]);
  choice.micro_batch = static_cast<std::int64_t>(word[1]);
  choice.lr_factor = word[2];
  return choice;
}

Choice DecisionPoints::next() {
  // begin() has decided on the first step.
  if (!std::exchange(begun_, true)) return {};
  if (context_.state.step % context_.options.decide_every != 0) return {};
  return ask(false);
}

Choice DecisionPoints::ask(bool new_world) {
  const Adaptation& now = context_.state.adaptation;
  Decision decision;
  try {
    decision = decide(new_world);
    if (decision.batch < 0 || decision.micro_batch < 0 || decision.ranks < 0 ||
        !std::isfinite(decision.lr_factor) || decision.lr_factor < 0)
      throw std::invalid_argument("a decision has a negative number");
  } catch (const std::exception& e) {
    decision = without_policy(e.what());
  } catch (...) {
    decision = without_policy("it threw what is no std::exception");
  }
  recent_ = {};
  const bool other = decision.ranks != team_.size() && decision.ranks != asked_for_;
  if (decision.ranks > 0 && other) {
    asked_for_ = decision.ranks;
    world_.ask_for(decision.ranks);
  }
  Choice choice{decision.batch, decision.micro_batch, decision.lr_factor};
  if (choice.batch == 0 && (new_world || choice.micro_batch > 0))
    choice.batch = now.batch > 0 ? now.batch : context_.options.batch;
  if (decision.promise > 0) report_.promised(decision.promise);
  return choice;
}

/// It has failed.
Decision DecisionPoints::without_policy(const std::string& why) {
  const Options& options = context_.options;
  const std::string name =
      options.policy.empty() ? "--batch-rule " + options.batch_rule : "--policy " + options.policy;
  warn(name + " has failed, nothing is changed: " + why);
  return {};
}

Decision DecisionPoints::decide(bool new_world) {
  const TrainingState& state = context_.state;
  Situation now = situation(context_.options, state.adaptation, nodes_, team_.size());
  now.step = state.step;
  now.passes = state.standing(context_.options).passes;
  now.loss = recent_.targets > 0 ? recent_.mean_loss() : std::numeric_limits<double>::quiet_NaN();
  now.new_world = new_world;
  if (now.times.empty() || !context_.options.adapts()) return policy_.decide(now);
  const ThroughputModel model = fit_throughput(now.times);
  now.model = &model;
  const Goodput goodput{model, now.gradient_square, now.gradient_variance, now.base_batch};
  now.goodput = [&](int nodes, int ranks, std::int64_t micro_batch, std::int64_t accumulation) {
    return goodput(nodes, ranks, {micro_batch, accumulation});
  };
  return policy_.decide(now);
}

void DecisionPoints::warn(const std::string& text) {
  if (text != warned_) report_.warning(text);
  warned_ = text;
}

}  // namespace bellows::trainer
