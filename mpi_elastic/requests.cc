// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/requests.h"

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

bool Requests::take(const Message& message) {
  if (message.type() == "collective-done") {
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
