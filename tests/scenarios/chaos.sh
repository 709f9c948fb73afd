# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A handful of the jobs to which things happen (tests/chaos); `make chaos SEEDS=N` plays many.
export TIME_LIMIT=400

play() { timeout -k 1 380 python3 "$ROOT/tests/chaos/chaos.py" --build "$BUILD" "$@"; }

test_programs_in_plain_mpi() {
  expect_exit 0 play --program steps --first 1 --seeds 8
  expect_contains "$OUT" "8 passed, 0 failed"
}

test_trainings() {
  expect_exit 0 play --program train --first 101 --seeds 4
  expect_contains "$OUT" "4 passed, 0 failed"
}
