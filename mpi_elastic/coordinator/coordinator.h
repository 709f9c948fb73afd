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
// Every state but `running` has a limit on its time. A coordinator that takes over a job begins
// with `reattaching` and goes on to `running`, whatever the one before it was about.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi_elastic/common/membership.h"
#include "mpi_elastic/common/node_report.h"
#include "mpi_elastic/common/rendezvous.h"
#include "mpi_elastic/coordinator/agent_links.h"
#include "mpi_elastic/coordinator/agent_starter.h"
#include "mpi_elastic/coordinator/allocation.h"
#include "mpi_elastic/coordinator/broker_process.h"
#include "mpi_elastic/coordinator/event_log.h"
#include "mpi_elastic/coordinator/input.h"
#include "mpi_elastic/coordinator/job_file.h"
#include "mpi_elastic/coordinator/job_outcome.h"
#include "mpi_elastic/coordinator/name_service.h"
#include "mpi_elastic/coordinator/output.h"
#include "mpi_elastic/coordinator/run_metrics.h"
#include "mpi_elastic/coordinator/run_options.h"
#include "protocol/control_server.h"
#include "protocol/metrics_output.h"
#include "protocol/size_hints.h"

namespace bellows::elastic {

class Coordinator {
 public:
  Coordinator(boost::asio::io_context& io, RunOptions options, Allocation allocation);
  /// For a job whose launcher has died.
  Coordinator(boost::asio::io_context& io, JobRecord left);
  /// Runs the job. Returns the exit code for bellows-run. Throws std::runtime_error when the job
  /// cannot be taken over, since another launcher has it.
  int run();

 private:
  enum class State { starting, reattaching, registering, running, stopping, finishing };
  using Message = protocol::Message;
  using ControlServer = protocol::ControlServer;

  Coordinator(boost::asio::io_context& io, RunOptions options, Allocation allocation,
              std::string secret, const std::string& name);
  std::string job_name() const;

  // coordinator.cc: the course of the job.
  void start_agents();
  AgentSettings settings_for_agents() const;
  std::uint32_t agent_says_hello(const std::string& node, std::optional<std::uint32_t> returning);
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
  void tell_failed(const std::vector<Proc>& procs, const std::vector<std::string>& targets);
  Message world_message(const WorldSpec& world) const;
  void fail_start(const std::string& reason);
  void stop_ranks();
  void finish();
  int exit_code() const;
  std::string verdict() const;
  void await_signal();
  void forward_signal(int number);
  void set_limit(double seconds, void (Coordinator::*on_limit)());
  void on_start_limit();
  void on_stop_limit();
  void on_finish_limit();

  // coordinator_reattach.cc: what is left to the next launcher, and what the last one has left.
  void keep_record();
  void reattach();
  void hear_returning(const std::string& node, const Message& message);
  void stop_awaiting(const std::string& node);
  void rebuild();
  void take_over_ranks(const std::vector<NodeReport>& reports, const FoundJob& found);
  void replay(bool output);
  void book_ends(const std::vector<NodeReport>& reports, const FoundJob& found);
  void on_reattach_limit();

  // coordinator_epochs.cc: how one epoch of the world follows another.
  void change_world(const std::string& cause, bool urgent);
  void declare_world();
  void epoch_registered(const std::string& node, const Message& message);
  void enter_when_registered();
  void enter_world();
  void stand_when_entered();
  void member_entered(const Message& message);
  void world_stands();
  void forget_old_worlds();
  void await_phase();
  void on_phase_limit();
  std::set<std::uint64_t> members_of_newest() const;
  bool changes_anything() const;
  bool is_in_newest(std::uint64_t member) const;
  Message job_message() const;

  // coordinator_events.cc: what the job's owner is told.
  using Event = protocol::JobEvent;
  struct Follower {
    ControlServer::Reply reply;
    std::int64_t after = 0;  // number of the newest event that it has
    std::chrono::steady_clock::time_point until;
  };
  void open_events();
  void note_event(Event event);
  std::vector<std::string> nodes_that_changed();
  void serve_events(const Message& request, ControlServer::Reply reply);
  void answer_followers();
  void note_of_broker(const Message& request, const ControlServer::Reply& reply);

