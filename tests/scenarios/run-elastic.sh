# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A world that changes while its program goes on: deaths of all kinds, at all moments, and what
# cannot be repaired. The program checks its own state after each change.
export TIME_LIMIT=300
. "$ROOT/tests/lib/elastic.sh"

# expect_result: the job ends in order, with the right state, and clean.
expect_result() {
  finish
  expect_clean
}
_number_of_ranks() { (($(ranks | wc -l) == $1)); }

test_a_killed_rank_is_repaired() {
  begin 1-4 -n 4 --local-nodes 2
  kill -9 "$(rank_pid 2)"
  wait_until 20 _size_is 3
  expect_result
  expect_contains "$ERR" "world 2: 3 ranks on 2 nodes (rank 2 on "
  expect_contains "$ERR" "was killed by SIGKILL"
}

test_rank_0_is_repaired_like_any_other() {
  begin 1-4 -n 3 --local-nodes 3
  kill -9 "$(rank_pid 0)"
  wait_until 20 _size_is 2
  expect_result
}

test_all_but_one_may_die_at_once() {
  begin 1-4 -n 4 --local-nodes 2
  kill -9 "$(rank_pid 0)" "$(rank_pid 1)" "$(rank_pid 3)"
  wait_until 20 _size_is 1
  expect_result
}

test_an_aborted_rank_is_repaired() {
  begin 1-4 -n 3
  kill -ABRT "$(rank_pid 1)"
  wait_until 20 _size_is 2
  expect_result
}

# Those who leave are the last to have the state when it turns out that nobody else is there any
# more; a joiner gets it from them before they go.
test_leavers_who_have_not_been_told_stay_when_the_others_are_lost() {
  begin 1-4 -n 2 --local-nodes 2 --silence-timeout 2
  kill -STOP "$(agent_of 0)"
  expect_exit 0 ctl leave --ranks 1 --wait=0
  wait_until 20 _size_is 1
  expect_exit 0 ctl resize 2
  finish
  expect_contains "$ERR" "no sign of life"
}

# The next world does not count on them, but their node has to hear of it.
test_leavers_on_a_silent_node_do_not_hold_up_the_others() {
  begin 1-4 -n 3 --local-nodes 3 --silence-timeout 2 --change-timeout 20
  local gone
  gone=$(rank_pid 2)
  kill -STOP "$gone" "$(agent_of 2)"
  expect_exit 0 ctl leave --ranks 2 --wait=0
  wait_until 20 _size_is 2
  finish
}

# Nor has one heard that it may go whose program is done: it speaks for the job.
test_an_end_before_the_word_to_leave_is_the_end_of_the_job() {
  begin 1-4 -n 2 --local-nodes 2 --silence-timeout 2
  kill -STOP "$(agent_of 0)"
  expect_exit 0 ctl leave --ranks 1 --wait=0
  touch end
  expect_end 0
}

test_a_killed_agent_is_a_lost_node() {
  begin 1-4 -n 4 --local-nodes 2
  kill -9 "$(agents | head -n 1)"
  wait_until 20 _size_is 2
  finish
  expect_contains "$ERR" "was lost with its node"
}

test_a_stopped_rank_is_killed_after_a_while() {
  begin 1-4 --rank-timeout 1 -n 3
  local stopped
  stopped=$(rank_pid 1)
  kill -STOP "$stopped"
  wait_until 20 _size_is 2
  expect_gone "$stopped"
  expect_result
  expect_contains "$ERR" "gives no sign of life for 1 s (--rank-timeout); killing it"
}

_have_slept() { (($(compgen -G 'slept.*' | wc -l) == $1)); }

# ... but not one that has replaced its process, and loads.
test_a_process_that_replaces_itself_may_take_its_time() {
  export BELLOWS_STUCK_SECONDS=0.000001 BELLOWS_FAULT=loaded@0 BELLOWS_FAULT_ACTION=sleep
  export BELLOWS_FAULT_FILES=$PWD/slept.
  LIMIT=100 start --elastic 1-4 --rank-timeout 1 -n 3 elastic_steps --steps 30 --bytes 100000 --work 200
  wait_until 30 _steady
  kill -KILL "$(rank_pid 1)"
  wait_until 20 _have_slept 2
  expect_result
  expect_lacks "$ERR" "gives no sign of life"
}

# Nobody would tell it anything any more.
test_a_process_that_has_replaced_itself_ends_with_its_agent() {
  export BELLOWS_STUCK_SECONDS=0.000001
  # Long steps, so that the others are still in theirs when the death is known.
  WORK=300 begin 1-4 -n 3 --local-nodes 2
  local victim pids agents
  victim=$(rank_pid 1)
  mapfile -t pids < <(ranks | grep -v "^$victim$")
  kill -KILL "$victim"
  wait_until 20 _size_is 2
  wait_until 10 _are_replaced "${pids[@]}"
  mapfile -t agents < <(agents)
  # All at once, and bellows-run first, so that nobody else ends them.
  kill -STOP "$LAUNCHER"
  kill -KILL "${agents[@]}"
  expect_gone "${pids[@]}"
  kill -CONT "$LAUNCHER"
  expect_end '!0'
}

