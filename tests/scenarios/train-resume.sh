# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Checkpoints of a training: going on is the same as never having stopped; a bad file, a full disk
# and a signal are dealt with as the manual says.
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

at_step() { printf '%s/checkpoint-%012d.h5' "$1" "$2"; }

# The middle of a pass, with all that has a state: momentum, dropout, a schedule.
same_bits() {
  local ranks=$1
  shift
  data
  expect_exit 0 train "$ranks" "$@" --steps 16 --checkpoint-dir whole --checkpoint-every 8
  expect_exit 0 train "$ranks" "$@" --steps 8 --checkpoint-dir parts --checkpoint-every 8
  expect_exit 0 train "$ranks" "$@" --steps 16 --checkpoint-dir parts --checkpoint-every 8
  expect_contains "$OUT" "resumed from $(at_step parts 8): step 8"
  expect_exit 0 bellows-ckpt diff "$(at_step whole 16)" "$(at_step parts 16)"
}

test_a_resumed_run_has_the_same_bits_with_sgd_on_three_ranks() {
  same_bits 3 --model cnn --data fashion-mnist:mnist --width 8 --batch 50 --warmup 12
}

test_a_resumed_run_has_the_same_bits_with_adam_and_accumulation() {
  same_bits 2 --model mlp --data fashion-mnist:mnist --batch 50 --optimizer adamw --micro-batch 7
}

test_a_resumed_run_has_the_same_bits_with_batch_norm() {
  same_bits 2 --model resnet18 --data cifar10:cifar --width 8 --batch 20 --norm batch
}

test_a_resumed_run_has_the_same_bits_with_synchronised_batch_norm() {
  same_bits 2 --model resnet18 --data cifar10:cifar --width 8 --batch 20 --norm batch \
    --batch-norm sync
}

test_a_resumed_run_has_the_same_bits_with_a_transformer() {
  same_bits 2 --model transformer --data text:text.txt --length 32 --width 32 --batch 16
}

test_a_resumed_run_has_the_same_bits_with_averages_and_groups() {
  same_bits 2 --model transformer --data text:text.txt --length 32 --width 32 --batch 16 \
    --optimizer adamw --weight-decay 0.1 --no-decay bias,norm --lr-factors 'output.*=0.1' --ema 0.9
  expect_exit 0 bellows-ckpt show "$(at_step parts 16)"
  expect_contains "$OUT" ema/output.weight
}

test_what_the_checkpoint_had_and_the_run_has_not_is_named() {
  data
  expect_exit 0 train_mlp 1 --steps 2 --checkpoint-dir c --ema 0.9
  expect_exit 2 train_mlp 1 --steps 4 --checkpoint-dir c
  expect_contains "$ERR" '--ema was 0.9 and is 0'
  expect_exit 0 train_mlp 1 --steps 4 --checkpoint-dir c --accept-changes
}

# Sums of floats in another order differ in the last bit; 16 steps amplify that to no more than
# 1e-5 of values around 0.1.
test_another_number_of_ranks_gives_the_same_parameters_to_rounding() {
  data
  expect_exit 0 train_mlp 1 --steps 16 --checkpoint-dir one
  for ranks in 2 3; do
    expect_exit 0 train_mlp 1 --steps 8 --checkpoint-dir "changed$ranks"
    expect_exit 0 train_mlp "$ranks" --steps 16 --checkpoint-dir "changed$ranks"
    expect_exit 0 bellows-ckpt diff --tolerance 1e-5 --only parameters \
      "$(at_step one 16)" "$(at_step "changed$ranks" 16)"
  done
}

test_the_newest_good_checkpoint_is_used_and_the_damaged_one_named() {
  data
  expect_exit 0 train_mlp 2 --steps 8 --checkpoint-dir c --checkpoint-every 4
  local newest
  newest=$(at_step c 8)
  printf 'damage' | dd of="$newest" bs=1 seek=$(($(stat -c %s "$newest") / 2)) conv=notrunc status=none
  expect_exit 0 train_mlp 2 --steps 10 --checkpoint-dir c
  expect_contains "$ERR" "passed over: $newest"
  expect_contains "$OUT" "resumed from $(at_step c 4): step 4"
}

test_a_damaged_checkpoint_asked_for_by_name_is_refused() {
  data
  expect_exit 0 train_mlp 1 --steps 2 --checkpoint-dir c
  truncate -s 3000 "$(at_step c 2)"
  expect_exit 2 train_mlp 2 --steps 4 --resume "$(at_step c 2)"
  expect_equal "$(grep -c "^bellows-train: --resume $(at_step c 2): " <<<"$ERR")" 1
}

test_other_options_are_named_unless_accepted() {
  data
  expect_exit 0 train_mlp 2 --steps 2 --checkpoint-dir c
  expect_exit 2 train_mlp 2 --steps 4 --checkpoint-dir c --seed 9 --lr 0.01
  expect_equal "$(grep -c -e '--lr was 0.05 and is 0.01, --seed was 1 and is 9' <<<"$ERR")" 1
  expect_exit 0 train_mlp 2 --steps 4 --checkpoint-dir c --lr 0.01 --accept-changes
  expect_exit 0 train_mlp 2 --steps 4 --checkpoint-dir c --seed 9 --resume none
}

