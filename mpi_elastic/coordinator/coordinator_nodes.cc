// SPDX-License-Identifier: Apache-2.0
// The allocation changes while the job runs: requests of bellows-broker, which owns the allocation,
// and notice from Slurm that a node is about to be taken.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

constexpr int kMostRanksOnANode = 10'000;

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Node node_from(const json::object& object) {
  Node node;
  node.name = json::value_to<std::string>(object.at("name"));
  node.cpus = json::value_to<int>(object.at("cpus"));
  node.job = json::value_to<std::string>(object.at("job"));
  node.added = true;
  return node;
}

}  // namespace

void Coordinator::start_broker() {
  if (!options_.elastic || !allocation_.slurm || !control_) return;
  broker_ = std::make_unique<BrokerProcess>(
      io_, BrokerProcess::Command{.program = options_.broker,
                                  .job = job_name(),
                                  .slurm_job = allocation_.job,
                                  .grace_seconds = options_.grace_seconds,
                                  .standalone = options_.standalone});
}

std::vector<std::string> Coordinator::other_nodes(const std::string& node) const {
  std::vector<std::string> others;
  for (const Node& one : allocation_.nodes) {
    if (one.name != node) others.push_back(one.name);
  }
  return others;
}

std::string Coordinator::job_of(const std::string& node) const {
  for (const Node& allocated : allocation_.nodes) {
    if (allocated.name == node) return allocated.job;
  }
  return "";
}

void Coordinator::add_nodes(const Message& request, ControlServer::Reply reply) {
  std::vector<std::pair<Node, int>> wanted;
  std::int64_t ranks = 0;
  for (const json::value& value : request.array("nodes")) {
    const json::object& object = value.as_object();
    const Node node = node_from(object);
    const int here = json::value_to<int>(object.at("ranks"));
    if (here < 1 || here > kMostRanksOnANode) {
      throw std::runtime_error(fmt::format("node {} cannot have {} ranks", node.name, here));
    }
    if (membership_.has_node(node.name) && !membership_.members_on(node.name).empty()) {
      throw std::runtime_error("node " + node.name + " has ranks already");
    }
    ranks += here;
    wanted.emplace_back(node, here);
  }
  const auto target = static_cast<std::int64_t>(members_staying().size()) + ranks;
  const auto [least, most] = *options_.elastic;
  if (target > most) {
    throw std::runtime_error(fmt::format("--elastic={}-{} allows {} to {} ranks, not {}", least,
                                         most, least, most, target));
  }
  Arriving arriving{std::move(reply), {}, Clock::now()};
  for (const auto& [node, here] : wanted) {
    std::erase_if(allocation_.nodes, [&](const Node& old) { return old.name == node.name; });
    going_nodes_.erase(node.name);
    allocation_.nodes.push_back(node);
    arriving.places[node.name];
  }
  // What fails at once is noted as well.
  arriving_.push_back(std::move(arriving));
  for (const auto& [node, here] : wanted) {
    const std::vector<std::uint64_t> members = grow(here, {node.name});
    arriving_.back().places[node.name].members = members;
  }
  answer_arrivals();
}

// What became of a node that is to be added: its agent is there, or why it will not be.
void Coordinator::note_arrival(const std::string& node, const std::string& failure) {
  for (Arriving& arriving : arriving_) {
    const auto place = arriving.places.find(node);
    if (place == arriving.places.end()) continue;
    if (failure.empty()) {
      place->second.agent = since(arriving.started);
    } else if (place->second.failure.empty()) {
      place->second.failure = failure;
    }
  }
}

void Coordinator::answer_arrivals() {
  std::erase_if(arriving_, [this](const Arriving& arriving) {
    json::array added, failed;
    double agents = 0, ready = 0;
    for (const auto& [node, place] : arriving.places) {
      if (place.members.empty()) return false;  // (not asked for yet)
      int here = 0, in = 0;
      for (const std::uint64_t member : place.members) {
        const auto found = ranks_.find(member);
        if (found == ranks_.end()) continue;
        ++here;
        if (found->second.entered > 0 && phase_ == Phase::steady) ++in;
      }
      if (in < here) return false;
      agents = std::max(agents, place.agent.value_or(0));
      ready = std::max(ready, place.ready.value_or(0));
      if (here > 0) {
        added.push_back(json::object{{"name", node}, {"ranks", here}});
      } else {
        failed.push_back(json::object{
            {"name", node},
            {"reason", place.failure.empty() ? "its ranks did not come up" : place.failure}});
      }
    }
    Message answer("done");
    answer.head["text"] = fmt::format("{} nodes joined, {} did not", added.size(), failed.size());
    answer.head["added"] = added;
    answer.head["failed"] = failed;
    answer.head["agents"] = agents;
    answer.head["warm_up"] = std::max(ready - agents, 0.0);
    answer.head["join"] = std::max(since(arriving.started) - std::max(ready, agents), 0.0);
    arriving.reply(answer);
    return true;
  });
}

