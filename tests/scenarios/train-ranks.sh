# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Collectives, gradients, steps, errors, transfers of the state, batch statistics and a lack of memory
# on one to four ranks (tests/programs/trainer_*.cc).
export OMP_NUM_THREADS=1
export TIME_LIMIT=180

test_on_one_rank() { expect_exit 0 bellows-run -n 1 trainer_ranks; }
test_on_two_ranks() { expect_exit 0 bellows-run -n 2 trainer_ranks; }
test_on_three_ranks() { expect_exit 0 bellows-run -n 3 trainer_ranks; }
test_on_four_ranks() { expect_exit 0 bellows-run -n 4 trainer_ranks; }

test_who_is_behind_gets_the_state_of_who_is_furthest() {
  for ranks in 1 2 3 4; do expect_exit 0 bellows-run -n "$ranks" trainer_transfer; done
}

test_batch_statistics_of_several_ranks_are_those_of_all_samples() {
  for ranks in 1 2 3 4; do expect_exit 0 bellows-run -n "$ranks" trainer_batch_norm; done
}

test_a_lack_of_memory_makes_passes_smaller_on_one_rank() {
  expect_exit 0 bellows-run -n 1 trainer_memory
}
test_a_lack_of_memory_makes_passes_smaller_on_two_ranks() {
  expect_exit 0 bellows-run -n 2 trainer_memory
}
test_a_lack_of_memory_makes_passes_smaller_on_three_ranks() {
  expect_exit 0 bellows-run -n 3 trainer_memory
}

# Batches of 50, 50, … and a last one with fewer samples than parts; more ranks than parts.
test_logical_ranks_give_the_same_bits_on_any_number_of_ranks() {
  # shellcheck source=../lib/train.sh
  . "$ROOT/tests/lib/train.sh"
  data
  for ranks in 1 2 3 4 6; do
    expect_exit 0 train "$ranks" --model cnn --data fashion-mnist:mnist --width 8 --batch 149 \
      --steps 8 --micro-batch 20 --clip 1 --logical-ranks 5 --checkpoint-dir "c$ranks"
    expect_exit 0 train "$ranks" --model resnet18 --norm batch --data cifar10:cifar --width 4 \
      --batch 11 --steps 4 --logical-ranks 4 --checkpoint-dir "b$ranks"
    expect_exit 0 bellows-ckpt diff c1/checkpoint-000000000008.h5 "c$ranks/checkpoint-000000000008.h5"
    expect_exit 0 bellows-ckpt diff b1/checkpoint-000000000004.h5 "b$ranks/checkpoint-000000000004.h5"
  done
}
