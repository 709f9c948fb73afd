// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cluster/slurm_cluster.h"

#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <sstream>
#include <utility>

#include "scheduler/broker/brick_script.h"
#include "scheduler/cluster/node_list.h"
#include "scheduler/cluster/slurm_views.h"

namespace bellows::scheduler {
namespace {

using Kind = ClusterError::Kind;

// Slurm's own numbers begin at 2000; below are the system's and those of its messages.
constexpr int kFirstDecision = 2000;

constexpr int kNotations = 3;  // of the same list of nodes, until Slurm takes it for another

Kind kind_of(int error) {
  switch (error) {
    case ESLURM_INVALID_JOB_ID:
    case ESLURM_ALREADY_DONE:
      return Kind::unknown_job;
    case ESLURM_TRANSITION_STATE_NO_UPDATE:
    case ESLURM_IN_STANDBY_MODE:
    case ESLURM_NODES_BUSY:
    // A connection that ends within an answer: slurmctld has died or is being started anew.
    case ESLURM_PROTOCOL_INCOMPLETE_PACKET:
    case SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT:
    case SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT:
      return Kind::unreachable;
    default:
      return error < kFirstDecision ? Kind::unreachable : Kind::refused;
  }
}

[[noreturn]] void fail(const std::string& what, int error) {
  const char* reason = slurm_strerror(error);
  throw ClusterError(kind_of(error), what + ": " + (reason != nullptr ? reason : "unknown error"));
}

// Fields of the request are char*, and are not written to.
char* field(const std::string& text) {
  return text.empty() ? nullptr : const_cast<char*>(text.c_str());
}

std::string number_text(JobId id) { return std::to_string(id); }

// What the request points to.
struct Texts {
  std::string names, exclude, dependency, comment, gres;
  std::vector<std::string> environment;
  std::vector<char*> environment_pointers;
};

// "gpu:2,tape:1", as users write it, in slurmctld's words: "gres/gpu:2,gres/tape:1".
std::string tres_text(const std::string& gres) {
  constexpr const char* kPrefix =
      SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0) ? "gres/" : "gres:";
  std::string tres;
  std::istringstream list(gres);
  for (std::string one; std::getline(list, one, ',');) {
    if (!tres.empty()) tres += ',';
    if (!one.starts_with("gres")) tres += kPrefix;
    tres += one;
  }
  return tres;
}

void set_shape(job_desc_msg_t& wanted, const NodeShape& shape, const NodeRequest& nodes,
               Texts& texts) {
  const auto count = static_cast<std::uint32_t>(nodes.count);
  const auto cpus = static_cast<std::uint32_t>(shape.exclusive ? 1 : shape.cpus);
  texts.names = join(nodes.names);
  texts.exclude = join(nodes.exclude);
  wanted.min_nodes = wanted.max_nodes = count;
  wanted.min_cpus = count * cpus;
  wanted.pn_min_cpus = static_cast<std::uint16_t>(cpus);
  if (shape.tasks > 0) {
    wanted.ntasks_per_node = static_cast<std::uint16_t>(shape.tasks);
    wanted.num_tasks = count * static_cast<std::uint32_t>(shape.tasks);
  }
  if (shape.exclusive) wanted.shared = JOB_SHARED_NONE;
  if (shape.memory != 0) wanted.pn_min_memory = shape.memory;
  texts.gres = tres_text(shape.gres);
  wanted.tres_per_node = field(texts.gres);
  wanted.features = field(shape.features);
  wanted.req_nodes = field(texts.names);
  wanted.exc_nodes = field(texts.exclude);
}

// In the words of --elastic-het: " (partition=spot, qos=low)".
std::string place_text(const BrickRequest& brick) {
  std::string text;
  for (const auto& [key, value] :
       {std::pair{"partition", brick.partition}, std::pair{"qos", brick.qos},
        std::pair{"account", brick.account}, std::pair{"features", brick.shape.features},
        std::pair{"gres", brick.shape.gres}}) {
    if (!value.empty()) text += (text.empty() ? " (" : ", ") + std::string(key) + "=" + value;
  }
  return text.empty() ? text : text + ")";
}

void set_owner(job_desc_msg_t& wanted) {
  wanted.user_id = getuid();
  wanted.group_id = getgid();
  wanted.kill_on_node_fail = 0;
  wanted.requeue = 0;
  wanted.work_dir = const_cast<char*>("/");
}

/// `like`: a JobView or a BrickRequest.
template <class Job>
void set_names(job_desc_msg_t& wanted, const Job& like) {
  wanted.name = field(like.name);
  wanted.partition = field(like.partition);
  wanted.qos = field(like.qos);
  wanted.account = field(like.account);
  wanted.reservation = field(like.reservation);
}

class SlurmCluster final : public Cluster {
 public:
  SlurmCluster() { slurm_init(nullptr); }
  ~SlurmCluster() override {
    if (jobs_ != nullptr) slurm_free_job_info_msg(jobs_);
    if (nodes_ != nullptr) slurm_free_node_info_msg(nodes_);
    if (partitions_ != nullptr) slurm_free_partition_info_msg(partitions_);
  }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  ClusterRules rules() override {
    slurm_conf_t* conf = nullptr;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) fail("cannot read Slurm's settings", errno);
    ClusterRules rules;
    rules.name = text_or_empty(conf->cluster_name);
    const std::string parameters = "," + text_or_empty(conf->sched_params) + ",";
    rules.expansion = parameters.find(",permit_job_expansion,") != std::string::npos;
    rules.kill_wait = std::chrono::seconds(conf->kill_wait);
    slurm_free_ctl_conf(conf);
    return rules;
  }

