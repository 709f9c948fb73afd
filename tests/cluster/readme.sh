# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The two commands of the README, from a clean clone. Only the compiler cache is shared.
export TIME_LIMIT=1800

test_both_commands_work_from_a_clean_clone() {
  git clone -q "$ROOT" clone
  export BELLOWS_CCACHE=${BELLOWS_CCACHE:-$ROOT/build/ccache}
  unset BELLOWS_BUILD BELLOWS_CLUSTER
  expect_exit 0 clone/scripts/demo --passes 1 --name "readme-$$"
  expect_matches "${OUT##*$'\n'}" '^result: accuracy=0\.[5-9][0-9]* .*ranks=4 .*seconds=[0-9.]+$'
  expect_contains "$ERR" "[5/5]"
  expect_no_file clone/build/clusters
  expect_exit 0 clone/scripts/check "runner: tallies" "slurm: a job of an ordinary user"
  expect_equal "${OUT##*$'\n'}" "2 passed, 0 failed, 0 skipped"
}
