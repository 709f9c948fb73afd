# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-run is killed, the ranks of its elastic job go on, and another takes over.
export TIME_LIMIT=300
. "$ROOT/tests/lib/elastic.sh"

FIRST='' AGENTS=()
# job ARGUMENTS…: as begin, for a launcher that will be lost.
job() {
  begin "$@"
  remember
}
remember() {
  FIRST=$LAUNCHER
  mapfile -t AGENTS < <(agents)
}
# lose_launcher [PID…]: kills it, and these with it.
lose_launcher() {
  kill -KILL "$LAUNCHER" "$@"
  CODE=0
  wait "$STARTED" || CODE=$?
  expect_equal "$CODE" 137
  # The agents go on writing to the file that was the launcher's.
  cat out >>out.before
  mv err err.before
}
# reattach ARGUMENTS…: another bellows-run, in the background as the first.
reattach() { LIMIT=100 start --reattach "local-$FIRST" "$@"; }
# expect_result: the job ends in order, with the right state, and clean.
expect_result() {
  finish
  expect_nothing_left
}
expect_nothing_left() {
  expect_gone "${AGENTS[@]}"
  LAUNCHER=$FIRST expect_clean
  expect_equal "$(ls "$BELLOWS_CONTROL_DIR")" ""
}
test_the_training_goes_on_and_is_taken_over() {
  job 1-4 -n 4 --local-nodes 2
  local ranks
  mapfile -t ranks < <(ranks)
  lose_launcher
  expect_exit 3 ctl status
  expect_contains "$ERR" "no bellows-run of yours"
  reattach
  wait_until 20 _size_is 4
  expect_contains "$(ctl status)" "steady, epoch 1, 4 ranks"
  kill -0 "${ranks[@]}"
  expect_result
  expect_contains "$ERR" "took over job local-$FIRST: world 1, 4 ranks on 2 nodes"
}

test_a_job_can_be_taken_over_again_and_again() {
  job 1-4 -n 3 --local-nodes 3
  local i
  for i in 1 2 3 4; do
    lose_launcher
    reattach
    wait_until 20 _size_is 3
  done
  expect_result
}

# shellcheck disable=SC2016 # for the ranks' shell
test_output_of_the_gap_is_not_lost() {
  LIMIT=60 start --elastic 1-2 -n 2 sh -c 'i=0; while [ $i -lt 200 ]; do
    echo $OMPI_COMM_WORLD_RANK line $i; i=$((i + 1)); sleep 0.02; done'
  started 'line 20' 2
  remember
  lose_launcher
  sleep 1
  reattach
  expect_end 0
  # What is not in both: missing (left) or not the ranks' (right).
  expect_equal "$(comm -3 <(for i in {0..199}; do printf '%s\n' "0 line $i" "1 line $i"; done | sort) \
    <(cat out.before out | sort -u))" ""
  expect_nothing_left
}

test_ranks_that_write_much_in_the_gap_wait() {
  LIMIT=60 start --elastic 1-2 -n 1 sh -c \
    'echo up; until [ -e go ]; do sleep 0.05; done; seq 1 1500000; echo end >seen; echo end'
  started up
  remember
  lose_launcher
  touch go
  sleep 2
  expect_no_file seen
  reattach
  expect_end 0
  expect_equal "$(md5sum <out)" "$({ seq 1 1500000 && echo end; } | md5sum)"
  expect_nothing_left
}

test_a_rank_that_dies_in_the_gap_is_repaired() {
  local victim
  job 1-4 -n 4 --local-nodes 2
  victim=$(rank_pid 2)
  lose_launcher
  kill -KILL "$victim"
  reattach
  wait_until 30 _size_is 3
  expect_result
  expect_contains "$ERR" "was killed by SIGKILL"
}

test_a_rank_that_dies_together_with_the_launcher_is_repaired() {
  job 1-4 -n 4 --local-nodes 2
  lose_launcher "$(rank_pid 1)"
  reattach
  wait_until 30 _size_is 3
  expect_result
}

test_a_repair_in_hand_is_done_anew() {
  local pause victim
  for pause in 0.003 0.01 0.03 0.06 0.1 0.15; do
    job 1-4 -n 4 --local-nodes 2
    victim=$(rank_pid 3)
    kill -KILL "$victim"
    sleep "$pause"
    lose_launcher
    reattach
    wait_until 40 _size_is 3
    expect_result
  done
}

