// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <string>

#include "trainer/errors.h"

namespace bellows::trainer {

namespace {

bool has(const std::vector<std::string>& all, const char* one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// "layer.norm" of "layer.norm.weight".
std::string layer_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string part_of(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::set<std::string> normalisations(const NamedTensors& parameters) {
  std::set<std::string> layers;
  for (const auto& [name, tensor] : parameters)
    if (part_of(name) == "weight" && tensor.dim() == 1) layers.insert(layer_of(name));
  return layers;
}

void require_matches(const Options& options, const NamedTensors& parameters) {
  for (const auto& [pattern, factor] : options.lr_factors) {
    const auto matches = [&pattern](const auto& named) {
      return fnmatch(pattern.c_str(), named.first.c_str(), 0) == 0;
    };
    if (std::any_of(parameters.begin(), parameters.end(), matches)) continue;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : parameters) names.push_back(name);
    throw UsageError(fmt::format("--lr-factors {}={}: no parameter has such a name; there are {}",
                                 pattern, factor, fmt::join(names, ", ")));
  }
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const Options& options,
                                             const NamedTensors& parameters) {
  require_matches(options, parameters);
  const std::set<std::string> norms = normalisations(parameters);
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].first;
    const bool spared = (has(options.no_decay, "bias") && part_of(name) == "bias") ||
                        (has(options.no_decay, "norm") && norms.count(layer_of(name)) > 0);
    double factor = 1;
    for (const auto& [pattern, value] : options.lr_factors) {
      if (fnmatch(pattern.c_str(), name.c_str(), 0) != 0) continue;
      factor = value;
      break;
    }
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& g) {
      return g.decays == !spared && g.factor == factor;
    });
    if (group == groups.end()) group = groups.insert(group, {!spared, factor, {}});
    group->members.push_back(i);
  }
  return groups;
}

}  // namespace bellows::trainer
