// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/requests.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

namespace bellows::elastic {
using protocol::Message;

void Requests::collective(CollectiveKind kind, const std::string& name,
                          const std::vector<Proc>& procs, std::string data, Answered answered) {
  Message message("collective", std::move(data));
  const boost::json::value list = to_json(procs);
  // The same on every node: the library hands the processes to each host in the same order.
  std::string key = std::string(to_text(kind)) + " " + name + " " + boost::json::serialize(list);
  message.head["kind"] = to_text(kind);
  message.head["key"] = key;
  message.head["procs"] = list;
  collectives_[std::move(key)] = std::move(answered);
  channel_->send(message);
}

void Requests::send(Message message, Answered answered) {
  message.head["request"] = next_;
  waiting_[next_++] = std::move(answered);
  channel_->send(message);
}

std::size_t Requests::move_to(std::shared_ptr<protocol::Channel> channel) {
  channel_ = std::move(channel);
  // What is called may ask again.
  const auto collectives = std::exchange(collectives_, {});
  const auto waiting = std::exchange(waiting_, {});
  Message failed("collective-done");
  failed.head["ok"] = false;
  failed.head["context"] = 0;
  for (const auto& [key, answered] : collectives) answered(failed);
  Message nothing("answer");
  nothing.head["found"] = false;
  nothing.head["keys"] = boost::json::array{};
  for (const auto& [request, answered] : waiting) answered(nothing);
  return collectives.size() + waiting.size();
}

bool Requests::take(const Message& message) {
  if (message.type() == "collective-done") {
    context_ = std::max(context_, static_cast<std::uint64_t>(message.number("context")));
    auto found = collectives_.extract(message.text("key"));
    if (!found.empty()) found.mapped()(message);
    return true;
  }
  if (message.type() != "answer") return false;
  auto found = waiting_.extract(message.number("request"));
  if (!found.empty()) found.mapped()(message);
  return true;
}

}  // namespace bellows::elastic
