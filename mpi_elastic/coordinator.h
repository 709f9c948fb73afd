// SPDX-License-Identifier: Apache-2.0
// The heart of bellows-run: brings the agents together, declares the world, starts its ranks,
// serves their PMIx requests between nodes, and sees the job to its end.
//
//   starting ──all agents ready──▶ registering ──all know the world──▶ running
//      │                               │                                 │
//      └── limit, agent fails ─────────┴──▶ stopping ◀── failure, signal ┘   (SIGTERM, then
//      SIGKILL)
//                                              │                         │
//                                              └─▶ finishing ◀── all ended   (agents go home) ─▶
//                                              end
//
// Every state but `running` has a limit on its time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi_elastic/agent_links.h"
#include "mpi_elastic/agent_starter.h"
#include "mpi_elastic/allocation.h"
#include "mpi_elastic/input.h"
#include "mpi_elastic/job_outcome.h"
#include "mpi_elastic/membership.h"
#include "mpi_elastic/name_service.h"
#include "mpi_elastic/output.h"
#include "mpi_elastic/rendezvous.h"
#include "mpi_elastic/run_options.h"

namespace bellows::elastic {

class Coordinator {
 public:
  Coordinator(boost::asio::io_context& io, RunOptions options, Allocation allocation);
  /// Runs the job. Returns the exit code for bellows-run.
  int run();

 private:
  enum class State { starting, registering, running, stopping, finishing };
  using Message = protocol::Message;

  // coordinator.cc: the course of the job.
  void start_agents();
  std::uint32_t agent_says_hello(const std::string& node);
  void agent_ready(const std::string& node, const Message& message);
  void agent_lost(const std::string& node, const std::string& reason);
  void agent_process_ended(const std::string& node, const std::string& how);
  void world_registered(const std::string& node, const Message& message);
  void start_ranks();
  void rank_started(const std::string& node, const Message& message);
  void rank_exited(const Message& message);
  void end_rank(std::uint64_t member, RankEnd end);
  void stop_ranks_after(const RankEnd& end);
  void check_incomplete_world();
  void announce(const std::vector<std::uint64_t>& dead);
  void fail_start(const std::string& reason);
  void stop_ranks();
  void finish();
  void await_signal();
  void forward_signal(int number);
  void set_limit(double seconds, void (Coordinator::*on_limit)());
  void on_start_limit();
  void on_stop_limit();
  void on_finish_limit();

  // coordinator_services.cc: what agents ask for on behalf of ranks.
  void receive(const std::string& node, const Message& message);
  void serve_collective(const std::string& node, const Message& message);
  void send_results(const std::vector<CollectiveResult>& results);
  void serve_modex(const std::string& node, const Message& message);
  void modex_here(const Message& message);
  void serve_publish(const std::string& node, const Message& message);
  void serve_lookup(const std::string& node, const Message& message);
  void send_answers(const std::vector<LookupAnswer>& answers);
  void forget_procs(const std::vector<Proc>& dead);
  void take_output(const std::string& node, const Message& message);
  void send_input(std::string bytes);

  struct RankInfo {
    std::int64_t rank = -1;
    std::int64_t pid = 0;
    std::chrono::steady_clock::time_point started;
    bool connected = false;
    std::optional<int> abort_status;
  };
  struct ModexRequest {
    std::string node;  // who asks
    std::int64_t request = 0;
    Proc whose;
  };

  boost::asio::io_context& io_;
  RunOptions options_;
  Allocation allocation_;
  std::vector<std::pair<std::string, int>> placed_;  // node, ranks
  std::string secret_;
  Membership membership_;
  Rendezvous rendezvous_;
  NameService names_;
  AgentLinks links_;
  AgentStarter starter_;
  OutputWriter output_;
  LineTagger tagger_;
  JobOutcome outcome_;
  boost::asio::steady_timer limit_;
  boost::asio::signal_set signals_;
  std::unique_ptr<InputReader> input_;

  State state_ = State::starting;
  std::set<std::string> awaited_;            // nodes that `state_` waits for
  std::string nspace_;                       // of the newest epoch
  std::map<std::uint64_t, RankInfo> ranks_;  // by member
  std::map<std::int64_t, ModexRequest> modex_;
  std::int64_t next_modex_ = 1;
  std::string start_failure_;
  bool uses_mpi_ = false;          // some rank has called MPI_Init
  bool died_before_init_ = false;  // some rank ended in failure without
  bool stop_planned_ = false;      // `limit_` will stop the ranks
  bool killed_ = false;            // `stopping` has come to SIGKILL
  std::optional<std::chrono::steady_clock::time_point> last_interrupt_;
};

}  // namespace bellows::elastic
