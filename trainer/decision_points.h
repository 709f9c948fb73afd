// SPDX-License-Identifier: Apache-2.0
// When the policy is asked, with what, and how its word gets to all ranks: rank 0 asks before the
// first step in a world, and tells by a broadcast; later its word travels with the sums of the
// step, and holds from the next one on.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "trainer/adaptation/policy.h"
#include "trainer/step/step.h"
#include "trainer/team/team.h"

namespace bellows::trainer {

class Report;

class DecisionPoints {
 public:
  /// All must outlive it. `nodes` that the ranks are on.
  DecisionPoints(const PassContext& context, Policy& policy, Report& report, Team& team,
                 ElasticWorld& world, int nodes);

  /// Before the first step in this world; collective.
  Choice begin();
  /// On rank 0, before each later step; nothing where no decision is due.
  Choice next();
  /// After each step.
  void count(const StepResult& result) { recent_.add(result.sums); }

 private:
  Choice ask(bool new_world);
  Decision decide(bool new_world);
  Decision without_policy(const std::string& why);
  void warn(const std::string& text);

  PassContext context_;
  Policy& policy_;
  Report& report_;
  Team& team_;
  ElasticWorld& world_;
  int nodes_;
  bool begun_ = false;
  int asked_for_ = 0;  // ranks
  Sums recent_;        // since the last decision
  std::string warned_;
};

}  // namespace bellows::trainer
