# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Batch and learning rate follow the ranks: what the metrics say of each world, each sample of a
# pass used once all the same, and the same run again from a checkpoint.
export TIME_LIMIT=180
# shellcheck source=../lib/launcher.sh
. "$ROOT/tests/lib/launcher.sh"
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

MODEL=(--model mlp --width 32 --batch 24 --lr 0.004)
ENDLESS=(--passes 100000 --evaluate-every 0 --checkpoint-dir c --checkpoint-every 100000000)

# expect_steps CONDITION: holds for each step in the metrics, with the fields of the line as names.
expect_steps() {
  python3 - "$1" <<'END'
import json, math, sys
steps = [line for line in map(json.loads, open("m.jsonl")) if line["event"] == "step"]
assert len(steps) > 3, steps
for step in steps:
    if not eval(sys.argv[1], {"math": math}, step):
        sys.exit(f"not {sys.argv[1]}: {step}")
END
}
# seen_ranks: the numbers of ranks that made steps, in their order.
seen_ranks() {
  python3 -c 'import itertools, json
steps = [line for line in map(json.loads, open("m.jsonl")) if line["event"] == "step"]
print(*[ranks for ranks, _ in itertools.groupby(step["ranks"] for step in steps)])'
}
samples_are_used_once() {
  local steps
  steps=$("$ROOT/tests/lib/samples_once" 600 "$1" used.*) || fail "$steps"
}

test_batch_and_learning_rate_follow_the_ranks() {
  start_training 1 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule per-rank --lr-rule linear --lr-ramp 0
  expect_exit 0 control resize 3
  changed join
  expect_exit 0 control resize 2
  changed leave
  stop_training
  expect_equal "$(seen_ranks)" "1 3 2"
  expect_steps 'batch == 24 * ranks and scale == ranks and abs(lr - 0.004 * ranks) < 1e-12'
  samples_are_used_once 0
  expect_contains "$OUT" 'batch 72  lr 0.012'
}

test_the_learning_rate_goes_over_to_that_of_the_new_batch() {
  start_training 1 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule per-rank --lr-rule linear --lr-ramp 4
  expect_exit 0 control resize 2
  changed join
  more_steps 5
  stop_training
  python3 - <<'END'
import json
steps = [line for line in map(json.loads, open("m.jsonl")) if line["event"] == "step"]
rates = [step["lr"] for step in steps if step["ranks"] == 2][:6]
assert all(abs(a - b) < 1e-12 for a, b in zip(rates, (0.005, 0.006, 0.007, 0.008, 0.008, 0.008))), rates
END
}

test_a_hybrid_batch_grows_only_beyond_what_keeps_ranks_busy() {
  start_training 1 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule hybrid --rank-batch 10 --lr-rule sqrt \
    --lr-ramp 0 --max-batch 32
  expect_exit 0 control resize 2
  changed join
  expect_exit 0 control resize 3
  changed join 2
  expect_exit 0 control resize 4
  changed join 3
  stop_training
  expect_equal "$(seen_ranks)" "1 2 3 4"
  expect_steps 'batch == {1: 24, 2: 24, 3: 30, 4: 32}[ranks] and abs(lr - 0.004 * math.sqrt(batch / 24)) < 1e-12'
  samples_are_used_once 0
}

test_a_rank_that_dies_takes_its_part_of_the_batch_along() {
  start_training 3 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule per-rank --lr-rule linear --lr-ramp 3
  kill_ranks 0
  changed repair
  kill_ranks 1
  changed repair 2
  stop_training
  expect_steps 'batch == 8 * ranks'
  samples_are_used_once 2
}

# ---- decisions ----------------------------------------------------------------------------------

