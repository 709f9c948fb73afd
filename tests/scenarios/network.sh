# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-network: collectives by size, and each pair of nodes.
# shellcheck source=../lib/launcher.sh
. "$ROOT/tests/lib/launcher.sh"

test_sizes_and_pairs_are_measured() {
  expect_exit 0 launch -n 3 --local-nodes 3 bellows-network --json --most 1048576
  printf '%s' "$OUT" | python3 -c 'import json, sys
r = json.load(sys.stdin)
assert r["ranks"] == 3
assert [c["bytes"] for c in r["all_reduce"]] == [1024 * 4**i for i in range(6)]
for c in r["all_reduce"]:
  s = c["seconds"]
  assert 0 < s["low"] <= s["median"] <= s["high"] and abs(c["bus_bandwidth"] - 4/3 * c["bytes"] / s["median"]) < 1
assert [(l["a"][-2], l["b"][-2]) for l in r["links"]] == [("0", "1"), ("0", "2"), ("1", "2")], r["links"]
assert all(l["latency"] > 0 and l["bandwidth"] > 0 for l in r["links"])' || fail "$OUT"
}

test_it_prints_tables() {
  expect_exit 0 launch -n 2 --local-nodes 2 bellows-network --most 1048576
  expect_contains "$OUT" 'all-reduce of float on 2 ranks'
  expect_matches "$OUT" $'\n +1048576 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+\n'
  expect_contains "$OUT" 'between node'
  expect_exit 2 launch -n 1 bellows-network --fast
  expect_contains "$ERR" 'bellows-network: unknown argument --fast'
  expect_exit 2 launch -n 1 bellows-network --most much
  expect_contains "$ERR" '--most needs a number of bytes'
}
