// SPDX-License-Identifier: Apache-2.0
#include "spank_plugin/slurmd.h"

#include "spank_plugin/leftovers.h"

namespace bellows::spank {

void slurmd_job_epilog(spank_t spank, const Arguments& arguments) {
  if (!arguments.cleanup) return;
  EndedJob job{};
  if (spank_get_item(spank, S_JOB_ID, &job.id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &job.uid) != ESPANK_SUCCESS) {
    slurm_error("bellows: the epilog was not told which job ended");
    return;
  }
  if (spank_get_item(spank, S_JOB_GID, &job.gid) != ESPANK_SUCCESS)
    job.gid = static_cast<gid_t>(-1);
  const Removal removal = remove_leftovers(job, arguments.folders, arguments.cleanup_seconds);
  if (removal.removed > 0)
    slurm_info("bellows: job %u left %d folders; removed", job.id, removal.removed);
  if (!removal.problems.empty())
    slurm_error("bellows: cleaning after job %u: %s", job.id, removal.problems.c_str());
}

}  // namespace bellows::spank
