# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows and bellows-run: what the owner of a job sees of it, and changes about it.
export TIME_LIMIT=150
. "$ROOT/tests/lib/elastic.sh"

# expect_size RANKS: as the job itself says.
expect_size() { expect_contains "$(ctl status)" ", $1 rank"; }
_has_size() { (expect_size "$1"); }
end() {
  kill -TERM "$LAUNCHER"
  wait "$STARTED" || true
  expect_clean
  expect_equal "$(ls "$BELLOWS_CONTROL_DIR")" ""
}

test_a_job_of_fixed_size_has_a_status_and_nothing_to_change() {
  start -n 2 --local-nodes 2 sh -c 'echo up; exec sleep 60'
  started up 2
  expect_equal "$(stat -c %a control control/local-"$LAUNCHER".sock)" $'700\n600'
  expect_exit 0 ctl status
  expect_contains "$OUT" "job local-$LAUNCHER: steady, epoch 1, 2 ranks (2 to 2)"
  expect_equal "$(grep -c running <<<"$OUT")" 2
  expect_exit 0 ctl --job "local-$LAUNCHER" status --json
  expect_contains "$OUT" '"ranks":[{"rank":0,'
  expect_exit 0 ctl events
  expect_matches "$OUT" " start .* 2 ranks on 2 nodes$"
  expect_exit 1 ctl resize 3
  expect_contains "$ERR" "without --elastic"
  end
}

test_a_job_grows_and_shrinks_on_request() {
  begin 1-4 -n 2 --local-nodes 2
  expect_exit 0 ctl resize +1
  expect_size 3
  expect_exit 0 ctl resize 4
  expect_size 4
  expect_exit 0 ctl resize -2
  expect_size 2
  expect_exit 0 ctl leave --ranks 0
  expect_size 1
  expect_exit 0 ctl status
  expect_matches "$OUT" 'join .*leave '
  end
}