_decided() { (($(_count '"event":"batch".*"promise"') >= $1)); }
# The state of all ranks is compared after each change (BELLOWS_CHECK_STATE).
test_the_adaptive_batch_goes_through_joins_and_deaths() {
  start_training 2 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule adaptive --max-batch 200 --lr-rule adascale \
    --decide-every 5 --noise-interval 1
  wait_until 60 _decided 1
  expect_exit 0 control resize 3
  changed join
  kill_ranks 1
  changed repair
  expect_exit 0 control resize 4
  changed join 2
  kill_ranks 0 2
  changed repair 2
  stop_training
  expect_steps '1 <= batch <= 200 and abs(scale - batch / 24) < 1e-12 and abs(lr - 0.004 * gain) < 1e-12'
  samples_are_used_once 3
  expect_contains "$OUT" 'by the model'
  expect_contains "$(bellows-ckpt show "$(last_checkpoint c)")" adaptation/profile
}

# Each step brings a decision, so that deaths meet them.
test_ranks_die_while_decisions_are_made() {
  start_training 3 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule adaptive --max-batch 100 --decide-every 1
  local round
  for round in 1 2 3 4; do
    kill_ranks $((round % 2))
    changed repair "$round"
    expect_exit 0 control resize 3
    changed join "$round"
  done
  stop_training
  expect_steps '1 <= batch <= 100'
  samples_are_used_once 4
}

test_a_resumed_run_knows_the_step_times_and_the_batch() {
  data
  local options=("${MODEL[@]}" --data fashion-mnist:mnist --evaluate-every 0 --log-every 1 --checkpoint-dir c
    --batch-rule adaptive --max-batch 200 --decide-every 10 --noise-interval 1 --passes 100000)
  expect_exit 0 train 2 "${options[@]}" --metrics first.jsonl --train-seconds 4
  expect_exit 0 train 2 "${options[@]}" --metrics m.jsonl --train-seconds 1
  python3 - <<'END'
import json
def steps(file): return [line for line in map(json.loads, open(file)) if line["event"] == "step"]
last, first = steps("first.jsonl")[-1], steps("m.jsonl")[0]
assert last["batch"] > 24, last
assert first["batch"] > 24 and first["step"] == last["step"] + 1, (last, first)
END
}

