# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The allocation of a running job changes: bellows-broker asks Slurm for nodes and gives them back, by
# request and by itself, while nodes, daemons and jobs come and go.
export TIME_LIMIT=120

. "$ROOT/tests/lib/elastic_job.sh"

# shellcheck disable=SC2016 # for the shell there
# _knows NAME: slurmctld would know the job of that name after a crash.
_knows() { on root@ctl bash -c 'grep -q "$1" "$(scontrol show config | sed -n "s/^StateSaveLocation *= //p")/job_state"' - "$1"; }

test_a_job_grows_and_shrinks_by_request() {
  begin -- -N2 -w n1,n2 -- --elastic 1-3
  expect_exit 0 control resize --nodes=+1 --json
  expect_matches "$OUT" '"added":\["n3"\].*"how":"expansion"'
  expect_equal "$(nodes_of "$JOB")" "n1 n2 n3"
  await_size 3
  # From a machine on which nothing of the job runs.
  expect_exit 0 on ctl bellows --job "$JOB" resize --nodes=-1
  expect_contains "$OUT" "n3 given back"
  wait_until 10 _is_idle n3
  expect_exit 0 control resize --nodes=n1,n4
  expect_equal "$(nodes_of "$JOB")" "n1 n4"
  await_size 2
  expect_exit 1 control resize --nodes=+2
  expect_contains "$ERR" "bellows-run allows 3 ranks"
  expect_exit 1 control resize --nodes=-n1
  expect_contains "$ERR" "runs the job's script"
  expect_exit '!0' on root@ctl runuser -u nobody -- bellows --job "$JOB" resize --nodes=+1
  expect_equal "$(nodes_of "$JOB")" "n1 n4"
  finish_all
}

_ranks_are() { [[ $(on "$1" pgrep -c -x elastic_steps) == "$2" ]]; }
# again_on_n1: its rank dies and is replaced, there and not elsewhere.
again_on_n1() {
  for _ in 1 2 3; do
    on root@n1 pkill -KILL -x elastic_steps
    await_size 1
    expect_exit 0 control resize +1 --on n1
    wait_until 10 _ranks_are n1 1
  done
}

# Where a step asks for a node by the very words that the job was submitted or shrunk with, Slurm
# takes any node of the job.
test_ranks_are_where_they_are_said_to_be() {
  begin -- -N2 -w n1 -- --elastic 1-4
  wait_until 10 _ranks_are n1 1
  again_on_n1
  for _ in 1 2 3; do expect_exit 0 on ctl bellows --job "$JOB" status; done
  expect_exit 0 control resize --nodes=1
  expect_equal "$(nodes_of "$JOB")" n1
  expect_exit 0 control resize --nodes=+1
  again_on_n1
  finish_all
}

test_what_is_not_granted_in_time_is_taken_back() {
  local rigid
  begin -- -N2 -w n1,n2 -- --elastic 1-4
  rigid=$(submit --exclusive -N2 -w n3,n4 --output=/dev/null --wrap "sleep 60")
  wait_job 20 "$rigid" RUNNING
  expect_exit 1 control resize --nodes=+1 --wait=2
  expect_contains "$ERR" "is pending (Resources)"
  _no_bricks
  # A newer request takes the place of one that waits for nodes.
  expect_exit 0 control resize --nodes=+2 --wait=0
  expect_exit 0 control resize --nodes=+1 --wait=0
  wait_until 10 _output_has "a newer request has come: +1"
  on ctl scancel "$rigid"
  await_size 3
  # The controller goes away in the middle, without warning and in order.
  expect_exit 0 control resize --nodes=-1
  rigid=$(submit --job-name=saved --exclusive -N2 -w n3,n4 --output=/dev/null --wrap "sleep 60")
  wait_job 20 "$rigid" RUNNING
  wait_until 20 _knows saved
  expect_exit 0 control resize --nodes=+1 --wait=0
  damage restart ctl
  on ctl scancel "$rigid"
  await_size 3
  expect_exit 0 control resize --nodes=-1
  rigid=$(submit --exclusive -N2 -w n3,n4 --output=/dev/null --wrap "sleep 60")
  wait_job 20 "$rigid" RUNNING
  expect_exit 0 control resize --nodes=+1 --wait=0
  wait_until 10 _has_bricks
  on root@ctl pkill -TERM slurmctld
  damage restart ctl
  on ctl scancel "$rigid"
  await_size 3
  finish_all
}

