# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A program of somebody else: the example, built by the documented line from what `make install`
# has put down, and run in worlds of fixed size and in one that changes.
export TIME_LIMIT=300
. "$ROOT/tests/lib/elastic.sh"

# The plate of all tests: its residual still falls after these iterations, so that one too many or
# too few shows in the result.
plate() { echo --size 300 --iterations "${ITERATIONS:-2000}"; }
# shellcheck disable=SC2046 # its words
result_of() { launch -n "$1" jacobi $(plate) </dev/null; }
# begin ARGUMENTS…: the example in the background, slow enough for what is to come.
# shellcheck disable=SC2046
begin() {
  LIMIT=120 start --elastic "$@" jacobi $(plate) --pause "${PAUSE:-10}" --report
  wait_until 60 _is_past 11 # there are copies
}
_is_past() {
  ctl status --json | python3 -c "import json, sys; sys.exit(json.load(sys.stdin)['step'] < $1)"
}
# expect_result: the job ends in order with what a single rank computes, and has never begun again.
expect_result() {
  expect_end 0
  expect_equal "$(tail -n 1 <<<"$OUT")" "$(result_of 1)"
  expect_lacks "$ERR" "beginning again"
  expect_clean
}

test_it_builds_from_an_installed_tree() {
  local make_in=$BUILD
  [[ -e $BUILD/Makefile ]] || make_in=$ROOT
  expect_exit 0 make -s -C "$make_in" install DESTDIR="$PWD/root" PREFIX=/opt/bellows
  expect_file root/opt/bellows/include/bellows/mpi_elastic/elastic_world.h
  # Not where it was installed for, nor with the tree in reach: as a package that was unpacked.
  mv root/opt/bellows moved
  mkdir example
  cp "$ROOT"/docs/examples/jacobi* example
  export PKG_CONFIG_PATH=$PWD/moved/lib/pkgconfig
  cd example
  # shellcheck disable=SC2046 # words for the compiler
  expect_exit 0 mpicxx -std=c++20 -O2 -Wall -Wextra -Werror -o jacobi jacobi*.cc $(pkg-config --cflags --libs bellows-elastic)
  # shellcheck disable=SC2046
  expect_exit 0 ../moved/bin/bellows-run -n 2 ./jacobi $(ITERATIONS=50 plate)
  expect_equal "$OUT" "$(ITERATIONS=50 result_of 1)"
}

test_the_number_of_ranks_does_not_show_in_the_result() {
  local alone
  alone=$(result_of 1)
  expect_matches "$alone" "^iterations 2000 residual [0-9.e-]+ checksum [0-9a-f]{16}$"
  expect_equal "$(result_of 3)" "$alone"
  expect_exit 0 launch -n 3 jacobi --size 300 --iterations 1999
  expect_lacks "$OUT" "${alone##* }"
}

test_a_death_a_join_and_a_leave_do_not_show_in_the_result() {
  begin 1-4 -n 3 --local-nodes 2
  kill -9 "$(rank_pid 1)"
  wait_until 20 _size_is 2
  expect_exit 0 ctl resize 4
  # Neighbours, rank 0 among them: the rows of one are copied at the other.
  expect_exit 0 ctl leave --ranks 0,1
  wait_until 20 _size_is 2
  expect_exit 0 ctl resize 3
  kill -9 "$(rank_pid 0)"
  wait_until 20 _size_is 2
  expect_result
}

test_ranks_that_are_no_neighbours_may_die_at_once() {
  ITERATIONS=500
  begin 1-4 -n 4
  kill -9 "$(rank_pid 0)" "$(rank_pid 2)"
  wait_until 20 _size_is 2
  expect_result
}

test_when_neighbours_die_at_once_it_begins_again() {
  ITERATIONS=500
  begin 1-3 -n 3
  kill -9 "$(rank_pid 1)" "$(rank_pid 2)"
  wait_until 20 _size_is 1
  expect_end 0
  expect_equal "$(tail -n 1 <<<"$OUT")" "$(result_of 1)"
  expect_contains "$ERR" "rows are lost with all their copies; beginning again"
}

# In its pause a rank does not hear of the death, and has no patience left.
test_a_process_that_replaces_itself_keeps_its_rows() {
  export BELLOWS_STUCK_SECONDS=0.000001
  local rank replaced=0
  ITERATIONS=60 PAUSE=200
  begin 1-3 -n 3
  kill -9 "$(rank_pid 1)"
  wait_until 20 _size_is 2
  for rank in 0 1; do
    tr '\0' '\n' <"/proc/$(rank_pid "$rank")/environ" | grep -q '^BELLOWS_STATE_FD=' && replaced=$((replaced + 1))
  done
  ((replaced > 0)) || fail "nobody has replaced itself"
  expect_result
  expect_matches "$OUT" "epoch 2: 2 ranks from iteration [1-9]0"
}

test_wrong_options_are_named() {
  expect_exit 2 jacobi --size
  expect_contains "$ERR" "jacobi: not understood: --size"
  expect_exit 2 jacobi --size 0
  expect_exit 2 jacobi --iterations 5x
  expect_exit 1 launch -n 3 jacobi --size 2
  expect_contains "$ERR" "more ranks than rows"
}
