// SPDX-License-Identifier: Apache-2.0
// One event of an elastic job, for people and programs: a change of its membership, a loss, what
// was asked of Slurm and what came of it.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bellows::protocol {

struct JobEvent {
  std::int64_t number = 0;              // as its bellows-run has counted, from 1
  double time = 0;                      // Unix time, seconds
  std::string kind = {};                // docs/man/bellows.1, EVENTS, lists them
  std::int64_t epoch = 0;               // of the newest world; 0: there is none yet
  std::int64_t ranks = 0;               // in it
  std::vector<std::string> nodes = {};  // that it is about
  double seconds = 0;                   // that it took
  std::vector<std::pair<std::string, double>> phases = {};  // parts of these, in their order
  std::string text = {};
};

boost::json::object to_json(const JobEvent& event);
/// Throws ProtocolError naming what is absent or no such type.
JobEvent job_event_from_json(const boost::json::object& object);

}  // namespace bellows::protocol
