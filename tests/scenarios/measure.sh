# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-bench: sizes of a running program are measured one after the other.
# shellcheck source=../lib/launcher.sh
. "$ROOT/tests/lib/launcher.sh"
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"
export BELLOWS_CONTROL_DIR=$PWD/control

measure() { timeout -k 1 100 bellows-bench --output b "$@"; }
TRAIN=(bellows-train --model mlp --width 32 --threads 1 --batch 60 --data fashion-mnist:mnist)
# check PYTHON: with the report as `r`, of the runs that are named in $RUNS.
check() {
  # shellcheck disable=SC2086 # words
  bellows report --json --together --warm-up 5 $RUNS 2>/dev/null |
    python3 -c "import json, sys; r = json.load(sys.stdin); s = r['scaling'][0]
$1" || fail "$1"
}

test_a_training_goes_from_size_to_size_in_one_job() {
  data
  expect_exit 0 measure --ranks 1,3,2 --steps 15 --repeat 2 "${TRAIN[@]}"
  expect_equal "$(grep -c . <<<"$(ls -d b/run-*)")" 2
  expect_contains "$(<b/report.html)" 'Scaling of bellows-train'
  expect_contains "$OUT" 'Karp-Flatt'
  RUNS='b/run-1 b/run-2' check 'assert s["kind"] == "strong" and [z["ranks"] for z in s["sizes"]] == [1, 2, 3], s
for z in s["sizes"]: assert z["step_seconds"]["steps"] >= 30 and "communication" in z["parts"], z
for a in r["runs"]:
  sizes = [w["ranks"] for w in a["worlds"]]
  # The two may join in two worlds.
  assert sizes[0] == 1 and sizes[-2:] == [3, 2] and a["leaves"] == 1 and a["joins"] <= 2, a'
  # Two jobs, each from its start to its end.
  expect_equal "$(grep -hc '"kind":"start"' b/run-*/events.jsonl | xargs)" '1 1'
  expect_equal "$(grep -hc '"kind":"end"' b/run-*/events.jsonl | xargs)" '1 1'
}

# What is loading for the next size takes time from this one.
test_steps_while_ranks_are_awaited_do_not_count() {
  data
  expect_exit 0 measure --ranks 1,2 --steps 15 "${TRAIN[@]}"
  python3 - <<'END_OF_CHECK' || fail "not as the lines say"
import json, subprocess
lines = [json.loads(line) for line in open("b/run-1/metrics.jsonl")]
kinds = [line["event"] for line in lines]
end, world, again = (kinds.index(kind) for kind in ("unmeasured", "world", "measured"))
before = kinds[:end].count("step")
assert end < min(world, again) and "step" in kinds[end:world] and "step" not in kinds[again:world], (end, world, again)
report = json.loads(subprocess.run(["bellows", "report", "--json", "b/run-1"], check=True,
                                   capture_output=True).stdout)
assert report["scaling"][0]["sizes"][0]["step_seconds"]["steps"] == before - 5, before
END_OF_CHECK
}

test_weak_scaling_of_a_training_grows_its_batch() {
  data
  expect_exit 0 measure --weak --ranks 1,2 --steps 15 "${TRAIN[@]}"
  RUNS='b/run-1-ranks-1 b/run-1-ranks-2' check 'assert s["kind"] == "weak" and [z["batch"] for z in s["sizes"]] == [60, 120], s
assert s["gustafson_serial_fraction"] is not None'
}

test_a_rule_that_grows_the_batch_with_the_ranks_is_weak_scaling_in_one_job() {
  data
  expect_exit 0 measure --ranks 1,2 --steps 15 "${TRAIN[@]}" --batch-rule per-rank
  RUNS=b/run-1 check 'assert s["kind"] == "weak" and [z["batch"] for z in s["sizes"]] == [60, 120], s
m = s["throughput_model"]; assert len(m["sizes"]) == 2 and m["sizes"][1]["batch"] == 120, m'
}

test_any_program_that_tells_its_progress_can_be_measured() {
  expect_exit 0 measure --ranks 2,1 --steps 15 elastic_steps --bytes 100000 --steps 100000000 --work 5
  RUNS=b/run-1 check 'assert [z["ranks"] for z in s["sizes"]] == [1, 2] and r["runs"][0]["program"] == "elastic_steps", r
for z in s["sizes"]: assert 0.005 <= z["step_seconds"]["median"] < 1, z'
}