test_an_agent_that_dies_in_the_gap_is_a_lost_node() {
  job 1-4 -n 4 --local-nodes 2
  lose_launcher
  kill -KILL "${AGENTS[0]}"
  reattach
  wait_until 30 _size_is 2
  finish
  expect_contains "$ERR" "was lost with its node"
  expect_equal "$(ls "$BELLOWS_CONTROL_DIR")" ""
}

test_an_agent_that_dies_together_with_the_launcher_is_a_lost_node() {
  job 1-4 -n 4 --local-nodes 2
  lose_launcher "${AGENTS[1]}"
  reattach
  wait_until 30 _size_is 2
  finish
}

test_a_stopped_agent_is_given_up_after_a_while() {
  job 1-4 -n 4 --local-nodes 2
  lose_launcher
  kill -STOP "${AGENTS[0]}"
  reattach --start-timeout 2
  wait_until 30 _size_is 2
  finish
  expect_contains "$ERR" "no word from the agent on"
}

test_a_join_in_hand_is_done_or_dropped() {
  local pause
  for pause in 0 0.05 0.1 0.2 0.3 0.5 0.8; do
    job 1-4 -n 2 --local-nodes 2
    ctl resize +1 --wait=0
    sleep "$pause"
    lose_launcher
    reattach
    wait_until 40 _steady
    expect_exit 0 ctl resize 4
    expect_result
  done
}

test_a_status_without_a_launcher_names_the_way_out() {
  job 1-4 -n 2
  local first=$LAUNCHER
  lose_launcher
  expect_exit 3 ctl status
  expect_contains "$ERR" "the bellows-run of local-$first has died: if its ranks still run, bellows-run --reattach local-$first takes them over"
  expect_exit 3 ctl --job="local-$first" status
  expect_contains "$ERR" "bellows-run --reattach local-$first takes them over"
  expect_exit 3 ctl --job=local-1 status
  expect_lacks "$ERR" "--reattach"
  reattach
  wait_until 40 _steady
  expect_exit 0 ctl status
  expect_result
}

test_a_node_on_its_way_is_received() {
  job 1-4 -n 2 --local-nodes 3
  ctl resize +1 --on "$(hostname)-2" --wait=0
  lose_launcher
  reattach
  wait_until 40 _steady
  expect_exit 0 ctl resize 3 --on "$(hostname)-2"
  expect_matches "$(ctl status)" "$(hostname)-2"
  expect_result
}

# A node was given up, and is in use again, when its first agent calls: not the one that is awaited.
test_an_agent_that_was_given_up_does_not_come_back() {
  printf '#!/bin/sh\nbellows-agent &\nwait\n' >agent # which is out of the launcher's reach
  chmod +x agent
  job 1-4 -n 2 --local-nodes 2 --silence-timeout 2 --agent "$PWD/agent"
  local first second lost
  lost=$(hostname)-1
  first=$(agent_of 1)
  kill -STOP "$first" "$(rank_pid 1)"
  wait_until 20 _size_is 1
  expect_exit 0 ctl resize 2 --on "$lost"
  second=$(agent_of 1)
  kill -STOP "$second"
  lose_launcher
  kill -CONT "$first"
  reattach
  wait_until 20 grep -q "refuses this agent" err.before
  kill -CONT "$second"
  wait_until 20 _size_is 2
  expect_equal "$(agent_of 1)" "$second"
  AGENTS+=("$first" "$second")
  finish
  expect_gone "${AGENTS[@]}"
}

test_ranks_may_leave_afterwards() {
  job 1-4 -n 4 --local-nodes 2
  lose_launcher
  reattach
  wait_until 40 _steady
  expect_exit 0 ctl leave --ranks 0,1
  expect_exit 0 ctl resize +1
  expect_result
}

test_a_leave_in_hand_is_done_or_dropped() {
  local pause
  for pause in 0 0.02 0.05 0.1 0.2; do
    job 1-4 -n 4 --local-nodes 2
    ctl resize 2 --wait=0
    sleep "$pause"
    lose_launcher
    reattach
    wait_until 40 _steady
    expect_result
  done
}

test_a_program_that_ends_in_the_gap_has_its_exit_code() {
  local code
  for code in 0 7; do
    rm -f go
    LIMIT=60 start --elastic 1-2 -n 2 sh -c "echo up; until [ -e go ]; do sleep 0.05; done; echo bye; exit $code"
    started up 2
    remember
    local ranks
    mapfile -t ranks < <(ranks)
    lose_launcher
    touch go
    expect_gone "${ranks[@]}"
    reattach
    expect_end "$code"
    expect_equal "$OUT" $'bye\nbye'
    expect_nothing_left
  done
}