# told FILE: the events in it, without times, which JSON does not keep to the last bit.
told() { python3 -c "import json, sys
for line in open(sys.argv[1]):
    event = json.loads(line)
    print(*(event[name] for name in ('number', 'kind', 'epoch', 'ranks', 'nodes', 'text')), *event['phases'])" "$1"; }
# _followed KIND [COUNT]: so many were.
_followed() { (($(grep -c "\"kind\":\"$1\"" followed) >= ${2:-1})); }
test_what_happens_to_a_job_is_told_while_it_happens_and_afterwards() {
  begin 1-4 -n 2 --local-nodes 2 --events events.jsonl
  ctl events --follow --json >followed 2>follower.err &
  local follower=$!
  wait_until 20 _followed start
  expect_exit 0 ctl resize +1
  wait_until 20 _followed join
  kill -KILL "$(rank_pid 0)"
  wait_until 20 _followed repair
  expect_exit 0 ctl leave --ranks 0
  wait_until 20 _followed leave
  expect_exit 0 ctl events
  expect_matches "$OUT" "^TIME .* start .* join .* repair .* leave "
  expect_contains "$OUT" "was killed by SIGKILL"
  expect_exit 0 ctl events --since=1d --json
  echo "$OUT" >shown
  expect_equal "$(told shown)" "$(told followed)"
  expect_exit 0 ctl events --since=@99999999999
  expect_equal "$(wc -l <<<"$OUT")" 1
  finish
  CODE=0
  wait "$follower" || CODE=$?
  expect_equal "$CODE $(<follower.err)" "0 "
  expect_contains "$(tail -n 1 followed)" '"kind":"end"'
  expect_equal "$(told events.jsonl)" "$(told followed)"
  expect_exit 3 ctl events
  expect_contains "$ERR" "of a job that is over, events are left where"
  expect_exit 0 ctl events --file events.jsonl
  expect_matches "$OUT" " end .* all ranks have ended in order; exit code 0$"
}

test_events_are_followed_from_one_launcher_to_the_next() {
  begin 1-4 -n 2 --local-nodes 2 --events events.jsonl
  local first=$LAUNCHER follower
  ctl events --follow --json >followed 2>follower.err &
  follower=$!
  wait_until 20 _followed start
  kill -KILL "$LAUNCHER"
  wait "$STARTED" || true
  LIMIT=100 start --reattach "local-$first"
  wait_until 20 _followed reattach
  expect_exit 0 ctl resize +1
  wait_until 20 _followed join
  finish
  wait "$follower" || fail "bellows events --follow: $(<follower.err)"
  expect_equal "$(told events.jsonl)" "$(told followed)"
}

test_a_file_for_events_that_cannot_be_written_is_named_at_once() {
  expect_exit 1 launch -n 1 --events /nowhere/events true
  expect_contains "$ERR" "--events=/nowhere/events: No such file or directory"
  expect_exit 2 launch --reattach local-1 --events x
  expect_contains "$ERR" "--reattach and --events exclude each other"
}

test_a_full_disk_costs_events_and_not_the_job() {
  head -c 262144 /dev/zero | tr '\0' '\n' >events.jsonl
  begin 1-4 -n 2 --local-nodes 2 --events events.jsonl
  # As far as a test can fill one: no file of the launcher's may be larger than this one is.
  local size
  size=$(stat -c %s events.jsonl)
  prlimit --pid "$LAUNCHER" --fsize="$size"
  expect_exit 0 ctl resize +1
  expect_exit 0 ctl resize -1
  expect_contains "$(ctl events)" "leave"
  expect_equal "$(grep -c 'events are missing there' err)" 1
  expect_contains "$(<err)" "events.jsonl: File too large; events are missing there"
  expect_equal "$(stat -c %s events.jsonl)" "$size"
  end
}

test_new_ranks_start_where_they_are_wanted() {
  begin 1-4 -n 2 --local-nodes 2
  local node
  node=$(hostname)-1
  expect_exit 1 ctl resize +1 --on "$(hostname)-2"
  expect_contains "$ERR" "the job has no node $(hostname)-2: it runs on this machine alone, as $(hostname)-0, $node"
  expect_exit 0 ctl status
  expect_lacks "$OUT" "$(hostname)-2"
  expect_exit 0 ctl resize +2 --on "$node"
  expect_matches "$(ctl status)" "$node +3"
  expect_exit 0 ctl leave --nodes "$node"
  expect_size 1
  expect_lacks "$(ctl status | grep running)" "$node"
  end
}

test_what_is_not_allowed_is_refused_with_the_reason() {
  begin 2-3 -n 2 --local-nodes 2
  local size
  for size in 4 1 +2 -1; do
    expect_exit 1 ctl resize "$size"
    expect_contains "$ERR" "--elastic=2-3 allows 2 to 3 ranks"
  done
  expect_exit 1 ctl leave --ranks 7
  expect_contains "$ERR" "there is no rank 7"
  expect_exit 1 ctl leave --nodes nowhere
  expect_contains "$ERR" "nowhere"
  expect_exit 1 ctl leave --ranks 0,1
  expect_exit 2 ctl resize 0
  expect_size 2
  end
}

test_a_change_need_not_be_waited_for() {
  begin 1-4 -n 1
  expect_exit 0 ctl resize +1 --wait=0
  wait_until 30 _has_size 2
  end
}

test_several_jobs_are_told_apart() {
  begin 1-2 -n 1
  local first=$LAUNCHER first_started=$STARTED
  start -n 1 sh -c 'echo up; exec sleep 60'
  started up
  expect_exit 2 ctl status
  expect_contains "$ERR" "local-$first"
  expect_contains "$ERR" "local-$LAUNCHER"
  expect_exit 0 ctl --job "local-$first" resize 2
  expect_exit 0 ctl --socket "$BELLOWS_CONTROL_DIR/local-$LAUNCHER.sock" status
  expect_contains "$OUT" "job local-$LAUNCHER:"
  kill -TERM "$first"
  wait "$first_started" || true
  end
}

test_a_job_that_is_gone_is_no_job() {
  expect_exit 3 ctl status
  expect_contains "$ERR" "no bellows-run of yours"
  start -n 1 sh -c 'echo up; exec sleep 60'
  started up
  local agents
  mapfile -t agents < <(agents)
  kill -KILL "$LAUNCHER"
  expect_end '!0'
  expect_gone "${agents[@]}"
  expect_file "control/local-$LAUNCHER.sock"
  expect_exit 3 ctl status
  expect_exit 3 ctl --socket "control/local-$LAUNCHER.sock" status
  expect_contains "$ERR" "is gone"
}

test_a_job_without_a_usable_folder_still_runs() {
  ln -s / control
  expect_exit 0 launch --elastic 1-2 -n 1 elastic_steps --steps 3
  expect_contains "$ERR" "control, is a link"
  expect_exit 3 ctl status
}
