# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests that drive a real Slurm in containers. CLUSTER names the cluster that tests/run keeps up
# for all of them, with nodes n1 to n4; it is made anew after a test that damaged it.
: "${ROOT:?} ${CLUSTER:?} ${CLUSTER_DAMAGED:?}"

# on [NODE|root@NODE] COMMAND…: as the owner of jobs, or as root, on a node (or ctl, in whose place
# another one can be named by CTL).
on() {
  local node=${1#root@} root=()
  [[ $node != ctl ]] || node=${CTL:-ctl}
  [[ $1 != root@* ]] || root=(--root)
  shift
  "$ROOT/scripts/cluster" exec --name "$CLUSTER" --on "$node" "${root[@]}" "$@" </dev/null
}

# spoil: has the cluster made anew after this test.
spoil() { touch "$CLUSTER_DAMAGED"; }

# damage kill|cut|heal|restart|add NODE: does it, and has the cluster made anew after the test.
damage() {
  spoil
  "$ROOT/scripts/cluster" "$1" --name "$CLUSTER" "$2"
}

# configure SED_ARGUMENT…: changes slurm.conf, and boots the controller and all nodes with it.
configure() {
  local folder=$ROOT/build/clusters/$CLUSTER node
  spoil
  sed "$@" "$folder/etc/slurm.conf" >slurm.conf
  cat slurm.conf >"$folder/etc/slurm.conf" # not replaced: it may be mounted
  for node in ctl n1 n2 n3 n4; do damage restart "$node"; done
  forget_jobs
}
# forget_jobs: of the tests before. A controller that was ended did not save what it had done last.
forget_jobs() { wait_until 60 _no_jobs; }
_no_jobs() {
  local jobs
  on ctl scancel --user=ember && jobs=$(on ctl squeue -h) && [[ -z $jobs ]]
}

# submit SBATCH_ARGUMENTS…: prints the id of the new job.
submit() { on ctl sbatch --parsable "$@"; }

# job_state ID: as Slurm calls it.
job_state() { on ctl scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }

_job_is() { [[ $(job_state "$1") == "$2" ]]; }
_job_ended() { [[ ! $(job_state "$1") =~ ^(PENDING|CONFIGURING|RUNNING|COMPLETING|SUSPENDED)$ ]]; }
# wait_job SECONDS ID [STATE]: until the job is in that state (default: until it has ended).
wait_job() {
  if [[ ${3:-} ]]; then
    wait_until "$1" _job_is "$2" "$3"
  else
    wait_until "$1" _job_ended "$2"
  fi
}
