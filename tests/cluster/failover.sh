# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A cluster with a second slurmctld, which takes over when the first is gone or when it is told to.
export TIME_LIMIT=240

. "$ROOT/tests/lib/elastic_job.sh"

# with_backup: the cluster has a backup controller on n4; what the tests ask of Slurm, they ask on n1.
with_backup() {
  configure -e 's/^SlurmctldHost=ctl$/&\nSlurmctldHost=n4/' -e 's/^SlurmctldTimeout=.*/SlurmctldTimeout=5/' \
    -e 's,^StateSaveLocation=.*,StateSaveLocation=/var/log/slurm/state,'
  on root@n4 slurmctld
  # shellcheck disable=SC2034 # of cluster.sh
  CTL=n1
  wait_until 20 _controls backup UP
}
# _controls primary|backup UP|DOWN: what `scontrol ping` says of it.
_controls() { [[ $(on ctl scontrol ping) == *"($1) at "*" is $2"* ]]; }
_answers() { on ctl squeue; }

# all_saved: what slurmctld has done so far is in its files. (It writes them some seconds later, and a
# job that it does not know to run it would start again.)
_is_saved() { on root@n1 grep -q "$1" /var/log/slurm/state/job_state; }
all_saved() {
  local marker=marker-$RANDOM id
  id=$(submit --hold --job-name="$marker" --output=/dev/null --wrap true)
  wait_until 20 _is_saved "$marker"
  on ctl scancel "$id"
}

kill_primary() {
  all_saved
  damage kill ctl
  wait_until 20 _controls primary DOWN
}
primary_returns() {
  damage restart ctl
  wait_until 20 _controls primary UP
  wait_until 20 _answers
}

test_a_job_grows_and_shrinks_as_the_controller_fails_over() {
  local rigid
  with_backup
  begin BELLOWS_ELASTIC=1-3 -- -N2 -w n1,n2 --
  rigid=$(submit --exclusive -N1 -w n3 --output=/dev/null --wrap "sleep 300")
  wait_job 20 "$rigid" RUNNING
  # Nodes are waited for.
  expect_exit 0 control resize --nodes=+n3 --wait=0
  wait_until 10 _has_bricks
  kill_primary
  wait_until 60 on ctl scancel "$rigid"
  await_size 3
  expect_equal "$(nodes_of "$JOB")" "n1 n2 n3"
  primary_returns
  # Ranks leave, and nobody is there to take the node.
  all_saved
  damage kill ctl
  expect_exit 0 control resize --nodes=-n3 --wait=60
  await_size 2
  wait_until 60 _is_idle n3
  primary_returns
  # In order.
  on root@n4 scontrol takeover
  expect_exit 0 on n2 bellows --job "$JOB" resize --nodes=+n3 --wait=60
  await_size 3
  expect_lacks "$(output)" "killed by SIG"
  finish_all
}
