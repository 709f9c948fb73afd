# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scenarios of an elastic job of local processes. The job goes on until its test ends it, however
# fast or slow the machine is, and has then to show the state of so many undisturbed steps.
. "${ROOT:?}/tests/lib/launcher.sh"

export BELLOWS_CONTROL_DIR=$PWD/control
# ctl ARGUMENTS…: bellows, with a limit of its own.
ctl() { timeout -k 1 "${LIMIT:-40}" bellows "$@"; }
_steady() { [[ $(ctl status 2>/dev/null) == *": steady, epoch"* ]]; }
_size_is() { [[ $(ctl status) == *": steady, epoch "*", $1 rank"* ]]; }
# rank_pid RANK: its process, as the job says.
rank_pid() { ctl status --json | python3 -c "
import json, sys
print(next(r['pid'] for r in json.load(sys.stdin)['ranks'] if r['rank'] == $1))"; }
# agent_of RANK: the process of the agent that has started it.
agent_of() { ps -o ppid= -p "$(rank_pid "$1")" | tr -d ' '; }

STEPS=(--bytes 100000)
# begin MIN-MAX ARGUMENTS…: elastic_steps in the background, its first world standing.
begin() {
  rm -f end
  LIMIT=${JOB_LIMIT:-100} start --elastic "$@" \
    elastic_steps "${STEPS[@]}" --steps 100000000 --work "${WORK:-5}" --end "$PWD/end"
  wait_until 30 _steady
}
# undisturbed STEPS: the state after them, as rank 0 tells it.
undisturbed() { launch -n 2 elastic_steps "${STEPS[@]}" --steps "$1" | tail -n 1; }
# finish: the job ends in order, with the state of an undisturbed run of as many steps.
finish() {
  touch end
  expect_end 0
  local last=${OUT##*$'\n'}
  expect_matches "$last" '^final step [1-9][0-9]* checksum [0-9a-f]{16}$'
  expect_equal "$last" "$(undisturbed "$(cut -d ' ' -f 3 <<<"$last")")"
}
# What tests/run shows of a test that has failed.
evidence() {
  echo "--- the job's output" && tail -n 20 out
  echo "--- its errors" && tail -n 40 err
  echo "--- its status" && timeout 5 bellows status
}
