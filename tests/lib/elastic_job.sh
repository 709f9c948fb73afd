# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of an elastic job on the Slurm cluster. The job goes on until its test ends it, however
# fast or slow the machine is, and has then to show the state of so many undisturbed steps.
# shellcheck disable=SC2016 # scripts for the job, not for this shell
: "${ROOT:?} ${BUILD:?}"

PROGRAMS=/bellows/$(realpath --relative-to="$ROOT" "$BUILD")
# What the ranks of a job run: it ends after the step in which the file `end` is found.
STEPS="elastic_steps --steps 100000000 --bytes 4096 --work 250 --end end"
STANDS="epoch 1: " # what it prints in its first world

# begin VARIABLE=VALUE… -- SBATCH_ARGUMENTS… -- BELLOWS_RUN_ARGUMENTS…: submits a job; its first world
# stands. JOB is its id, HOST the node of its script. RECORD=1 has it write job-ID.steps; with SHARED=1
# it has what it asks for of its nodes, and not all of them.
JOB='' HOST=''
begin() {
  local variables=() arguments=() record=
  [[ ${SHARED:-} ]] || arguments=(--exclusive)
  while [[ $1 != -- ]]; do
    variables+=("$1")
    shift
  done
  shift
  while [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  shift
  [[ ! ${RECORD:-} ]] || record='--record job-$SLURM_JOB_ID.steps'
  on ctl rm -f end
  JOB=$(on ctl env BELLOWS_BROKER_POLL=0.5 BELLOWS_BRICK_POLL=2 "${variables[@]}" \
    sbatch --parsable --no-kill --output='job-%j.out' "${arguments[@]}" --wrap \
    "export PATH=$PROGRAMS/bin:$PROGRAMS/tests:\$PATH
    bellows-run $* $STEPS $record
    code=\$?
    while [ \$code -gt 128 ]; do
      bellows-run --reattach \$SLURM_JOB_ID
      again=\$?
      [ \$again -ne 3 ] || break
      code=\$again
    done
    exit \$code")
  began
}
# began: waits for the first world of JOB.
began() {
  wait_until 40 _output_has "$STANDS"
  HOST=$(on ctl squeue -h -j "$JOB" -o %B | head -n 1)
}
output() { on ctl cat "job-${1:-$JOB}.out"; }
_output_has() { [[ $(output) == *"$1"* ]]; }
# control ARGUMENTS…: bellows, where the job's bellows-run is.
control() { on "$HOST" timeout 90 bellows --job "$JOB" "$@"; }
nodes_of() { on ctl scontrol show hostnames "$(on ctl squeue -h -j "$1" -o %N)" | xargs; }
_has_nodes() { [[ $(nodes_of "$JOB") == "$*" ]]; }
_is_idle() { [[ $(on ctl sinfo -h -p main -n "$1" -o %T) == idle ]]; }
_size_is() { [[ $(control status) =~ :\ steady,\ epoch\ [0-9]+,\ $1\ rank ]]; }
# await_size RANKS: until a world of so many stands.
await_size() { wait_until 40 _size_is "$1"; }
_is_over() { [[ -z $(on ctl squeue -h -j "$1") ]]; }
# finish: JOB ends with 0, and with the state of a run without any change.
finish() { finish_jobs "$JOB"; }
# finish_jobs JOB…: likewise.
finish_jobs() {
  local job last
  on ctl touch end
  for job; do
    wait_until 90 _is_over "$job"
    expect_equal "$(job_state "$job" | sort -u)" COMPLETED
    last=$(output "$job" | grep '^final step') || fail "job $job has no result"
    expect_equal "$last" "$(on ctl "$PROGRAMS/bin/bellows-run" -n 1 "$PROGRAMS/tests/elastic_steps" \
      --bytes 4096 --steps "$(cut -d ' ' -f 3 <<<"$last")" | tail -n 1)"
  done
}
# bricks: ids of the job's companions that have not ended.
bricks() { on ctl squeue -h -o '%i %k' | awk -v base="$JOB" '/bellows (brick|expansion) of/ && $NF == base { print $1 }' | xargs; }
_no_bricks() { [[ -z $(bricks) ]]; }
_has_bricks() { [[ -n $(bricks) ]]; }
# finish_all: the job ends as `finish` says, and its companions with it.
finish_all() {
  finish
  wait_until 10 _no_bricks
}
# What tests/run shows of a test that has failed.
evidence() {
  echo "--- output of job $JOB" && output | tail -n 60
  echo "--- the queue" && on ctl squeue -o '%i %T %R %N %k'
  echo "--- the controller's log" && on root@ctl tail -n 60 /var/log/slurm/slurmctld.log
}
