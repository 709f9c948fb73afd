// SPDX-License-Identifier: Apache-2.0
#include "protocol/job_event.h"

#include <cmath>

#include "protocol/message.h"

namespace bellows::protocol {
namespace json = boost::json;

namespace {

double real(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number() || !std::isfinite(value->to_number<double>())) {
    throw ProtocolError(std::string("an event has no number \"") + name + "\"");
  }
  return value->to_number<double>();
}

}  // namespace

json::object to_json(const JobEvent& event) {
  json::object phases;
  for (const auto& [name, seconds] : event.phases) phases[name] = seconds;
  return {{"number", event.number},   {"time", event.time},
          {"kind", event.kind},       {"epoch", event.epoch},
          {"ranks", event.ranks},     {"nodes", json::value_from(event.nodes)},
          {"seconds", event.seconds}, {"phases", std::move(phases)},
          {"text", event.text}};
}

JobEvent job_event_from_json(const json::object& object) {
  Message message;
  message.head = object;
  JobEvent event;
  event.number = message.number("number");
  event.time = real(object, "time");
  event.kind = message.text("kind");
  event.epoch = message.number("epoch");
  event.ranks = message.number("ranks");
  for (const json::value& node : message.array("nodes")) {
    if (!node.is_string()) throw ProtocolError("an event names a node that is no text");
    event.nodes.emplace_back(node.get_string());
  }
  event.seconds = real(object, "seconds");
  const json::object& phases = message.object("phases");
  for (const auto& [name, value] : phases) {
    event.phases.emplace_back(name, real(phases, std::string(name).c_str()));
  }
  event.text = message.text("text");
  return event;
}

}  // namespace bellows::protocol
