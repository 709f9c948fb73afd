# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# scripts/run and scripts/cluster, as a user of a checkout meets them.

# leftovers NAME: containers, networks and folders of the cluster of that name.
leftovers() {
  "$BELLOWS_ENGINE" ps -a --format '{{.Names}}' | grep -- "-$1-" || true
  "$BELLOWS_ENGINE" network ls --format '{{.Name}}' | grep -- "-$1\$" || true
  find "$ROOT/build/clusters" -maxdepth 1 -name "$1" 2>/dev/null || true
}

test_run_keeps_folder_arguments_input_and_exit_code() {
  cd "$ROOT/tests"
  # shellcheck disable=SC2016 # for the shell in the image
  expect_exit 7 "$ROOT/scripts/run" bash -c 'pwd; id -u; echo "<$1>"; cat; exit 7' x 'two  words' <<<"from here"
  expect_equal "$OUT" "/bellows/tests"$'\n'"$(id -u)"$'\n'"<two  words>"$'\n'"from here"
}

test_run_has_no_network_but_loopback() {
  expect_exit 0 "$ROOT/scripts/run" ip -o link show up
  expect_equal "$(awk '{ print $2 }' <<<"$OUT")" "lo:"
}

test_run_hands_on_signals() {
  local out=$PWD/out pid code=0
  # shellcheck disable=SC2016 # for the shell in the image
  "$ROOT/scripts/run" bash -c 'trap "exit 5" TERM; echo ready; while :; do sleep 0.1; done' >"$out" &
  pid=$!
  wait_until 30 grep -q ready "$out"
  kill -TERM "$pid"
  wait "$pid" || code=$?
  expect_equal "$code" 5
}

test_mistakes_are_named() {
  expect_exit 1 "$ROOT/scripts/cluster" start
  expect_contains "$ERR" "unknown command 'start'"
  expect_exit 1 "$ROOT/scripts/cluster" up --nodes none
  expect_contains "$ERR" "--nodes none"
  expect_exit 1 "$ROOT/scripts/cluster" up --name 'Not/Good'
  expect_contains "$ERR" "cluster name 'Not/Good'"
  expect_exit 1 "$ROOT/scripts/cluster" kill --name "none-$$" n1
  expect_contains "$ERR" "cluster 'none-$$' is not up"
  expect_exit 1 "$ROOT/scripts/cluster" kill --name "$CLUSTER" n99
  expect_contains "$ERR" "has no node 'n99' (it has: ctl n1 n2 n3 n4)"
  expect_exit 1 env BELLOWS_BUILD=/nowhere "$ROOT/scripts/cluster" up --name "none-$$"
  expect_contains "$ERR" "BELLOWS_BUILD=/nowhere: no folder of this tree"
  expect_exit 1 env BELLOWS_ENGINE=nothing "$ROOT/scripts/cluster" status
  expect_contains "$ERR" "BELLOWS_ENGINE=nothing: no such program"
  expect_exit 1 "$ROOT/scripts/demo" --passes many
  expect_contains "$ERR" "--passes many"
  expect_exit 1 "$ROOT/scripts/run" --no-such-option
  expect_contains "$ERR" "unknown option --no-such-option"
}

test_a_second_cluster_runs_beside_the_first_and_leaves_nothing() {
  local name=second-$$
  expect_exit 0 "$ROOT/scripts/cluster" up --name "$name" --nodes 1
  expect_exit 0 "$ROOT/scripts/cluster" exec --name "$name" srun -N1 hostname
  expect_equal "$OUT" n1
  expect_exit 0 on ctl srun -N4 true
  expect_exit 0 "$ROOT/scripts/cluster" down --name "$name"
  expect_equal "$(leftovers "$name")" ""
  expect_exit 0 "$ROOT/scripts/cluster" down --name "$name"
}

test_an_interrupted_start_is_cleared_away_by_the_next() {
  local name=half-$$ up
  "$ROOT/scripts/cluster" up --name "$name" --nodes 1 &
  up=$!
  wait_until 30 test -e "$ROOT/build/clusters/$name/net"
  kill -KILL "$up"
  wait "$up" || true
  expect_exit 0 "$ROOT/scripts/cluster" up --name "$name" --nodes 1
  expect_exit 0 "$ROOT/scripts/cluster" exec --name "$name" srun -N1 true
  expect_exit 0 "$ROOT/scripts/cluster" down --name "$name"
  expect_equal "$(leftovers "$name")" ""
}
