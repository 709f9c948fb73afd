// SPDX-License-Identifier: Apache-2.0
#include "scheduler/broker/broker.h"

#include <algorithm>
#include <boost/json.hpp>

#include "scheduler/cluster/node_list.h"

namespace bellows::scheduler {
namespace json = boost::json;
using protocol::Message;

namespace {

constexpr std::size_t kMostRequests = 8;
constexpr Seconds kWithoutWait{3600};  // that nodes are waited for when nobody does
constexpr double kLongestWait = 86'400;

Message refusal(const std::string& reason) {
  Message refused("refused");
  refused.head["reason"] = reason;
  return refused;
}

Time after(Time from, Seconds time) {
  return from + std::chrono::duration_cast<Time::duration>(time);
}

std::string seconds_text(Seconds time) {
  const auto hundredths = std::chrono::round<std::chrono::duration<long, std::centi>>(time).count();
  const std::string digits = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + (digits.size() < 2 ? ".0" : ".") + digits + " s";
}

// "n4 joined by expansion (Slurm 0.12 s, agents 0.30 s, warm-up 0.41 s, join 0.20 s); …"
std::string text_of(const ResizeReport& report) {
  std::string text;
  if (!report.added.empty()) {
    text = join(report.added) + " joined by " + report.how + " (Slurm " +
           seconds_text(report.allocation) + ", agents " + seconds_text(report.agents) +
           ", warm-up " + seconds_text(report.warm_up) + ", join " + seconds_text(report.join) +
           "); ";
  }
  if (!report.removed.empty()) {
    text += join(report.removed) + " given back (ranks left after " + seconds_text(report.leave) +
            ", Slurm " + seconds_text(report.give_back) + "); ";
  }
  for (const std::string& remark : report.remarks) text += remark + "; ";
  return text + "the job has " + std::to_string(report.nodes) +
         (report.nodes == 1 ? " node" : " nodes");
}

}  // namespace

bool BrokerPace::wait(Seconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return !stopped_now_.wait_for(lock, time, [this] { return stopped_; });
}

void BrokerPace::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  stopped_now_.notify_all();
}

bool BrokerPace::stopped() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopped_;
}

Broker::Broker(Cluster& cluster, RunClient& run, BrokerPace& pace, const BrokerSettings& settings,
               Guidance& guidance, std::function<void(const std::string&)> say)
    : pace_(pace),
      settings_(settings),
      desk_{cluster, run, pace, settings, std::move(say), guidance, {}, {}, {}, {}, {}},
      care_(desk_) {}

Broker::~Broker() { stop(); }

void Broker::start() {
  thread_ = std::thread([this] { run(); });
}

void Broker::stop() {
  pace_.stop();
  came_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Broker::serve(const Message& request, const Reply& reply) {
  if (request.type() != "resize-nodes") {
    throw std::runtime_error("unknown request \"" + std::string(request.type()) + "\"");
  }
  Request wanted;
  wanted.text = request.text("nodes");
  wanted.size = parse_size_request(wanted.text);
  if (request.head.contains("component")) {
    const std::int64_t component = request.number("component");
    if (component < 0 || component > 10'000) throw std::runtime_error("no such component");
    wanted.component = static_cast<std::size_t>(component);
  }
  const double limit = request.head.at("limit").to_number<double>();
  const bool waits = limit > 0;
  if (!(limit >= 0) || limit > kLongestWait) throw std::runtime_error("the limit is no time");
  wanted.deadline = after(pace_.now(), waits ? Seconds(limit) : kWithoutWait);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (base_ended_ || pace_.stopped()) throw std::runtime_error("the job is ending");
    if (queue_.size() >= kMostRequests) throw std::runtime_error("too many requests wait");
    if (waits) wanted.reply = reply;
    queue_.push_back(std::move(wanted));
  }
  came_.notify_all();
  if (waits) return;
  Message done("done");
  done.head["text"] = "asked for; 'bellows status' shows what comes of it";
  reply(done);
}

// The thread's life: requests as they come, and a look at everything now and then.
void Broker::run() {
  while (!pace_.stopped()) {
    const Seconds until = std::max(Seconds(next_look_ - pace_.now()), Seconds(0));
    if (std::optional<Request> request = next(until)) {
      handle(*request);
      continue;
    }
    if (pace_.stopped()) break;
    next_look_ = after(pace_.now(), settings_.poll);
    if (care_.look(false)) continue;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      base_ended_ = true;
    }
    if (on_base_end) on_base_end();
    break;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  base_ended_ = true;
  for (const Request& request : queue_) {
    if (request.reply) request.reply(refusal("the job is ending"));
  }
  queue_.clear();
}

std::optional<Broker::Request> Broker::next(Seconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  came_.wait_for(lock, limit, [this] { return !queue_.empty() || pace_.stopped() || look_now_; });
  look_now_ = false;
  if (queue_.empty() || pace_.stopped()) return std::nullopt;
  Request request = std::move(queue_.front());
  queue_.pop_front();
  return request;
}

void Broker::look_now() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    look_now_ = true;
  }
  came_.notify_all();
}

// While nodes are waited for: the allocation that there is needs care as well.
std::string Broker::why_stop() {
  if (pace_.stopped()) return "the job is ending";
  if (pace_.now() >= next_look_) {
    next_look_ = after(pace_.now(), settings_.poll);
    if (!care_.look(true)) return "the job is ending";
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.empty() ? "" : "a newer request has come: " + queue_.front().text;
}

void Broker::handle(const Request& request) {
  const Time begun = pace_.now();
  note(desk_,
       {.kind = "asked", .nodes = request.size.names, .text = "resize --nodes=" + request.text});
  Message result;
  const bool grows = request.size.what != SizeRequest::What::shrink;
  const auto named = static_cast<int>(request.size.names.size());
  const Guidance::Change change(desk_.guidance,
                                grows ? std::max({request.size.number, named, 1}) : 0,
                                grows ? std::vector<std::string>{} : request.size.names);
  try {
    const ResizeReport report = resize(desk_, request.size, request.component, request.deadline,
                                       [this] { return why_stop(); });
    result = answer(report, pace_.now() - begun);
    const std::string text = "resize --nodes=" + request.text + ": " + result.text("text");
    desk_.say(text);
    note_changes(desk_, report, text);
  } catch (const std::exception& refused) {
    result = refusal(refused.what());
    const std::string text = "resize --nodes=" + request.text + " refused: " + refused.what();
    desk_.say(text);
    note(desk_, {.kind = "refused",
                 .nodes = request.size.names,
                 .seconds = Seconds(pace_.now() - begun).count(),
                 .text = text});
  }
  if (request.reply) request.reply(result);
}

Message Broker::answer(const ResizeReport& report, Seconds total) const {
  Message done("done");
  done.head["text"] = text_of(report);
  done.head["nodes"] = report.nodes;
  done.head["added"] = json::value_from(report.added);
  done.head["removed"] = json::value_from(report.removed);
  done.head["remarks"] = json::value_from(report.remarks);
  done.head["how"] = report.how;
  done.head["seconds"] = json::object{{"allocation", report.allocation.count()},
                                      {"agents", report.agents.count()},
                                      {"warm_up", report.warm_up.count()},
                                      {"join", report.join.count()},
                                      {"leave", report.leave.count()},
                                      {"give_back", report.give_back.count()},
                                      {"total", total.count()}};
  return done;
}

}  // namespace bellows::scheduler
