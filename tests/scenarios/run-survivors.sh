# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ranks that survive the death of others (ULFM): bellows-run --on-failure continue.
export TIME_LIMIT=240
. "$ROOT/tests/lib/launcher.sh"

# survive RANKS NODES SURVIVORS WHO_DIES…
survive() {
  local ranks=$1 nodes=$2 left=$3
  shift 3
  expect_exit 0 launch -n "$ranks" --local-nodes "$nodes" --on-failure continue mpi_survive "$@"
  expect_matches "$OUT" "^$left survivors after [1-9][0-9]* repairs$"
}

test_survivors_of_a_killed_rank_finish_ten_times() {
  local i
  for i in 1 2 3 4 5 6 7 8 9 10; do
    survive 4 2 3 $((i % 4))
    expect_matches "$ERR" "rank $((i % 4)) on .* was killed by SIGKILL .*; the others go on"
  done
}

test_survivors_on_one_node() { survive 4 1 3 2; }
test_two_killed_at_once() { survive 4 2 2 0 3; }
test_all_but_one_killed() { survive 4 2 1 0 1 3; }

test_survivors_of_a_lost_node_finish() {
  survive 4 2 2 agent-of 2
  expect_contains "$ERR" "was lost with its node"
  survive 4 4 3 agent-of 0
}

test_without_continue_the_job_ends() {
  expect_exit 137 launch -n 4 --local-nodes 2 mpi_survive 1
  expect_matches "$(last_line)" "rank 1 .* was killed by SIGKILL .*; the other 3 ranks were stopped"
  expect_clean
}

test_a_rank_that_ends_before_the_world_forms_ends_the_job() {
  expect_exit '!0' launch -n 3 --local-nodes 3 --on-failure continue mpi_ends before-init
  expect_contains "$ERR" "a rank has ended before MPI_Init: the world cannot form; stopping the others"
}

# MPI may write to the socket of a dead rank before it has heard of its death.
test_survivors_do_not_die_of_a_broken_pipe() {
  expect_exit 0 launch -n 1 --on-failure continue grep SigIgn /proc/self/status
  (((16#${OUT##*[[:space:]]} >> 12) & 1)) || fail "SIGPIPE is not ignored: $OUT"
  expect_exit 0 launch -n 1 grep SigIgn /proc/self/status
  (((16#${OUT##*[[:space:]]} >> 12) & 1)) && fail "SIGPIPE is ignored: $OUT"
  return 0
}

# shellcheck disable=SC2016 # for the ranks' shell
test_programs_without_mpi_go_on_as_well() {
  expect_exit 0 launch -n 3 --on-failure continue sh -c '[ $OMPI_COMM_WORLD_RANK != 1 ] || kill -KILL $$; sleep 1; echo end'
  expect_equal "$OUT" $'end\nend'
  expect_exit 6 launch -n 3 --on-failure continue sh -c '[ $OMPI_COMM_WORLD_RANK != 1 ] || exit 6; sleep 1; echo end'
  expect_equal "$OUT" $'end\nend'
}
