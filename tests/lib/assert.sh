# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What scenarios say about the product. A scenario file defines functions test_WHAT_A_USER_SEES;
# tests/run calls each in a shell of its own with `set -euo pipefail`, in an empty folder that is
# removed afterwards. `export TIME_LIMIT=SECONDS` at the top of a file raises the limit of its tests.
#
# Set for every test: ROOT (the tree), BUILD (the build folder; its bin/ and tests/ are in PATH).
# After `run` or `expect_exit`: OUT, ERR and CODE of the command.
# A file may define evidence(): what to print when one of its tests fails.
: "${ROOT:?} ${BUILD:?}"
OUT='' ERR='' CODE=0

# fail MESSAGE: ends the test as failed.
fail() {
  echo "FAILED: $*"
  local i
  for ((i = 1; i < ${#FUNCNAME[@]} - 1; i++)); do
    echo "  at ${BASH_SOURCE[i + 1]#"$ROOT"/}:${BASH_LINENO[i]} (${FUNCNAME[i + 1]})"
  done
  ! declare -F evidence >/dev/null || evidence || true
  exit 1
}

# skip WHY: ends the test as skipped.
skip() {
  echo "$*"
  exit 77
}

# run COMMAND…: runs it and keeps what it prints.
run() {
  local out err
  out=$(mktemp) err=$(mktemp)
  CODE=0
  "$@" >"$out" 2>"$err" || CODE=$?
  OUT=$(tr -d '\0' <"$out")
  ERR=$(tr -d '\0' <"$err")
  rm -f "$out" "$err"
}

_show_run() {
  echo "exit code $CODE of: $*"
  echo "--- its output"
  tail -n 40 <<<"$OUT"
  echo "--- its errors"
  tail -n 40 <<<"$ERR"
}

# expect_exit CODE COMMAND…: runs it; the test fails unless it ends with CODE (`any` failure: !0).
expect_exit() {
  local wanted=$1
  shift
  run "$@"
  if [[ $wanted == '!0' ]]; then
    ((CODE != 0)) && return
  else
    ((CODE == wanted)) && return
  fi
  _show_run "$@"
  fail "exit code $CODE, expected $wanted"
}

# expect_contains TEXT PART
expect_contains() { [[ $1 == *"$2"* ]] || fail "'$2' is not in: $1"; }
# expect_lacks TEXT PART
expect_lacks() { [[ $1 != *"$2"* ]] || fail "'$2' is in: $1"; }
# expect_matches TEXT REGULAR_EXPRESSION
expect_matches() { [[ $1 =~ $2 ]] || fail "'$2' does not match: $1"; }
# expect_equal ACTUAL EXPECTED
expect_equal() { [[ $1 == "$2" ]] || fail "'$1', expected '$2'"; }
expect_file() { [[ -e $1 ]] || fail "no file $1"; }
expect_no_file() { [[ ! -e $1 && ! -L $1 ]] || fail "there is a file $1"; }

# wait_until SECONDS COMMAND…: until COMMAND succeeds; the test fails if it does not in time.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "did not become true in time: $*"
    sleep 0.1
  done
}