test_a_node_that_fails_as_it_comes_is_given_back() {
  begin -- -N2 -w n1,n2 -- --elastic 1-4 --start-timeout 10
  damage kill n3
  expect_exit 1 control resize --nodes=+n3 --wait=40
  expect_contains "$ERR" "n3 was given back"
  wait_until 10 _has_nodes n1 n2
  expect_exit 0 control resize --nodes=+n4
  finish_all
}

# brick: the job, on the fast nodes, gets a slow one in the partition whose jobs give way.
begin_with_brick() {
  begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast -t 30 --
  expect_exit 0 control resize --nodes=+1
  expect_contains "$OUT" "joined by companion job"
  BRICK=$(bricks)
  expect_equal "$(on ctl squeue -h -j "$BRICK" -o '%P %j')" "spot wrap"
}

test_a_preempted_companion_costs_only_its_ranks() {
  local rigid
  begin_with_brick
  expect_exit 0 control resize --nodes=-1
  wait_until 10 _no_bricks
  expect_exit 0 control resize --nodes=+1
  rigid=$(submit --exclusive -N2 -C slow --output=/dev/null --wrap "sleep 1")
  await_size 2
  expect_matches "$(output)" "Slurm is about to take node|companion job [0-9]+ is preempted"
  expect_lacks "$(output)" "killed by SIG"
  wait_until 10 _no_bricks
  wait_job 40 "$rigid"
  expect_equal "$(job_state "$rigid")" COMPLETED
  finish_all
}

test_another_launcher_finds_the_companions_again() {
  begin_with_brick
  on "root@$HOST" pkill -KILL -x bellows-run
  wait_until 40 _output_has "took over job $JOB."
  await_size 3
  expect_equal "$(bricks)" "$BRICK"
  expect_exit 0 control resize --nodes=-1
  wait_until 10 _no_bricks
  finish_all
}

test_no_companion_outlives_its_job() {
  local rigid
  begin_with_brick
  on ctl scancel "$JOB"
  wait_until 10 _no_bricks
  # Nor when all who could cancel it are killed at once.
  begin_with_brick
  on "root@$HOST" bash -c 'pkill -KILL -x bellows-broker; pkill -KILL -x slurm_script; pkill -KILL -x bellows-run'
  on ctl scancel "$JOB"
  wait_until 20 _no_bricks
  # Nor when it is still waited for.
  rigid=$(submit --exclusive -N2 -w n2,n4 --output=/dev/null --wrap "sleep 60")
  wait_job 20 "$rigid" RUNNING
  begin BELLOWS_ELASTIC=1-4 BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast --
  expect_exit 0 control resize --nodes=+1 --wait=0
  wait_until 20 _has_bricks
  on ctl scancel "$JOB"
  wait_until 20 _no_bricks
  on ctl scancel "$rigid"
}

test_a_component_of_a_het_job_grows() {
  begin BELLOWS_ELASTIC=1-4 -- -N1 -w n1 : --no-kill --exclusive -N1 -w n2 --
  expect_exit 0 control resize --nodes=+n3
  expect_exit 0 control resize --nodes=+n4 --component=1
  expect_equal "$(nodes_of "$((JOB + 1))")" "n2 n4"
  expect_exit 0 control resize --nodes=-n4
  expect_equal "$(nodes_of "$((JOB + 1))")" "n2"
  finish_all
}

test_turbo_takes_idle_nodes_and_yields_them() {
  local rigid
  begin BELLOWS_ELASTIC=1-4 BELLOWS_ELASTIC_MODE=turbo -- -N1 -w n1 --
  await_size 4
  rigid=$(submit --exclusive -N2 --output=/dev/null --wrap "sleep 3")
  wait_job 20 "$rigid"
  expect_equal "$(job_state "$rigid")" COMPLETED
  await_size 4
  finish_all
}

test_turbo_takes_idle_nodes_of_the_places_of_companions() {
  begin BELLOWS_ELASTIC=1-4 BELLOWS_ELASTIC_MODE=turbo BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast --
  await_size 4
  expect_equal "$(nodes_of "$(bricks)")" "n2 n4"
  finish_all
}