  std::vector<JobView> jobs() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    refresh(jobs_, "the list of jobs", slurm_free_job_info_msg, [](time_t since, auto** into) {
      return slurm_load_jobs(since, into, SHOW_ALL | SHOW_DETAIL);
    });
    std::vector<JobView> views;
    for (std::uint32_t i = 0; i < jobs_->record_count; ++i) {
      views.push_back(view_of(jobs_->job_array[i]));
    }
    return views;
  }

  JobView job(JobId id) override {
    job_info_msg_t* found = nullptr;
    if (slurm_load_job(&found, id, SHOW_ALL | SHOW_DETAIL) != SLURM_SUCCESS) {
      fail("cannot look at job " + number_text(id), errno);
    }
    std::optional<JobView> view;
    for (std::uint32_t i = 0; i < found->record_count; ++i) {
      if (found->job_array[i].job_id == id) view = view_of(found->job_array[i]);
    }
    slurm_free_job_info_msg(found);
    if (!view) fail("cannot look at job " + number_text(id), ESLURM_INVALID_JOB_ID);
    return *view;
  }

  std::vector<NodeView> nodes() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    refresh(nodes_, "the list of nodes", slurm_free_node_info_msg, [](time_t since, auto** into) {
      return slurm_load_node(since, into, SHOW_ALL | SHOW_DETAIL);
    });
    refresh(partitions_, "the list of partitions", slurm_free_partition_info_msg,
            [](time_t since, auto** into) { return slurm_load_partitions(since, into, SHOW_ALL); });
    const auto partitions = partitions_by_node();
    std::vector<NodeView> views;
    for (std::uint32_t i = 0; i < nodes_->record_count; ++i) {
      const node_info_t& node = nodes_->node_array[i];
      if (node.name == nullptr) continue;
      std::uint16_t used = 0;
      slurm_get_select_nodeinfo(node.select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED,
                                &used);
      views.push_back(view_of(node, used, partitions));
    }
    return views;
  }

  JobId expand(const JobView& base, const NodeRequest& nodes) override {
    job_desc_msg_t wanted;
    slurm_init_job_desc_msg(&wanted);
    Texts texts;
    texts.dependency = "expand:" + number_text(base.id);
    texts.comment = expansion_comment(base.het_leader.value_or(base.id));
    set_owner(wanted);
    set_shape(wanted, base.shape, nodes, texts);
    wanted.dependency = field(texts.dependency);
    wanted.bitflags |= KILL_INV_DEP;
    wanted.comment = field(texts.comment);
    set_names(wanted, base);
    wanted.immediate = 0;
    resource_allocation_response_msg_t* answer = nullptr;
    if (slurm_allocate_resources(&wanted, &answer) != SLURM_SUCCESS || answer == nullptr) {
      const int error = errno;
      const std::string what = "job " + number_text(base.id) + " cannot be expanded";
      // Not now, that is: it will be resumed.
      if (error == ESLURM_DEPENDENCY && job(base.id).state == JobState::suspended) {
        throw ClusterError(Kind::unreachable, what + " while it is suspended");
      }
      fail(what, error);
    }
    const JobId id = answer->job_id;
    slurm_free_resource_allocation_response_msg(answer);
    return id;
  }

  void merge(JobId base, JobId expansion) override {
    job_desc_msg_t change;
    slurm_init_job_desc_msg(&change);
    change.job_id = expansion;
    change.min_nodes = 0;
    if (slurm_update_job(&change) == SLURM_SUCCESS) return;
    const int error = errno;
    // The job's dependency is in slurmctld's saved state, but not that it is to expand another.
    if (error == ESLURM_INVALID_NODE_COUNT) {
      throw ClusterError(Kind::unknown_job, "slurmctld was restarted, and has forgotten that job " +
                                                number_text(expansion) + " is to expand job " +
                                                number_text(base));
    }
    const std::string what = "the nodes of job " + number_text(expansion) +
                             " cannot be given to job " + number_text(base);
    // What the select plugin says; only slurmctld's log knows why.
    if (error == SLURM_ERROR) {
      throw ClusterError(Kind::refused, what + ": slurmctld refuses, and logs why");
    }
    fail(what, error);
  }

  JobId submit_brick(const BrickRequest& brick) override {
    job_desc_msg_t wanted;
    slurm_init_job_desc_msg(&wanted);
    Texts texts;
    texts.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "SLURM_TIME_FORMAT=%s"};
    for (const char* name : {"SLURM_CONF", "PATH"}) {
      const char* value = getenv(name);
      if (value != nullptr) texts.environment.push_back(std::string(name) + "=" + value);
    }
    for (std::string& variable : texts.environment) {
      texts.environment_pointers.push_back(variable.data());
    }
    set_owner(wanted);
    set_shape(wanted, brick.shape, brick.nodes, texts);
    wanted.environment = texts.environment_pointers.data();
    wanted.env_size = static_cast<std::uint32_t>(texts.environment_pointers.size());
    wanted.comment = field(brick.comment);
    set_names(wanted, brick);
    wanted.time_limit = static_cast<std::uint32_t>(brick.limit.count());
    wanted.script = field(brick.script);
    wanted.std_in = wanted.std_out = wanted.std_err = const_cast<char*>("/dev/null");
    submit_response_msg_t* answer = nullptr;
    if (slurm_submit_batch_job(&wanted, &answer) != SLURM_SUCCESS || answer == nullptr) {
      const int error = errno;
      fail("Slurm takes no companion job" + place_text(brick), error);
    }
    const JobId id = answer->job_id;
    slurm_free_submit_response_response_msg(answer);
    return id;
  }

  void cancel(JobId id) override {
    // slurmd begins with SIGTERM, which a brick's script ignores, and waits for KillWait. (Jobs
    // that have no script, or not yet, refuse the signal, or end by it.)
    slurm_kill_job(id, kBrickEnd, KILL_JOB_BATCH);
    if (slurm_kill_job(id, SIGKILL, 0) == SLURM_SUCCESS) return;
    const int error = errno;
    if (kind_of(error) != Kind::unknown_job) fail("cannot cancel job " + number_text(id), error);
  }

  void shrink(JobId id, const std::vector<std::string>& keep) override {
    // A list that is the same text as the job was submitted with (-w) would be taken for no change.
    // And the job has it from now on: a step that asks for one node by the same text could get
    // another (stepmgr.c, _pick_step_nodes), so not even the first is as people write it.
    std::string names = join(keep) + "," + keep.at(0);
    for (int i = 0; i < kNotations; ++i) {
      job_desc_msg_t change;
      slurm_init_job_desc_msg(&change);
      change.job_id = id;
      change.req_nodes = names.data();
      if (slurm_update_job(&change) != SLURM_SUCCESS) {
        fail("job " + number_text(id) + " cannot be shrunk to " + names, errno);
      }
      count_cores_anew();
      if (job(id).nodes.size() <= keep.size()) return;
      names += "," + keep.at(0);
    }
    throw ClusterError(Kind::refused, "job " + number_text(id) + " was not shrunk to " + names);
  }

 private:
  // slurmctld (select/cons_tres, part_data.c, up to 26.05 at least) puts off counting a partition's
  // cores when a job is shrunk, and forgets to do it when another job of the partition ends next:
  // the node is idle from then on, and gets no job. A request for the nodes makes it count at once;
  // one for changes after a time to come has a short answer.
  static void count_cores_anew() {
    node_info_msg_t* changes = nullptr;
    const time_t later = std::time(nullptr) + 86'400;
    if (slurm_load_node(later, &changes, SHOW_ALL) == SLURM_SUCCESS) {
      slurm_free_node_info_msg(changes);
    }
  }

  template <class List, class Load>
  void refresh(List*& kept, const char* what, void (*release)(List*), Load load) {
    List* fresh = nullptr;
    if (load(kept != nullptr ? kept->last_update : 0, &fresh) == SLURM_SUCCESS) {
      if (kept != nullptr) release(kept);
      kept = fresh;
    } else if (errno != SLURM_NO_CHANGE_IN_DATA || kept == nullptr) {
      fail(std::string("cannot get ") + what, errno);
    }
  }

  std::map<std::string, std::set<std::string>> partitions_by_node() const {
    std::map<std::string, std::set<std::string>> by_node;
    for (std::uint32_t i = 0; i < partitions_->record_count; ++i) {
      const partition_info_t& partition = partitions_->partition_array[i];
      if (partition.state_up != PARTITION_UP) continue;
      const std::string list = text_or_empty(partition.nodes);
      if (list.empty()) continue;
      try {
        for (const std::string& node : parse_node_list(list)) {
          by_node[node].insert(text_or_empty(partition.name));
        }
      } catch (const BadNodeList&) {
        continue;  // nobody can grow there
      }
    }
    return by_node;
  }

  std::mutex mutex_;
  job_info_msg_t* jobs_ = nullptr;
  node_info_msg_t* nodes_ = nullptr;
  partition_info_msg_t* partitions_ = nullptr;
};

}  // namespace

std::unique_ptr<Cluster> slurm_cluster() { return std::make_unique<SlurmCluster>(); }

}  // namespace bellows::scheduler
