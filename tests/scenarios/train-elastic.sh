# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A training goes on while ranks die, join and leave: no sample is lost or seen twice, and what
# comes out is what comes out of an undisturbed run.
export TIME_LIMIT=180
# shellcheck source=../lib/launcher.sh
. "$ROOT/tests/lib/launcher.sh"
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

MODEL=(--model cnn --width 8 --batch 50 --lr 0.002 --dropout 0.25)
# Without an end, and without anything that is due meanwhile.
ENDLESS=(--passes 100000 --evaluate-every 0 --checkpoint-dir c --checkpoint-every 100000000)
# The same bits on any number of ranks.
EXACT=(--logical-ranks 4)

# expect_as_undisturbed LOST DIFF_OPTIONS… -- OPTIONS…: the checkpoint in c is that of a run with one
# rank that nothing happened to, and LOST ranks may have left a sample unnoted.
expect_as_undisturbed() {
  local lost=$1 steps how=()
  shift
  for (( ; $# > 0; )); do
    [[ $1 != -- ]] || break
    how+=("$1")
    shift
  done
  shift
  steps=$("$ROOT/tests/lib/samples_once" 600 "$lost" used.*) || fail "$steps"
  [[ $(last_checkpoint c) == "c/checkpoint-$(printf %012d "$steps").h5" ]] ||
    fail "$steps steps were noted, but the checkpoint is $(last_checkpoint c)"
  expect_exit 0 train 1 --data fashion-mnist:mnist "$@" --steps "$steps" --evaluate-every 0 \
    --checkpoint-dir undisturbed --checkpoint-every 100000000
  expect_exit 0 bellows-ckpt diff "${how[@]}" "$(last_checkpoint c)" "$(last_checkpoint undisturbed)"
}

results() { grep -c '^result: ' <<<"$OUT"; }

# Sums in another order differ in the last bit; at this learning rate that stays below 1e-4 of
# values around 0.1 for the steps of a test.
test_the_others_go_on_when_a_rank_dies() {
  start_training 3 "${MODEL[@]}" "${ENDLESS[@]}"
  kill_ranks 2
  changed repair
  stop_training
  expect_contains "$OUT" 'repair: 2 ranks after step '
  expect_as_undisturbed 1 --tolerance 1e-4 --only parameters -- "${MODEL[@]}"
}

# With 29 more bits the same difference is that much smaller: it is rounding, and nothing else.
test_in_double_precision_nothing_but_rounding_is_left() {
  local double=("${MODEL[@]}" --precision double)
  start_training 1 "${double[@]}" "${ENDLESS[@]}"
  expect_exit 0 control resize 4
  changed join
  kill_ranks 0
  changed repair
  expect_exit 0 control resize 2
  changed leave
  stop_training
  expect_as_undisturbed 1 --tolerance 1e-11 --only parameters -- "${double[@]}"
}

test_deaths_of_any_ranks_leave_the_bits_as_they_would_be() {
  start_training 4 "${MODEL[@]}" "${ENDLESS[@]}" "${EXACT[@]}"
  kill_ranks 0
  changed repair
  kill_ranks 0 2
  changed repair 2
  stop_training
  expect_as_undisturbed 3 -- "${MODEL[@]}" "${EXACT[@]}"
}

test_joins_and_leaves_leave_the_bits_as_they_would_be() {
  start_training 2 "${MODEL[@]}" "${ENDLESS[@]}" "${EXACT[@]}" --optimizer adam --ema 0.9
  expect_exit 0 control resize 4
  changed join
  expect_exit 0 control leave --ranks=0
  changed leave
  expect_exit 0 control resize 1
  changed leave 2
  stop_training
  expect_as_undisturbed 0 -- "${MODEL[@]}" "${EXACT[@]}" --optimizer adam --ema 0.9
  expect_matches "$(<out)" 'join: [34] ranks after step [0-9]+, [12] joined \([0-9.]+ s without training, [0-9.]+ MB sent\)'
}

RESNET=(--model resnet18 --norm batch --width 4 --batch 12 --lr 0.002)
start_resnet() {
  local ranks=$1
  shift
  data
  LIMIT=110 BELLOWS_CHECK_STATE=1 start --elastic 1-6 -n "$ranks" bellows-train --threads 1 \
    --data cifar10:cifar "${RESNET[@]}" "${ENDLESS[@]}" "$@" --log-every 1 --metrics m.jsonl
  more_steps 3
}
# resnet_as_undisturbed DIFF_OPTIONS… -- OPTIONS…
resnet_as_undisturbed() {
  local steps how=()
  for (( ; $# > 0; )); do
    [[ $1 != -- ]] || break
    how+=("$1")
    shift
  done
  shift
  steps=$((10#$(last_checkpoint c | tr -dc 0-9 | head -c 12)))
  expect_exit 0 train 1 --data cifar10:cifar "${RESNET[@]}" "$@" --steps "$steps" \
    --evaluate-every 0 --checkpoint-dir undisturbed --checkpoint-every 100000000
  expect_exit 0 bellows-ckpt diff "${how[@]}" "$(last_checkpoint c)" "$(last_checkpoint undisturbed)"
}

test_batch_statistics_come_along() {
  start_resnet 2 "${EXACT[@]}"
  expect_exit 0 control resize 3
  changed join
  kill_ranks 0
  changed repair
  stop_training
  resnet_as_undisturbed -- "${EXACT[@]}"
}

# Those of all ranks' samples do not depend on the ranks.
test_synchronised_batch_statistics_are_as_undisturbed() {
  local sync=(--batch-norm sync --precision double --ema 0.9)
  start_resnet 1 "${sync[@]}"
  expect_exit 0 control resize 3
  changed join
  kill_ranks 0
  changed repair
  stop_training
  resnet_as_undisturbed --tolerance 1e-10 --only parameters --only buffers --only ema -- "${sync[@]}"
}

# Local ones do, but are the same on all ranks (BELLOWS_CHECK_STATE), whoever dies.
test_local_batch_statistics_are_the_same_on_all_ranks() {
  start_resnet 3
  kill_ranks 0
  changed repair
  expect_exit 0 control resize 4
  changed join
  stop_training
}

# What is left is what policies share nodes by.
test_a_training_says_how_much_is_left() {
  start_training 2 "${MODEL[@]}" "${ENDLESS[@]}"
  wait_until 30 _tells_what_is_left
  stop_training
}
_tells_what_is_left() {
  control status --json | python3 -c 'import json, sys
status = json.load(sys.stdin)
done = 100000 * 600 - status["samples_left"] # passes of so many samples, and batches of 50
sys.exit(not (status["samples_per_second"] > 0 and abs(done - 50 * status["step"]) < 50 * 100))'
}

# Its image is replaced at once, before MPI's error can come; the state goes along in memory.
test_a_process_that_replaces_itself_keeps_its_state() {
  export BELLOWS_STUCK_SECONDS=0.000001
  start_training 3 "${MODEL[@]}" "${ENDLESS[@]}" "${EXACT[@]}"
  kill_ranks 1
  changed repair
  stop_training
  expect_as_undisturbed 1 -- "${MODEL[@]}" "${EXACT[@]}"
}

# ... and would be ended by the signal, while it has no handler yet.
test_a_signal_to_processes_that_replace_themselves_is_kept() {
  local pids
  export BELLOWS_STUCK_SECONDS=0.000001
  start_training 3 "${MODEL[@]}" "${ENDLESS[@]}" "${EXACT[@]}"
  mapfile -t pids < <(rank_pids)
  kill -KILL "${pids[1]}"
  wait_until 20 _are_replaced "${pids[0]}" "${pids[2]}"
  kill -USR1 "$LAUNCHER"
  expect_end 85
  expect_as_undisturbed 1 -- "${MODEL[@]}" "${EXACT[@]}"
}

_is_changing() { [[ $(control status) == *": changing, epoch $1,"* ]]; }

# joiners: the processes of ranks that have no place yet.
joiners() {
  control status --json | python3 -c 'import json, sys
for rank in json.load(sys.stdin)["ranks"]:
  if rank["state"] == "joining" and rank["pid"] > 0: print(rank["pid"])'
}
_has_joiners() { (($(joiners | wc -l) == $1)); }

# One has a place in the next world already, and nobody to meet there; another still loads.
test_a_joiner_does_not_go_on_by_itself_when_the_others_stop() {
  data
  LIMIT=60 start --elastic 1-6 -n 1 --rank-timeout 40 bellows-train --threads 1 --log-every 1 \
    --data fashion-mnist:mnist --metrics m.jsonl --record-samples used "${MODEL[@]}" "${ENDLESS[@]}"
  more_steps 3
  local first loading
  first=$(rank_pids)
  kill -STOP "$first"
  expect_exit 0 control resize +2 --wait=0
  wait_until 10 _has_joiners 2
  loading=$(joiners | tail -n 1)
  kill -STOP "$loading"
  wait_until 30 _is_changing 2
  kill -USR1 "$LAUNCHER"
  kill -CONT "$first"
  expect_end 85
  expect_lacks "$ERR" "ranks are left"
  expect_as_undisturbed 0 -- "${MODEL[@]}"
}

# A pass is one small step, and the test data are many: most of the time goes into evaluations.
test_an_evaluation_that_a_death_interrupts_is_made_again() {
  data
  mkdir swapped
  for what in images-idx3-ubyte labels-idx1-ubyte; do
    cp "mnist/train-$what.gz" "swapped/t10k-$what.gz"
    cp "mnist/t10k-$what.gz" "swapped/train-$what.gz"
  done
  LIMIT=110 BELLOWS_CHECK_STATE=1 start --elastic 1-6 -n 4 bellows-train --threads 1 --model cnn \
    --data fashion-mnist:swapped --width 8 --batch 1000 --passes 40 --log-every 1 --metrics m.jsonl
  more_steps 3
  kill_ranks 3
  changed repair
  kill_ranks 0
  changed repair 2
  expect_end 0
  expect_equal "$(results)" 1
  expect_matches "${OUT##*$'\n'}" '^result: accuracy=.* ranks=2 passes=40 steps=40 '
  expect_equal "$(grep -o '^test after [0-9]* passes' <<<"$OUT" | sort -u | wc -l)" 40
}

test_a_checkpoint_that_a_death_interrupts_does_no_harm() {
  start_training 4 --model cnn --width 8 --batch 50 --evaluate-every 0 --steps 60 --checkpoint-dir c \
    --checkpoint-every 1 --keep 2
  kill_ranks 0
  wait_until 60 _told repair 1
  kill_ranks 0
  wait_until 60 _told repair 2
  expect_end 0
  expect_equal "$(results)" 1
  expect_exit 0 bellows-ckpt verify c
  expect_equal "$(last_checkpoint c)" c/checkpoint-000000000060.h5
  expect_equal "$(find c -type f | wc -l)" 2
}

test_the_time_limit_goes_on_when_rank_0_dies() {
  start_training 3 "${MODEL[@]}" --train-seconds 5
  kill_ranks 0
  expect_end 0
  expect_equal "$(results)" 1
  local seconds
  seconds=$(sed -n 's/^result: .* ranks=2 .* seconds=\([0-9]*\)\..*/\1/p' <<<"$OUT")
  ((seconds >= 5)) || fail "ended after $seconds s"
}

test_metrics_tell_of_each_change_whoever_is_rank_0() {
  start_training 3 "${MODEL[@]}" "${ENDLESS[@]}"
  kill_ranks 0
  changed repair
  expect_exit 0 control resize +1
  changed join
  stop_training
  python3 - <<'END'
import json
lines = [json.loads(line) for line in open("m.jsonl")]
worlds = [line for line in lines if line["event"] == "world"]
assert [(w["cause"], w["ranks"], w["joined"], w["left"]) for w in worlds] == [
    ("repair", 2, 0, 1), ("join", 3, 1, 0)], worlds
assert worlds[0]["bytes"] >= 0 and worlds[1]["bytes"] > 100000, worlds
assert worlds[0]["epoch"] < worlds[1]["epoch"] and worlds[0]["standstill_seconds"] > 0, worlds
assert [line["event"] for line in lines].count("start") == 1
steps = [line["step"] for line in lines if line["event"] == "step"]
assert steps == sorted(steps), "no step is reported after a later one"
END
}

test_data_that_a_joiner_cannot_read_leave_the_others_alone() {
  start_training 2 "${MODEL[@]}" "${ENDLESS[@]}"
  mv mnist gone
  expect_exit 1 control resize 3 --wait=20
  more_steps 3
  stop_training
  expect_contains "$ERR" 'mnist/train-images-idx3-ubyte'
}