void Coordinator::remove_nodes(const Message& request, ControlServer::Reply reply) {
  const auto nodes = json::value_to<std::vector<std::string>>(request.head.at("nodes"));
  const bool gone = request.head.contains("gone") && request.flag("gone");
  std::vector<std::uint64_t> members;
  for (const std::string& node : nodes) {
    for (const std::uint64_t member : membership_.members_on(node)) {
      if (ranks_.contains(member) && !is_leaving(member)) members.push_back(member);
    }
  }
  const std::string why_not = members.empty() ? "" : why_not_leave(members);
  if (!why_not.empty() && !gone) throw std::runtime_error(why_not);
  going_nodes_.insert(nodes.begin(), nodes.end());
  for (const std::string& node : nodes) {
    if (arrivals_.contains(node)) node_failed_to_arrive(node, "it was taken back");
    // Slurm has ended what ran there: who still seems alive is not told to leave first.
    if (gone && links_.connected(node)) links_.drop(node, "Slurm has taken it away");
  }
  if (gone) starter_.kill_all_of(nodes);
  std::erase_if(members, [this](std::uint64_t member) { return !ranks_.contains(member); });
  if (!members.empty() && why_not.empty()) let_leave(members);
  removals_.push_back({std::move(reply), nodes});
  release_empty_nodes();
  answer_removals();
}

void Coordinator::answer_removals() {
  bool changed = false;
  std::erase_if(removals_, [&](const Removal& removal) {
    bool stay = false, here = false;
    for (const std::string& node : removal.nodes) {
      for (const std::uint64_t member : membership_.members_on(node)) {
        if (!ranks_.contains(member)) continue;
        here = true;
        stay = stay || !is_leaving(member);
      }
      here = here || membership_.has_node(node) || starter_.pid_of(node) != 0;
    }
    if (stay) {
      for (const std::string& node : removal.nodes) going_nodes_.erase(node);
      Message refused("refused");
      refused.head["reason"] = "too few ranks would be left: others have gone";
      removal.reply(refused);
      return true;
    }
    if (here) return false;
    std::erase_if(allocation_.nodes, [&](const Node& node) {
      return std::ranges::find(removal.nodes, node.name) != removal.nodes.end();
    });
    for (const std::string& node : removal.nodes) {
      going_nodes_.erase(node);
      lost_nodes_.erase(node);
    }
    changed = true;
    Message answer("done");
    answer.head["text"] = fmt::format("nothing runs on {} nodes any more", removal.nodes.size());
    removal.reply(answer);
    return true;
  });
  if (changed) keep_record();
}

// Slurm is about to take the node (preemption, the end of its allocation's time): its ranks go in
// order while they can.
void Coordinator::node_gets_notice(const std::string& node) {
  if (state_ != State::running || ending_ || going_nodes_.contains(node)) return;
  std::vector<std::uint64_t> members;
  for (const std::uint64_t member : membership_.members_on(node)) {
    if (ranks_.contains(member) && !is_leaving(member)) members.push_back(member);
  }
  going_nodes_.insert(node);
  if (members.empty()) return;
  const std::string why_not = why_not_leave(members);
  if (!why_not.empty()) {
    const std::string text = fmt::format(
        "Slurm is about to take node {}, but its ranks cannot leave: {}", node, why_not);
    note_event({.kind = "notice", .nodes = {node}, .text = text});
    spdlog::warn("{}", text);
    return;
  }
  const std::string text =
      fmt::format("Slurm is about to take node {}: its {} ranks leave", node, members.size());
  note_event({.kind = "notice", .nodes = {node}, .text = text});
  spdlog::warn("{}", text);
  let_leave(members);
}

json::array Coordinator::allocated_nodes() const {
  json::array nodes;
  for (const Node& node : allocation_.nodes) {
    nodes.push_back(json::object{{"name", node.name},
                                 {"cpus", node.cpus},
                                 {"job", node.job},
                                 {"added", node.added},
                                 {"going", going_nodes_.contains(node.name)},
                                 {"agent", membership_.has_node(node.name)},
                                 {"ranks", membership_.members_on(node.name).size()}});
  }
  return nodes;
}

}  // namespace bellows::elastic
