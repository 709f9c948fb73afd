// SPDX-License-Identifier: Apache-2.0
#include "scheduler/daemon/daemon.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <set>
#include <utility>

#include "scheduler/cluster/node_list.h"
#include "scheduler/policy/sharing.h"

namespace bellows::scheduler {
namespace asio = boost::asio;
namespace json = boost::json;
using asio::ip::tcp;

namespace {

constexpr std::size_t kMostSessions = 20'000;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // of a message
constexpr int kMostMessages = 50;                         // of one session in a second
constexpr std::size_t kEventsKept = 1000;
constexpr std::chrono::seconds kFirstWord(10);
constexpr std::chrono::seconds kOrderLimit(60);    // to be taken up by a broker
constexpr std::chrono::seconds kRepeat(10);        // of an order that changed nothing
constexpr std::chrono::seconds kRequestLimit(60);  // to be answered by one, beside its own

tcp::acceptor listen(asio::io_context& io, const DaemonSettings& settings) {
  try {
    tcp::resolver resolver(io);
    const tcp::endpoint endpoint =
        *resolver.resolve(settings.listen, std::to_string(settings.port), tcp::resolver::passive)
             .begin();
    return tcp::acceptor(io, endpoint);
  } catch (const boost::system::system_error& failed) {
    throw std::runtime_error("cannot listen at " + settings.listen + ":" +
                             std::to_string(settings.port) + ": " + failed.code().message());
  }
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Daemon::Daemon(asio::io_context& io, DaemonSettings settings, Cluster& cluster,
               protocol::Sealer& sealer)
    : io_(io),
      settings_(std::move(settings)),
      cluster_(cluster),
      sealer_(sealer),
      policy_(make_cluster_policy(settings_.policy, settings_.policy_arguments)),
      acceptor_(listen(io, settings_)),
      timer_(io),
      accept_timer_(io),
      metrics_(
          io, [this] { return metrics_text(); },
          [](const std::string& failed) { spdlog::warn("{}", failed); }) {
  open_events(settings_.event_file);
  open_metrics();
  accept();
  look_soon();
}

Daemon::~Daemon() {
  worker_.join();
  for (auto& [id, session] : sessions_) session.channel->close();
}

std::uint16_t Daemon::port() const { return acceptor_.local_endpoint().port(); }

void Daemon::configure(DaemonSettings settings) {
  policy_ = make_cluster_policy(settings.policy, settings.policy_arguments);
  settings.metrics = settings_.metrics;  // as the address
  settings_ = std::move(settings);
  try {
    open_events(settings_.event_file);
  } catch (const std::runtime_error& failed) {
    spdlog::error("{}; events go on where they went", failed.what());
  }
  keep_metrics();
  look_soon();
}

// ---- sessions -----------------------------------------------------------------------------------

void Daemon::accept() {
  acceptor_.async_accept([this](const boost::system::error_code& failed, tcp::socket socket) {
    if (failed == asio::error::operation_aborted) return;
    if (!failed && sessions_.size() < kMostSessions) {
      greet(std::move(socket));
    } else if (failed) {  // out of descriptors, most likely
      spdlog::warn("cannot take a connection: {}", failed.message());
      accept_timer_.expires_after(std::chrono::seconds(1));
      accept_timer_.async_wait([this](const boost::system::error_code& ended) {
        if (!ended) accept();
      });
      return;
    }
    accept();
  });
}

void Daemon::greet(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  ++counts_.connections;
  const SessionId id = next_session_++;
  Session& session = sessions_[id];
  session.channel = protocol::Channel::over(std::move(socket));
  session.channel->limit(kMostBytes);
  session.channel->start([this, id](const Message& message) { receive(id, message); },
                         [this, id](const std::string& reason) { drop(id, reason); });
  auto patience = std::make_shared<asio::steady_timer>(io_, kFirstWord);
  patience->async_wait([this, id, patience](const boost::system::error_code&) {
    const auto found = sessions_.find(id);
    if (found != sessions_.end() && found->second.messages == 0) drop(id, "no word from it");
  });
}

void Daemon::receive(SessionId id, const Message& sealed) {
  Session& session = sessions_.at(id);
  const auto now = Clock::now();
  if (now - session.second > std::chrono::seconds(1)) {
    session.second = now;
    session.messages = 0;
  }
  if (++session.messages > kMostMessages) {
    drop(id, "it sends too much");
    return;
  }
  try {
    const protocol::Opened opened = sealer_.open(sealed);
    session.user = opened.user;
    serve(id, opened.message);
  } catch (const std::exception& wrong) {
    spdlog::warn("{}: {}", session.channel->remote_address(), wrong.what());
    drop(id, wrong.what());
  }
}

void Daemon::serve(SessionId id, const Message& message) {
  const std::string_view type = message.type();
  if (type == "report") {
    take_report(id, message);
  } else if (type == "answer") {
    take_answer(id, message);
  } else if (type == "jobs") {
    send(id, list());
  } else if (type == "resize-nodes") {
    hand_on(id, message);
  } else {
    throw protocol::ProtocolError("unknown message \"" + std::string(type) + "\"");
  }
}

void Daemon::take_report(SessionId id, const Message& message) {
  ElasticJob job = job_of(message);
  Session& session = sessions_.at(id);
  job.user = session.user;
  const auto found = jobs_.find(job.id);
  // Until Slurm has said whose job it is, the first one to report it keeps it.
  if (found != jobs_.end() && found->second.job.user != job.user &&
      Clock::now() - found->second.heard < settings_.forget) {
    throw std::runtime_error("job " + std::to_string(job.id) + " is another user's");
  }
  Known& known = jobs_[job.id];
  const bool news = known.session != id || known.job.held != job.held ||
                    known.job.manual != job.manual || known.job.busy() != job.busy();
  if (known.job.user != job.user) known.verified = false;
  if (known.session != id) {
    known.order = known.done = 0;
    send(id, Message("welcome"));
  }
  session.job = job.id;
  known.session = id;
  known.heard = Clock::now();
  ++counts_.reports;
  if (message.head.contains("done")) {
    const std::int64_t done = message.number("done");
    if (known.order != 0 && done == known.order && known.done != done) ++counts_.orders_done;
    known.done = done;
  }
  known.job = std::move(job);
  if (news) look_soon();
}

void Daemon::hand_on(SessionId id, const Message& message) {
  const std::int64_t said = message.number("job");
  const auto found = jobs_.find(static_cast<JobId>(said));
  const std::uint32_t user = sessions_.at(id).user;
  if (said <= 0 || found == jobs_.end() || !found->second.verified) {
    refuse(id, "no elastic job " + std::to_string(said) + " is known here");
    return;
  }
  if (user != found->second.job.user && !settings_.operators.contains(user)) {
    refuse(id, "job " + std::to_string(said) + " is another user's");
    return;
  }
  const std::int64_t number = next_number_++;
  Request& request = requests_[number];
  request.asker = id;
  request.job = found->first;
  const json::value* limit = message.head.if_contains("limit");
  const double wait = limit != nullptr && limit->is_number() ? limit->to_number<double>() : 0;
  request.limit = std::make_unique<asio::steady_timer>(
      io_,
      kRequestLimit + std::chrono::seconds(static_cast<long>(std::clamp(wait, 0.0, 86'400.0))));
  request.limit->async_wait([this, number](const boost::system::error_code& answered) {
    if (answered) return;
    const SessionId asker = requests_.at(number).asker;
    requests_.erase(number);
    refuse(asker, "the job's broker has not answered");
  });
  Message forward("request");
  forward.head["number"] = number;
  forward.head["user"] = user;
  forward.head["request"] = message.head;
  ++counts_.requests;
  event_file_.write("request", {{"job", found->first}, {"by", user}, {"request", message.head}});
  note(found->first, "a request of user " + std::to_string(user));
  send(found->second.session, forward);
}

void Daemon::take_answer(SessionId id, const Message& message) {
  const auto found = requests_.find(message.number("number"));
  if (found == requests_.end()) return;  // too late
  if (sessions_.at(id).job != found->second.job) throw std::runtime_error("not asked");
  Message answer;
  answer.head = message.object("answer");
  const bool granted = answer.type() == "done";
  ++(granted ? counts_.granted : counts_.refused);
  event_file_.write("answer", {{"job", found->second.job}, {"granted", granted}});
  const SessionId asker = found->second.asker;
  requests_.erase(found);
  send(asker, answer);
}

void Daemon::send(SessionId id, const Message& message) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  try {
    found->second.channel->send(sealer_.seal_for(message, found->second.user));
  } catch (const std::exception& failed) {
    spdlog::error("{}", failed.what());
  }
}

void Daemon::refuse(SessionId id, const std::string& why) {
  Message refused("refused");
  refused.head["reason"] = why;
  send(id, refused);
}

void Daemon::drop(SessionId id, const std::string& why) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const std::shared_ptr<protocol::Channel> channel = found->second.channel;
  if (found->second.job) spdlog::info("job {}: {}", *found->second.job, why);
  const std::optional<JobId> job = found->second.job;
  ++counts_.dropped;
  sessions_.erase(found);
  channel->close();
  if (!job || !jobs_.contains(*job) || jobs_.at(*job).session != id) return;
  jobs_.erase(*job);
  std::vector<SessionId> askers;
  std::erase_if(requests_, [&](const auto& entry) {
    if (entry.second.job != *job) return false;
    askers.push_back(entry.second.asker);
    return true;
  });
  for (const SessionId asker : askers) refuse(asker, "the job's broker has gone");
}

protocol::Message Daemon::list() const {
  Message all("jobs");
  all.head["policy"] = settings_.policy;
  all.head["dry_run"] = settings_.dry_run;
  json::array jobs;
  for (const auto& [id, known] : jobs_) {
    if (!known.verified) continue;
    json::object one = report_of(known.job).head;
    one.erase("type");
    one["user"] = known.job.user;
    jobs.push_back(std::move(one));
  }
  all.head["jobs"] = std::move(jobs);
  json::array events;
  for (const Event& event : events_) {
    events.push_back(json::object{{"time", event.time}, {"job", event.job}, {"text", event.text}});
  }
  all.head["events"] = std::move(events);
  return all;
}

// ---- looks at the cluster, and what follows from them -------------------------------------------

// At the next opportunity, and no more often than `pause`.
void Daemon::look_soon() {
  const auto when = std::max(Clock::now(), last_look_ + settings_.pause);
  if (next_look_ && *next_look_ <= when) return;
  next_look_ = when;
  timer_.expires_at(when);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    next_look_.reset();
    look();
  });
}

void Daemon::look() {
  if (looking_) return;  // the next one is planned when it is over
  looking_ = true;
  asio::post(worker_, [this] {
    Look seen;
    const auto begun = Clock::now();
    try {
      seen.jobs = cluster_.jobs();
      seen.nodes = cluster_.nodes();
    } catch (const std::exception& failed) {
      seen.failure = failed.what();
    }
    seen.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    asio::post(io_, [this, result = std::move(seen)]() mutable { take_look(std::move(result)); });
  });
}

void Daemon::take_look(Look seen) {
  looking_ = false;
  last_look_ = Clock::now();
  if (seen.failure != last_failure_) {
    if (seen.failure.empty()) {
      spdlog::info("the cluster answers again");
    } else {
      spdlog::warn("{}; nothing is decided meanwhile", seen.failure);
    }
  }
  last_failure_ = seen.failure;
  const bool ok = seen.failure.empty();
  if (ok) {
    const std::size_t jobs = seen.jobs.size(), nodes = seen.nodes.size();
    verify(seen);
    nodes_ = seen.nodes;
    decide_all(seen);
    const std::chrono::duration<double> took = Clock::now() - last_look_;
    watch_look(seen, took.count());
    spdlog::debug("decided on {} elastic jobs, with {} jobs and {} nodes in all: {:.4f} s",
                  jobs_.size(), jobs, nodes, took.count());
  }
  if (!ok) ++counts_.failed_looks;
  next_look_ = Clock::now() + settings_.interval;
  timer_.expires_at(*next_look_);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    next_look_.reset();
    look();
  });
}

// Believes Slurm, not the broker: whose job it is, and whose nodes.
void Daemon::verify(const Look& seen) {
  std::map<JobId, const JobView*> by_id;
  std::map<std::string, std::set<std::uint32_t>> users_of_node;
  for (const JobView& job : seen.jobs) {
    by_id[job.id] = &job;
    if (job.state == JobState::pending || job.state == JobState::ended) continue;
    for (const std::string& node : job.nodes) users_of_node[node].insert(job.user);
  }
  std::vector<SessionId> liars;
  for (auto& [id, known] : jobs_) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) {  // newer than this look, or over
      known.verified = false;
      continue;
    }
    const JobView& job = *found->second;
    if (job.user != known.job.user) {
      spdlog::warn("user {} reports job {}, which is user {}'s", known.job.user, id, job.user);
      liars.push_back(known.session);
      continue;
    }
    known.verified = true;
    known.job.name = job.name;
    known.job.partition = job.partition;
    known.job.features = job.shape.features;
    const auto is_own = [&](const std::string& node) {
      const auto users = users_of_node.find(node);
      return users != users_of_node.end() && users->second.contains(job.user);
    };
    std::erase_if(known.job.held, [&](const std::string& node) { return !is_own(node); });
    std::erase_if(known.job.fixed, [&](const std::string& node) { return !is_own(node); });
    std::erase_if(known.job.going, [&](const std::string& node) { return !is_own(node); });
  }
  for (const SessionId liar : liars) drop(liar, "it reports another user's job");
}

