# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Nodes are added to the allocation of a running job, and go from it: what bellows-broker asks of
# bellows-run. Here the nodes are names only.
export TIME_LIMIT=120
. "$ROOT/tests/lib/elastic.sh"

ask() { "$ROOT/tests/lib/ask_launcher" "$BELLOWS_CONTROL_DIR/local-$LAUNCHER.sock" "$@"; }
job() { begin 1-4 -n 2 --local-nodes 2; }
expect_result() {
  finish
  expect_clean
}

test_nodes_come_with_ranks_and_go_when_they_have_left() {
  job
  expect_exit 0 ask add-nodes '{"nodes": [{"name": "x1", "cpus": 2, "ranks": 1, "job": ""}, {"name": "x2", "cpus": 2, "ranks": 1, "job": ""}]}'
  expect_matches "$OUT" '"added":\[\{"name":"x1","ranks":1\},\{"name":"x2","ranks":1\}\],"failed":\[\]'
  _size_is 4
  expect_exit 0 ask add-nodes '{"nodes": [{"name": "x3", "cpus": 2, "ranks": 1, "job": ""}]}'
  expect_contains "$OUT" "--elastic=1-4 allows 1 to 4 ranks, not 5"
  expect_exit 0 ask remove-nodes '{"nodes": ["x1", "x2"]}'
  expect_contains "$OUT" "nothing runs on 2 nodes any more"
  _size_is 2
  expect_lacks "$(ctl status --json)" x1
  # Nobody is put there from now on, and it can come again.
  expect_exit 0 ctl resize +1
  expect_exit 0 ask add-nodes '{"nodes": [{"name": "x1", "cpus": 2, "ranks": 1, "job": ""}]}'
  expect_contains "$OUT" '"added":[{"name":"x1"'
  expect_result
}

test_ranks_leave_a_node_of_which_slurm_gives_notice() {
  local agent
  job
  expect_exit 0 ask add-nodes '{"nodes": [{"name": "x1", "cpus": 2, "ranks": 1, "job": "77"}]}'
  for agent in $(agents); do
    if tr '\0' '\n' <"/proc/$agent/environ" | grep -qx BELLOWS_NODE=x1; then break; fi
  done
  # All processes get the signal; it is not meant for the rank.
  kill -TERM "$(pgrep -P "$agent")" "$agent"
  wait_until 20 _size_is 2
  expect_gone "$agent"
  expect_result
  expect_contains "$ERR" "Slurm is about to take node x1: its 1 ranks leave"
  expect_lacks "$ERR" "killed by"
}

test_nodes_that_slurm_has_taken_are_forgotten() {
  job
  expect_exit 0 ask add-nodes '{"nodes": [{"name": "x1", "cpus": 2, "ranks": 2, "job": ""}]}'
  expect_exit 0 ask remove-nodes '{"nodes": ["x1"], "gone": true}'
  wait_until 20 _size_is 2
  expect_lacks "$(ctl status --json)" '"name":"x1"'
  expect_exit 0 ask remove-nodes '{"nodes": ["unknown"]}'
  # (Its agent was killed, as Slurm does it, and has cleared nothing away.)
  finish
}

test_ranks_that_must_stay_keep_their_node() {
  job
  expect_exit 0 ask remove-nodes "{\"nodes\": [\"$(hostname)-0\", \"$(hostname)-1\"]}"
  expect_contains "$OUT" "0 of 2 ranks would stay"
  expect_result
}

test_elastic_auto_needs_an_elastic_job() {
  expect_exit 1 launch --elastic auto -n 1 true
  expect_contains "$ERR" "BELLOWS_ELASTIC is not set"
  BELLOWS_ELASTIC=x expect_exit 0 launch -n 1 true # not in Slurm
  expect_exit 2 launch --elastic none --elastic auto -n 1 true
  expect_exit 2 launch --elastic auto --on-failure continue -n 1 true
}
