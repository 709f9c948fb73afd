// SPDX-License-Identifier: Apache-2.0
// PMIx publish, look-up and unpublish for the whole job. Pure bookkeeping of the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mpi_elastic/common/world_spec.h"

namespace bellows::elastic {

struct Lookup {
  std::string node;           // whose agent asks
  std::uint64_t request = 0;  // the agent's number for the request
  Proc who;                   // which process asks
  std::vector<std::string> keys;
  bool wait = false;  // until all keys are published
};

struct LookupAnswer {
  std::string node;
  std::uint64_t request = 0;
  bool found = false;
  std::vector<std::string> keys, values;  // pairwise; those that were found
};

class NameService {
 public:
  /// `first_read`: the value is gone once it has been looked up (PMIX_PERSIST_FIRST_READ).
  /// Returns the answers to look-ups that waited for it.
  std::vector<LookupAnswer> publish(const Proc& owner, const std::vector<std::string>& keys,
                                    const std::vector<std::string>& values, bool first_read);
  void unpublish(const Proc& owner, const std::vector<std::string>& keys);  // no keys: all of his
  /// An answer, or nothing when the request waits.
  std::vector<LookupAnswer> look_up(Lookup lookup);
  /// Drops the requests of processes that are gone, and answers "not found" to those that wait for
  /// a key that begins with "NSPACE:" of a process for which `gone` is true: Open MPI names its
  /// connection keys so, and would wait ten minutes.
  std::vector<LookupAnswer> forget(const std::vector<Proc>& dead);

 private:
  struct Value {
    Proc owner;
    std::string bytes;
    bool first_read;
  };
  bool complete(const Lookup& lookup) const;
  LookupAnswer answer(const Lookup& lookup);

  std::map<std::string, Value> values_;
  std::vector<Lookup> waiting_;
};

}  // namespace bellows::elastic