  // coordinator_metrics.cc: how fast the program is, and what Prometheus is told.
  struct RankInfo;
  void note_progress(RankInfo& rank, const Message& message);
  std::optional<double> efficiency(double samples_per_second) const;
  void open_metrics();
  std::string metrics_text() const;

  // coordinator_repair.cc: what is done about a death.
  void member_ended(std::uint64_t member, const RankEnd& end, MemberState before, bool closed);
  void await_the_end();
  void repair_after(const RankEnd& end, std::uint64_t member);
  bool can_repair(std::string& why_not) const;
  void member_in_trouble(const Message& message);
  void member_left(std::uint64_t member, std::uint32_t epoch);
  void world_is_broken(const std::string& nspace);
  void announce_departed();
  void stop_job(const std::string& reason);
  void kill_members(const std::vector<std::uint64_t>& members, bool stop);

  // coordinator_join.cc
  std::vector<std::uint64_t> grow(int count, const std::vector<std::string>& nodes);
  std::string node_for_joiner(const std::vector<std::string>& nodes) const;
  void send_joiners(const std::string& node, const std::vector<std::uint64_t>& members);
  void node_arrived(const std::string& node);
  void node_failed_to_arrive(const std::string& node, const std::string& why);
  void start_arrival(const std::string& node);
  void member_ready(const Message& message);
  void joiner_ready(std::uint64_t member);
  void take_in_joiners();
  void ended_before_start(std::uint64_t member, RankEnd end);
  void dismiss_joiners();

  // coordinator_leave.cc
  std::string why_not_leave(const std::vector<std::uint64_t>& members) const;
  void let_leave(const std::vector<std::uint64_t>& members);
  std::vector<std::uint64_t> members_to_shrink(int count) const;
  void member_in_step(std::uint64_t member);
  void apply_leaves();
  void take_back_leavers();
  void check_leaves();
  bool is_leaving(std::uint64_t member) const;
  void release_leavers();
  std::vector<std::uint64_t> members_staying() const;
  void release_empty_nodes();

  // coordinator_nodes.cc: nodes that are added to the allocation, or go from it.
  struct Arriving;
  struct Removal;
  void start_broker();
  std::string job_of(const std::string& node) const;
  std::vector<std::string> other_nodes(const std::string& node) const;
  void add_nodes(const Message& request, ControlServer::Reply reply);
  void remove_nodes(const Message& request, ControlServer::Reply reply);
  void node_gets_notice(const std::string& node);
  void note_arrival(const std::string& node, const std::string& failure);
  void answer_arrivals();
  void answer_removals();
  boost::json::array allocated_nodes() const;

  // coordinator_control.cc: requests of the job's owner.
  struct Waiting {
    ControlServer::Reply reply;
    std::vector<std::uint64_t> members;
    bool joining = false;
  };
  void open_control();
  void member_asks(const Message& message);
  void serve_control(const Message& request, ControlServer::Reply reply);
  void check_nodes(const std::vector<std::string>& names) const;
  void resize(const Message& request, ControlServer::Reply reply);
  void leave(const Message& request, ControlServer::Reply reply);
  void wait_for(Waiting waiting, const Message& request);
  void answer_waiting();
  Message status() const;

