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

test_netpipe_measures_between_two_nodes() {
  command -v NPopenmpi >/dev/null || skip "no NetPIPE"
  expect_exit 0 launch -n 2 --local-nodes 2 NPopenmpi -u 1024 -n 10 </dev/null
  expect_matches "$OUT$ERR" "1024 bytes +10 times --> +[0-9.]+ Mbps"
}

# Linpack, matrix transposition, random access, FFT, bandwidth and latency: each checks its result.
test_the_hpc_challenge_passes_its_own_checks() {
  command -v hpcc >/dev/null || skip "no hpcc"
  sed 's/^[0-9].* Ns *$/200 Ns/' /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt
  expect_exit 0 launch -n 4 --local-nodes 2 hpcc </dev/null
  expect_contains "$(cat hpccoutf.txt)" "Success=1"
  expect_contains "$(cat hpccoutf.txt)" "End of LatencyBandwidth section."
  expect_matches "$(grep -A3 'Finished .* tests with the following results' hpccoutf.txt)" "1 tests completed and passed"
}
