# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What goes into the ranks of bellows-run and what comes out.
export TIME_LIMIT=150
. "$ROOT/tests/lib/launcher.sh"

test_input_goes_to_rank_0_only() {
  # shellcheck disable=SC2016 # for the ranks' shell
  expect_exit 0 launch -n 3 --local-nodes 3 sh -c 'echo "$OMPI_COMM_WORLD_RANK: $(cat)"' <<<"some words"
  expect_equal "$(sort <<<"$OUT")" $'0: some words\n1: \n2: '
}

test_much_input_arrives_whole() {
  head -c 5000000 /dev/urandom >input
  launch -n 2 --local-nodes 2 sh -c 'exec cat' <input >output
  expect_exit 0 cmp input output
  # shellcheck disable=SC2002 # through a pipe
  cat input | launch -n 1 sh -c 'sleep 1; md5sum' >sum
  expect_equal "$(<sum)" "$(md5sum <input)"
}

test_input_that_nobody_reads_does_not_matter() {
  head -c 5000000 /dev/zero >zeros
  expect_exit 0 launch -n 2 true <zeros
  expect_exit 3 launch -n 1 sh -c 'read line; exit 3' < <(yes)
  expect_exit 0 launch -n 1 sh -c 'cat; echo end' <&-
  expect_equal "$OUT" end
}

test_much_output_arrives_whole_and_in_order() {
  seq 1 2700000 >expected # 20 MB
  launch -n 1 seq 1 2700000 >output
  expect_exit 0 cmp expected output
  # As much from several ranks, with a reader that takes its time.
  launch --tag-output -n 4 --local-nodes 2 seq 1 675000 | (sleep 2; head -c 3000000; sleep 2; cat) >output
  local rank
  for rank in 0 1 2 3; do
    seq -f "[$rank] %.0f" 1 675000 >expected
    grep "^\\[$rank\\] " output | expect_exit 0 cmp expected -
  done
  expect_equal "$(wc -l <output)" 2700000
}

test_a_reader_slower_than_the_job_gets_everything() {
  launch -n 1 seq 1 150000 | (sleep 7; cat) >output
  seq 1 150000 | expect_exit 0 cmp - output
}

test_the_last_line_is_last_whatever_the_ranks_have_written() {
  launch -n 1 sh -c 'seq 1 150000 >&2; exit 3' 2> >(sleep 2; cat >errors; touch all) || true
  wait_until 10 test -e all
  expect_matches "$(tail -n 1 errors)" '^bellows-run: rank 0 .* ended with exit code 3'
  expect_equal "$(wc -l <errors)" 150001
}

test_a_reader_that_goes_away_does_not_hold_up_the_job() {
  { launch -n 2 sh -c 'seq 1 1000000; exit 4' || echo $? >code; } | head -n 1 >first
  expect_equal "$(<first)" 1
  expect_equal "$(<code)" 4
}

test_streams_stay_apart() {
  expect_exit 0 launch -n 2 sh -c 'echo out; echo error >&2'
  expect_equal "$OUT" $'out\nout'
  expect_equal "$ERR" $'error\nerror'
}

test_lines_can_be_tagged_with_their_rank() {
  # shellcheck disable=SC2016 # for the ranks' shell
  expect_exit 0 launch -n 3 --local-nodes 3 --tag-output sh -c 'echo "I am $OMPI_COMM_WORLD_RANK"; printf "no end"; printf "e\n" >&2'
  expect_equal "$(sort <<<"$OUT")" $'[0] I am 0\n[0] no end\n[1] I am 1\n[1] no end\n[2] I am 2\n[2] no end'
  expect_equal "$(sort <<<"$ERR")" $'[0] e\n[1] e\n[2] e'
}

test_output_comes_while_the_job_runs() {
  start -n 1 sh -c 'printf "password: "; sleep 30'
  wait_until 20 grep -q "password: " out
  kill -TERM "$LAUNCHER"
  expect_end 143
}

test_bytes_that_are_no_text_pass() {
  head -c 300000 /dev/urandom >bytes
  launch -n 1 cat "$PWD/bytes" | expect_exit 0 cmp - bytes
}

test_output_that_a_full_disk_refuses_is_reported_once() {
  launch -n 2 sh -c 'seq 1 50000; echo done >&2' >/dev/full 2>errors
  expect_equal "$(grep -c '^bellows-run: cannot write to stdout: No space left on device; output is lost$' errors)" 1
  expect_equal "$(grep -c '^done$' errors)" 2
}

# One of them takes the line that all have been told of; the others must not wait for the next.
test_launchers_that_share_a_stdin_end_with_their_ranks() {
  local i pid pids=()
  mkfifo shared
  exec 3<>shared
  for i in {1..12}; do
    LIMIT=20 launch -n 1 sleep 3 <&3 &
    pids+=($!)
  done
  for i in {1..60}; do
    sleep 0.04
    echo "line $i" >&3
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || fail "bellows-run ended with $? (124: not at all)"
  done
  exec 3>&-
}
