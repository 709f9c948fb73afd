// SPDX-License-Identifier: Apache-2.0
#include "trainer/adaptation/lr_rule.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace bellows::trainer {

const std::vector<std::string>& lr_rule_names() {
  static const std::vector<std::string> names{"none",     "linear",    "sqrt",
                                              "adascale", "adamscale", "legw"};
  return names;
}

bool counts_gain(const std::string& rule) { return rule == "adascale" || rule == "adamscale"; }

double lr_factor(const std::string& rule, double scale, double gain) {
  if (rule == "none") return 1;
  if (rule == "linear") return scale;
  if (rule == "sqrt" || rule == "legw") return std::sqrt(scale);
  if (rule == "adascale") return gain;
  if (rule == "adamscale") return std::sqrt(gain);
  throw std::invalid_argument("no such rule: " + rule);
}

double warm_up(const std::string& rule, double warmup, double progress, double scale) {
  if (rule == "legw") warmup *= scale;
  return warmup > 0 ? std::min(1.0, (progress + scale) / warmup) : 1;
}

double ramped_factor(const std::string& rule, double from, double to, double ramp, double since,
                     double scale) {
  if ((rule != "linear" && rule != "sqrt") || ramp <= 0) return to;
  const double done = (since + scale) / (ramp * scale);
  return done < 1 ? from + (to - from) * done : to;
}

}  // namespace bellows::trainer
