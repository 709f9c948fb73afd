// SPDX-License-Identifier: Apache-2.0
// The cluster as a scheduler of elastic jobs sees it: jobs, nodes, and what can be asked for.
// Behind it are Slurm (slurm_cluster.h) and, for tests, a simulation (simulated_cluster.h).
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace bellows::scheduler {

using JobId = std::uint32_t;
using Time = std::chrono::system_clock::time_point;
using Seconds = std::chrono::duration<double>;

/// A call to the cluster has failed. `what()` says what was asked for and why it failed.
class ClusterError : public std::runtime_error {
 public:
  enum class Kind {
    unreachable,  // no answer, or not now: the same call may do later. Whether it was done is not
                  // known
    refused,      // a decision: the same call will fail again
    unknown_job,  // there is no such job (any more)
  };
  ClusterError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

enum class JobState { pending, running, suspended, ending, ended };
const char* text(JobState state);

/// What a job asks of each of its nodes.
struct NodeShape {
  int cpus = 1;
  int tasks = 0;             // 0: the user did not say
  bool exclusive = false;    // whole nodes
  std::uint64_t memory = 0;  // MiB, with Slurm's flag for "per CPU" in the highest bit; 0: default
  std::string gres;          // as Slurm's --tres-per-node, however it was asked for; "" for none
  std::string features;      // as --constraint
};

struct JobView {
  JobId id = 0;
  std::optional<JobId> het_leader;  // a component of a heterogeneous job: the first one's id
  std::uint32_t user = 0;           // uid
  JobState state = JobState::pending;
  std::string reason;  // why it is pending, or how it ended; as Slurm calls it
  std::string partition, qos, account, reservation, name, comment;
  std::vector<std::string> nodes;  // that it has
  std::string batch_host;          // "" for none
  NodeShape shape;
  bool has_gres = false;           // generic resources: asked for, or with whole nodes
  int least_nodes = 1;             // wanted; of a running job: what it has
  int least_cpus = 1;              // in all
  std::vector<std::string> wants;  // nodes that must, or must not, be among them
  std::vector<std::string> wants_not;
  bool eligible = false;          // pending, and only for want of nodes
  std::uint32_t priority = 0;     // higher is first; 0: held
  std::optional<Time> start;      // of a pending job: Slurm's estimate
  std::optional<Time> end;        // by its time limit, unless it has none
  std::optional<Time> preempted;  // was told so at that time
  std::uint32_t restarts = 0;
};

enum class NodeState { idle, mixed, allocated, leaving, down };  // leaving: drains, with jobs on it
const char* text(NodeState state);

struct NodeView {
  std::string name;
  NodeState state = NodeState::down;
  int cpus = 1, free_cpus = 0;
  std::set<std::string> features;
  std::set<std::string> partitions;  // those that are up
  std::string reason;                // of an operator, for draining it
};

/// The cluster's settings that matter here.
struct ClusterRules {
  std::string name;
  bool expansion = false;              // a running job can be given more nodes
  std::chrono::seconds kill_wait{30};  // between SIGTERM and SIGKILL
};

/// Nodes that are asked for.
struct NodeRequest {
  int count = 1;
  std::vector<std::string> names;    // these, if not empty: then `count` of them
  std::vector<std::string> exclude;  // never these
  std::size_t companion = 0;         // only by this entry, from 1, of BELLOWS_ELASTIC_HET
};

/// A companion allocation (a brick): a job of its own that only holds nodes.
struct BrickRequest {
  JobId base = 0;
  std::string name;                                  // the base's
  std::string comment;                               // brick_comment(base)
  std::string partition, qos, account, reservation;  // "": Slurm's defaults
  NodeShape shape;
  NodeRequest nodes;
  std::chrono::minutes limit{1};
  std::string script;  // what holds the nodes; ends when the base has
};

/// All calls block, for as long as the cluster's own limits allow, and may be made by any thread.
/// They throw ClusterError. Nothing is cached: events are found by comparing two looks.
class Cluster {
 public:
  virtual ~Cluster() = default;

  virtual ClusterRules rules() = 0;
  /// All jobs that have not ended, and those that have ended lately.
  virtual std::vector<JobView> jobs() = 0;
  /// Of a het job: this component alone. Throws unknown_job.
  virtual JobView job(JobId id) = 0;
  virtual std::vector<NodeView> nodes() = 0;

  /// Asks for more nodes of the base's kind for it: a job of its own, pending or running, whose
  /// nodes merge() gives to the base. It is cancelled when the base ends before.
  virtual JobId expand(const JobView& base, const NodeRequest& nodes) = 0;
  /// The nodes of the expansion, which must run, are the base's from then on. After `refused`
  /// another expansion is of no use. Throws unknown_job, too, when the cluster has forgotten what
  /// the expansion was for: slurmctld does as it restarts.
  virtual void merge(JobId base, JobId expansion) = 0;
  virtual JobId submit_brick(const BrickRequest& brick) = 0;
  /// No error when the job has ended already.
  virtual void cancel(JobId id) = 0;
  /// The job keeps these of its nodes, with its batch host among them; steps elsewhere end.
  virtual void shrink(JobId id, const std::vector<std::string>& keep) = 0;
};

/// Time, as those who wait for a cluster use it: a simulation brings its own.
class Pace {
 public:
  virtual ~Pace() = default;
  virtual Time now() const = 0;
  /// Returns early, with false, when the process is to end.
  virtual bool wait(Seconds time) = 0;
};

/// How the companions of a job are found again: by user, and by these comments.
std::string brick_comment(JobId base);
std::string expansion_comment(JobId base);
/// Whether the comment is one of these two. (The number alone does not say it: a controller that
/// crashes forgets the newest jobs, and gives their numbers to others.)
bool is_companion(const JobView& job, JobId base);

}  // namespace bellows::scheduler
