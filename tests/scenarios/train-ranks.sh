# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Collectives, gradients, steps, errors and transfers of the state on one to four ranks
# (tests/programs/trainer_ranks.cc, trainer_transfer.cc).
export OMP_NUM_THREADS=1

test_on_one_rank() { expect_exit 0 bellows-run -n 1 trainer_ranks; }
test_on_two_ranks() { expect_exit 0 bellows-run -n 2 trainer_ranks; }
test_on_three_ranks() { expect_exit 0 bellows-run -n 3 trainer_ranks; }
test_on_four_ranks() { expect_exit 0 bellows-run -n 4 trainer_ranks; }

test_who_is_behind_gets_the_state_of_who_is_furthest() {
  for ranks in 1 2 3 4; do expect_exit 0 bellows-run -n "$ranks" trainer_transfer; done
}
