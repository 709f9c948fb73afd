# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Collectives, gradients, steps and errors on one to four ranks (tests/programs/trainer_ranks.cc).
export OMP_NUM_THREADS=1

test_on_one_rank() { expect_exit 0 bellows-run -n 1 trainer_ranks; }
test_on_two_ranks() { expect_exit 0 bellows-run -n 2 trainer_ranks; }
test_on_three_ranks() { expect_exit 0 bellows-run -n 3 trainer_ranks; }
test_on_four_ranks() { expect_exit 0 bellows-run -n 4 trainer_ranks; }
