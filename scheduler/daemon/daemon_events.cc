// SPDX-License-Identifier: Apache-2.0
#include "scheduler/daemon/daemon_events.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace bellows::scheduler {
namespace json = boost::json;

namespace {

// When the daemon is killed nobody knows more than this about the end of what was going on.
constexpr auto kSignOfLife = std::chrono::seconds(60);
constexpr unsigned kMode = 0640;  // names of all users' jobs

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void DaemonEvents::open(const std::string& path, json::object begin) {
  if (file_.is_open()) begin["resumed"] = true;  // nothing was missed
  protocol::LineFile file;
  if (!path.empty()) file.open(path, kMode);
  file_ = std::move(file);
  path_ = path;
  complained_ = false;
  occupancy_ = {};  // the next look tells all anew
  nodes_.clear();
  write("begin", std::move(begin));
}

void DaemonEvents::write(const char* kind, json::object event) {
  if (!file_.is_open()) return;
  json::object all{{"time", unix_now()}, {"kind", kind}};
  for (auto& [name, value] : event) all[name] = std::move(value);
  const std::string failed = file_.append(json::serialize(all));
  if (!failed.empty() && !std::exchange(complained_, true)) spdlog::warn("event-file: {}", failed);
  written_ = std::chrono::steady_clock::now();
}

void DaemonEvents::write_look(const std::vector<JobView>& jobs, const std::vector<NodeView>& nodes,
                              const std::set<JobId>& elastic) {
  if (!file_.is_open()) return;
  std::set<std::string> names;
  for (const NodeView& node : nodes) names.insert(node.name);
  if (names != nodes_) {
    write("cluster", {{"nodes", json::value_from(names)}});
    nodes_ = std::move(names);
  }
  for (const NodesChange& change : occupancy_.update(jobs, elastic)) {
    write("nodes", {{"job", change.job},
                    {"name", change.name},
                    {"user", change.user},
                    {"partition", change.partition},
                    {"elastic", change.elastic},
                    {"nodes", json::value_from(change.nodes)},
                    {"got", json::value_from(change.got)},
                    {"gave", json::value_from(change.gave)}});
  }
  if (std::chrono::steady_clock::now() - written_ > kSignOfLife) write("alive");
}

}  // namespace bellows::scheduler
