# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Lost launchers, agents and ranks; agents that do not start; strangers at the port; the secret.
export TIME_LIMIT=150
. "$ROOT/tests/lib/launcher.sh"

sleepers() {
  start "$@" sh -c 'echo up; exec sleep 60'
}

test_a_killed_launcher_takes_everything_along() {
  sleepers -n 4 --local-nodes 2
  started up 4
  local agents ranks
  mapfile -t agents < <(agents)
  mapfile -t ranks < <(ranks)
  expect_equal "${#agents[@]} ${#ranks[@]}" "2 4"
  kill -KILL "$LAUNCHER"
  expect_end 137
  expect_gone "${ranks[@]}" "${agents[@]}"
  expect_equal "$(grep -c 'lost bellows-run: connection closed by the peer; ending the ranks on this node' err)" 2
  expect_clean
}

test_a_killed_launcher_takes_mpi_ranks_along() {
  start -n 4 --local-nodes 2 sh -c 'mpi_hello && echo up; exec sleep 60'
  started up 4
  local pids
  mapfile -t pids < <(agents; ranks)
  kill -KILL "$LAUNCHER"
  expect_end 137
  expect_gone "${pids[@]}"
  expect_clean
}

test_a_killed_agent_takes_its_ranks_along_and_ends_the_job() {
  sleepers -n 4 --local-nodes 2
  started up 4
  local agents ranks
  mapfile -t agents < <(agents)
  mapfile -t ranks < <(ranks)
  kill -KILL "${agents[0]}"
  expect_end 1
  expect_matches "$(last_line)" "^bellows-run: rank [0-3] on .* was lost with its node: connection closed by the peer"
  expect_gone "${ranks[@]}" "${agents[@]}"
  # What the killed agent left goes with the next run.
  expect_exit 0 launch -n 1 true
  LAUNCHER='' expect_clean
}

test_a_silent_agent_is_given_up() {
  sleepers -n 2 --local-nodes 2 --silence-timeout 2
  started up 2
  local agents ranks
  mapfile -t agents < <(agents)
  mapfile -t ranks < <(ranks)
  kill -STOP "${agents[1]}"
  expect_end 1
  expect_matches "$(last_line)" "was lost with its node: no sign of life for 2 s"
  expect_gone "${ranks[@]}" "${agents[@]}"
}

test_a_suspended_launcher_and_job_wake_up_unharmed() {
  start -n 2 --local-nodes 2 --silence-timeout 2 sh -c 'echo up; sleep 6; exec mpi_hello'
  started up 2
  local agents
  mapfile -t agents < <(agents)
  kill -STOP "$LAUNCHER" "${agents[@]}"
  sleep 4
  kill -CONT "$LAUNCHER" "${agents[@]}"
  expect_end 0
}

# ---- agents that do not start -------------------------------------------------------------------

test_an_agent_that_is_missing_or_ends_at_once_is_named() {
  expect_exit 1 launch -n 2 --agent /no/such/agent true
  expect_contains "$(last_line)" "cannot start '/no/such/agent'"
  expect_exit 1 launch -n 2 --local-nodes 2 --agent false true
  expect_matches "$(last_line)" "the agent on node $(hostname)-[01] did not start: bellows-agent ended with exit code 1"
}

test_an_agent_that_hangs_is_given_up_after_the_limit() {
  printf '#!/bin/sh\nexec sleep 60\n' >agent && chmod +x agent
  expect_exit 1 launch -n 2 --local-nodes 2 --agent "$PWD/agent" --start-timeout 1 true
  expect_contains "$(last_line)" "no word from the agent on $(hostname)-0 $(hostname)-1 within 1 s (--start-timeout)"
}

test_an_agent_that_cannot_reach_the_launcher_says_what_it_tried() {
  BELLOWS_NODE=n9 BELLOWS_SECRET=x BELLOWS_JOB=9 BELLOWS_CONNECT_SECONDS=2 \
    BELLOWS_COORDINATOR=127.0.0.1:1,192.0.2.1:4000 expect_exit 1 timeout -k 1 20 bellows-agent
  expect_contains "$ERR" "bellows-agent on n9: cannot reach bellows-run (127.0.0.1:1: Connection refused; 192.0.2.1:4000: "
  expect_contains "$ERR" "firewall"
}

