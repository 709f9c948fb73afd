// SPDX-License-Identifier: Apache-2.0
// A running job as `bellows top` shows it: what its bellows-run, or bellowsd, has said of it last.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace bellows::scheduler {

struct LiveJob {
  std::string key;      // the same from look to look: its socket; of bellowsd: its number
  std::string job;      // its name: 4711.80, local-80; of bellowsd: 4711
  std::string source;   // bellows-run or bellowsd
  std::string state;    // as in "status"; or "no answer", "gone" (its bellows-run), "ended"
  std::string problem;  // why it is one of these, "" for none
  std::optional<std::int64_t> nodes, ranks, least, most, epoch, step, batch;
  std::optional<double> samples_per_second, efficiency, learning_rate;
  std::optional<std::int64_t> best_nodes, economic_nodes;  // as the training says of itself
  std::optional<double> event_time;                        // of the last event, Unix time
  std::string event_kind, event_text;

  /// The number of the Slurm job: "4711" for "4711.80"; the name where there is none.
  std::string slurm_job() const { return job.substr(0, job.find('.')); }
};

/// What is absent, or of another type, is not known.
LiveJob live_job_from_status(const boost::json::object& status);
/// An entry of bellowsd's answer to "jobs".
LiveJob live_job_from_daemon(const boost::json::object& entry);
/// Without what is not known.
boost::json::object to_json(const LiveJob& job);

}  // namespace bellows::scheduler