test_a_rank_that_a_script_has_started_ends_with_its_agent() {
  LIMIT=60 start --elastic 1-4 -n 2 --local-nodes 2 sh -c 'elastic_steps --steps 1000000 --work 5; true'
  wait_until 30 _steady
  local scripts pids
  mapfile -t scripts < <(ranks)
  mapfile -t pids < <(for script in "${scripts[@]}"; do pgrep -P "$script"; done)
  ((${#pids[@]} == 2)) || fail "${#pids[@]} ranks"
  kill -STOP "$LAUNCHER"
  # shellcheck disable=SC2046 # their ids
  kill -KILL $(agents)
  expect_gone "${scripts[@]}" "${pids[@]}"
  kill -CONT "$LAUNCHER"
  expect_end '!0'
}

# shellcheck disable=SC2016 # for the ranks' shell
test_a_rank_that_dies_before_its_first_world() {
  LIMIT=60 start --elastic 1-4 -n 4 --local-nodes 2 sh -c '
    [ "$OMPI_COMM_WORLD_RANK" = 2 ] && kill -9 $$
    exec elastic_steps --steps 100 --bytes 100000 --work 5'
  expect_result
}

test_deaths_as_the_first_world_forms() {
  local i
  for i in 0.05 0.1 0.15 0.2 0.3; do
    LIMIT=60 start --elastic 1-4 -n 4 --local-nodes 2 sh -c "
      [ \"\$OMPI_COMM_WORLD_RANK\" = 2 ] && { (sleep $i; kill -9 \$\$) & }
      exec elastic_steps --steps 100 --bytes 100000 --work 5"
    expect_result
  done
}

test_a_joiner_that_dies_is_dropped() {
  begin 1-6 -n 2 --local-nodes 2
  ctl resize +1 --wait=0
  # Whichever is no rank yet, or has just become one.
  wait_until 10 _number_of_ranks 3
  local joiner
  joiner=$(ranks | tail -n 1)
  kill -9 "$joiner"
  wait_until 20 _size_is 2
  expect_result
}

test_deaths_during_changes() {
  begin 1-6 -n 3 --local-nodes 2
  local i
  for i in 0 0.03 0.06 0.1 0.15; do
    ctl resize +1 --wait=0
    sleep "$i"
    kill -9 "$(ranks | shuf -n 1)"
    wait_until 40 _steady
    ctl resize 3 || true
    wait_until 40 _steady
  done
  expect_result
}

test_the_world_shrinks_to_one_and_grows_again() {
  begin 1-4 -n 4 --local-nodes 2
  expect_exit 0 ctl resize 1
  expect_exit 0 ctl resize 4
  expect_exit 0 ctl leave --ranks 0,1,2
  expect_exit 0 ctl resize 3
  expect_result
}

test_too_few_ranks_end_the_job() {
  begin 2-4 -n 2
  kill -9 "$(rank_pid 1)"
  expect_end '!0'
  expect_contains "$ERR" "1 ranks are left, --elastic=2-4 needs 2; stopping the job"
  expect_clean
}

test_a_program_without_an_elastic_world_cannot_be_repaired() {
  expect_exit '!0' launch --elastic 1-4 -n 3 mpi_survive 1
  expect_contains "$ERR" "not ElasticWorld"
  expect_clean
}

test_an_exit_code_of_the_program_is_the_jobs() {
  expect_exit 2 launch --elastic 1-4 -n 3 elastic_steps --no-such-option
  expect_exit 7 launch --elastic 1-4 -n 3 sh -c 'exit 7'
  expect_clean
}

test_wrong_options_are_named() {
  local wrong
  for wrong in 0-4 4-2 x 3 1-4x -1-4 1- 99999999999-1; do
    expect_exit 2 launch --elastic="$wrong" true
    expect_contains "$ERR" "--elastic=$wrong: must be MIN-MAX"
  done
  expect_exit 2 launch --elastic 1-2 -n 3 true
  expect_contains "$ERR" "-n 3 is more than --elastic=1-2 allows"
  expect_exit 2 launch --elastic 1-2 --on-failure stop true
  expect_contains "$ERR" "exclude each other"
}

test_a_leaver_hands_over_to_those_who_come() {
  begin 1-4 -n 1
  local i
  for i in 1 2 3 4; do
    # Both at once: the only one that has the state goes, another comes.
    ctl resize +1 --wait=0
    expect_exit 0 ctl leave --ranks 0
    wait_until 20 _size_is 1
  done
  expect_result
}

test_a_leave_is_cancelled_when_nobody_comes() {
  begin 2-4 -n 2
  ctl resize +1 --wait=0
  wait_until 10 _number_of_ranks 3
  local joiner
  joiner=$(ranks | tail -n 1)
  kill -STOP "$joiner"
  ctl leave --ranks 0 --wait=20 >leave.out 2>&1 &
  local leaving=$!
  sleep 0.3
  kill -9 "$joiner"
  CODE=0
  wait "$leaving" || CODE=$?
  # (The joiner may have been in already when it was stopped: then rank 0 has gone or stays.)
  ((CODE == 1)) && expect_contains "$(<leave.out)" "too few ranks would be left"
  wait_until 20 _size_is 2
  expect_result
}
