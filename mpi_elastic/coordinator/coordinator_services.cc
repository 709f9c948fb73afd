// SPDX-License-Identifier: Apache-2.0
// What agents ask of the coordinator on behalf of their ranks.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "mpi_elastic/coordinator/coordinator.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

Proc proc_of(const Message& message) { return {message.text("nspace"), message.number("rank")}; }

std::vector<std::string> keys_of(const Message& message) {
  std::vector<std::string> keys;
  for (const json::value& key : message.array("keys")) {
    if (!key.is_string()) throw protocol::ProtocolError("a key is not a string");
    keys.emplace_back(key.get_string());
  }
  return keys;
}

Message answer_to(std::int64_t request, std::string body = {}) {
  Message answer("answer", std::move(body));
  answer.head["request"] = request;
  return answer;
}

}  // namespace

void Coordinator::receive(const std::string& node, const Message& message) {
  if (state_ == State::reattaching) {
    hear_returning(node, message);
    return;
  }
  const std::string_view type = message.type();
  if (type == "output") {
    take_output(node, message);
  } else if (type == "collective") {
    serve_collective(node, message);
  } else if (type == "modex") {
    serve_modex(node, message);
  } else if (type == "modex-here") {
    modex_here(message);
  } else if (type == "publish" || type == "unpublish") {
    serve_publish(node, message);
  } else if (type == "look-up") {
    serve_lookup(node, message);
  } else if (type == "input-taken") {
    if (input_) input_->taken(static_cast<std::size_t>(message.number("bytes")));
  } else if (type == "started") {
    rank_started(node, message);
  } else if (type == "exited") {
    rank_exited(message);
  } else if (type == "abort") {
    const auto rank = ranks_.find(static_cast<std::uint64_t>(message.number("member")));
    if (rank != ranks_.end())
      rank->second.abort_status = static_cast<int>(message.number("status"));
  } else if (type == "connected") {
    const auto rank = ranks_.find(static_cast<std::uint64_t>(message.number("member")));
    if (rank != ranks_.end()) rank->second.connected = true;
    uses_mpi_ = true;
    check_incomplete_world();
  } else if (type == "ready") {
    agent_ready(node, message);
  } else if (type == "registered") {
    world_registered(node, message);
  } else if (type == "entered") {
    member_entered(message);
  } else if (type == "member-ready") {
    member_ready(message);
  } else if (type == "left") {
    member_left(static_cast<std::uint64_t>(message.number("member")),
                static_cast<std::uint32_t>(message.number("epoch")));
  } else if (type == "in-step") {
    member_in_step(static_cast<std::uint64_t>(message.number("member")));
  } else if (type == "request") {
    member_asks(message);
  } else if (type == "trouble") {
    member_in_trouble(message);
  } else if (type == "elastic" || type == "progress") {
    const auto rank = ranks_.find(static_cast<std::uint64_t>(message.number("member")));
    if (rank == ranks_.end()) return;
    rank->second.elastic = true;
    if (type == "elastic") return;
    rank->second.step = message.number("step");
    rank->second.samples_per_second = message.head.at("samples_per_second").to_number<double>();
    const json::value* left = message.head.if_contains("samples_left");
    rank->second.samples_left = left != nullptr ? left->to_number<double>() : -1;
    note_progress(rank->second, message);
  } else if (type == "signalled") {
    const std::string text =
        fmt::format("{} on node {} (a time limit, preemption or scancel of Slurm's); passed on",
                    signal_text(static_cast<int>(message.number("signal"))), node);
    note_event({.kind = "notice", .nodes = {node}, .text = text});
    spdlog::warn("{}", text);
  } else if (type == "notice") {
    node_gets_notice(node);
  } else if (type == "suspicion") {
    spdlog::info("{} suspects {}: {}", message.text("by"), json::serialize(message.array("about")),
                 message.text("what"));
  } else {
    spdlog::warn("unknown message \"{}\" from the agent on {}", type, node);
  }
}

void Coordinator::serve_collective(const std::string& node, const Message& message) {
  Contribution contribution;
  contribution.kind = collective_kind(message.text("kind"));
  contribution.key = message.text("key");
  contribution.procs = procs_from_json(message.array("procs"));
  contribution.data = message.body;
  send_results(rendezvous_.contribute(node, std::move(contribution)));
}

