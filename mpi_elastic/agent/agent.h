// SPDX-License-Identifier: Apache-2.0
// The agent of one node: it starts the ranks there, is their PMIx host, forwards their output, and
// reports to the coordinator. When the coordinator is lost the ranks end with it; those of an
// elastic job go on for a while, in which another may take over.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "mpi_elastic/agent/job_folder.h"
#include "mpi_elastic/agent/pmix_host.h"
#include "mpi_elastic/agent/rank_process.h"
#include "mpi_elastic/agent/requests.h"
#include "mpi_elastic/common/agent_settings.h"
#include "mpi_elastic/common/greeting.h"
#include "mpi_elastic/common/silence.h"
#include "mpi_elastic/common/world_spec.h"
#include "protocol/channel.h"

namespace bellows::elastic {

/// Exit codes of bellows-agent.
enum class AgentExit : int { ok = 0, failed = 1, refused = 2, lost_coordinator = 3 };

class Agent final : public HostUpcalls {
 public:
  /// Takes over a channel whose handshake is done. `address`: the own end of it, without the port.
  Agent(boost::asio::io_context& io, AgentSettings settings, std::uint32_t node_id,
        std::shared_ptr<protocol::Channel> channel);
  /// Runs until the coordinator sends it home or is lost.
  AgentExit run();

 private:
  struct World {
    WorldSpec spec;
    std::vector<Binding> bindings;
    std::uint32_t machine_ranks = 0;  // on this machine, its other nodes included
  };
  /// What the ranks of all worlds run, and how.
  struct Job {
    Program program;
    std::string bind;
    int gpus_per_rank = 0;
    bool survives = false;  // the death of some of its ranks
    bool elastic = false;
  };
  struct Rank {
    std::uint64_t member = 0;
    Proc proc;          // in the newest world that it was told of
    Proc connected_as;  // by which it last began a session with us
    bool connected = false;
    bool finalized = false;
    bool stopped = false;                              // the launcher has told it to end
    bool elastic = false;                              // it uses ElasticWorld
    bool dismissed = false;                            // asked to leave
    bool released = false;                             // ... and nobody needs its state any more
    bool ready = false;                                // can be taken into a world
    bool replacing = false;                            // loads its program anew
    std::uint32_t entered = 0, left = 0, trouble = 0;  // newest epochs, as it said
    SilenceWatch::Clock::time_point started;
    std::optional<int> abort_status;
    std::optional<protocol::Message> end;                      // what was reported of its end
    std::optional<SilenceWatch::Clock::time_point> suspended;  // seen stopped since
    std::shared_ptr<RankProcess> process;                      // null when it could not be started
    std::shared_ptr<protocol::Channel> control;                // to its ElasticWorld
  };

  // The coordinator's messages.
  void receive(const protocol::Message& message);
  void take_job(const protocol::Message& message);
  void register_world(const protocol::Message& message);
  void start_world(const protocol::Message& message);
  void start_rank(const World& world, std::uint32_t rank);
  void fork_rank(Rank& entry, SpawnRequest request, const std::string& cpus, bool takes_input);
  void report_not_started(std::uint64_t member, const std::exception& failed);
  void report_end(std::uint64_t member, protocol::Message exited);
  void failed_elsewhere(const protocol::Message& message);
  void signal_ranks(const protocol::Message& message);
  void input(const protocol::Message& message);
  void output_taken(std::size_t bytes);
  void modex_wanted(const protocol::Message& message);

  // agent_epochs.cc: worlds that follow the first.
  void start_joiners(const protocol::Message& message);
  void enter_world(const protocol::Message& message);
  void send_place(Rank& rank, bool urgent);
  void tell_leavers(const protocol::Message& message, bool Rank::* told);
  void kill_ranks(const protocol::Message& message);
  void forget_worlds(const protocol::Message& message);
  void listen_to(std::uint64_t member, int fd);
  void heard_from(std::uint64_t member, const protocol::Message& message);
  void look_for_silent_ranks();

  // agent_gap.cc: the coordinator is lost, and another may come.
  void talk_to_launcher();
  void lost_launcher(const std::string& why);
  void go_without_launcher(const std::string& why);
  void seek_launcher();
  void launcher_answers(GreetingResult result);
  void refused_by_launcher(const std::string& why);
  void launcher_goes_on();
  void launcher_is_back(std::shared_ptr<protocol::Channel> channel);
  protocol::Message report_to_new_launcher(std::size_t failed) const;

  // What the ranks do.
  void rank_output(std::uint64_t member, RankProcess::Stream stream, std::string bytes);
  void rank_ended(std::uint64_t member, int status);
  Rank* rank_of(const Proc& proc);

  // HostUpcalls: most are requests to the coordinator.
  void on_connected(const Proc& who) override;
  void on_finalized(const Proc& who) override;
  void on_abort(const Proc& who, int status, const std::string& text, OperationDone done) override;
  void on_fence(std::vector<Proc> procs, std::string data, DataDone done) override;
  void on_connect(std::vector<Proc> procs, OperationDone done) override;
  void on_disconnect(std::vector<Proc> procs, OperationDone done) override;
  void on_group(int operation, const std::string& name, std::vector<Proc> procs,
                std::string endpoints, GroupDone done) override;
  void on_modex(const Proc& whose, DataDone done) override;
  void on_publish(PublishRequest request, OperationDone done) override;
  void on_unpublish(const Proc& owner, std::vector<std::string> keys, OperationDone done) override;
  void on_lookup(const Proc& who, std::vector<std::string> keys, bool wait,
                 LookupDone done) override;
  void on_suspicion(const Proc& by, const std::vector<Proc>& about,
                    const std::string& what) override;
  void on_log(const Proc& who, const std::string& text) override;

  std::vector<std::string> environment_of(const World& world, std::uint32_t rank);
  std::vector<std::string> joiner_environment();
  void connect_with(std::vector<Proc> procs, std::string modex, OperationDone done);
  void beat();
  void await_signal();
  void end(AgentExit code, const std::string& why);

  boost::asio::io_context& io_;
  AgentSettings settings_;
  const std::uint32_t node_id_;
  std::shared_ptr<protocol::Channel> channel_;
  std::string network_;  // of the interface that reaches the coordinator
  // Before what is cleaned up at the end, and so outliving it: without its handler a late SIGTERM
  // of Slurm's would end the agent half-way.
  boost::asio::signal_set signals_;
  JobFolder folder_;
  Topology topology_;
  PmixHost host_;
  SilenceWatch silence_;
  Requests requests_;
  boost::asio::steady_timer beat_timer_;
  SilenceWatch rank_silence_;
  boost::asio::steady_timer rank_timer_;
  boost::asio::steady_timer return_timer_;

  Job job_;
  std::map<std::string, World> worlds_;  // by namespace
  std::map<std::uint64_t, Rank> ranks_;  // by member
  // What connected processes elsewhere have put: asking for it later could mean asking the dead.
  std::map<Proc, std::string> modex_;
  std::size_t output_underway_ = 0;  // bytes sent and not yet taken by the coordinator
  bool output_held_ = false;
  // Output that no coordinator has taken yet, for one that comes after it.
  std::deque<protocol::Message> output_kept_;
  bool away_ = false;     // without a coordinator
  bool seeking_ = false;  // calls at its address
  SilenceWatch::Clock::time_point away_until_;
  std::string launcher_address_;
  bool ended_ = false;
  AgentExit exit_code_ = AgentExit::ok;
};

}  // namespace bellows::elastic
