# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What operators, users and Slurm itself do to the nodes of an elastic job.
export TIME_LIMIT=200

. "$ROOT/tests/lib/elastic_job.sh"

drain() { on root@ctl scontrol update nodename="$1" state=drain reason=maintenance; }
_node_is() { [[ $(on ctl sinfo -h -N -p main -n "$1" -o %T) == "$2" ]]; }

test_a_draining_node_is_given_back() {
  spoil
  begin BELLOWS_ELASTIC=1-4 -- -N2 -w n1,n2 --
  expect_exit 0 control resize --nodes=+n3
  # One that came later, one that the job began with, and that of its script, which must stay.
  drain n3
  wait_until 20 _has_nodes n1 n2
  wait_until 20 _output_has "gave back n3: it drains (maintenance"
  wait_until 20 _node_is n3 drained
  await_size 2
  drain n2
  wait_until 20 _has_nodes n1
  wait_until 20 _node_is n2 drained
  drain n1
  expect_exit 0 control resize --nodes=+1
  expect_contains "$OUT" "n4 joined"
  await_size 2
  expect_equal "$(nodes_of "$JOB")" "n1 n4"
  expect_lacks "$(output)" "killed by SIG"
  finish_all
  wait_until 20 _node_is n1 drained
}

test_a_draining_node_of_a_companion_is_given_back() {
  spoil
  begin BELLOWS_ELASTIC=1-4 BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast --
  expect_exit 0 control resize --nodes=+2
  expect_contains "$OUT" "n2,n4 joined by companion job"
  drain n4
  await_size 3
  wait_until 20 _node_is n4 drained
  drain n2
  await_size 2
  wait_until 20 _node_is n2 drained
  wait_until 10 _no_bricks
  expect_lacks "$(output)" "killed by SIG"
  finish_all
}

test_a_companion_whose_time_is_over_leaves_in_order() {
  local brick
  begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast -t 30 --
  expect_exit 0 control resize --nodes=+1
  brick=$(bricks)
  expect_matches "$(on ctl squeue -h -j "$brick" -o %l)" '^(29|28):00$' # it ends before its base
  on root@ctl scontrol update jobid="$brick" timelimit=1
  # Slurm looks twice a minute.
  wait_until 110 _output_has "Slurm is about to take node"
  await_size 2
  wait_until 10 _no_bricks
  expect_lacks "$(output)" "killed by SIG"
  expect_equal "$(nodes_of "$JOB")" "n1 n3"
  # It can have another.
  expect_exit 0 control resize --nodes=+1
  await_size 3
  finish_all
}

test_a_signal_to_the_job_reaches_the_ranks_of_its_companions() {
  STEPS="bellows-train --model mlp --width 32 --data fashion-mnist --passes 1000 --threads 1 --checkpoint-dir saved"
  STANDS="pass "
  begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast -t 30 --
  expect_exit 0 control resize --nodes=+1
  await_size 3
  on ctl scancel --signal=TERM "$JOB"
  wait_job 60 "$JOB"
  expect_contains "$(on ctl scontrol show job "$JOB")" "ExitCode=85:0"
  expect_contains "$(output)" "checkpoint of step"
  expect_lacks "$(output)" "killed by SIG"
  wait_until 10 _no_bricks
}