void Coordinator::send_results(const std::vector<CollectiveResult>& results) {
  for (const CollectiveResult& result : results) {
    Message done("collective-done", result.data);
    done.head["key"] = result.key;
    done.head["ok"] = !result.member_dead;
    done.head["context"] = result.context;
    for (const std::string& node : result.nodes) links_.send(node, done);
  }
}

// Asks the node of the process for its data.
void Coordinator::serve_modex(const std::string& node, const Message& message) {
  const Proc whose = proc_of(message);
  const WorldSpec* world = membership_.world(whose.nspace);
  const NodeShare* where = world != nullptr ? world->node_of(whose.rank) : nullptr;
  if (where == nullptr || membership_.gone(whose) || !links_.connected(where->name)) {
    Message answer = answer_to(message.number("request"));
    answer.head["found"] = false;
    links_.send(node, answer);
    return;
  }
  modex_[next_modex_] = {node, message.number("request"), whose};
  Message wanted("modex-wanted");
  wanted.head["for"] = next_modex_++;
  wanted.head["nspace"] = whose.nspace;
  wanted.head["rank"] = whose.rank;
  links_.send(where->name, wanted);
}

void Coordinator::modex_here(const Message& message) {
  const auto request = modex_.extract(message.number("for"));
  if (request.empty()) return;
  Message answer = answer_to(request.mapped().request, message.body);
  answer.head["found"] = message.flag("found");
  links_.send(request.mapped().node, answer);
}

void Coordinator::serve_publish(const std::string& node, const Message& message) {
  const std::vector<std::string> keys = keys_of(message);
  if (message.type() == "publish") {
    send_answers(names_.publish(proc_of(message), keys, protocol::unpack(message.body),
                                message.flag("first_read")));
  } else {
    names_.unpublish(proc_of(message), keys);
  }
  links_.send(node, answer_to(message.number("request")));
}

void Coordinator::serve_lookup(const std::string& node, const Message& message) {
  send_answers(names_.look_up({.node = node,
                               .request = static_cast<std::uint64_t>(message.number("request")),
                               .who = proc_of(message),
                               .keys = keys_of(message),
                               .wait = message.flag("wait")}));
}

void Coordinator::send_answers(const std::vector<LookupAnswer>& answers) {
  for (const LookupAnswer& found : answers) {
    Message answer =
        answer_to(static_cast<std::int64_t>(found.request), protocol::pack(found.values));
    answer.head["keys"] = json::value_from(found.keys);
    links_.send(found.node, answer);
  }
}

// Nobody waits for the dead: collectives go on or fail, requests for their data are answered.
void Coordinator::forget_procs(const std::vector<Proc>& dead) {
  send_results(rendezvous_.recheck());
  send_answers(names_.forget(dead));
  std::erase_if(modex_, [&](const auto& entry) {
    const ModexRequest& request = entry.second;
    if (std::find(dead.begin(), dead.end(), request.whose) == dead.end()) return false;
    Message answer = answer_to(request.request);
    answer.head["found"] = false;
    links_.send(request.node, answer);
    return true;
  });
}

void Coordinator::take_output(const std::string& node, const Message& message) {
  const auto member = static_cast<std::uint64_t>(message.number("member"));
  const auto rank = ranks_.find(member);
  const int fd = message.flag("error") ? STDERR_FILENO : STDOUT_FILENO;
  const std::size_t size = message.body.size();
  std::string bytes = message.body;
  if (rank != ranks_.end()) {
    bytes = tagger_.add(static_cast<std::uint64_t>(rank->second.rank), fd, bytes);
  }
  output_.write(fd, std::move(bytes), [this, node, size] {
    Message taken("output-taken");
    taken.head["bytes"] = size;
    links_.send(node, taken);
  });
}

void Coordinator::send_input(std::string bytes) {
  const WorldSpec* world = membership_.world(nspace_);
  if (world == nullptr || world->nodes.empty()) return;
  Message message("input", std::move(bytes));
  message.head["member"] = world->members[0];
  message.head["end"] = message.body.empty();
  links_.send(world->nodes[0].name, message);
}

}  // namespace bellows::elastic