void Daemon::decide_all(const Look& seen) {
  const auto now = Clock::now();
  std::vector<ElasticJob> elastic;
  for (auto& [id, known] : jobs_) {
    if (!known.verified) continue;
    ElasticJob job = known.job;
    if (now - known.heard > settings_.forget) job.manual = true;
    // What was ordered counts until the broker has taken it up and reports it itself.
    if (known.order > known.done && now - known.ordered_at < kOrderLimit) {
      job.coming = std::max(job.coming, known.ordered.grow);
      job.going.insert(known.ordered.give_back.begin(), known.ordered.give_back.end());
    }
    elastic.push_back(std::move(job));
  }
  const Surroundings around = surroundings_of(std::move(elastic), seen.jobs, seen.nodes);
  pending_ = around.pending.size();
  for (const auto& [id, decision] : decide(*policy_, around)) order(jobs_.at(id), decision);
}

void Daemon::order(Known& known, const Decision& decision) {
  // Taken up, but refused by Slurm or by the broker: not again and again.
  const bool again = known.order != 0 && decision.grow == known.ordered.grow &&
                     decision.companion == known.ordered.companion &&
                     decision.give_back == known.ordered.give_back;
  if (again && Clock::now() - known.ordered_at < kRepeat) return;
  const std::string what = decision.grow > 0 ? fmt::format("grow by {}", decision.grow)
                                             : "give back " + join(decision.give_back);
  const std::string text =
      fmt::format("{}{}: {}", settings_.dry_run ? "would " : "", what, decision.why);
  const bool said = !events_.empty() && events_.back().job == known.job.id &&
                    events_.back().text == text && settings_.dry_run;
  if (!said) {
    note(known.job.id, text);
    count_decision(known.job.id, decision);
  }
  if (settings_.dry_run) return;
  ++counts_.orders;
  known.order = next_number_++;
  known.ordered = decision;
  known.ordered_at = Clock::now();
  Message order("order");
  order.head["number"] = known.order;
  order.head["grow"] = decision.grow;
  order.head["companion"] = decision.companion;
  order.head["give_back"] = json::value_from(decision.give_back);
  order.head["why"] = decision.why;
  send(known.session, order);
}

void Daemon::note(JobId job, const std::string& text) {
  spdlog::info("job {}: {}", job, text);
  events_.push_back({unix_now(), job, text});
  if (events_.size() > kEventsKept) events_.pop_front();
}

}  // namespace bellows::scheduler
