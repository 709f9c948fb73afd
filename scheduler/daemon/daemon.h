// SPDX-License-Identifier: Apache-2.0
// bellowsd: hears of elastic jobs from their brokers and of the cluster from Slurm, decides how
// large each job should be, and tells the brokers, which act with their owners' rights.
//
// It keeps nothing that it could not learn again: brokers report all that is to be known every few
// seconds, and connect again when it has been away. A job whose broker is silent is left alone.
//
//   broker ── report (all there is to know, number of the last order done) ──▶ bellowsd
//   broker ◀── welcome (to the first), then
//              order (number, grow by N or give back these nodes, why) ─────── bellowsd
//   user ── jobs | resize-nodes ─▶ bellowsd ── request ──▶ broker ── answer ──▶ bellowsd ──▶ user
//
// Every message is sealed by MUNGE. A report counts when Slurm says that its sender owns the job,
// and only for nodes that Slurm says are that user's.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/channel.h"
#include "protocol/credential.h"
#include "protocol/metrics_output.h"
#include "scheduler/cluster/cluster.h"
#include "scheduler/daemon/daemon_events.h"
#include "scheduler/daemon/daemon_metrics.h"
#include "scheduler/daemon/daemon_settings.h"
#include "scheduler/policy/cluster_policy.h"
#include "scheduler/policy/elastic_job.h"

namespace bellows::scheduler {

class Daemon {
 public:
  /// `cluster` is called from a thread of the daemon's own. Throws std::runtime_error when it
  /// cannot listen.
  Daemon(boost::asio::io_context& io, DaemonSettings settings, Cluster& cluster,
         protocol::Sealer& sealer);
  /// Waits for a call to the cluster that is under way.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  std::uint16_t port() const;
  /// Takes over new settings, but for the address.
  void configure(DaemonSettings settings);
  /// Writes what is to be written at the end.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  using Message = protocol::Message;
  using SessionId = std::uint64_t;
  struct Look {
    std::vector<JobView> jobs;
    std::vector<NodeView> nodes;
    std::string failure;
    double seconds = 0;  // that it took
  };
  struct Session {
    std::shared_ptr<protocol::Channel> channel;
    std::uint32_t user = 0;
    std::optional<JobId> job;  // a broker's
    int messages = 0;          // in the present second
    Clock::time_point second;
  };
  struct Known {
    ElasticJob job;
    SessionId session = 0;
    bool verified = false;
    Clock::time_point heard;
    std::int64_t order = 0, done = 0;  // numbers of the last order sent and of the last one done
    Decision ordered;
    Clock::time_point ordered_at;
  };
  struct Request {  // of a user, handed on to a broker
    SessionId asker = 0;
    JobId job = 0;
    std::unique_ptr<boost::asio::steady_timer> limit;
  };
  struct Event {
    double time = 0;  // Unix time
    JobId job = 0;
    std::string text;
  };

  void accept();
  void greet(boost::asio::ip::tcp::socket socket);
  void receive(SessionId id, const Message& sealed);
  void serve(SessionId id, const Message& message);
  void take_report(SessionId id, const Message& message);
  void hand_on(SessionId id, const Message& message);
  void take_answer(SessionId id, const Message& message);
  void send(SessionId id, const Message& message);
  void refuse(SessionId id, const std::string& why);
  void drop(SessionId id, const std::string& why);
  Message list() const;

  void look_soon();
  void look();
  void take_look(Look seen);
  void verify(const Look& seen);
  void decide_all(const Look& seen);
  void order(Known& known, const Decision& decision);
  void note(JobId job, const std::string& text);

  // daemon_watch.cc: what others can see of it.
  void open_metrics();
  void keep_metrics();
  std::string metrics_text() const;
  void open_events(const std::string& path);
  void count_decision(JobId job, const Decision& decision);
  void watch_look(const Look& seen, double decision_seconds);

  boost::asio::io_context& io_;
  DaemonSettings settings_;
  Cluster& cluster_;
  protocol::Sealer& sealer_;
  std::unique_ptr<ClusterPolicy> policy_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer timer_, accept_timer_;
  std::map<SessionId, Session> sessions_;
  SessionId next_session_ = 1;
  std::map<JobId, Known> jobs_;
  std::map<std::int64_t, Request> requests_;
  std::int64_t next_number_ = 1;  // of orders and requests
  std::deque<Event> events_;
  DaemonEvents event_file_;
  DaemonCounts counts_;
  std::vector<NodeView> nodes_;  // as last seen
  std::size_t pending_ = 0;
  protocol::MetricsOutput metrics_;
  bool looking_ = false;
  std::optional<Clock::time_point> next_look_;
  Clock::time_point last_look_;
  std::string last_failure_;
  boost::asio::thread_pool worker_{1};
};

}  // namespace bellows::scheduler
