// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/checks.h"

#include <algorithm>

namespace bellows::spank {
namespace {

std::string dashed(OptionId id) { return std::string("--") + option(id).name; }

/// The largest limit among partitions that a job may end up in; Slurm chooses.
int limit_of_any(const Arguments& arguments, std::string_view partitions) {
  int limit = 0;
  for (;;) {
    const std::size_t comma = partitions.find(',');
    limit = std::max(limit, node_limit(arguments, partitions.substr(0, comma)));
    if (comma == std::string_view::npos) return limit;
    partitions.remove_prefix(comma + 1);
  }
}

void check_requests(const GivenOptions& given, const Submission& submission) {
  if (given[OptionId::wait] && !given[OptionId::resize])
    throw ValueError(
        "--elastic-wait says how long to wait for --elastic-resize, which is not given");
  if (!given[OptionId::resize]) return;
  if (submission.given_here && given.any_of_job())
    throw ValueError(
        "--elastic-resize changes a running job, --elastic describes a new one: "
        "use one of them");
  if (submission.makes_job)
    throw ValueError("--elastic-resize=" + *given[OptionId::resize] +
                     ": which job? Use srun --jobid=JOB --elastic-resize=" +
                     *given[OptionId::resize] + " true, or call srun within the job");
}

}  // namespace

int node_limit(const Arguments& arguments, std::string_view partition) {
  const auto found = arguments.partition_max.find(partition);
  return found == arguments.partition_max.end() ? arguments.max_nodes
                                                : std::min(arguments.max_nodes, found->second);
}

void check_submission(const GivenOptions& given, const Submission& submission,
                      const Arguments& arguments) {
  check_requests(given, submission);
  if (!submission.given_here || !given.any_of_job()) return;
  if (!submission.makes_job)
    throw ValueError(
        "--elastic describes a new job, and this srun starts a step of one that there "
        "is; to change its size use srun --elastic-resize=N|+N|-N|NODELIST");
  if (!given[OptionId::elastic]) {
    for (const Option& option : option_table())
      if (option.variable != nullptr && given[option.id])
        throw ValueError(dashed(option.id) + " needs " + dashed(OptionId::elastic) +
                         "=MIN-MAX[:STEP]");
  }
  const Bounds bounds = parse_bounds(*given[OptionId::elastic]);
  if (bounds.most > arguments.max_nodes)
    throw ValueError("--elastic=" + bounds.text() + ": MAX is above the limit of this cluster, " +
                     std::to_string(arguments.max_nodes) + " nodes");
  if (submission.partitions) {
    const int limit = limit_of_any(arguments, *submission.partitions);
    if (bounds.most > limit)
      throw ValueError("--elastic=" + bounds.text() + ": MAX is above the limit of partition " +
                       printable(*submission.partitions) + ", " + std::to_string(limit) + " nodes");
  }
  if (submission.nodes &&
      (!bounds.hold(submission.nodes->min) || !bounds.hold(submission.nodes->max)))
    throw ValueError("--elastic=" + bounds.text() +
                     ": --nodes=" + std::to_string(submission.nodes->min) +
                     (submission.nodes->max == submission.nodes->min
                          ? ""
                          : "-" + std::to_string(submission.nodes->max)) +
                     " is not within MIN and MAX; begin with " + std::to_string(bounds.least) +
                     " to " + std::to_string(bounds.most) + " nodes");
}

Admitted admit(const Bounds& bounds, const StartedJob& job, const Arguments& arguments) {
  Admitted admitted;
  admitted.bounds = bounds;
  const int limit = node_limit(arguments, job.partition);
  if (bounds.least > limit) {
    admitted.bounds.reset();
    admitted.note = "--elastic=" + bounds.text() + ": partition " + printable(job.partition) +
                    " allows elastic jobs " + std::to_string(limit) +
                    " nodes, fewer than MIN; the job keeps the size it has";
    return admitted;
  }
  if (bounds.most > limit) {
    admitted.bounds->most = limit;
    admitted.note = "--elastic=" + bounds.text() + ": partition " + printable(job.partition) +
                    " allows elastic jobs " + std::to_string(limit) + " nodes; now " +
                    admitted.bounds->text();
  } else if (job.nodes && !bounds.hold(*job.nodes)) {
    admitted.note = "--elastic=" + bounds.text() + ": the job begins with " +
                    std::to_string(*job.nodes) + " nodes, which is not within MIN and MAX";
  }
  return admitted;
}

}  // namespace bellows::spank
