# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What reads others' bytes withstands inputs made up by chance, for some seconds; `make fuzz` does it
# for as long as one likes.

# withstands NAME: the inputs that are kept, and others made from them.
withstands() {
  [[ -x $BUILD/tests/$1_fuzz ]] || skip "the build has no fuzz target $1"
  expect_exit 0 "$BUILD/tests/$1_fuzz" -max_total_time=3 -dict="$ROOT/tests/fuzz/$1.dict" "$ROOT/tests/fuzz/corpus/$1"
  expect_matches "$OUT$ERR" 'runs'
}

test_options_of_the_plugin() { withstands options; }
test_messages_of_the_protocol() { withstands message; }

test_a_fault_is_found_and_its_input_kept() {
  cat >fault.cc <<'FAULT'
#include "tests/fuzz/target.h"
#include <string>
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(bellows::fuzz::text_of(data, size));
  int* const numbers = new int[3]();
  const int one = text.starts_with("a") ? 1 : 0;
  const int two = one != 0 && text.size() > 1 && text[1] == 'b' ? numbers[text.size()] : 0;
  delete[] numbers;
  return two * 0;
}
FAULT
  g++ -std=c++20 -I"$ROOT" -g -fsanitize=address -fsanitize-coverage=trace-pc -c fault.cc
  g++ -std=c++20 -I"$ROOT" -c "$ROOT/tests/fuzz/driver.cc"
  g++ -fsanitize=address -o fault fault.o driver.o
  expect_exit '!0' ./fault -max_total_time=60 -seed=1
  expect_contains "$ERR" "heap-buffer-overflow"
  expect_exit '!0' ./fault crash-*
  expect_contains "$ERR" "heap-buffer-overflow"
  rm crash-*
  expect_exit 2 ./fault -no-such-option
  expect_contains "$ERR" "unknown option -no-such-option"
}
