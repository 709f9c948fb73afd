// SPDX-License-Identifier: Apache-2.0
// The PMIx server of one node: what MPI processes started by this agent talk to. It wraps the
// OpenPMIx server library; what the library asks of its host comes out as calls of HostUpcalls.
#pragma once

#include <pmix_server.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mpi_elastic/common/binding.h"
#include "mpi_elastic/common/world_spec.h"

namespace bellows::elastic {

// What to call when a request is done. Each must be called exactly once, from any thread.
using OperationDone = std::function<void(pmix_status_t)>;
using DataDone = std::function<void(pmix_status_t, std::string data)>;
using LookupDone = std::function<void(pmix_status_t, const std::vector<std::string>& keys,
                                      const std::vector<std::string>& values)>;
using GroupDone = std::function<void(pmix_status_t, std::uint64_t context, std::string endpoints)>;

struct PublishRequest {
  Proc owner;
  std::vector<std::string> keys;
  std::vector<std::string> values;  // packed by the PMIx library; opaque here
  bool first_read = false;
};

/// What local processes want. Every call comes on the io_context's thread.
class HostUpcalls {
 public:
  virtual ~HostUpcalls() = default;
  virtual void on_connected(const Proc& who) = 0;  // has called MPI_Init (or PMIx_Init)
  virtual void on_finalized(const Proc& who) = 0;  // has called MPI_Finalize
  virtual void on_abort(const Proc& who, int status, const std::string& text,
                        OperationDone done) = 0;
  virtual void on_fence(std::vector<Proc> procs, std::string data, DataDone done) = 0;
  virtual void on_connect(std::vector<Proc> procs, OperationDone done) = 0;
  virtual void on_disconnect(std::vector<Proc> procs, OperationDone done) = 0;
  /// `operation` and `name` tell one group operation from another.
  virtual void on_group(int operation, const std::string& name, std::vector<Proc> procs,
                        std::string endpoints, GroupDone done) = 0;
  /// The data that a process on another node has put.
  virtual void on_modex(const Proc& whose, DataDone done) = 0;
  virtual void on_publish(PublishRequest request, OperationDone done) = 0;
  virtual void on_unpublish(const Proc& owner, std::vector<std::string> keys,
                            OperationDone done) = 0;
  virtual void on_lookup(const Proc& who, std::vector<std::string> keys, bool wait,
                         LookupDone done) = 0;
  /// A process reports trouble with others: a hint, not a fact.
  virtual void on_suspicion(const Proc& by, const std::vector<Proc>& about,
                            const std::string& what) = 0;
  virtual void on_log(const Proc& who, const std::string& text) = 0;
};

/// One per process (the library has one server). Methods are called on the io_context's thread and
/// wait for the library's own thread, which never waits for ours.
class PmixHost {
 public:
  struct Settings {
    std::string node;       // name under which processes know this node
    std::uint32_t node_id;  // unique in the job
    std::string job;        // name of the job, for the processes
    std::string folder;     // for sockets and the processes' session folders; must exist, 0700
  };
  /// Starts the server. Throws std::runtime_error with the library's reason.
  PmixHost(boost::asio::io_context& io, HostUpcalls& upcalls, const Topology& topology,
           Settings settings);
  PmixHost(const PmixHost&) = delete;
  PmixHost& operator=(const PmixHost&) = delete;
  ~PmixHost();

  /// Makes an epoch of the world known; `bindings` are those of the local ranks in order (empty:
  /// not bound). To be done on every node before any rank of it starts.
  void register_world(const WorldSpec& world, const Program& program,
                      const std::vector<Binding>& bindings);
  /// NAME=value, as the process of that rank needs them to find this server.
  std::vector<std::string> rank_environment(const Proc& proc);
  /// Forgets an epoch that nobody is in any more.
  void deregister_world(const std::string& nspace);
  /// Forgets a local process that has ended.
  void deregister(const Proc& proc);

  /// Tells the local processes of the namespaces `targets` that `dead` are dead.
  void announce_failure(const std::vector<Proc>& dead, const std::vector<std::string>& targets);
  /// The data that a local process has put.
  void local_modex(const Proc& proc, DataDone done);

 private:
  class ServerInfos;  // the library keeps pointers into what it was started with
  Settings settings_;
  std::unique_ptr<ServerInfos> infos_;
  const Topology& topology_;
};

}  // namespace bellows::elastic