# What differs since another option does is not listed.
test_options_that_nobody_gave_are_not_listed_as_changed() {
  data
  expect_exit 0 train_mlp 2 --steps 2 --checkpoint-dir c
  expect_exit 2 train_mlp 2 --steps 4 --checkpoint-dir c --optimizer adam --lr-schedule step
  expect_contains "$ERR" 'made with other options: --lr-schedule was constant and is step, --optimizer was sgd and is adam; use'
  expect_exit 2 train_mlp 2 --steps 4 --checkpoint-dir c --optimizer adam --lr 0.002 --beta1 0.8
  expect_contains "$ERR" 'other options: --lr was 0.05 and is 0.002, --optimizer was sgd and is adam; use'
  expect_exit 2 train_mlp 2 --steps 4 --checkpoint-dir c --logical-ranks 4
  expect_contains "$ERR" 'other options: --logical-ranks was (none) and is 4; use'
}

test_resuming_a_finished_run_gives_its_result_again() {
  data
  expect_exit 0 train_mlp 2 --passes 1 --checkpoint-dir c
  local first=${OUT##*$'\n'}
  expect_exit 0 train_mlp 2 --passes 1 --checkpoint-dir c
  expect_equal "$(cut -d' ' -f2,3 <<<"${OUT##*$'\n'}")" "$(cut -d' ' -f2,3 <<<"$first")"
}

test_keep_bounds_the_number_of_files() {
  data
  expect_exit 0 train_mlp 2 --steps 6 --checkpoint-dir c --checkpoint-every 1 --keep 2
  expect_equal "$(echo c/*)" "$(at_step c 5) $(at_step c 6)"
}

# Starts a long run in the background whose ranks leave their numbers; RUN is bellows-run's.
start_long_run() {
  data
  cat >rank.sh <<'END'
echo $$ >pid.$PMIX_RANK
exec bellows-train --threads 1 --model mlp --data fashion-mnist:mnist --batch 50 --passes 100000 \
  --evaluate-every 0 --log-every 10 --metrics m.jsonl --resume auto "$@"
END
  bellows-run -n 3 bash rank.sh "$@" >out 2>err &
  RUN=$!
  wait_until 60 grep -q '"event":"step"' m.jsonl
}

ended_with() {
  local code=0
  wait "$RUN" || code=$?
  ((code == $1)) || fail "exit code $code, expected $1: $(cat out err)"
}

test_sigterm_makes_a_checkpoint_and_asks_for_a_requeue() {
  start_long_run --checkpoint-dir c --checkpoint-every 100000000
  kill -TERM "$RUN"
  ended_with 85
  expect_exit 0 bellows-ckpt verify c
  expect_equal "$(find c -name 'checkpoint-*.h5' | wc -l)" 1
  expect_matches "$(tail -n 1 out)" '^stopped: ranks=3 '
}

# One step is a pass.
test_a_stop_at_the_end_of_a_pass_begins_the_next_one_afresh() {
  data
  bellows-run -n 2 bellows-train --threads 1 --model mlp --data fashion-mnist:mnist --batch 600 \
    --passes 100000 --evaluate-every 0 --metrics m.jsonl --checkpoint-dir c \
    --checkpoint-every 100000000 >out 2>err &
  RUN=$!
  wait_until 60 grep -q '"event":"step"' m.jsonl
  kill -TERM "$RUN"
  ended_with 85
  expect_matches "$(bellows-ckpt show c/*.h5)" 'pass_targets[^0-9]+0($|[^.0-9])'
}

test_sigusr1_on_one_rank_stops_all_at_the_same_step() {
  start_long_run --checkpoint-dir c --requeue-code 99
  kill -USR1 "$(cat pid.2)"
  ended_with 99
  expect_exit 0 bellows-ckpt verify c
}

test_a_signal_without_a_checkpoint_folder_has_its_own_code() {
  start_long_run
  kill -USR1 "$(cat pid.0)"
  ended_with 3
}

test_a_checkpoint_folder_that_cannot_be_made_is_refused_before_the_training() {
  data
  for folder in /dev/null text.txt/c /proc/none; do
    expect_exit 2 train_mlp 2 --steps 1 --checkpoint-dir "$folder"
    expect_equal "$(grep -c "^bellows-train: --checkpoint-dir $folder: cannot make" <<<"$ERR")" 1
    expect_equal "$OUT" ""
  done
}

# A run that resumed from infinities could never go on.
test_parameters_that_are_no_numbers_are_not_saved() {
  data
  expect_exit 0 train_mlp 2 --steps 1 --checkpoint-dir c
  expect_exit 1 train_mlp 2 --steps 9 --checkpoint-dir c --checkpoint-every 1 --lr 1e38 \
    --weight-decay 1e6 --accept-changes
  expect_equal "$(grep -c 'the parameters after step 2 are no longer finite' <<<"$ERR")" 1
  expect_equal "$(ls c)" "$(basename "$(at_step c 1)")"
}

# A limit on the size of files stands for the full disk.
test_a_full_disk_keeps_the_old_checkpoint_and_the_training_goes_on() {
  data
  expect_exit 0 train_mlp 1 --steps 2 --checkpoint-dir c
  cp "$(at_step c 2)" before.h5
  expect_exit 0 bellows-run -n 1 bash -c 'ulimit -f 20; exec bellows-train --threads 1 --model mlp \
    --data fashion-mnist:mnist --batch 50 --width 32 --steps 6 --checkpoint-dir c --checkpoint-every 2'
  expect_contains "$ERR" "no checkpoint of step 4: $(at_step c 4)"
  expect_matches "${OUT##*$'\n'}" '^result: .* steps=6 '
  cmp before.h5 "$(at_step c 2)"
  expect_equal "$(ls c)" "$(basename "$(at_step c 2)")"
}
