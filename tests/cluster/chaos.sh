# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# One of the jobs on the cluster to which things happen (tests/chaos); `make chaos CLUSTER=1 SEEDS=N`
# plays many.
export TIME_LIMIT=180

test_a_cut_and_a_kill_among_joins_and_leaves() {
  command -v python3 || skip "no python3 on this machine"
  spoil
  expect_exit 0 python3 "$ROOT/tests/chaos/chaos.py" --build "$BUILD" --cluster "$CLUSTER" \
    --keep "$PWD/chaos" --first 2 --seeds 1
  expect_contains "$OUT" "1 passed, 0 failed"
}
