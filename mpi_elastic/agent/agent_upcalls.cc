// SPDX-License-Identifier: Apache-2.0
// What the ranks ask of their PMIx host, turned into requests to the coordinator.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>

#include "mpi_elastic/agent/agent.h"

namespace bellows::elastic {
namespace json = boost::json;
using protocol::Message;

namespace {

// A collective that a dead process was to take part in.
pmix_status_t collective_status(const Message& answer) {
  return answer.flag("ok") ? PMIX_SUCCESS : PMIX_ERR_PROC_TERM_WO_SYNC;
}

}  // namespace

void Agent::on_connected(const Proc& who) {
  Rank* rank = rank_of(who);
  if (rank == nullptr) return;
  rank->connected_as = who;
  rank->finalized = false;  // a session may follow another
  if (rank->connected) return;
  rank->connected = true;
  Message message("connected");
  message.head["member"] = rank->member;
  channel_->send(message);
}

void Agent::on_finalized(const Proc& who) {
  // What an earlier world's session does is of no account once a later one has begun.
  Rank* rank = rank_of(who);
  if (rank != nullptr && rank->connected_as == who) rank->finalized = true;
}

void Agent::on_abort(const Proc& who, int status, const std::string& text, OperationDone done) {
  if (Rank* rank = rank_of(who)) {
    rank->abort_status = status;
    Message message("abort");
    message.head["member"] = rank->member;
    message.head["status"] = status;
    message.head["text"] = text;
    channel_->send(message);
  }
  done(PMIX_SUCCESS);  // the caller goes on to exit with the status
}

void Agent::on_fence(std::vector<Proc> procs, std::string data, DataDone done) {
  requests_.collective(
      CollectiveKind::fence, "", procs, std::move(data),
      [done](const Message& answer) { done(collective_status(answer), answer.body); });
}

void Agent::on_disconnect(std::vector<Proc> procs, OperationDone done) {
  requests_.collective(CollectiveKind::disconnect, "", procs, "",
                       [done](const Message& answer) { done(collective_status(answer)); });
}

// Every agent adds what its own participants have put, so that afterwards nobody has to ask for the
// data of a process that may be dead by then.
void Agent::on_connect(std::vector<Proc> procs, OperationDone done) {
  struct Gathering {
    std::size_t missing = 1;
    std::vector<std::string> parts;
  };
  auto gathering = std::make_shared<Gathering>();
  const auto finish = [this, gathering, procs, done] {
    if (--gathering->missing == 0) connect_with(procs, protocol::pack(gathering->parts), done);
  };
  for (const auto& [member, rank] : ranks_) {
    const bool takes_part = rank.process && rank.process->running() &&
                            std::any_of(procs.begin(), procs.end(), [&](const Proc& proc) {
                              return proc.nspace == rank.proc.nspace &&
                                     (proc.rank == kAllRanks || proc.rank == rank.proc.rank);
                            });
    if (!takes_part) continue;
    ++gathering->missing;
    host_.local_modex(rank.proc, [this, gathering, finish, proc = rank.proc](pmix_status_t status,
                                                                             std::string data) {
      boost::asio::post(io_, [gathering, finish, proc, status, data = std::move(data)] {
        if (status == PMIX_SUCCESS) {
          gathering->parts.insert(gathering->parts.end(),
                                  {proc.nspace, std::to_string(proc.rank), data});
        }
        finish();
      });
    });
  }
  finish();
}

void Agent::connect_with(std::vector<Proc> procs, std::string modex, OperationDone done) {
  requests_.collective(CollectiveKind::connect, "", procs, std::move(modex),
                       [this, done](const Message& answer) {
                         const std::vector<std::string> parts = protocol::unpack(answer.body);
                         for (std::size_t i = 0; i + 2 < parts.size(); i += 3) {
                           modex_[{parts[i], std::stoll(parts[i + 1])}] = parts[i + 2];
                         }
                         done(collective_status(answer));
                       });
}

void Agent::on_group(int operation, const std::string& name, std::vector<Proc> procs,
                     std::string endpoints, GroupDone done) {
  requests_.collective(CollectiveKind::group, std::to_string(operation) + " " + name, procs,
                       std::move(endpoints), [done](const Message& answer) {
                         done(collective_status(answer),
                              static_cast<std::uint64_t>(answer.number("context")), answer.body);
                       });
}

void Agent::on_modex(const Proc& whose, DataDone done) {
  if (const auto known = modex_.find(whose); known != modex_.end()) {
    done(PMIX_SUCCESS, known->second);
    return;
  }
  Message message("modex");
  message.head["nspace"] = whose.nspace;
  message.head["rank"] = whose.rank;
  requests_.send(std::move(message), [done](const Message& answer) {
    done(answer.flag("found") ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, answer.body);
  });
}

void Agent::modex_wanted(const Message& message) {
  const std::int64_t number = message.number("for");
  const Proc whose{message.text("nspace"), message.number("rank")};
  // Another coordinator would not know what it is the answer to.
  host_.local_modex(
      whose, [this, channel = channel_, number](pmix_status_t status, std::string data) {
        boost::asio::post(io_, [channel, number, status, data = std::move(data)]() mutable {
          Message reply("modex-here", std::move(data));
          reply.head["for"] = number;
          reply.head["found"] = status == PMIX_SUCCESS;
          channel->send(reply);
        });
      });
}

void Agent::on_publish(PublishRequest request, OperationDone done) {
  Message message("publish", protocol::pack(request.values));
  message.head["nspace"] = request.owner.nspace;
  message.head["rank"] = request.owner.rank;
  message.head["keys"] = json::value_from(request.keys);
  message.head["first_read"] = request.first_read;
  requests_.send(std::move(message), [done](const Message&) { done(PMIX_SUCCESS); });
}

void Agent::on_unpublish(const Proc& owner, std::vector<std::string> keys, OperationDone done) {
  Message message("unpublish");
  message.head["nspace"] = owner.nspace;
  message.head["rank"] = owner.rank;
  message.head["keys"] = json::value_from(keys);
  requests_.send(std::move(message), [done](const Message&) { done(PMIX_SUCCESS); });
}

void Agent::on_lookup(const Proc& who, std::vector<std::string> keys, bool wait, LookupDone done) {
  Message message("look-up");
  message.head["nspace"] = who.nspace;
  message.head["rank"] = who.rank;
  message.head["keys"] = json::value_from(keys);
  message.head["wait"] = wait;
  requests_.send(std::move(message), [done](const Message& answer) {
    const auto found = json::value_to<std::vector<std::string>>(answer.head.at("keys"));
    done(found.empty() ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS, found, protocol::unpack(answer.body));
  });
}

void Agent::on_suspicion(const Proc& by, const std::vector<Proc>& about, const std::string& what) {
  Message message("suspicion");
  message.head["by"] = to_text(by);
  message.head["about"] = to_json(about);
  message.head["what"] = what;
  channel_->send(message);
}

void Agent::on_log(const Proc& who, const std::string& text) {
  spdlog::info("{} logs: {}", to_text(who), text);
}

}  // namespace bellows::elastic
