// SPDX-License-Identifier: Apache-2.0
// Requests of the job's owner (`bellows status`, `resize`, `leave`) and their answers.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"
#include "protocol/size_hints_json.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

constexpr int kEventsInStatus = 20;

Message done(const std::string& text) {
  Message answer("done");
  answer.head["text"] = text;
  return answer;
}

const char* state_text(MemberState state) {
  switch (state) {
    case MemberState::joining:
      return "joining";
    case MemberState::leaving:
      return "leaving";
    default:
      return "running";
  }
}

std::vector<std::string> names_in(const Message& request, const char* member) {
  if (!request.head.contains(member)) return {};
  return json::value_to<std::vector<std::string>>(request.head.at(member));
}

}  // namespace

void Coordinator::open_control() {
  const std::string name = job_name();
  try {
    control_ = std::make_unique<ControlServer>(
        io_, name, [this](const Message& request, ControlServer::Reply reply) {
          serve_control(request, std::move(reply));
        });
  } catch (const std::runtime_error& failed) {
    if (left_) throw;  // another has taken the job over, or the first is not dead
    if (options_.elastic) spdlog::warn("no requests can be taken: {}", failed.what());
  }
}

void Coordinator::serve_control(const Message& request, ControlServer::Reply reply) {
  const std::string_view type = request.type();
  if (type == "status") {
    reply(status());
    return;
  }
  if (type == "events") {
    serve_events(request, std::move(reply));
    return;
  }
  if (type == "note") {
    note_of_broker(request, reply);
    return;
  }
  if (type != "resize" && type != "leave" && type != "add-nodes" && type != "remove-nodes") {
    throw std::runtime_error("unknown request \"" + std::string(type) + "\"");
  }
  if (!options_.elastic) {
    throw std::runtime_error("the job was started without --elastic: its size is fixed");
  }
  if (state_ != State::running || ending_) {
    const bool starts =
        state_ == State::starting || state_ == State::registering || state_ == State::reattaching;
    throw std::runtime_error(starts ? "the job is still starting" : "the job is ending");
  }
  if (type == "resize") {
    resize(request, std::move(reply));
  } else if (type == "add-nodes") {
    add_nodes(request, std::move(reply));
  } else if (type == "remove-nodes") {
    remove_nodes(request, std::move(reply));
  } else {
    leave(request, std::move(reply));
  }
}

// The program asks for another size itself. What is asked of an older world is about other ranks.
void Coordinator::member_asks(const Message& message) {
  const WorldSpec* newest = membership_.newest();
  if (newest == nullptr || message.number("epoch") != newest->epoch) return;
  const bool leaves = message.head.contains("leave");
  Message request(leaves ? "leave" : "resize");
  if (leaves) {
    request.head["ranks"] = json::array{message.number("leave")};
  } else {
    request.head["ranks"] = message.number("resize");
  }
  const std::string what = leaves ? fmt::format("that rank {} leaves", message.number("leave"))
                                  : fmt::format("for {} ranks", message.number("resize"));
  try {
    serve_control(request, [what](const Message& answer) {
      const bool refused = answer.type() == "refused";
      spdlog::info("the program asks {}: {}", what, answer.text(refused ? "reason" : "text"));
    });
  } catch (const std::exception& refused) {
    spdlog::warn("the program asks {}: {}", what, refused.what());
  }
}

// Slurm knows its nodes, also such as its user has added by hand: there its word counts. On one
// machine there is nobody else to ask.
void Coordinator::check_nodes(const std::vector<std::string>& names) const {
  if (allocation_.slurm) return;
  std::string known;
  for (const Node& node : allocation_.nodes) known += (known.empty() ? "" : ", ") + node.name;
  for (const std::string& name : names) {
    if (std::ranges::find(allocation_.nodes, name, &Node::name) != allocation_.nodes.end())
      continue;
    throw std::runtime_error("the job has no node " + name +
                             ": it runs on this machine alone, as " + known);
  }
}

void Coordinator::resize(const Message& request, ControlServer::Reply reply) {
  const auto now = static_cast<std::int64_t>(members_staying().size());
  constexpr std::int64_t kFarTooMany = 1'000'000;
  const std::int64_t said =
      std::clamp(request.number(request.head.contains("ranks") ? "ranks" : "delta"), -kFarTooMany,
                 kFarTooMany);
  const std::int64_t target = request.head.contains("ranks") ? said : now + said;
  const auto [least, most] = *options_.elastic;
  if (target < least || target > most) {
    throw std::runtime_error(fmt::format("--elastic={}-{} allows {} to {} ranks, not {}", least,
                                         most, least, most, target));
  }
  if (target == now) {
    reply(done(fmt::format("there are {} ranks already", now)));
  } else if (target > now) {
    const std::vector<std::string> nodes = names_in(request, "nodes");
    check_nodes(nodes);
    wait_for({.reply = std::move(reply),
              .members = grow(static_cast<int>(target - now), nodes),
              .joining = true},
             request);
  } else {
    const std::vector<std::uint64_t> members = members_to_shrink(static_cast<int>(now - target));
    let_leave(members);
    wait_for({.reply = std::move(reply), .members = members, .joining = false}, request);
  }
}

