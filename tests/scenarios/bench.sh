# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The benchmark runner.

test_an_unknown_benchmark_is_refused_with_the_known_names() {
  expect_exit 1 "$ROOT/tests/bench/run" --build "$BUILD" no-such-thing
  expect_contains "$ERR" "no benchmark 'no-such-thing'; there are:"
  expect_lacks "$ERR" "there are: run"
}

# bench_tree SCRIPT: a tree with one benchmark, `one`.
bench_tree() {
  mkdir -p tree/tests/bench tree/build
  cp "$ROOT/tests/bench/run" tree/tests/bench/
  mkdir -p tree/scripts && cp -r "$ROOT/scripts/lib" tree/scripts/
  printf '#!/bin/bash\n%s\n' "$1" >tree/tests/bench/one
  chmod +x tree/tests/bench/one
}

# shellcheck disable=SC2016 # for the benchmark
test_results_are_kept_only_when_they_are_complete() {
  bench_tree 'echo "[{\"name\":\"a\",\"value\":1,\"unit\":\"ms\",\"n\":1,\"median\":1,\"p25\":1,\"p75\":1,\"max\":1,\"peer\":null,\"ratio\":null,\"command\":\"x\"}]" >"$1"'
  expect_exit 0 tree/tests/bench/run --build tree/build
  expect_file tree/build/bench/one.json
  rm tree/build/bench/one.json
  bench_tree 'echo "[{\"name\":\"a\"}]" >"$1"'
  expect_exit 1 tree/tests/bench/run --build tree/build one
  expect_contains "$ERR" "lacks"
  expect_no_file tree/build/bench/one.json
  bench_tree 'exit 77'
  expect_exit 0 tree/tests/bench/run --build tree/build one
  expect_contains "$ERR" "one was left out"
  expect_no_file tree/build/bench/one.json
  bench_tree 'exit 3'
  expect_exit 1 tree/tests/bench/run --build tree/build one
  expect_contains "$ERR" "failed: one"
}
