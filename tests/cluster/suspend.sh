# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Jobs that Slurm suspends and resumes, as operators and gang scheduling do. For as long all processes
# of the job are stopped, bellows-run among them, and those of its companions are not.
export TIME_LIMIT=150

. "$ROOT/tests/lib/elastic_job.sh"

# Slurm warns with SIGTSTP, and stops two seconds later.
_stopped_on() { [[ $(on "$1" ps -o stat= -C elastic_steps) == T* ]]; }
# suspend JOB NODE: until the ranks there are stopped.
suspend() {
  on root@ctl scontrol suspend "$1"
  wait_until 20 _stopped_on "$2"
}
resume() { on root@ctl scontrol resume "$1"; }
# away SECONDS NODE: so long the ranks on that node are stopped.
away() { on "$2" sleep "$1"; }

# _goes_on: a rank says that it is in a later step than FROM.
_step() { control status | sed -n '1s/.*, step \([0-9]*\),.*/\1/p'; }
_goes_on() { (($(_step) > FROM)); }

test_a_suspended_job_goes_on_where_it_was() {
  begin BELLOWS_ELASTIC=1-4 -- -N3 -w n1,n2,n3 -- --silence-timeout 3 --rank-timeout 2
  FROM=$(_step)
  suspend "$JOB" n2
  away 7 n2
  resume "$JOB"
  wait_until 20 _goes_on
  expect_contains "$(control status | head -n 1)" "steady, epoch 1, 3 ranks"
  # In the middle of growing, and of shrinking.
  for size in +1 -1; do
    control resize --nodes=$size --wait=60 >resize.out 2>&1 &
    suspend "$JOB" n2
    away 4 n2
    resume "$JOB"
    wait $! || fail "$(cat resize.out)"
  done
  await_size 3
  expect_lacks "$(output)" "is lost"
  expect_lacks "$(output)" "killed"
  finish_all
}

begin_with_companion() {
  begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_HET=partition=spot,features=slow -- -N2 -C fast -- --silence-timeout 3 "$@"
  expect_exit 0 control resize --nodes=+1
  await_size 3
  BRICK=$(bricks)
  COMPANION=$(nodes_of "$BRICK")
  FROM=$(_step)
}

test_the_companion_of_a_suspended_job_is_kept() {
  begin_with_companion
  suspend "$JOB" "$HOST"
  away 7 "$HOST"
  resume "$JOB"
  # (What it says goes by an srun that was stopped as well.)
  wait_until 20 _output_has "bellows-agent on $COMPANION: bellows-run is back"
  wait_until 20 _goes_on
  expect_equal "$(bricks)" "$BRICK"
  expect_contains "$(control status | head -n 1)" "steady, epoch 2, 3 ranks"
  expect_exit 0 control resize --nodes=-1
  expect_lacks "$(output)" "is lost"
  finish_all
}

_no_ranks_on() { [[ -z $(on "$1" ps -o pid= -C elastic_steps) ]]; }

test_a_job_that_is_suspended_for_long_goes_on_without_its_companions_ranks() {
  begin_with_companion --launcher-grace 4 --start-timeout 5
  suspend "$JOB" "$HOST"
  wait_until 30 _no_ranks_on "$COMPANION"
  resume "$JOB"
  wait_until 20 _output_has "rank 2 on $COMPANION was lost with its node"
  wait_until 20 _output_has "no bellows-run has come back within 4 s (--launcher-grace)"
  await_size 2
  wait_until 20 _no_bricks
  wait_until 20 _is_idle "$COMPANION"
  expect_exit 0 control resize --nodes=+1
  await_size 3
  # Nor does a companion outlive a job that is cancelled as it is suspended.
  suspend "$JOB" "$HOST"
  on ctl scancel "$JOB"
  wait_until 30 _no_bricks
  wait_until 20 _is_idle "$COMPANION"
}

test_a_suspended_companion_costs_only_its_ranks() {
  begin_with_companion --start-timeout 5
  suspend "$BRICK" "$COMPANION"
  await_size 2
  expect_contains "$(output)" "node $COMPANION is lost: no sign of life for 3 s"
  # Nodes without ranks are given back, suspended or not.
  wait_until 40 _no_bricks
  wait_until 20 _is_idle "$COMPANION"
  expect_exit 0 control resize --nodes=+1
  await_size 3
  finish_all
}
