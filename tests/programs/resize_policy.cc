// SPDX-License-Identifier: Apache-2.0
// A policy for the tests, as a user would write one: ten samples per rank; one rank asks for two
// more, three work in passes of five samples and at half the rate. At steps 4 and 6
// it fails.
#include <stdexcept>

#include "trainer/adaptation/policy.h"

namespace {

using bellows::trainer::Decision;
using bellows::trainer::Situation;

class ResizePolicy : public bellows::trainer::Policy {
 public:
  Decision decide(const Situation& now) override {
    Decision decision;
    decision.batch = 10 * now.ranks;
    if (now.step == 4) throw std::runtime_error("step four is unlucky");
    if (now.step == 6) throw 6;
    if (now.ranks == 1 && now.step >= 8 && now.times.size() == 1 && now.samples_per_second > 0)
      decision.ranks = 3;
    if (now.ranks == 3 && !now.new_world) {
      decision.micro_batch = 5;
      decision.lr_factor = 0.5;
    }
    return decision;
  }
};

}  // namespace

BELLOWS_POLICY(ResizePolicy)