void Coordinator::leave(const Message& request, ControlServer::Reply reply) {
  std::vector<std::uint64_t> members;
  for (const std::string& node : names_in(request, "nodes")) {
    const std::vector<std::uint64_t> there = membership_.members_on(node);
    if (there.empty()) throw std::runtime_error("no ranks on node " + node);
    members.insert(members.end(), there.begin(), there.end());
  }
  if (request.head.contains("ranks")) {
    for (const json::value& value : request.array("ranks")) {
      const auto rank = value.to_number<std::int64_t>();
      const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
        return entry.second.rank == rank && is_in_newest(entry.first);
      });
      if (found == ranks_.end()) throw std::runtime_error(fmt::format("there is no rank {}", rank));
      members.push_back(found->first);
    }
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  if (members.empty()) throw std::runtime_error("name the ranks or nodes that are to leave");
  for (const std::uint64_t member : members) {
    if (is_leaving(member)) {
      throw std::runtime_error(fmt::format("rank {} is leaving already", ranks_.at(member).rank));
    }
  }
  const std::string why_not = why_not_leave(members);
  if (!why_not.empty()) throw std::runtime_error(why_not);
  let_leave(members);
  wait_for({.reply = std::move(reply), .members = members, .joining = false}, request);
}

void Coordinator::wait_for(Waiting waiting, const Message& request) {
  if (!request.head.contains("wait") || !request.flag("wait")) {
    waiting.reply(done(fmt::format("{} ranks are {}", waiting.members.size(),
                                   waiting.joining ? "being started" : "asked to leave")));
    return;
  }
  waiting_.push_back(std::move(waiting));
  answer_waiting();
}

void Coordinator::answer_waiting() {
  answer_arrivals();
  answer_removals();
  std::erase_if(waiting_, [this](const Waiting& waiting) {
    std::size_t here = 0, in = 0, stay = 0;
    for (const std::uint64_t member : waiting.members) {
      const auto found = ranks_.find(member);
      if (found == ranks_.end()) continue;
      ++here;
      if (!is_leaving(member)) ++stay;
      if (found->second.entered > 0 && phase_ == Phase::steady) ++in;
    }
    const WorldSpec* world = membership_.newest();
    if (!waiting.joining && stay > 0) {
      Message refused("refused");
      refused.head["reason"] = "too few ranks would be left: others did not come up";
      waiting.reply(refused);
      return true;
    }
    if (waiting.joining ? in < here : here > 0 || phase_ != Phase::steady) return false;
    if (waiting.joining && in == 0) {
      Message refused("refused");
      refused.head["reason"] = "the new ranks did not come up; see what bellows-run says";
      waiting.reply(refused);
    } else {
      waiting.reply(done(fmt::format("{} ranks {}; world {} has {} ranks on {} nodes",
                                     waiting.joining ? in : waiting.members.size(),
                                     waiting.joining ? "joined" : "left", world->epoch,
                                     world->size(), world->nodes.size())));
    }
    return true;
  });
}

Message Coordinator::status() const {
  Message status("status");
  json::object& head = status.head;
  const WorldSpec* world = membership_.newest();
  head["job"] = job_name();
  head["epoch"] = world != nullptr ? world->epoch : 0;
  if (state_ == State::starting || state_ == State::registering) {
    head["state"] = "starting";
  } else if (state_ == State::reattaching) {
    head["state"] = "reattaching";
  } else if (state_ != State::running || ending_) {
    head["state"] = "ending";
  } else {
    head["state"] = phase_ == Phase::steady || !options_.elastic ? "steady" : "changing";
  }
  const auto size = static_cast<int>(ranks_.size());
  head["min"] = options_.elastic ? options_.elastic->first : size;
  head["max"] = options_.elastic ? options_.elastic->second : size;
  std::int64_t step = 0;
  double speed = 0, left = -1;
  const RankInfo* first = nullptr;
  json::array ranks;
  std::map<std::string, int> by_node;
  const auto now = Clock::now();
  for (const auto& [member, info] : ranks_) {
    const Member& who = *membership_.member(member);
    step = std::max(step, info.step);
    if (info.rank == 0) {
      speed = info.samples_per_second;
      left = info.samples_left;
      first = &info;
    }
    ++by_node[who.node];
    ranks.push_back(json::object{
        {"rank", info.rank},
        {"member", member},
        {"node", who.node},
        {"pid", info.pid},
        {"state", leave_asked_.contains(member) ? "leaving" : state_text(who.state)},
        {"step", info.step},
        {"seconds",
         info.pid > 0 ? std::chrono::duration<double>(now - info.started).count() : 0.0}});
  }
  head["step"] = step;
  head["samples_per_second"] = speed;
  if (left >= 0) head["samples_left"] = left;
  if (first != nullptr && first->batch) head["batch"] = *first->batch;
  if (first != nullptr && first->learning_rate) head["learning_rate"] = *first->learning_rate;
  if (first != nullptr && first->hints && phase_ == Phase::steady) {
    head["hints"] = protocol::to_json(*first->hints);
  }
  if (const auto share = efficiency(speed)) head["efficiency"] = *share;
  head["ranks"] = ranks;
  json::array nodes, events;
  for (const auto& [node, count] : by_node) {
    nodes.push_back(json::object{{"name", node}, {"ranks", count}});
  }
  head["nodes"] = nodes;
  head["allocation"] = allocated_nodes();
  head["ranks_per_node"] = options_.ranks_per_node.value_or(1);
  head["start_timeout"] = options_.start_seconds;
  for (const Event& event : events_.after(events_.newest() - kEventsInStatus, kEventsInStatus)) {
    events.push_back(json::object{{"time", event.time},
                                  {"kind", event.kind},
                                  {"text", event.text},
                                  {"seconds", event.seconds}});
  }
  head["events"] = events;
  return status;
}

}  // namespace bellows::elastic
