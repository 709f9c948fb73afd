// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/rules.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "trainer/adaptation/batch_rule.h"
#include "trainer/adaptation/goodput.h"
#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

/// fixed, per-rank, hybrid.
class RankRule : public Policy {
 public:
  explicit RankRule(const Options& options) : options_(options) {}
  Decision decide(const Situation& now) override {
    return {.batch = batch_for(options_, now.rank_batch, now.ranks)};
  }

 private:
  const Options& options_;
};

class AdaptiveRule : public Policy {
 public:
  explicit AdaptiveRule(const Options& options) : options_(options) {}

  Decision decide(const Situation& now) override {
    const Decision present = as_it_is(now);
    if (now.model == nullptr || now.noise_estimates < kEnoughEstimates) return present;
    const Goodput goodput{*now.model, now.gradient_square, now.gradient_variance, now.base_batch};
    Configuration before{now.micro_batch, now.accumulation};
    if (now.new_world) {
      const BatchPlan plan =
          make_plan(options_, present.batch, present.micro_batch, now.ranks, now.micro_batch_most);
      before = {plan.micro_batch, plan.accumulation};
    }
    const Configuration after = goodput.choose(
        now.nodes, now.ranks,
        {options_.max_batch, options_.micro_batch_least, now.micro_batch_most}, before);
    if (after == before) return present;
    return {
        .batch = after.batch(now.ranks),
        .micro_batch = after.micro_batch,
        .promise = goodput(now.nodes, now.ranks, after) / goodput(now.nodes, now.ranks, before)};
  }

 private:
  /// In a new world: the same batch on other ranks; one rank alone makes two passes beyond the base
  /// batch, as in Goodput::best().
  Decision as_it_is(const Situation& now) const {
    if (!now.new_world) return {};
    const std::int64_t batch = now.batch > 0 ? now.batch : options_.batch;
    const bool two = now.ranks == 1 && batch > options_.batch;
    return {.batch = batch, .micro_batch = two ? (batch + 1) / 2 : 0};
  }

  const Options& options_;
};

/// Its library stays loaded.
std::unique_ptr<Policy> load_policy(const std::string& file) {
  const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw UsageError(fmt::format("--policy {}: {}", file, dlerror()));
  const auto version = reinterpret_cast<int (*)()>(dlsym(library, "bellows_policy_version"));
  const auto make = reinterpret_cast<Policy* (*)()>(dlsym(library, "bellows_make_policy"));
  if (version == nullptr || make == nullptr)
    throw UsageError(fmt::format("--policy {}: is no policy (BELLOWS_POLICY is missing)", file));
  if (version() != kPolicyVersion)
    throw UsageError(fmt::format("--policy {}: is of version {}, not {}: compile it anew", file,
                                 version(), kPolicyVersion));
  return std::unique_ptr<Policy>(make());
}

}  // namespace

const std::vector<std::string>& batch_rule_names() {
  static const std::vector<std::string> names{"fixed", "per-rank", "hybrid", "adaptive"};
  return names;
}

std::unique_ptr<Policy> make_policy(const Options& options) {
  if (!options.policy.empty()) return load_policy(options.policy);
  if (options.batch_rule == "adaptive") return std::make_unique<AdaptiveRule>(options);
  return std::make_unique<RankRule>(options);
}

}  // namespace bellows::trainer
