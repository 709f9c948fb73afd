# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What shows jobs while they live: bellows top, and metrics for Prometheus.
export TIME_LIMIT=150 BELLOWSD_CONFIG=/nowhere
. "$ROOT/tests/lib/elastic.sh"

end() {
  kill -TERM "$LAUNCHER"
  wait "$STARTED" || true
}
# metric FILE|URL METRIC…: the values, of a text that keeps all rules of the format.
metric() { "$ROOT/tests/lib/exposition" "$@"; }
# job FIELD…: of the last line of bellows top --json in the file rounds.
job() { tail -n 1 rounds | python3 -c "import json, sys
job = json.load(sys.stdin)['jobs'][0]
print(*(job.get(name) for name in sys.argv[1:]))" "$@"; }
_job_is() { [[ $(job "${@:2}") == "$1" ]]; }

test_top_shows_jobs_and_what_becomes_of_them() {
  local top
  STEPS=(--bytes 100000 --batch 96 --speed 600)
  begin 1-3 -n 2
  expect_exit 0 ctl top --once
  expect_matches "$OUT" $'\n'"local-$LAUNCHER +1 +2 +steady"
  expect_lacks "$OUT" $'\x1b'
  timeout -k 1 100 bellows top --json --interval 0.2 >rounds &
  top=$!
  wait_until 20 _job_is "steady 96 0.125 600.0" state batch learning_rate samples_per_second
  # The best speed per rank is that of two; three are not faster.
  wait_until 30 _job_is "1.0" efficiency
  expect_exit 0 ctl resize +1
  wait_until 20 _job_is "3 2" ranks epoch
  wait_until 20 _job_is "0.6666666666666666" efficiency
  kill -STOP "$LAUNCHER"
  wait_until 20 _job_is "no answer 3" state ranks
  kill -CONT "$LAUNCHER"
  wait_until 20 _job_is "steady" state
  finish
  wait_until 20 _job_is "ended 3" state ranks
  kill "$top"
  wait "$top" || true
  python3 -c 'import json, sys
for line in sys.stdin: json.loads(line)' <rounds
}

test_top_on_a_terminal_gives_it_back_as_it_was() {
  local on="$ROOT/tests/lib/on_terminal" how
  begin 1-3 -n 2
  for how in "signal:SIGINT signal 2" "signal:SIGTERM signal 15" "key:q code 0" $'key:\x03 signal 2'; do
    expect_exit 0 "$on" 100 24 log "wait:LAST EVENT" "${how%% *}" end -- bellows top --interval 0.2
    expect_equal "$OUT" "${how#* }"
  done
  # Narrow, very narrow, and wide again.
  expect_exit 0 "$on" 40 10 log wait:JOB "gone:LAST EVENT" size:9x3 wait:JOB "gone:STATE" size:120x24 \
    "wait:LAST EVENT" key:q end -- bellows top --interval 0.2
  # Stopped by the shell and continued.
  expect_exit 0 "$on" 100 24 log wait:JOB signal:SIGTSTP stopped signal:SIGCONT wait:JOB key:q end -- \
    bellows top --interval 0.2
  # A job that does not answer does not hold up the keys.
  kill -STOP "$LAUNCHER"
  expect_exit 0 "$on" 100 24 log "wait:?1049h" key:q end -- bellows top
  expect_exit 0 "$on" 100 24 log "wait:no answer" key:q end -- bellows top --interval 0.2
  kill -CONT "$LAUNCHER"
  # A terminal that cannot draw.
  expect_exit 0 env TERM=dumb timeout 20 bellows top --once
  finish
}

test_a_reader_that_goes_away_ends_top() {
  expect_exit 0 bash -c 'timeout 20 bellows top --json --interval 0.2 | head -n 2 >rounds'
  expect_equal "$(wc -l <rounds)" 2
  expect_exit 3 ctl top --once --job local-1
  expect_contains "$ERR" "no bellows-run of yours"
}

_hints_are() { [[ $(ctl status --json | python3 -c 'import json, sys
print(json.load(sys.stdin).get("hints", {}).get("best_nodes"))') == "$1" ]]; }
test_what_a_program_says_of_its_size_is_shown() {
  STEPS=(--bytes 100000 --best 2)
  begin 1-3 -n 2 --metrics-file job.prom
  wait_until 20 _hints_are 2
  expect_exit 0 ctl status
  expect_contains "$OUT" $'\ndoes best with 2 nodes (2 ranks); 2 nodes (2 ranks) pay; predicted: 1000 samples/s, +25% with a node more, +12% with one less\n'
  expect_exit 0 ctl top --once
  expect_matches "$OUT" 'LR +BEST +LAST EVENT'
  wait_until 20 _best_is 2
  # Of a new world it is said anew.
  expect_exit 0 ctl resize +1
  wait_until 20 _hints_are 2
  finish
}
_best_is() { [[ $(metric job.prom 'bellows_best_nodes{by="goodput"}') == "$1" ]]; }

_metrics_are() {
  [[ $(metric "$1" bellows_ranks 'bellows_world_changes_total{kind="join"}' \
    'bellows_world_changes_total{kind="leave"}' 'bellows_world_changes_total{kind="repair"}' \
    bellows_batch_samples bellows_learning_rate bellows_samples_per_second | xargs) == "1 1 1 1 96 0.125 600" ]]
}
test_metrics_tell_what_happens_to_a_job() {
  local url
  STEPS=(--bytes 100000 --batch 96 --speed 600)
  begin 1-4 -n 2 --local-nodes 2 --metrics 0 --metrics-file job.prom --verbose
  url=$(grep -o 'http://127.0.0.1:[0-9]*/metrics' err)
  expect_equal "$(metric "$url" bellows_ranks bellows_nodes bellows_world_epoch bellows_ranks_max \
    'bellows_job_state{state="steady"}' 'bellows_world_changes_total{kind="start"}' | xargs)" "2 2 1 4 1 1"
  expect_exit 0 ctl resize +1
  expect_exit 0 ctl leave --ranks 0
  kill -KILL "$(rank_pid 0)"
  wait_until 20 _size_is 1
  wait_until 20 _metrics_are "$url"
  wait_until 20 _metrics_are job.prom
  [[ $(metric "$url" 'bellows_world_change_seconds_total{kind="join"}') != 0 ]] || fail "a join took no time"
  finish
  # What was counted is there for who comes late.
  expect_equal "$(metric job.prom bellows_ranks 'bellows_world_changes_total{kind="repair"}' \
    'bellows_job_state{state="ending"}' | xargs)" "0 1 1"
  expect_equal "$(ls job.prom*)" job.prom
  expect_exit 1 metric "$url"
}

_taken_over() { [[ $(metric job.prom 'bellows_incidents_total{kind="reattach"}') == 1 ]]; }
test_metrics_go_on_with_the_next_launcher() {
  local first url port
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  url=http://127.0.0.1:$port/metrics
  begin 1-2 -n 1 --metrics "$port" --metrics-file job.prom
  expect_equal "$(metric "$url" bellows_ranks)" 1
  first=$LAUNCHER
  kill -KILL "$LAUNCHER"
  wait "$STARTED" || true
  rm job.prom
  LIMIT=100 start --reattach "local-$first"
  wait_until 20 test -e job.prom
  wait_until 20 _steady
  wait_until 20 _taken_over
  # The agent, which is a child of the first one, has not kept its port.
  expect_equal "$(metric "$url" bellows_ranks)" 1
  finish
}

test_metrics_that_cannot_be_had_are_named_at_once() {
  expect_exit 2 launch -n 1 --metrics nowhere:1 true
  expect_contains "$ERR" "--metrics: must be ADDRESS:PORT"
  expect_exit 1 launch -n 1 --metrics-file /nowhere/x true
  expect_contains "$ERR" "--metrics-file: /nowhere/x"
  begin 1-1 -n 1 --metrics 0 --verbose
  local port
  port=$(grep -o '127.0.0.1:[0-9]*/metrics' err | grep -o '[0-9]*/' | tr -d /)
  expect_exit 1 launch -n 1 --metrics "$port" true
  expect_contains "$ERR" "--metrics: cannot listen at 127.0.0.1:$port: Address already in use"
  end
}
