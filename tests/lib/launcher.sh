# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scenarios of bellows-run. No launcher is left running: each has a limit of its own.
: "${ROOT:?}"

# The nodes and ranks here outnumber the cores.
export OMP_NUM_THREADS=1
# Not a job of Slurm's, wherever the tests run.
unset "${!SLURM_@}"

# launch ARGUMENTS…: bellows-run in the foreground. LIMIT=SECONDS if it may take more than 40.
launch() { timeout -k 1 "${LIMIT:-40}" bellows-run "$@"; }

STARTED='' LAUNCHER=''
# start ARGUMENTS…: bellows-run in the background; LAUNCHER is its process id, its output goes to
# the files out and err, its input comes from /dev/null or the file given as INPUT.
start() {
  rm -f launcher.pid
  # shellcheck disable=SC2016 # for the new shell
  timeout -k 1 "${LIMIT:-40}" bash -c 'echo $$ >launcher.new; mv launcher.new launcher.pid; exec bellows-run "$@"' \
    bellows-run "$@" >out 2>err <"${INPUT:-/dev/null}" &
  STARTED=$!
  wait_until 10 test -e launcher.pid
  LAUNCHER=$(<launcher.pid)
}
# started TEXT [COUNT]: waits until the ranks have written TEXT COUNT times.
started() { wait_until 30 _written "$1" "${2:-1}"; }
_written() { (($(grep -c -- "$1" out) >= $2)); }
# expect_end CODE: waits for what `start` began; as expect_exit.
# shellcheck disable=SC2034 # OUT is the tests'
expect_end() {
  CODE=0
  wait "$STARTED" || CODE=$?
  OUT=$(<out) ERR=$(<err)
  [[ $1 == '!0' && $CODE != 0 ]] || ((CODE == $1)) || {
    _show_run bellows-run
    fail "exit code $CODE, expected $1"
  }
}

# agents: the process ids of the launcher's agents; ranks: those of their ranks.
agents() { pgrep -P "$LAUNCHER" -x bellows-agent; }
ranks() { agents | while read -r agent; do pgrep -P "$agent"; done; }
# last_line: what bellows-run said last.
last_line() { tail -n 1 <<<"$ERR"; }
# expect_clean: the launcher's folders are gone, in /tmp (TMPDIR) and in memory.
expect_clean() {
  local left
  left=$(compgen -G "${TMPDIR:-/tmp}/bellows-*-local-*"; compgen -G "/dev/shm/bellows-$(id -u)-local-${LAUNCHER:-*}-*") || true
  [[ -z $left ]] || fail "left behind: $left"
}
_is_clean() { (expect_clean); }
# _are_replaced PID…: their processes have replaced themselves, and were given their state.
_are_replaced() {
  local pid
  for pid; do grep -qz '^BELLOWS_STATE_FD=' "/proc/$pid/environ" || return; done
}
_gone() { [[ ! -e /proc/$1 ]] || grep -qs '^State:.Z' "/proc/$1/status"; }
# expect_gone PID…: within some seconds.
expect_gone() {
  local pid
  for pid; do wait_until 15 _gone "$pid"; done
}
# listening_port: where the launcher listens.
listening_port() { ss -Hltnp | sed -nE "s/.*:([0-9]+) .*pid=$LAUNCHER,.*/\\1/p"; }
