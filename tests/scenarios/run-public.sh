# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# MPI programs that are not ours run under bellows-run as they are.
export TIME_LIMIT=150
. "$ROOT/tests/lib/launcher.sh"

bench() { launch -n "$1" --local-nodes "$2" python3 -m mpi4py.bench "${@:3}"; }

test_mpi4py_says_hello() {
  python3 -c 'import mpi4py' || skip "no mpi4py"
  expect_exit 0 bench 4 2 helloworld
  local rank
  for rank in 0 1 2 3; do expect_contains "$OUT" "Hello, World! I am process $rank of 4 on "; done
}

test_mpi4pys_ring() {
  python3 -c 'import mpi4py' || skip "no mpi4py"
  expect_exit 0 bench 4 2 ringtest -n 1000 -l 20
  expect_matches "$OUT" "time for 20 loops = .* \(4 processes, 1000 bytes\)"
}