  struct Arriving {  // an "add-nodes" that is not answered yet
    struct Place {
      std::vector<std::uint64_t> members;
      std::optional<double> agent, ready;  // seconds since the request
      std::string failure;
    };
    ControlServer::Reply reply;
    std::map<std::string, Place> places;  // by node
    std::chrono::steady_clock::time_point started;
  };
  struct Removal {  // a "remove-nodes"
    ControlServer::Reply reply;
    std::vector<std::string> nodes;
  };

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
    bool elastic = false;       // it uses ElasticWorld
    bool holds_state = false;   // one of the first, or it has made or been given a step since
    bool ready = false;         // a joiner that has said so
    std::uint32_t entered = 0;  // newest epoch that it has entered
    std::uint32_t left = 0;     // newest epoch that it has left
    std::int64_t step = 0;      // as it last said
    double samples_per_second = 0;
    double samples_left = -1;  // below 0: not known
    std::optional<std::int64_t> batch;
    std::optional<double> learning_rate;
    std::optional<SizeHints> hints;  // of the newest epoch
    std::optional<int> abort_status;
  };
  /// Where the newest epoch stands.
  enum class Phase { registering, entering, steady };
  struct Arrival {  // a node whose agent has been started for joiners
    std::vector<std::uint64_t> members;
    std::unique_ptr<boost::asio::steady_timer> limit;
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
  Program program_;
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
  std::string stop_reason_;        // why the launcher itself has stopped the job
  bool uses_mpi_ = false;          // some rank has called MPI_Init
  bool died_before_init_ = false;  // some rank ended in failure without
  bool stop_planned_ = false;      // `limit_` will stop the ranks
  bool killed_ = false;            // `stopping` has come to SIGKILL
  std::optional<std::chrono::steady_clock::time_point> last_interrupt_;

  // The world that changes.
  using Clock = std::chrono::steady_clock;
  Phase phase_ = Phase::entering;
  std::set<std::string> ready_nodes_;
  std::set<std::string> departing_nodes_;    // whose agents were sent home and have not ended yet
  std::map<std::string, Arrival> arrivals_;  // by node
  std::set<std::string> lost_nodes_;         // with their agents, and not used again since
  AgentSettings agent_settings_;             // of all nodes, but for the name
  std::set<std::string> unregistered_;       // nodes that `registering` waits for
  std::set<std::uint64_t> not_entered_;      // members that `entering` waits for
  std::map<std::uint64_t, int> strikes_;     // members that held up the present change
  std::vector<std::string> causes_;          // of the change in hand, for people
  std::string change_kind_;
  Clock::time_point change_started_, declared_, registered_;
  bool urgent_ = false;        // a death: nobody needs to end a step first
  bool change_again_ = false;  // when the present one is done
  bool ending_ = false;        // a member has ended of itself: the program is done
  int troubles_ = 0;           // epochs in a row that were needed although nobody had died
  boost::asio::steady_timer declare_timer_, phase_limit_, trouble_timer_, join_timer_, leave_timer_,
      departed_timer_, ending_timer_, follow_timer_;
  bool declare_planned_ = false;
  EventLog events_;
  EventCounts counts_;
  Clock::time_point stood_at_;      // when the newest world came to stand
  double best_speed_per_rank_ = 0;  // samples/s, of all sizes that lasted
  protocol::MetricsOutput metrics_;
  std::vector<Follower> followers_;
  std::set<std::uint64_t> stood_;  // members of the last world that stood
  std::set<std::uint64_t> ready_joiners_;
  std::set<std::uint64_t> leave_asked_;  // to be let go by the next change that adds nobody
  std::set<std::uint64_t> leave_held_;   // in the newest epoch no more, and not released yet
  std::set<std::string> broken_;         // namespaces in which somebody has died
  std::set<Proc> announced_;             // as failed there, though alive: they have left
  bool departed_planned_ = false;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<JobFile> job_file_;

  // While `reattaching`.
  std::optional<JobRecord> left_;
  std::map<std::string, NodeReport> reports_;                  // by node
  std::deque<std::pair<std::string, Message>> held_messages_;  // with their nodes
  std::vector<int> held_signals_;
  std::vector<Waiting> waiting_;

  // Nodes.
  std::unique_ptr<BrokerProcess> broker_;
  std::vector<Arriving> arriving_;
  std::vector<Removal> removals_;
  std::set<std::string> going_nodes_;  // of the allocation, on which nobody is to start
};

}  // namespace bellows::elastic
