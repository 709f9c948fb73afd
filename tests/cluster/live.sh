# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What bellowsd shows of a real cluster: while jobs run, and afterwards who had which nodes.
export TIME_LIMIT=240

. "$ROOT/tests/lib/bellowsd.sh"

EVENTS=/tmp/bellowsd-events.jsonl
# metric METRIC…: bellowsd's, in a text that keeps all rules of the format.
metric() { on root@ctl /bellows/tests/lib/exposition http://127.0.0.1:9464/metrics "$@"; }
# top: what bellows top says from the controller, a line "JOB SOURCE STATE NODES RANKS BATCH" for each job.
top() { on ctl env BELLOWSD_CONFIG="$CONFIGURATION" bellows top --once --json | python3 -c "import json, sys
for job in json.load(sys.stdin)['jobs']:
    print(*(job.get(name) for name in ('job', 'source', 'state', 'nodes', 'ranks', 'batch')))"; }
_top_has() { top | grep -qx "$1"; }
_metric_is() { [[ $(metric "$2") == "$1" ]]; }
_stepped() { (($(metric "bellowsd_job_step_total{job_id=\"$1\"}") > 0)); }
# bars: those of the picture, "NODE JOB ELASTIC OPEN", in order.
bars() { on root@ctl bellows picture --json "$EVENTS" | python3 -c "import json, sys
for line in sys.stdin:
    bar = json.loads(line)
    assert bar['to'] >= bar['from'], bar
    print(*(bar[name] for name in ('node', 'job', 'elastic', 'open')))"; }

test_two_jobs_and_the_queue_are_seen_while_they_run_and_afterwards() {
  local one two rigid bar count
  on root@ctl rm -f "$EVENTS"
  daemon "policy = fair" "event-file = $EVENTS" "metrics = 9464" "metrics-file = /tmp/bellowsd.prom"
  elastic n1
  one=$JOB
  await "$one" 4
  elastic n2
  two=$JOB
  await "$two" 2
  await "$one" 2
  wait_until 20 _top_has "$one bellowsd steady 2 2 64"
  wait_until 20 _top_has "$two bellowsd steady 2 2 64"
  expect_equal "$(top | wc -l)" 2
  # Another user has no jobs here, but may look at all.
  expect_exit 0 on root@ctl runuser -u nobody -- env BELLOWSD_CONFIG="$CONFIGURATION" "$PROGRAMS/bin/bellows" top --once
  expect_contains "$OUT" " 0 jobs"
  expect_exit 0 on root@ctl runuser -u nobody -- env BELLOWSD_CONFIG="$CONFIGURATION" "$PROGRAMS/bin/bellows" top --once --all
  expect_contains "$OUT" " 2 jobs, 4 nodes, 4 ranks"
  wait_until 20 _metric_is 2 "bellowsd_job_nodes{job_id=\"$one\"}"
  wait_until 20 _stepped "$two"
  expect_equal "$(metric 'bellowsd_nodes{state="allocated"}' bellowsd_jobs | xargs)" "4 2"
  (($(metric 'bellowsd_decision_nodes_total{kind="grow"}') >= 4)) || fail "no decisions were counted"
  (($(metric 'bellowsd_decision_nodes_total{kind="give_back"}') >= 2)) || fail "no decisions were counted"
  expect_exit 0 on root@ctl /bellows/tests/lib/exposition /tmp/bellowsd.prom bellowsd_jobs
  rigid=$(submit --exclusive -N1 --job-name rigid --wrap 'sleep 5')
  wait_job 30 "$rigid" RUNNING
  wait_job 40 "$rigid"
  await "$one" 2
  await "$two" 2
  end_daemon -KILL # and nobody knows what comes
  start_daemon
  wait_until 20 _knows "$two"
  finish_jobs "$one" "$two"
  wait_until 20 _metric_is 0 bellowsd_jobs
  wait_until 20 _bars_closed
  end_daemon -TERM
  expect_exit 0 bars
  # Of those that the daemon had before it was killed nobody knows when they ended.
  for bar in "n1 $one True True" "n1 $one True False" "n2 $one True False" "n3 $one True (True|False)" \
    "n4 $one True (True|False)" "n2 $two True True" "n2 $two True False" "n[1-4] $rigid False False"; do
    expect_matches $'\n'"$OUT"$'\n' $'\n'"$bar"$'\n'
  done
  # The page: a box for each bar.
  count=$(wc -l <<<"$OUT")
  expect_exit 0 on root@ctl bellows picture "$EVENTS" -o /tmp/page.html
  expect_equal "$(on root@ctl grep -c '<polygon' /tmp/page.html)" "$count"
  expect_contains "$(on root@ctl cat /tmp/page.html)" "job $rigid rigid (fixed size)"
}
# All jobs are over, and bellowsd has seen it.
_bars_closed() { [[ $(on root@ctl tail -n 20 "$EVENTS" | grep -c '"nodes":\[\]') -ge 2 ]]; }