test_it_says_why_a_size_cannot_be_measured() {
  expect_exit 1 measure --ranks 1 --steps 1000 elastic_steps --steps 20
  expect_matches "$ERR" 'the program ended with exit code 0 before all was measured; its last line: .* \(b/run-1/output has the others\)'
  rm -r b
  expect_exit 1 measure --ranks 1 --limit 4 bash -c 'sleep 30; bellows-train'
  expect_contains "$ERR" '--limit is over, and the size of 1 ranks is not measured: the program tells no steps'
  rm -r b
  expect_exit 1 measure --ranks 1,2 --limit 20 --launch '--local-nodes 1 --bind-to nonsense' elastic_steps
  expect_contains "$ERR" 'before all was measured; its last line: '
}

# begin: measures without end, in the background; its number is $bench.
begin() {
  bellows-bench --output b --ranks 1 --steps 100000000 elastic_steps --steps 100000000 --work 5 2>err &
  bench=$!
  wait_until 20 grep -qs '"event":"step"' b/run-1/metrics.jsonl
}

test_it_takes_its_job_along_when_it_is_stopped() {
  begin
  kill -TERM "$bench"
  expect_exit 1 wait_for_it "$bench"
  expect_contains "$(<err)" 'stopped by Terminated'
  expect_equal "$(tail -n 1 b/run-1/events.jsonl | grep -c '"kind":"end"')" 1
}
wait_for_it() { wait "$1"; }

test_it_takes_its_job_along_when_it_is_killed() {
  begin
  local launcher
  launcher=$(ps -o pid= --ppid "$bench" | tr -d ' ')
  kill -KILL "$bench"
  expect_exit 137 wait_for_it "$bench"
  wait_until 60 is_gone "$launcher"
  expect_equal "$(tail -n 1 b/run-1/events.jsonl | grep -c '"kind":"end"')" 1
}
is_gone() { [[ ! -d /proc/$1 || $(ps -o stat= -p "$1") == Z* ]]; }

test_what_is_left_of_a_failure_is_named() {
  expect_exit 1 measure --ranks 1 --steps 1000 elastic_steps --steps 20
  expect_contains "$ERR" "what there is of it stays in $PWD/b"
  expect_contains "$ERR" 'remove it, or give another --output'
  rm -r b
  begin
  kill -TERM "$bench"
  expect_exit 1 wait_for_it "$bench"
  expect_contains "$(<err)" "stays in $PWD/b (bellows report --together $PWD/b/run-*); remove it"
  # shellcheck disable=SC2046 # its words
  expect_exit 0 $(sed -n 's/.*(\(bellows report [^)]*\)).*/\1/p' err)
}

test_wrong_use_is_named() {
  expect_exit 2 measure
  expect_contains "$ERR" 'bellows-bench: no program'
  expect_exit 2 measure --ranks 1,x elastic_steps
  expect_contains "$ERR" '--ranks=1,x: must be'
  expect_exit 2 measure --ranks 2,2 elastic_steps
  expect_exit 2 measure --steps 0 elastic_steps
  expect_contains "$ERR" '--steps=0: must be 2 or more'
  expect_exit 2 measure --weak bellows-train --model mlp
  expect_contains "$ERR" '--weak: the program needs --batch'
  expect_exit 2 measure bellows-train --metrics x
  expect_exit 2 measure bellows-train --model mlp --batch-rule adaptive --max-batch 500
  expect_contains "$ERR" '--batch-rule adaptive: changes the batch while sizes are measured'
  expect_exit 2 measure bellows-train --model mlp --policy=mine.so
  expect_contains "$ERR" '--policy: changes the batch'
  expect_exit 2 measure --weak bellows-train --model mlp --batch 8 --batch-rule=per-rank
  expect_contains "$ERR" '--weak: not with --batch-rule per-rank'
  expect_no_file b
  mkdir b
  expect_exit 2 measure elastic_steps
  expect_contains "$ERR" '--output=b: is there already'
  expect_exit 0 bellows-bench --help
  expect_contains "$OUT" '--repeat'
}
