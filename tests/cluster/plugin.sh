# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# spank_bellows.so in a real Slurm.

# folders_on NODE: the jobs' folders there. (bellows-ctl-UID has a user's control sockets.)
folders_on() { on "root@$1" find /tmp /dev/shm -maxdepth 1 -name 'bellows-*' ! -name 'bellows-ctl-*' | sort | xargs; }

test_what_a_dead_job_left_is_gone_and_what_others_have_stays() {
  local job
  on root@n2 mkdir /tmp/bellows-5000-99999-abcdef /dev/shm/bellows-0-88888-abcdef
  # shellcheck disable=SC2016 # for the job
  job=$(submit -N2 -w n1,n2 --wrap 'srun bash -c "
    for top in /tmp /dev/shm; do
      mkdir -p \$top/bellows-5000-\$SLURM_JOB_ID-Ab12Cd/deep && echo state >\$top/bellows-5000-\$SLURM_JOB_ID-Ab12Cd/deep/file
      ln -s /home/ember \$top/bellows-5000-\$SLURM_JOB_ID-Ab12Cd/link
    done; kill -KILL \$\$"')
  on ctl touch precious
  wait_job 30 "$job"
  expect_equal "$(job_state "$job")" FAILED
  wait_until 10 no_folders_of "$job" n1
  wait_until 10 no_folders_of "$job" n2
  expect_equal "$(folders_on n2)" "/dev/shm/bellows-0-88888-abcdef /tmp/bellows-5000-99999-abcdef"
  expect_exit 0 on ctl test -e precious
  expect_exit 0 on root@ctl grep -h "bellows: job $job left 2 folders; removed" /var/log/slurm/slurmd-n2.log
  on root@n2 rmdir /tmp/bellows-5000-99999-abcdef /dev/shm/bellows-0-88888-abcdef
}
no_folders_of() { [[ $(folders_on "$2") != *"-$1-"* ]]; }

test_a_mistake_in_plugstack_conf_is_named() {
  local file=$ROOT/build/clusters/$CLUSTER/etc/plugstack.conf line
  line=$(cat "$file")
  spoil
  echo "$line clean=yes" >"$file"
  expect_exit '!0' on ctl sbatch --wrap true
  expect_contains "$ERR" "bellows: plugstack.conf: unknown argument 'clean=yes' (known: cleanup, folders, cleanup_seconds, bellows, mode, grace, max_nodes, partition_max)"
  # An optional plugin that cannot do its work is no reason to refuse jobs, but elastic ones.
  echo "optional ${line#required} clean=yes" >"$file"
  expect_exit 0 on ctl srun true
  expect_contains "$ERR" "bellows: plugstack.conf: unknown argument 'clean=yes'"
  expect_exit '!0' on ctl srun --elastic=1-2 true
  expect_contains "$ERR" "unrecognized option '--elastic=1-2'"
  echo "$line cleanup=yes folders=/tmp" >"$file"
  expect_exit 0 on ctl srun true
}
