// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/coordinator/name_service.h"

#include <algorithm>

namespace bellows::elastic {

bool NameService::complete(const Lookup& lookup) const {
  return std::all_of(lookup.keys.begin(), lookup.keys.end(),
                     [&](const std::string& key) { return values_.contains(key); });
}

LookupAnswer NameService::answer(const Lookup& lookup) {
  LookupAnswer result{lookup.node, lookup.request, false, {}, {}};
  for (const std::string& key : lookup.keys) {
    const auto value = values_.find(key);
    if (value == values_.end()) continue;
    result.found = true;
    result.keys.push_back(key);
    result.values.push_back(value->second.bytes);
    if (value->second.first_read) values_.erase(value);
  }
  return result;
}

std::vector<LookupAnswer> NameService::publish(const Proc& owner,
                                               const std::vector<std::string>& keys,
                                               const std::vector<std::string>& values,
                                               bool first_read) {
  for (std::size_t i = 0; i < keys.size() && i < values.size(); ++i) {
    values_[keys[i]] = {owner, values[i], first_read};
  }
  std::vector<LookupAnswer> answers;
  std::erase_if(waiting_, [&](const Lookup& lookup) {
    if (!complete(lookup)) return false;
    answers.push_back(answer(lookup));
    return true;
  });
  return answers;
}

void NameService::unpublish(const Proc& owner, const std::vector<std::string>& keys) {
  if (keys.empty()) {
    std::erase_if(values_, [&](const auto& value) { return value.second.owner == owner; });
  }
  for (const std::string& key : keys) values_.erase(key);
}

std::vector<LookupAnswer> NameService::look_up(Lookup lookup) {
  std::vector<LookupAnswer> answers;
  if (complete(lookup) || !lookup.wait) {
    answers.push_back(answer(lookup));
  } else {
    waiting_.push_back(std::move(lookup));
  }
  return answers;
}

std::vector<LookupAnswer> NameService::forget(const std::vector<Proc>& dead) {
  const auto waits_for_dead = [&](const Lookup& lookup) {
    return std::any_of(dead.begin(), dead.end(), [&](const Proc& proc) {
      return std::any_of(lookup.keys.begin(), lookup.keys.end(), [&](const std::string& key) {
        return proc.nspace != lookup.who.nspace && key.starts_with(proc.nspace + ":");
      });
    });
  };
  std::vector<LookupAnswer> answers;
  std::erase_if(waiting_, [&](const Lookup& lookup) {
    if (std::find(dead.begin(), dead.end(), lookup.who) != dead.end()) return true;
    if (!waits_for_dead(lookup)) return false;
    answers.push_back(answer(lookup));
    return true;
  });
  return answers;
}

}  // namespace bellows::elastic