# hint FIELD: of what the training says of its size.
hint() { control status --json | python3 -c "import json, sys
print(json.load(sys.stdin).get('hints', {}).get('$1'))"; }
_says() { [[ $(hint goodput) != None ]]; }
test_a_training_says_of_which_size_it_would_be_once_it_has_seen_two() {
  start_training 1 "${MODEL[@]}" "${ENDLESS[@]}"
  more_steps 200
  expect_equal "$(hint goodput)" None
  expect_exit 0 control resize 2
  changed join
  wait_until 60 _says
  expect_matches "$(hint best_nodes)" '^[1-6]$'
  expect_equal "$(hint best_ranks)" "$(($(hint best_nodes) * 2))"
  expect_matches "$(hint gain_of_more)" '^-?[0-9.e-]+$'
  expect_equal "$(hint loss_of_less)" None # one node is the least
  # Who comes later knows it too, and a new size is told of when it has been seen.
  expect_exit 0 control resize 3
  changed join 2
  kill_ranks 0
  changed repair
  wait_until 60 _says
  stop_training
  expect_contains "$OUT" 'repair: 2 ranks'
  expect_lacks "$(bellows-ckpt show "$(last_checkpoint c)")" adaptation/profile
}

test_a_policy_of_the_users_sets_batch_and_rate_and_asks_for_ranks() {
  start_training 1 "${MODEL[@]}" "${ENDLESS[@]}" --policy "$BUILD/tests/resize_policy.so" --decide-every 2
  changed join
  more_steps 10
  stop_training
  expect_equal "$(seen_ranks)" "1 3"
  expect_steps 'batch == 10 * ranks'
  expect_contains "$OUT" 'batch 10 -> 30'
  expect_contains "$OUT" '30 -> 30'
  expect_contains "$OUT" '3 ranks, 5 samples at once, 2 passes'
  expect_contains "$ERR" "--policy $BUILD/tests/resize_policy.so has failed, nothing is changed: step four is unlucky"
  expect_contains "$ERR" 'has failed, nothing is changed: it threw what is no std::exception'
  expect_equal "$(grep '"event":"step"' m.jsonl | tail -n 3 | grep -c '"lr":2E-3,')" 3
}

test_a_policy_that_is_none_is_refused() {
  data
  expect_exit 2 train_mlp 2 --policy nothing.so
  expect_contains "$ERR" '--policy nothing.so: '
  echo 'int bellows_policy_version() { return 99; } void* bellows_make_policy() { return 0; }' >old.c
  cc -shared -o old.so old.c
  expect_exit 2 train_mlp 2 --policy old.so
  expect_contains "$ERR" '--policy old.so: is of version 99'
}

# ---- unequal ranks ------------------------------------------------------------------------------

test_shares_by_speed_use_each_sample_once_through_changes() {
  start_training 2 --model mlp --width 32 --batch 50 --lr 0.004 "${ENDLESS[@]}" --shares speed --measure-noise
  more_steps 40
  expect_exit 0 control resize 4
  changed join
  more_steps 40
  kill_ranks 0 2
  changed repair
  stop_training
  expect_steps 'batch == 50'
  samples_are_used_once 2
}

_parts() { tail -qn 1 used.* | python3 -c 'import json, sys
steps = [json.loads(line) for line in sys.stdin]
last = max(step["step"] for step in steps)
print(*sorted(len(step["ids"]) for step in steps if step["step"] == last))' 2>/dev/null; }
_unequal() {
  local parts
  read -ra parts <<<"$(_parts)"
  ((${#parts[@]} == 2 && parts[1] > 2 * parts[0]))
}
test_a_slow_rank_gets_less_and_is_told_of() {
  start_training 2 --model mlp --width 1000 --batch 200 --lr 0.001 "${ENDLESS[@]}" --shares speed
  local pid
  pid=$(rank_pids | tail -n 1)
  "$ROOT/tests/lib/slow_down" "$pid" 0.2 &
  wait_until 80 _unequal
  wait_until 80 grep -q '"event":"straggler"' m.jsonl
  stop_training
  wait
  expect_contains "$ERR" 'rank 1 on '
  expect_contains "$ERR" ' times as long per sample as the others'
}

test_a_straggler_leaves_where_that_is_wanted() {
  start_training 3 --model mlp --width 1000 --batch 300 --lr 0.001 "${ENDLESS[@]}" --drop-stragglers
  local pid
  pid=$(rank_pids | tail -n 1)
  "$ROOT/tests/lib/slow_down" "$pid" 0.15 &
  wait_until 80 _told leave 1
  more_steps 3
  stop_training
  wait
  expect_equal "$(seen_ranks)" "3 2"
  expect_contains "$ERR" 'it is asked to leave'
  samples_are_used_once 0
}

test_contradictory_options_of_adaptation_are_refused() {
  expect_exit 2 train 1 --model mlp --data fashion-mnist --batch-rule adaptive
  expect_contains "$ERR" '--batch-rule adaptive: needs --max-batch'
  expect_exit 2 train 1 --model mlp --data fashion-mnist --batch-rule adaptive --max-batch 500 --micro-batch 4
  expect_contains "$ERR" 'use --micro-batch-bounds'
  expect_exit 2 train 1 --model mlp --data fashion-mnist --batch-rule per-rank --policy x.so
  expect_contains "$ERR" '--policy: takes the place of --batch-rule'
  expect_exit 2 train 1 --model mlp --data fashion-mnist --shares speed --logical-ranks 4
  expect_contains "$ERR" 'not with --logical-ranks'
  expect_exit 2 train 1 --model mlp --data fashion-mnist --shares most
  expect_contains "$ERR" '--shares most: use one of equal, speed'
}

# What a run says of a step: all but times.
steps_after() {
  python3 -c 'import json, sys
for line in map(json.loads, open(sys.argv[1])):
  if line["event"] == "step" and line["step"] > int(sys.argv[2]):
    print({k: v for k, v in line.items() if not k.endswith("second") and "seconds" not in k
           and k not in ("time", "parts", "peak_memory_bytes")})' "$@"
}

# resumes_with_the_same_bits RANKS OPTIONS…
resumes_with_the_same_bits() {
  local ranks=$1
  shift
  [[ -d mnist ]] || data
  rm -rf whole parts m.jsonl again.jsonl
  local options=(--data fashion-mnist:mnist --evaluate-every 0 --log-every 1 --keep 100
    --checkpoint-every 5 "$@") first
  expect_exit 0 train "$ranks" "${options[@]}" --checkpoint-dir whole --metrics m.jsonl
  mkdir parts
  first=$(find whole -name 'checkpoint-*0.h5' | sort | head -n 1)
  cp "$first" parts
  expect_exit 0 train "$ranks" "${options[@]}" --checkpoint-dir parts --metrics again.jsonl
  expect_contains "$OUT" "resumed from parts/$(basename "$first"): step 10"
  expect_equal "$(steps_after again.jsonl 0)" "$(steps_after m.jsonl 10)"
  expect_exit 0 bellows-ckpt diff "$(last_checkpoint whole)" "$(last_checkpoint parts)"
}

test_a_resumed_run_has_the_batch_and_progress_it_had() {
  resumes_with_the_same_bits 3 --model mlp --width 32 --batch 20 --batch-rule per-rank --rank-batch 13 --lr-rule sqrt \
    --lr-schedule one-cycle --passes 2
}

test_a_resumed_run_has_the_gradient_noise_it_had() {
  resumes_with_the_same_bits 3 --model mlp --width 32 --batch 20 --batch-rule per-rank \
    --lr-rule adascale --rank-batch 13 --lr-schedule cosine --steps 40
  expect_steps 'batch == 39 and scale == 1.95 and 1 <= gain <= 1.95 and noise_scale != 0'
  # One rank alone compares each step with the one before.
  resumes_with_the_same_bits 1 --model mlp --width 32 --batch 20 --measure-noise --steps 20
  resumes_with_the_same_bits 2 --model mlp --width 32 --batch 20 --batch-rule per-rank \
    --rank-batch 15 --lr-rule adamscale --optimizer adam --micro-batch 4 --steps 20
}

# Square norms are summed part by part.
test_gradient_noise_has_the_same_bits_on_any_number_of_logical_ranks() {
  data
  for ranks in 1 2 3; do
    expect_exit 0 train "$ranks" --model cnn --data fashion-mnist:mnist --width 8 --batch 50 --steps 8 \
      --logical-ranks 4 --measure-noise --checkpoint-dir "c$ranks"
    expect_exit 0 bellows-ckpt diff "$(last_checkpoint c1)" "$(last_checkpoint "c$ranks")"
  done
}

test_adascale_goes_through_deaths_and_joins_with_one_state_on_all_ranks() {
  start_training 2 "${MODEL[@]}" "${ENDLESS[@]}" --batch-rule per-rank --lr-rule adascale
  expect_exit 0 control resize 4
  changed join
  kill_ranks 1
  changed repair
  stop_training
  expect_steps 'batch == 12 * ranks and abs(scale - ranks / 2) < 1e-12 and abs(lr - 0.004 * gain) < 1e-12'
  expect_steps 'min(1, scale) <= gain <= max(1, scale)'
  samples_are_used_once 1
}

test_measuring_noise_changes_nothing_else() {
  data
  expect_exit 0 train_mlp 2 --steps 12 --checkpoint-dir plain
  expect_exit 0 train_mlp 2 --steps 12 --checkpoint-dir measured --measure-noise
  expect_exit 0 bellows-ckpt diff --only parameters "$(last_checkpoint plain)" "$(last_checkpoint measured)"
}

test_on_other_ranks_a_resumed_run_keeps_the_part_of_each_rank() {
  data
  local options=("${MODEL[@]}" --data fashion-mnist:mnist --batch-rule per-rank --lr-rule linear --lr-ramp 0
    --evaluate-every 0 --log-every 1 --metrics m.jsonl --checkpoint-dir c)
  expect_exit 0 train 2 "${options[@]}" --steps 4
  expect_exit 0 train 3 "${options[@]}" --steps 12
  expect_equal "$(seen_ranks)" "2 3"
  expect_steps 'batch == 12 * ranks and scale == ranks / 2 and abs(lr - 0.002 * ranks) < 1e-12'
}
