# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The test runner itself: it must notice failures, crashes, left-over processes and empty runs.

# Makes a tree with nothing but the runner and the scenario file given on standard input.
small_tree() {
  mkdir -p tree/tests/scenarios tree/scripts tree/build/tests
  cp -r "$ROOT/tests/run" "$ROOT/tests/lib" tree/tests/
  cp -r "$ROOT/scripts/lib" tree/scripts/
  cat >tree/tests/scenarios/some.sh
}

# unit_program NAME LINES…: a program that prints what GoogleTest prints, and then does COMMAND.
unit_program() {
  printf '#!/bin/bash\ncat <<END\n%s\nEND\n%s\n' "$2" "$3" >"tree/build/tests/$1_test"
  chmod +x "tree/build/tests/$1_test"
}

test_counts_passed_failed_and_skipped() {
  small_tree <<'END'
test_good() { expect_exit 3 bash -c 'echo out; exit 3'; expect_equal "$OUT" out; }
test_bad() { expect_exit 0 false; }
test_other() { skip "no reason"; }
END
  expect_exit 1 tree/tests/run --build tree/build --group scenario
  expect_equal "${OUT##*$'\n'}" "1 passed, 1 failed, 1 skipped"
  expect_contains "$OUT" "FAILED: exit code 1, expected 0"
  expect_contains "$OUT" "scenario/some: other (0."
}

test_a_failing_line_in_the_middle_fails_the_test() {
  small_tree <<<'test_x() { false; true; }'
  expect_exit 1 tree/tests/run --build tree/build --group scenario
  expect_contains "$OUT" "0 passed, 1 failed, 0 skipped"
}

test_a_process_left_behind_fails_the_test_and_is_ended() {
  small_tree <<<'test_x() { setsid sleep 1234.5 </dev/null >/dev/null 2>&1 & }'
  expect_exit 1 tree/tests/run --build tree/build --group scenario
  expect_contains "$OUT" "left a process behind"
  expect_contains "$OUT" "sleep 1234.5"
  expect_exit 1 pgrep -f 'sleep 1234[.]5'
}

test_a_test_that_hangs_is_ended_at_its_limit() {
  small_tree <<<$'TIME_LIMIT=1\ntest_x() { sleep 60; }'
  expect_exit 1 tree/tests/run --build tree/build --group scenario
  expect_contains "$OUT" "still running after its limit of 1 s"
}

test_patterns_choose_tests_and_none_is_an_error() {
  small_tree <<<$'# A small file\ntest_first() { true; }\ntest_second() { false; }'
  expect_exit 0 tree/tests/run --build tree/build first
  expect_equal "${OUT##*$'\n'}" "1 passed, 0 failed, 0 skipped"
  expect_exit 1 tree/tests/run --build tree/build nothing
  expect_contains "$ERR" "no test ran"
}

test_parts_have_each_test_once() {
  small_tree <<<$'test_one() { true; }\ntest_two() { true; }\ntest_three() { false; }'
  expect_exit 1 tree/tests/run --build tree/build --group scenario --part 1/2
  expect_equal "${OUT##*$'\n'}" "1 passed, 1 failed, 0 skipped"
  expect_exit 0 tree/tests/run --build tree/build --group scenario --part 2/2
  expect_contains "$OUT" "some: two"
  expect_equal "${OUT##*$'\n'}" "1 passed, 0 failed, 0 skipped"
  expect_exit 1 tree/tests/run --build tree/build --part 3/2
  expect_contains "$ERR" "--part 3/2: there is no such part"
}

test_unit_programs_are_counted_by_test_and_a_crash_is_a_failure() {
  small_tree <<<''
  unit_program good $'[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.C\n[       OK ] A.C (0 ms)' ''
  expect_exit 0 tree/tests/run --build tree/build --group unit
  expect_equal "${OUT##*$'\n'}" "2 passed, 0 failed, 0 skipped"
  # shellcheck disable=SC2016 # for the program
  unit_program crash $'[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n[ RUN      ] A.Boom' 'kill -SEGV $$'
  expect_exit 1 tree/tests/run --build tree/build --group unit
  expect_equal "${OUT##*$'\n'}" "3 passed, 1 failed, 0 skipped"
  expect_contains "$OUT" "ended in A.Boom"
  unit_program crash '' 'exit 0'
  expect_exit 1 tree/tests/run --build tree/build --group unit
}

test_a_scenario_file_with_an_error_is_a_failure() {
  small_tree <<<'test_x() { if; }'
  expect_exit 1 tree/tests/run --build tree/build --group scenario
  expect_equal "${OUT##*$'\n'}" "0 passed, 1 failed, 0 skipped"
}

test_tallies_of_several_runs_add_up() {
  small_tree <<<'test_good() { true; }'
  expect_exit 0 tree/tests/run --build tree/build --group scenario --tally counts
  expect_exit 0 tree/tests/run --build tree/build --group scenario --tally counts
  expect_equal "$(cat counts)" $'1 0 0\n1 0 0'
  expect_lacks "$OUT" passed
}
