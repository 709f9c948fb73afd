// SPDX-License-Identifier: Apache-2.0
// For bellowsd_table: bellowsd with a table in the place of Slurm. BELLOWSD_TABLE_JOBS jobs of this
// process's user run, and each owns two nodes, of which the second one counts as idle.
#include "tests/bench/table_cluster.h"

#include <unistd.h>

#include <cstdlib>

#include "scheduler/cluster/slurm_cluster.h"

namespace bellows::scheduler {
namespace {

class TableCluster final : public Cluster {
 public:
  TableCluster() {
    const char* count = std::getenv("BELLOWSD_TABLE_JOBS");
    const int jobs = count != nullptr ? std::atoi(count) : 0;
    for (int i = 1; i <= jobs; ++i) {
      JobView job;
      job.id = static_cast<JobId>(i);
      job.user = geteuid();
      job.state = JobState::running;
      job.partition = bench::kTablePartition;
      job.name = "train";
      job.nodes = bench::nodes_of_job(i);
      for (const std::string& name : job.nodes) {
        NodeView node;
        node.name = name;
        node.state = name == job.nodes.back() ? NodeState::allocated : NodeState::idle;
        node.partitions = {job.partition};
        nodes_.push_back(node);
      }
      jobs_.push_back(std::move(job));
    }
  }

  ClusterRules rules() override { return {}; }
  std::vector<JobView> jobs() override { return jobs_; }
  std::vector<NodeView> nodes() override { return nodes_; }
  JobView job(JobId) override { refuse(); }
  JobId expand(const JobView&, const NodeRequest&) override { refuse(); }
  void merge(JobId, JobId) override { refuse(); }
  JobId submit_brick(const BrickRequest&) override { refuse(); }
  void cancel(JobId) override { refuse(); }
  void shrink(JobId, const std::vector<std::string>&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw ClusterError(ClusterError::Kind::refused, "a table cannot be changed");
  }
  std::vector<JobView> jobs_;
  std::vector<NodeView> nodes_;
};

}  // namespace

std::unique_ptr<Cluster> slurm_cluster() { return std::make_unique<TableCluster>(); }

}  // namespace bellows::scheduler