test_an_agent_started_by_hand_says_who_starts_it() {
  expect_exit 1 bellows-agent
  expect_contains "$ERR" "BELLOWS_NODE is not set: bellows-agent is started by bellows-run, not by hand"
  expect_exit 1 bellows-agent --frob
  expect_exit 0 bellows-agent --version
}

test_a_port_in_use_is_named() {
  sleepers -n 1
  started up
  local port
  port=$(listening_port)
  expect_exit 1 launch -n 1 --port "$port" true
  expect_contains "$(last_line)" "cannot listen on port $port: Address already in use; give another port or range with --port"
  expect_exit 0 launch -n 1 --port "$port-$((port + 100))" true
  kill -TERM "$LAUNCHER"
  expect_end 143
}

# ---- strangers ----------------------------------------------------------------------------------

test_an_agent_with_a_wrong_secret_is_refused_and_the_job_goes_on() {
  start -n 2 --local-nodes 2 sh -c 'echo up; sleep 4; exec mpi_hello'
  started up 2
  local node=here
  export BELLOWS_NODE=$node BELLOWS_JOB=9 BELLOWS_CONNECT_SECONDS=5 BELLOWS_COORDINATOR
  BELLOWS_COORDINATOR=127.0.0.1:$(listening_port)
  BELLOWS_SECRET=guess expect_exit 2 timeout -k 1 20 bellows-agent
  expect_contains "$ERR" "bellows-agent on here: bellows-run refuses this agent: wrong secret"
  # With the right one, but not expected.
  local secret
  secret=$(tr '\0' '\n' <"/proc/$(agents | head -n 1)/environ" | sed -n 's/^BELLOWS_SECRET=//p')
  BELLOWS_SECRET=$secret expect_exit 2 timeout -k 1 20 bellows-agent
  expect_contains "$ERR" "refuses this agent: no agent is expected on node here"
  expect_end 0
  expect_matches "$ERR" "refused an agent at 127.0.0.1:[0-9]+: wrong secret"
  expect_equal "$(grep -c 'of 2, sum 1' out)" 2
}

test_garbage_at_the_port_does_not_disturb_the_job() {
  start -n 2 --local-nodes 2 sh -c 'echo up; sleep 4; exec mpi_hello'
  started up 2
  local port
  port=$(listening_port)
  for _ in 1 2 3; do
    head -c 100000 /dev/urandom >"/dev/tcp/127.0.0.1/$port" || true
    printf 'GET / HTTP/1.1\r\n\r\n' >"/dev/tcp/127.0.0.1/$port" || true
  done
  # One that says nothing, and stays.
  exec {silent}<>"/dev/tcp/127.0.0.1/$port"
  expect_end 0
  exec {silent}>&-
  expect_equal "$(grep -c 'of 2, sum 1' out)" 2
}

test_the_secret_is_on_no_command_line_and_not_with_the_ranks() {
  sleepers -n 2 --local-nodes 2
  started up 2
  local secret pid
  secret=$(tr '\0' '\n' <"/proc/$(agents | head -n 1)/environ" | sed -n 's/^BELLOWS_SECRET=//p')
  expect_matches "$secret" '^[0-9a-f]{64}$'
  expect_lacks "$(ps -eo args)" "$secret"
  for pid in $(ranks) "$LAUNCHER"; do
    expect_lacks "$(tr '\0' '\n' <"/proc/$pid/environ")" "$secret"
    expect_lacks "$(tr '\0' '\n' <"/proc/$pid/environ")" BELLOWS_SECRET
  done
  kill -TERM "$LAUNCHER"
  expect_end 143
}

test_the_folders_are_private() {
  sleepers -n 1
  started up
  local folder
  for folder in "$TMPDIR"/bellows-*-local-* "/dev/shm/bellows-$(id -u)-local-$LAUNCHER"-*; do
    expect_equal "$(stat -c %a "$folder")" 700
  done
  kill -TERM "$LAUNCHER"
  expect_end 143
  expect_clean
}

# shellcheck disable=SC2016 # for the ranks' shells
test_ranks_that_fail_together_all_have_their_say() {
  local try
  for try in {1..20}; do
    echo "try $try"
    expect_exit 2 launch -n 3 sh -c '[ $OMPI_COMM_WORLD_RANK -gt 0 ] || sleep 0.1; echo "why $OMPI_COMM_WORLD_RANK" >&2; exit 2' </dev/null
    expect_equal "$(grep -c '^why [012]$' <<<"$ERR")" 3
  done
}
