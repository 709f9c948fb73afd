// SPDX-License-Identifier: Apache-2.0
// An elastic job as its broker reports it: what bellowsd decides on, and all that it knows of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/message.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/policy/policy.h"

namespace bellows::scheduler {

/// Where a job may have companion jobs, in the words of its --elastic-het.
struct ElasticPlace {
  std::string partition, features;
  int most = 0;  // further nodes there
  bool operator==(const ElasticPlace&) const = default;
};

/// What bellows-run says of a training, for those who watch: nothing is decided on it.
struct LiveView {
  std::string state;  // starting, steady, changing, ending, reattaching
  std::int64_t epoch = 0;
  std::optional<std::int64_t> batch;    // samples of a step
  std::optional<double> learning_rate;  // of the last step
  std::optional<double> efficiency;     // speed per rank over the best one seen, 0 to 1
  double event_time = 0;                // of the last event, Unix time
  std::string event_kind, event_text;   // "" for none
  bool operator==(const LiveView&) const = default;
};

struct ElasticJob {
  JobId id = 0;            // of its base
  std::uint32_t user = 0;  // uid; from the credential, never from the report
  std::string name;
  std::string partition;  // of the base, and the features that it asks for
  std::string features;
  std::vector<ElasticPlace> places;  // beside those
  bool manual = true;                // only its owner and operators change its size
  Bounds bounds;
  std::vector<std::string> held;    // its nodes, in the order in which they would be given back
  std::set<std::string> fixed;      // those of them that it must keep
  std::set<std::string> going;      // those of them that are being given back
  int coming = 0;                   // nodes that it has asked for and not got
  std::map<int, Speed> speeds;      // by number of nodes, as last measured
  std::optional<Time> since;        // when the present size was reached
  std::optional<double> work_left;  // samples still to be trained, where the program knows
  double samples_per_second = 0;
  int ranks = 0;
  std::int64_t step = 0;
  std::optional<LiveView> live;    // of a broker that tells it
  std::optional<SizeHints> hints;  // what the training says of its size, if anything

  /// A change is under way: it is left alone until that is done.
  bool busy() const { return !going.empty() || coming > 0; }
};

/// The message `report` of a broker, and back. `job_of` throws protocol::ProtocolError naming what
/// is wrong with it; numbers out of range count as wrong.
protocol::Message report_of(const ElasticJob& job);
ElasticJob job_of(const protocol::Message& report);

}  // namespace bellows::scheduler
