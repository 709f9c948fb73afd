# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What all scripts share: where things are, how they report progress, how they fail. Sourced.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck disable=SC2034 # for those who source this
BUILD=${BELLOWS_BUILD:-$ROOT/build} # what a cluster takes programs and plugin from
LOGS=$ROOT/build/log
PROGRAM=${0##*/}
STEP=0
STEPS=0

say() { printf '%s\n' "$*" >&2; }
die() {
  say "$PROGRAM: $*"
  exit 1
}

# steps N: the script has N steps.   step TITLE: begins the next one.
steps() { STEPS=$1; }
step() {
  STEP=$((STEP + 1))
  say "[$STEP/$STEPS] $*"
}

# note TEXT: what a step is doing that takes long.
note() { if ((STEPS)); then say "      $*"; else say "$PROGRAM: $*"; fi; }

# logged NAME COMMAND…: runs COMMAND with its output in build/log/NAME.log. If it fails, shows the
# end of that log and ends the script.
logged() {
  local log=$LOGS/$1.log rc=0
  shift
  mkdir -p "$LOGS"
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  ((rc)) || return 0
  tail -n 25 "$log" | sed 's/^/  | /' >&2
  die "failed with exit code $rc: ${*:0:4} … (whole output: $log)"
}

# is_number TEXT LIMIT: a whole number from 1 to LIMIT.
is_number() { [[ $1 =~ ^[1-9][0-9]{0,8}$ ]] && (($1 <= $2)); }

# True inside the image, where there is nothing to set up and commands run directly.
in_image() { [[ ${BELLOWS_IN_IMAGE:-} == 1 ]]; }
