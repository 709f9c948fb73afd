# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests with a bellowsd on the Slurm cluster.
. "${ROOT:?}/tests/lib/elastic_job.sh"

# daemon LINE…: starts bellowsd as Slurm's user on ctl, with these settings.
daemon() {
  on ctl bash -c 'mkdir -p site; printf "%s\n" "$@" >site/bellowsd.conf' daemon \
    "address = ctl:7327" "user = slurm" "interval = 1" "pause = 0.2" "$@"
  on root@ctl rm -f /tmp/bellowsd.log
  trap 'daemon_log; end_daemon -KILL' EXIT  # what it said, for a test that fails
  start_daemon
}
CONFIGURATION=/home/ember/site/bellowsd.conf
start_daemon() {
  on root@ctl bash -c "chmod 755 /home/ember /home/ember/site
    runuser -u slurm -- $PROGRAMS/sbin/bellowsd --config $CONFIGURATION >>/tmp/bellowsd.log 2>&1 &
"
  wait_until 10 _daemon_answers
}
daemon_log() { on root@ctl cat /tmp/bellowsd.log; }
jobs_known() { on ctl env BELLOWSD_CONFIG=$CONFIGURATION bellows jobs; }
_daemon_answers() { jobs_known >/dev/null 2>&1; }
end_daemon() { on root@ctl pkill "$1" -x bellowsd || true; }

# elastic NODE [SBATCH_ARGUMENT…]: an elastic job that the daemon looks after, on one node first; its id is JOB.
elastic() {
  begin BELLOWSD_CONFIG=$CONFIGURATION -- -N1 -w "$1" --elastic=1-4 --elastic-mode=turbo "${@:2}" -- --elastic auto
}
_has() { [[ $(nodes_of "$1" | wc -w) == "$2" ]]; }
# await JOB NODES: until the job has so many nodes, with a rank on each.
await() {
  wait_until 40 _has "$1" "$2"
  wait_until 40 _ranks_are "$1" "$2"
}
_ranks_are() {
  local host
  host=$(on ctl squeue -h -j "$1" -o %B)
  [[ $(on "$host" bellows --job "$1" status 2>/dev/null) =~ :\ steady,\ epoch\ [0-9]+,\ $2\ rank ]]
}
_knows() { [[ $(jobs_known) == *"$1 "* ]]; }
_log_has() { [[ $(daemon_log) == *"$1"* ]]; }
