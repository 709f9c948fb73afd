# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A process dies at each place of the protocol (mpi_elastic/fault_point.h) while the world changes,
# and at each place of a step. The state at the end is that of a job to which nothing happened.
export TIME_LIMIT=300
. "$ROOT/tests/lib/elastic.sh"

# play CHANGE PLACE[@EPOCH]: a job in which CHANGE is made, and somebody dies at PLACE.
play() {
  rm -f token end
  : >trace
  BELLOWS_FAULT=$2 BELLOWS_FAULT_FILE=${TOKEN-$PWD/token} BELLOWS_FAULT_TRACE=$PWD/trace LIMIT=100 \
    start --elastic 1-6 --change-timeout "${CHANGE_TIMEOUT:-8}" -n 3 --local-nodes 2 \
    elastic_steps "${STEPS[@]}" --steps 100000000 --work 3 --end "$PWD/end"
  if [[ $1 != none ]]; then
    wait_until 30 grep -q '^committed 1' trace
    wait_until 30 _steady
  fi
  case $1 in
    repair) kill -9 "$(ranks | shuf -n 1)" ;;
    join) bellows resize +1 --wait=0 >/dev/null ;;
    leave) bellows resize -1 --wait=0 >/dev/null ;;
    leave_one) bellows resize 1 --wait=0 >/dev/null ;;
    none) ;;
  esac
  wait_until 30 compgen -G "${TOKEN-token}${BELLOWS_FAULT_FILES:+hung.*}"
  finish
  expect_clean
}

test_deaths_in_a_repair() {
  local place
  for place in change left closed; do play repair $place; done
  for place in entering session communicator entered compare compared share bucket reduced committed; do
    play repair $place@2
  done
}

test_deaths_in_a_join() {
  local place
  for place in loaded@0 ready@0 change left closed; do play join $place; done
  for place in entering session communicator entered compare compared transfer share committed; do
    play join $place@2
  done
}

test_deaths_in_a_leave() {
  local place
  for place in change left closed; do play leave $place; done
  for place in entering session communicator entered compare compared share committed; do
    play leave $place@2
  done
}

# Those who leave hold the state until the one that stays has a world of its own.
test_deaths_of_the_only_one_to_stay() {
  local place
  for place in entering session communicator; do play leave_one $place@2; done
}

test_deaths_in_the_first_step() {
  local place
  for place in share bucket reduced committed compare; do play none $place; done
}

test_deaths_as_the_first_world_forms() {
  local place
  for place in loaded ready entering session communicator entered; do play none $place; done
}

# The last resort: what hangs in MPI is replaced, with the state that it had.
test_a_process_that_hangs_replaces_itself() {
  local place
  export BELLOWS_FAULT_ACTION=hang CHANGE_TIMEOUT=2
  for place in left closed entering@2 session@2 communicator@2; do
    play repair $place
    # The three of the beginning, and the one that was replaced.
    (($(grep -c '^loaded' trace) >= 4)) || fail "$place: nobody has replaced itself"
  done
}

test_all_may_hang_and_the_state_is_kept_in_memory() {
  export BELLOWS_FAULT_ACTION=hang CHANGE_TIMEOUT=2 TOKEN='' BELLOWS_FAULT_FILES=$PWD/hung.
  play repair session@2
  (($(grep -c '^loaded' trace) >= 5)) || fail "not all have replaced themselves"
}
