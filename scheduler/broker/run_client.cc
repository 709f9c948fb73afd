// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/run_client.h"

#include <boost/json.hpp>

#include "protocol/size_hints_json.h"
#include "scheduler/command/control_client.h"

namespace bellows::scheduler {
namespace json = boost::json;
using protocol::Message;

namespace {

constexpr ControlClient::Milliseconds kStatusLimit{10'000}, kNoteLimit{2'000};

ControlClient::Milliseconds milliseconds(Seconds time) {
  return std::chrono::ceil<ControlClient::Milliseconds>(time);
}

template <class T>
T member(const json::object& object, const char* name) {
  return json::value_to<T>(object.at(name));
}

// What is absent is not known there.
LiveView live_view(const json::object& head) {
  LiveView live;
  live.state = member<std::string>(head, "state");
  const auto real = [&](const char* name) -> std::optional<double> {
    const json::value* value = head.if_contains(name);
    return value != nullptr && value->is_number() ? std::optional(value->to_number<double>())
                                                  : std::nullopt;
  };
  live.epoch = static_cast<std::int64_t>(real("epoch").value_or(0));
  if (const auto batch = real("batch")) live.batch = static_cast<std::int64_t>(*batch);
  live.learning_rate = real("learning_rate");
  live.efficiency = real("efficiency");
  const json::value* events = head.if_contains("events");
  if (events == nullptr || !events->is_array() || events->get_array().empty()) return live;
  const json::object& last = events->get_array().back().as_object();
  live.event_time = last.at("time").to_number<double>();
  live.event_kind = member<std::string>(last, "kind");
  live.event_text = member<std::string>(last, "text");
  return live;
}

class SocketRunClient final : public RunClient {
 public:
  explicit SocketRunClient(const std::string& socket) : client_(socket) {}

  RunStatus status() override {
    const Message answer = ask(Message("status"), kStatusLimit);
    try {
      RunStatus status;
      const json::object& head = answer.head;
      status.state = answer.text("state");
      status.ranks = static_cast<int>(answer.array("ranks").size());
      status.least = member<int>(head, "min");
      status.most = member<int>(head, "max");
      status.ranks_per_node = member<int>(head, "ranks_per_node");
      status.samples_per_second = head.at("samples_per_second").to_number<double>();
      if (const json::value* left = head.if_contains("samples_left")) {
        status.samples_left = left->to_number<double>();
      }
      if (head.contains("step")) status.step = answer.number("step");
      status.live = live_view(head);
      status.hints = protocol::size_hints_in(head);
      status.start_timeout = Seconds(head.at("start_timeout").to_number<double>());
      for (const json::value& value : answer.array("allocation")) {
        const json::object& node = value.as_object();
        status.nodes.push_back({.name = member<std::string>(node, "name"),
                                .job = member<std::string>(node, "job"),
                                .ranks = member<int>(node, "ranks"),
                                .added = node.at("added").as_bool(),
                                .going = node.at("going").as_bool(),
                                .agent = node.at("agent").as_bool()});
      }
      return status;
    } catch (const std::exception& wrong) {
      throw RunError(RunError::Kind::gone, std::string("bellows-run's status: ") + wrong.what());
    }
  }

  Joined add_nodes(const std::vector<NewNode>& nodes, Seconds limit) override {
    Message request("add-nodes");
    json::array list;
    for (const NewNode& node : nodes) {
      list.push_back(json::object{
          {"name", node.name}, {"cpus", node.cpus}, {"ranks", node.ranks}, {"job", node.job}});
    }
    request.head["nodes"] = list;
    const Message answer = ask(std::move(request), milliseconds(limit));
    Joined joined;
    for (const json::value& value : answer.array("added")) {
      joined.added.push_back(member<std::string>(value.as_object(), "name"));
    }
    for (const json::value& value : answer.array("failed")) {
      joined.failed.emplace_back(member<std::string>(value.as_object(), "name"),
                                 member<std::string>(value.as_object(), "reason"));
    }
    joined.agents = Seconds(answer.head.at("agents").to_number<double>());
    joined.warm_up = Seconds(answer.head.at("warm_up").to_number<double>());
    joined.join = Seconds(answer.head.at("join").to_number<double>());
    return joined;
  }

  void remove_nodes(const std::vector<std::string>& nodes, bool gone, Seconds limit) override {
    Message request("remove-nodes");
    request.head["nodes"] = json::value_from(nodes);
    request.head["gone"] = gone;
    ask(std::move(request), milliseconds(limit));
  }

  void note(const protocol::JobEvent& event) override {
    Message request("note");
    request.head["event"] = to_json(event);
    ask(std::move(request), kNoteLimit);
  }

 private:
  Message ask(Message request, ControlClient::Milliseconds limit) const {
    try {
      Message answer = client_.ask(std::move(request), limit);
      if (answer.type() == "refused") {
        throw RunError(RunError::Kind::refused, answer.text("reason"));
      }
      return answer;
    } catch (const Overdue& overdue) {
      throw RunError(RunError::Kind::overdue, overdue.what());
    } catch (const NoAnswer& none) {
      throw RunError(RunError::Kind::gone, none.what());
    }
  }

  ControlClient client_;
};

}  // namespace

std::unique_ptr<RunClient> run_client(const std::string& socket) {
  return std::make_unique<SocketRunClient>(socket);
}

}  // namespace bellows::scheduler
