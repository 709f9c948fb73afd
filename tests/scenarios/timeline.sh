# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# --timeline: what each rank does when, for trace viewers.
# shellcheck source=../lib/launcher.sh
. "$ROOT/tests/lib/launcher.sh"
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

# check PYTHON…: of the timeline t.json (tests/lib/timeline_events).
check() { "$ROOT/tests/lib/timeline_events" t.json "$@" || fail "$*"; }

test_each_rank_has_a_track_with_all_that_it_does() {
  data
  expect_exit 0 train_mlp 2 --steps 12 --checkpoint-dir c --bucket-mb 0.001 --timeline t.json
  check 'assert len(tracks) == 2, tracks.keys()' \
    'assert sorted(t["name"].split(" on ")[0] for t in tracks.values()) == ["rank 0", "rank 1"]' \
    'wanted = {"load", "data", "forward", "backward", "communication", "update", "step 1", "step 12", "agreement", "bucket 0", "bucket 1", "evaluation", "checkpoint", "bring the state in step"}' \
    'for t in tracks.values(): assert wanted <= named(t), wanted - named(t)' \
    'for t in tracks.values(): assert sorted(t["threads"].values()) == ["collectives", "program"], t["threads"]'
  # The part of a step that is called so too is of the program.
  check 'for t in tracks.values():' \
    '  parts = {t["threads"][b[3]] for b in t["bars"] if b[0] == "bucket 0"}; assert parts == {"collectives"}, parts' \
    '  assert sum(b[0] == "agreement" and t["threads"][b[3]] == "collectives" for b in t["bars"]) >= 12'
  # A thread's events are in the order of their ends.
  check 'for t in tracks.values():' \
    '  for thread in t["threads"]:' \
    '    ends = [b[2] for b in t["bars"] if b[3] == thread]' \
    '    assert all(b >= a - 2e-6 for a, b in zip(ends, ends[1:])), [b for b in zip(ends, ends[1:]) if b[1] < b[0]]'
  # With its end it is JSON as strict readers want it.
  sed '$s/,$/]/' t.json >whole.json
  python3 -c 'import json; assert len(json.load(open("whole.json"))) > 100'
  # Bars of a thread lie in each other or beside each other.
  check 'for t in tracks.values():' \
    '  for thread in t["threads"]:' \
    '    ends = []' \
    '    for name, begin, end, _ in sorted((b for b in t["bars"] if b[3] == thread), key=lambda b: (b[1], -b[2])):' \
    '      while ends and ends[-1] <= begin + 2e-6: ends.pop()' \
    '      assert not ends or end <= ends[-1] + 2e-6, (name, begin, end, ends)' \
    '      ends.append(end)'
}

test_a_full_one_is_told_of_once() {
  data
  expect_exit 0 train_mlp 2 --passes 40 --evaluate-every 0 --timeline t.json --timeline-mb 0.1
  expect_equal "$(grep -c '^bellows: timeline t.json: has reached its 0.1 MB' <<<"$ERR")" 1
  expect_exit 0 train_mlp 2 --passes 1 --timeline all.json
  expect_equal "$ERR" ''
}

test_changes_of_the_world_are_on_it() {
  start_training 3 --model mlp --batch 50 --passes 100000 --checkpoint-dir c --timeline t.json
  kill_ranks 1
  changed repair
  expect_exit 0 control resize 3
  changed join
  expect_exit 0 control leave --ranks=2
  changed leave
  stop_training
  # One was killed, one came and left.
  check 'assert len(tracks) == 4, [t["name"] for t in tracks.values()]' \
    'old = [t for t in tracks.values() if {"leave the world", "enter the world", "wait for a new world"} <= named(t)]' \
    'assert len(old) >= 2, [named(t) for t in tracks.values()]' \
    'assert any("warm up" in named(t) and "hold the state for others" in named(t) for t in tracks.values())' \
    'assert sum("step 1" in named(t) or "warm up" in named(t) for t in tracks.values()) >= 3'
}

test_it_can_be_read_after_all_were_killed() {
  start_training 2 --model mlp --batch 50 --passes 100000 --timeline t.json
  # What is kept for a second has been written by both.
  wait_until 60 _have_written '"step 50"' 2
  local pids
  mapfile -t pids < <(rank_pids)
  kill -KILL "$LAUNCHER" "$(ps -o ppid= -p "${pids[0]}" | tr -d ' ')" "${pids[@]}"
  expect_end 137
  check 'assert len(tracks) == 2' 'for t in tracks.values(): assert "step 1" in named(t)'
}

_have_written() { (($(grep -c -- "$1" t.json) >= $2)); }

# The clock of the second rank is five seconds fast, and of the third one slow.
test_clocks_are_aligned() {
  data
  cat >skewed <<'END_OF_SCRIPT'
#!/bin/bash
case $PMIX_RANK in 1) export BELLOWS_TIMELINE_SKEW=5000000 ;; 2) export BELLOWS_TIMELINE_SKEW=-1000000 ;; esac
exec bellows-train "$@"
END_OF_SCRIPT
  chmod +x skewed
  expect_exit 0 launch -n 3 ./skewed --threads 1 --model mlp --data fashion-mnist:mnist --batch 50 --steps 10 --timeline t.json
  # An all-reduce ends nowhere before it has begun everywhere.
  check 'steps = [[b for b in t["bars"] if b[0] == "agreement" and t["threads"][b[3]] == "collectives"][:10] for t in tracks.values()]' \
    'assert len(steps) == 3 and all(len(s) == 10 for s in steps)' \
    'for same in zip(*steps): assert max(b[1] for b in same) < min(b[2] for b in same) + 0.005, same'
}

test_its_size_is_limited() {
  data
  expect_exit 0 train_mlp 2 --steps 200 --evaluate-every 0 --timeline t.json --timeline-mb 0.1
  # Each of the two may have been about to write what it has kept.
  (($(stat -c %s t.json) <= 104858 + 2 * 66000)) || fail "$(stat -c %s t.json) bytes"
  check 'assert len(tracks) >= 1'
  expect_contains "$OUT" 'steps=200 '
}

test_a_resumed_training_adds_to_it() {
  data
  expect_exit 0 train_mlp 1 --steps 5 --checkpoint-dir c --timeline t.json
  expect_exit 0 train_mlp 1 --steps 10 --checkpoint-dir c --timeline t.json
  check 'assert len(tracks) == 2 and any("step 10" in named(t) for t in tracks.values())'
}

test_a_file_that_cannot_be_one_is_refused() {
  data
  echo text >other
  expect_exit 2 train_mlp 1 --steps 1 --timeline other
  expect_contains "$ERR" '--timeline other: is there already, and is no timeline; name another file'
  expect_equal "$(<other)" text
  expect_exit 2 train_mlp 1 --steps 1 --timeline nowhere/t.json
  expect_contains "$ERR" '--timeline nowhere/t.json: No such file'
  expect_exit 2 train_mlp 1 --steps 1 --timeline .
  expect_exit 2 train_mlp 1 --steps 1 --timeline t.json --timeline-mb 0
  expect_no_file t.json
}
