// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cluster/slurm_views.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "scheduler/cluster/node_list.h"

// What squeue calls a reason. libslurm exports it, since 24.05 by the first name and before by the
// second, but declares it nowhere.
extern "C" {
[[gnu::weak]] const char* slurm_job_state_reason_string(enum job_state_reason reason);
[[gnu::weak]] const char* slurm_job_reason_string(enum job_state_reason reason);
}

namespace bellows::scheduler {
namespace {

JobState state_of(const slurm_job_info_t& job) {
  const std::uint32_t base = job.job_state & JOB_STATE_BASE;
  if ((job.job_state & JOB_COMPLETING) != 0) return JobState::ending;
  if (base == JOB_PENDING) return JobState::pending;
  if (base == JOB_RUNNING) return JobState::running;
  if (base == JOB_SUSPENDED) return JobState::suspended;
  return JobState::ended;
}

// Waits for nodes, and for nothing else.
bool waits_for_nodes(const slurm_job_info_t& job) {
  if (job.priority == 0) return false;
  switch (job.state_reason) {
    case WAIT_NO_REASON:
    case WAIT_PRIORITY:
    case WAIT_RESOURCES:
    case WAIT_NODE_NOT_AVAIL:
      return true;
    default:
      return false;
  }
}

std::string end_text(std::uint32_t state) {
  switch (state) {
    case JOB_COMPLETE:
      return "COMPLETED";
    case JOB_CANCELLED:
      return "CANCELLED";
    case JOB_TIMEOUT:
      return "TIMEOUT";
    case JOB_NODE_FAIL:
      return "NODE_FAIL";
    case JOB_PREEMPTED:
      return "PREEMPTED";
    default:
      return "FAILED";
  }
}

std::string reason_text(std::uint32_t reason) {
  if (slurm_job_state_reason_string != nullptr) {
    return slurm_job_state_reason_string(static_cast<job_state_reason>(reason));
  }
  if (slurm_job_reason_string != nullptr) {
    return slurm_job_reason_string(static_cast<job_state_reason>(reason));
  }
  return "reason " + std::to_string(reason);
}

std::optional<Time> time_of(time_t seconds) {
  if (seconds <= 0) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
}

std::vector<std::string> nodes_in(const char* list) {
  if (list == nullptr || *list == '\0') return {};
  try {
    return parse_node_list(list);
  } catch (const BadNodeList&) {
    return {};  // brackets of a kind that is not known here: no node of this job is touched
  }
}

bool names_gres(const char* tres) {
  return tres != nullptr && std::strstr(tres, "gres") != nullptr;
}

// A job can ask for GPUs per node, task, socket, or in all. What it then has on a node is in
// Slurm's words "gpu:a100:2(IDX:0,2),tape:1(CNT:1)".
std::string gres_of(const slurm_job_info_t& job) {
  if (names_gres(job.tres_per_node)) return job.tres_per_node;
  if (!names_gres(job.tres_per_task) && !names_gres(job.tres_per_socket) &&
      !names_gres(job.tres_per_job)) {
    return "";
  }
  for (std::uint32_t i = 0; i < job.gres_detail_cnt; ++i) {
    const std::string detail = text_or_empty(job.gres_detail_str[i]);
    std::string gres;
    bool inside = false;
    for (const char c : detail) {
      if (c == '(') inside = true;
      if (!inside) gres += c;
      if (c == ')') inside = false;
    }
    if (!gres.empty()) return gres;
  }
  return "";
}

// What it got, or has asked for, of each node.
NodeShape shape_of(const slurm_job_info_t& job) {
  NodeShape shape;
  const std::uint32_t nodes = std::max<std::uint32_t>(job.num_nodes, 1);
  shape.cpus = static_cast<int>(std::max<std::uint32_t>(job.num_cpus / nodes, 1));
  if (job.ntasks_per_node != NO_VAL16 && job.ntasks_per_node != INFINITE16) {
    shape.tasks = job.ntasks_per_node;
  }
  shape.exclusive = job.shared == JOB_SHARED_NONE;
  shape.memory = job.pn_min_memory == NO_VAL64 ? 0 : job.pn_min_memory;
  shape.gres = gres_of(job);
  shape.features = text_or_empty(job.features);
  return shape;
}

}  // namespace

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

JobView view_of(const slurm_job_info_t& job) {
  JobView view;
  view.id = job.job_id;
  if (job.het_job_id != 0) view.het_leader = job.het_job_id;
  view.user = job.user_id;
  view.state = state_of(job);
  const bool over = view.state == JobState::ended || view.state == JobState::ending;
  view.reason = over ? end_text(job.job_state & JOB_STATE_BASE) : reason_text(job.state_reason);
  view.partition = text_or_empty(job.partition);
  view.qos = text_or_empty(job.qos);
  view.account = text_or_empty(job.account);
  view.reservation = text_or_empty(job.resv_name);
  view.name = text_or_empty(job.name);
  view.comment = text_or_empty(job.comment);
  view.nodes = nodes_in(job.nodes);
  view.batch_host = text_or_empty(job.batch_host);
  view.shape = shape_of(job);
  view.has_gres = !view.shape.gres.empty();
  for (std::uint32_t i = 0; i < job.gres_detail_cnt; ++i) {
    if (!text_or_empty(job.gres_detail_str[i]).empty()) view.has_gres = true;
  }
  view.least_nodes = static_cast<int>(std::max<std::uint32_t>(job.num_nodes, 1));
  view.least_cpus = static_cast<int>(std::max<std::uint32_t>(job.num_cpus, 1));
  view.wants = nodes_in(job.req_nodes);
  view.wants_not = nodes_in(job.exc_nodes);
  view.eligible = view.state == JobState::pending && waits_for_nodes(job);
  view.priority = job.priority;
  if (view.state == JobState::pending) view.start = time_of(job.start_time);
  if (job.time_limit != INFINITE) view.end = time_of(job.end_time);
  view.preempted = time_of(job.preempt_time);
  view.restarts = job.restart_cnt;
  return view;
}

NodeView view_of(const node_info_t& node, int allocated_cpus,
                 const std::map<std::string, std::set<std::string>>& partitions) {
  NodeView view;
  view.name = text_or_empty(node.name);
  view.cpus = std::max<int>(node.cpus, 1);
  view.free_cpus = std::max(view.cpus - allocated_cpus, 0);
  std::istringstream features(
      text_or_empty(node.features_act != nullptr ? node.features_act : node.features));
  for (std::string one; std::getline(features, one, ',');) view.features.insert(one);
  const auto found = partitions.find(view.name);
  if (found != partitions.end()) view.partitions = found->second;
  view.reason = text_or_empty(node.reason);
  const std::uint32_t base = node.node_state & NODE_STATE_BASE;
  const auto flag = [&](std::uint32_t bit) { return (node.node_state & bit) != 0; };
  const bool used = base == NODE_STATE_ALLOCATED || base == NODE_STATE_MIXED;
  if (flag(NODE_STATE_NO_RESPOND) || base == NODE_STATE_DOWN || base == NODE_STATE_ERROR ||
      base == NODE_STATE_FUTURE || base == NODE_STATE_UNKNOWN) {
    view.state = NodeState::down;
  } else if (flag(NODE_STATE_DRAIN) || flag(NODE_STATE_FAIL)) {
    view.state = used ? NodeState::leaving : NodeState::down;
  } else if (flag(NODE_STATE_POWERED_DOWN) || flag(NODE_STATE_POWERING_DOWN) ||
             flag(NODE_STATE_REBOOT_ISSUED) || flag(NODE_STATE_MAINT)) {
    view.state = NodeState::down;
  } else if (base == NODE_STATE_MIXED) {
    view.state = NodeState::mixed;
  } else if (base == NODE_STATE_ALLOCATED || flag(NODE_STATE_COMPLETING)) {
    view.state = NodeState::allocated;
  } else {
    view.state = flag(NODE_STATE_RES) ? NodeState::allocated : NodeState::idle;
  }
  return view;
}

}  // namespace bellows::scheduler
