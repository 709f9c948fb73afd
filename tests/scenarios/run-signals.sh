# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Signals to bellows-run, and how ranks are ended.
export TIME_LIMIT=120
. "$ROOT/tests/lib/launcher.sh"
export BELLOWS_CONTROL_DIR=$PWD/control

# Ranks that say which signal they got.
# shellcheck disable=SC2016 # for the ranks' shell
listeners() {
  start "$@" bash -c 'for s in TERM INT USR1 USR2 HUP; do trap "echo got $s" $s; done; trap "echo got TERM; exit 3" TERM; echo up; while :; do sleep 0.2 & wait; done'
  started up 2
}

test_signals_reach_every_rank() {
  listeners -n 2 --local-nodes 2
  local signal
  for signal in USR1 USR2 INT; do
    kill -"$signal" "$LAUNCHER"
    started "got $signal" 2
  done
  kill -TERM "$LAUNCHER"
  expect_end 3
  expect_equal "$(grep -c 'got TERM' out)" 2
  expect_clean
}

test_a_hangup_ends_a_job_as_sigterm_does() {
  listeners -n 2 --local-nodes 2
  kill -HUP "$LAUNCHER"
  expect_end 3
  expect_equal "$(grep -c 'got TERM' out)" 2
  expect_lacks "$OUT" 'got HUP'
  expect_clean
}

test_a_terminal_that_is_closed_ends_a_job_of_mpi() {
  expect_exit 0 timeout -k 1 60 python3 - <<'END'
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("bellows-run", ["bellows-run", "--elastic", "1-2", "-n", "2", "elastic_steps", "--bytes", "1000",
                              "--steps", "100000000", "--work", "5"])
socket = f"{os.environ['BELLOWS_CONTROL_DIR']}/local-{pid}.sock"
while os.system(f"bellows --job=local-{pid} status 2>/dev/null | grep -q ': steady, epoch'"):
    time.sleep(0.1)
os.close(terminal)
_, status = os.waitpid(pid, 0)
sys.exit(0 if os.waitstatus_to_exitcode(status) != 0 else "it ended as if nothing had happened")
END
}

test_a_job_under_nohup_outlives_a_hangup() {
  # shellcheck disable=SC2016 # for the new shell
  timeout -k 1 40 bash -c 'trap "" HUP; echo $$ >launcher.pid; exec bellows-run -n 2 sh -c "echo up; sleep 3; echo over"' \
    >out 2>err </dev/null &
  STARTED=$!
  started up 2
  LAUNCHER=$(<launcher.pid)
  kill -HUP "$LAUNCHER"
  expect_end 0
  expect_equal "$(grep -c over out)" 2
}

test_a_rank_that_gets_a_hangup_ends_though_it_uses_mpi() {
  start --elastic 1-2 -n 2 elastic_steps --bytes 1000 --steps 100000000 --work 5 --end "$PWD/end"
  wait_until 20 bash -c "bellows --job=local-$LAUNCHER status | grep -q ': steady, epoch 1, 2 ranks'"
  kill -HUP "$(ranks | head -n 1)"
  wait_until 20 bash -c "bellows --job=local-$LAUNCHER status | grep -q ': steady, epoch 2, 1 rank '"
  touch end
  expect_end 0
}

test_an_interrupt_ends_a_program_that_does_not_catch_it() {
  start -n 2 --local-nodes 2 sh -c 'echo up; exec sleep 60'
  started up 2
  kill -INT "$LAUNCHER"
  expect_end 130
  expect_contains "$(last_line)" "was killed by SIGINT"
  expect_clean
}

test_two_interrupts_kill_ranks_that_catch_them() {
  start -n 2 --local-nodes 2 sh -c 'trap "" INT TERM; echo up; sleep 60'
  started up 2
  kill -INT "$LAUNCHER"
  sleep 0.3
  kill -INT "$LAUNCHER"
  expect_end 137
  expect_contains "$ERR" "interrupted twice: killing the ranks"
  expect_clean
}

test_an_interrupt_before_the_ranks_have_started() {
  printf '#!/bin/sh\nexec sleep 60\n' >agent && chmod +x agent
  start -n 1 --agent "$PWD/agent" true
  wait_until 10 pgrep -P "$LAUNCHER"
  kill -INT "$LAUNCHER"
  expect_end 1
  expect_contains "$(last_line)" "stopped by SIGINT before the ranks had started"
}

test_ranks_that_ignore_sigterm_are_killed() {
  # shellcheck disable=SC2016 # for the ranks' shell
  start -n 3 --local-nodes 3 --kill-wait 1 sh -c 'trap "" TERM; echo up; [ $OMPI_COMM_WORLD_RANK != 1 ] || { sleep 1; exit 5; }; sleep 60'
  started up 3
  local pids
  mapfile -t pids < <(ranks)
  expect_end 5
  expect_matches "$(last_line)" "rank 1 .* ended with exit code 5 .*; the other 2 ranks were stopped"
  expect_gone "${pids[@]}"
  expect_clean
}

test_a_stopped_rank_can_be_ended() {
  # shellcheck disable=SC2016 # for the ranks' shell
  start -n 2 --kill-wait 2 sh -c 'echo up; [ $OMPI_COMM_WORLD_RANK != 1 ] || { sleep 1; exit 5; }; kill -STOP $$; sleep 60'
  started up 2
  expect_end 5
}

test_what_ranks_leave_running_is_ended() {
  start -n 2 --local-nodes 2 sh -c 'sleep 1234.75 & echo up; sleep 0.5'
  started up 2
  expect_end 0
  wait_until 10 bash -c '! pgrep -f "sleep 1234[.]75"'
  expect_clean
}

test_a_launcher_whose_output_is_not_read_can_be_ended() {
  mkfifo pipe
  # A reader that never reads.
  # shellcheck disable=SC2217
  sleep 30 <pipe &
  local reader=$!
  # shellcheck disable=SC2016 # for the new shell
  timeout -k 1 40 bash -c 'echo $$ >launcher.pid; exec bellows-run -n 1 seq 1 300000' >pipe 2>err &
  STARTED=$!
  wait_until 10 test -s launcher.pid
  LAUNCHER=$(<launcher.pid)
  sleep 2
  [[ -e /proc/$LAUNCHER ]] || fail "ended without having written everything"
  kill -TERM "$LAUNCHER"
  wait_until 15 bash -c "[[ ! \$(pgrep -P $LAUNCHER) ]]" # the agent is gone
  kill -TERM "$LAUNCHER" || true
  wait "$STARTED" || true
  kill "$reader" || true
  expect_gone "$LAUNCHER"
}
