# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The test cluster is a real Slurm on which an elastic job can do what it needs.

test_a_job_of_an_ordinary_user_runs_on_all_nodes() {
  expect_exit 0 on ctl srun -N4 bash -c 'id -un; hostname'
  expect_equal "$(sort <<<"$OUT" | xargs)" "ember ember ember ember n1 n2 n3 n4"
}

test_nodes_have_kinds_and_a_job_can_choose() {
  expect_exit 0 on ctl srun -N2 -C slow hostname
  expect_equal "$(sort <<<"$OUT" | xargs)" "n2 n4"
}

test_a_running_job_grows_and_shrinks() {
  local job extra
  job=$(submit --no-kill --exclusive -N1 --wrap 'sleep 60')
  wait_job 20 "$job" RUNNING
  expect_exit 0 on ctl salloc --no-shell --exclusive -N1 --dependency="expand:$job"
  extra=$(grep -o '[0-9]*$' <<<"$(grep -m1 'Granted job allocation' <<<"$ERR")")
  expect_exit 0 on ctl scontrol update jobid="$extra" NumNodes=0
  expect_equal "$(on ctl squeue -h -j "$job" -o %D)" 2
  expect_exit 0 on ctl scontrol update jobid="$job" NumNodes=1
  expect_equal "$(on ctl squeue -h -j "$job" -o %D)" 1
}

test_a_job_in_spot_gives_way_to_one_in_main() {
  local spot main
  spot=$(submit -p spot --requeue -N4 --exclusive --wrap "trap 'echo got a warning; exit 1' TERM; sleep 60 & wait")
  wait_job 20 "$spot" RUNNING
  main=$(submit -p main -N4 --exclusive --wrap true)
  wait_job 40 "$main"
  expect_equal "$(job_state "$main")" COMPLETED
  expect_contains "$(on ctl cat "slurm-$spot.out")" "got a warning"
}

test_finished_jobs_are_accounted_to_a_file() {
  local job
  job=$(submit --wrap true)
  wait_job 20 "$job"
  wait_until 10 on root@ctl grep -q "JobId=$job .*JobState=COMPLETED" /var/log/slurm/jobcomp.log
}

test_a_cut_node_is_silent_and_comes_back_when_healed() {
  damage cut n2
  expect_exit 124 on n1 timeout 2 bash -c '</dev/tcp/n2/6818'
  damage heal n2
  expect_exit 0 on n1 timeout 5 bash -c '</dev/tcp/n2/6818'
}

test_a_job_outlives_a_killed_node_and_the_node_comes_back() {
  local job
  job=$(submit --no-kill -N2 -w n1,n2 --wrap 'sleep 8; echo done')
  wait_job 20 "$job" RUNNING
  damage kill n2
  wait_job 60 "$job"
  expect_contains "$(on ctl cat "slurm-$job.out")" "done"
  damage restart n2
  expect_exit 0 on ctl srun -w n2 hostname
  damage restart ctl
  expect_exit 0 on ctl srun -N4 true
}

test_a_node_is_added_to_a_running_cluster() {
  damage add n5
  expect_exit 0 on ctl srun -N5 hostname
  expect_contains "$OUT" n5
}
