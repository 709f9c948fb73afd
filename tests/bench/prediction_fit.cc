// SPDX-License-Identifier: Apache-2.0
// prediction_fit: fits the throughput model to the lines of standard input that begin with "seen",
// and predicts those that begin with "unseen": NODES RANKS MICRO_BATCH ACCUMULATE_SECONDS
// OPTIMIZE_SECONDS UPDATE_SECONDS. Prints for each line the predicted seconds of a step of one
// pass.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "trainer/adaptation/throughput.h"

int main() {
  using bellows::trainer::StepTimes;
  std::vector<StepTimes> seen, all;
  std::string kind;
  StepTimes times;
  while (std::cin >> kind >> times.nodes >> times.ranks >> times.micro_batch >>
         times.accumulate_seconds >> times.optimize_seconds >> times.update_seconds) {
    if (kind == "seen") seen.push_back(times);
    all.push_back(times);
  }
  const bellows::trainer::ThroughputModel model = bellows::trainer::fit_throughput(seen);
  for (const StepTimes& one : all)
    std::printf("%.9g\n", model.optimize_seconds(one.nodes, one.ranks, one.micro_batch));
}