test_a_training_that_ends_in_the_gap() {
  job 1-4 -n 2 --local-nodes 2
  local ranks
  mapfile -t ranks < <(ranks)
  lose_launcher
  touch end
  expect_gone "${ranks[@]}"
  reattach
  expect_result
}

test_nobody_comes_back() {
  job 1-4 --launcher-grace 2 -n 4 --local-nodes 2
  local ranks
  mapfile -t ranks < <(ranks)
  lose_launcher
  expect_gone "${ranks[@]}" "${AGENTS[@]}"
  LAUNCHER=$FIRST expect_clean
  expect_contains "$(<err.before)" "no bellows-run has come back within 2 s (--launcher-grace)"
  expect_exit 1 launch --reattach "local-$FIRST"
  expect_contains "$ERR" "no ranks are left of job local-$FIRST"
  expect_nothing_left
  expect_exit 3 launch --reattach "local-$FIRST"
}

test_without_grace_the_ranks_end_at_once() {
  job 1-4 --launcher-grace 0 -n 2 --local-nodes 2
  expect_equal "$(compgen -G 'control/*.job')" ""
  local ranks
  mapfile -t ranks < <(ranks)
  lose_launcher
  expect_gone "${ranks[@]}" "${AGENTS[@]}"
  LAUNCHER=$FIRST expect_clean
}

test_a_living_launcher_keeps_its_job() {
  job 1-4 -n 2
  expect_exit 1 launch --reattach "local-$FIRST"
  expect_contains "$ERR" "job local-$FIRST already has a bellows-run"
  kill -STOP "$LAUNCHER"
  expect_exit 1 launch --reattach "local-$FIRST"
  expect_contains "$ERR" "job local-$FIRST already has a bellows-run"
  kill -CONT "$LAUNCHER"
  # Even without its socket it has the port.
  rm "control/local-$FIRST.sock"
  expect_exit 1 launch --reattach "local-$FIRST"
  expect_contains "$ERR" "cannot listen on port"
  expect_result
}

test_the_second_of_two_is_refused() {
  job 1-4 -n 2 --local-nodes 2
  lose_launcher
  reattach
  wait_until 20 _size_is 2
  expect_exit 1 launch --reattach "local-$FIRST"
  expect_contains "$ERR" "already has a bellows-run"
  expect_result
}

test_signals_reach_the_ranks_afterwards() {
  job 1-4 -n 2 --local-nodes 2
  lose_launcher
  reattach
  wait_until 20 _size_is 2
  kill -TERM "$LAUNCHER"
  expect_end 143
  expect_nothing_left
}

test_what_cannot_be_taken_over_is_named() {
  expect_exit 3 launch --reattach local-1
  expect_contains "$ERR" "there is no elastic job local-1 to take over"
  expect_exit 3 launch --reattach ../x
  expect_exit 2 launch --reattach local-1 true
  expect_contains "$ERR" "--reattach takes no program"
  expect_exit 2 launch --reattach local-1 -n 3
  expect_contains "$ERR" "--reattach and --ranks exclude each other"
  expect_exit 2 launch --launcher-grace -1 true
  start -n 1 sh -c 'echo up; exec sleep 60'
  started up
  expect_exit 3 launch --reattach "local-$LAUNCHER"
  kill -TERM "$LAUNCHER"
  expect_end '!0'
}

# Somebody else has the port in the meantime, and refuses whoever calls.
test_a_stranger_at_the_port_does_not_end_the_ranks() {
  job 1-4 -n 2 --local-nodes 2
  local port stranger
  port=$(listening_port)
  lose_launcher
  timeout 20 python3 -c "
import socket, struct
server = socket.create_server(('127.0.0.1', $port))
open('stranger', 'w').close()
refused = b'{\"type\": \"refused\", \"reason\": \"go away\"}'
for i in range(20):
    peer = server.accept()[0]
    peer.sendall(struct.pack('>II', len(refused), 0) + refused)
    peer.close()
" &
  stranger=$!
  wait_until 10 test -e stranger
  expect_exit 1 launch --reattach "local-$FIRST"
  expect_contains "$ERR" "cannot listen on port $port"
  wait "$stranger"
  reattach
  wait_until 20 _size_is 2
  expect_contains "$(ctl status)" "steady, epoch 1, 2 ranks"
  expect_result
}
