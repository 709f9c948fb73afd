# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-train --metrics: what a line of a step says beside the loss.
# shellcheck source=../lib/launcher.sh
. "$ROOT/tests/lib/launcher.sh"
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"
export BELLOWS_CONTROL_DIR=$PWD/control

# ask PYTHON: with the lines of steps as `steps`.
ask() { python3 -c 'import json, sys
lines = [json.loads(line) for line in open("m.jsonl")]
steps = [line for line in lines if line["event"] == "step"]
'"$1"; }
check() { ask "$1" || fail "$1"; }

test_a_step_says_where_its_time_went_and_what_it_needed() {
  data
  expect_exit 0 train_mlp 2 --steps 12 --log-every 3 --metrics m.jsonl
  check 'assert len(steps) == 4
for s in steps:
  assert list(s["parts"]) == ["data", "forward", "backward", "agreement", "communication", "update"], s
  assert 0 < sum(s["parts"].values()) <= s["step_seconds"] and min(s["parts"].values()) >= 0, s
  assert (s["nodes"], s["accumulation"]) == (1, 0), s
  # Each with libtorch in it, and below what this machine could have.
  assert len(s["peak_memory_bytes"]) == 2 and all(5e7 < b < 1e11 for b in s["peak_memory_bytes"]), s
  # What is not known is not there.
  assert not {"gradient_norm", "gpu_memory_bytes", "gpu_utilisation"} & s.keys(), s'
  rm m.jsonl
  expect_exit 0 train_mlp 2 --steps 2 --log-every 1 --metrics m.jsonl --micro-batch 10 --clip 100
  check 'for s in steps: assert s["accumulation"] == 2 and s["gradient_norm"] > 0, s'
  rm m.jsonl
  expect_exit 0 train_mlp 3 --steps 2 --log-every 1 --metrics m.jsonl --logical-ranks 4
  check 'for s in steps: assert s["parts"]["communication"] > 0 and len(s["peak_memory_bytes"]) == 3, s'
}

# A process that has more memory says so, and that of the others stays.
test_memory_is_that_of_each_rank() {
  data
  cat >larger <<'END_OF_SCRIPT'
#!/bin/bash
[[ $PMIX_RANK != 1 ]] || export LD_PRELOAD=$PWD/ballast.so
exec bellows-train "$@"
END_OF_SCRIPT
  chmod +x larger
  cat >ballast.c <<'END_OF_C'
#include <stdlib.h>
#include <string.h>
__attribute__((constructor)) static void take(void) {
  char* ballast = malloc(400000000);
  if (ballast != NULL) memset(ballast, 1, 400000000);
}
END_OF_C
  cc -shared -fPIC -o ballast.so ballast.c
  expect_exit 0 launch -n 2 ./larger --threads 1 --model mlp --data fashion-mnist:mnist --batch 50 --steps 3 --log-every 1 --metrics m.jsonl
  check 'for s in steps:
  first, second = s["peak_memory_bytes"]
  assert 3e8 < second - first < 6e8, s'
}

# While rank 1 is stopped, rank 0 waits: nearly always for a rank that has not come to its last pass, of five.
test_agreement_is_waiting_for_ranks_that_are_further_behind() {
  start_training 2 --model mlp --batch 50 --micro-batch 5 --passes 100000 --checkpoint-dir c
  local pid
  pid=$(rank_pids | tail -n 1)
  "$ROOT/tests/lib/slow_down" "$pid" 0.1 0.5 &
  wait_until 60 _has_waited
  stop_training
  wait
}
# Longer than half of a stop, in one step.
_has_waited() { ask 'sys.exit(max(s["parts"]["agreement"] for s in steps) < 0.25)' 2>/dev/null; }

test_evaluations_come_when_they_are_asked_for() {
  data
  expect_exit 0 train_mlp 2 --steps 17 --metrics m.jsonl --evaluate-every 0 --evaluate-steps 5
  check 'seen = [(line["step"], line["sample"]) for line in lines if line["event"] == "evaluation"]
assert seen == [(s, 50 * s) for s in (5, 10, 15, 17)], seen'
  rm m.jsonl
  expect_exit 0 train_mlp 2 --steps 24 --metrics m.jsonl --evaluate-steps 12
  check 'assert [line["step"] for line in lines if line["event"] == "evaluation"] == [12, 24], lines'
}
