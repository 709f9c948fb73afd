# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The options that spank_bellows.so adds to sbatch, salloc and srun, in a real Slurm.

# plugstack required|optional [ARGUMENT…]: the plugin's line, until the test is over.
plugstack() {
  local file=$ROOT/build/clusters/$CLUSTER/etc/plugstack.conf
  if [[ ! -v PLUGSTACK ]]; then
    PLUGSTACK=$(cat "$file")
    # A test that is killed on the way leaves a cluster that has to be made anew.
    spoil
    # shellcheck disable=SC2064 # as it is now
    trap "echo '$PLUGSTACK' >'$file'; rm -f '$CLUSTER_DAMAGED'" EXIT
  fi
  echo "$1 /bellows${BUILD#"$ROOT"}/lib/spank_bellows.so ${*:2}" >"$file"
}

# home_file NAME: the text on stdin, as an executable file in the jobs' owner's home.
home_file() {
  local file=$ROOT/build/clusters/$CLUSTER/home/$1
  cat >"$file"
  chmod 755 "$file"
}

# batch SBATCH_ARGUMENT…: submits, waits, and prints what the job printed.
# shellcheck disable=SC2016 # for the shell on ctl
batch() {
  on ctl bash -c 'rm -f batch.out; job=$(sbatch --parsable -o batch.out "$@") || exit
    for ((i = 0; i < 300; i++)); do [[ $(squeue -h -j "$job") ]] || break; sleep 0.1; done; cat batch.out' batch "$@"
}

SHOW_ELASTIC="/usr/bin/env | grep -E '^BELLOWS|NO_KILL' | sort"

test_lines_in_the_script_reach_the_job_and_its_steps() {
  home_file job.sh <<END
#!/bin/bash
#SBATCH -N2 --elastic=1-4:3 --elastic-policy-args=gain=0.2,interval=10
#SBATCH --elastic-mode=turbo --elastic-grace=30
#SBATCH --elastic-het=partition=spot,constraint=fast,max=2;partition=main
echo script; $SHOW_ELASTIC
echo step; srun -N1 -n1 /usr/bin/env | grep ^BELLOWS | sort
echo bare; srun -N1 -n1 --export=NONE /usr/bin/env | grep ^BELLOWS | sort
END
  local part values
  values="BELLOWS_ELASTIC=1-4:3
BELLOWS_ELASTIC_GRACE=30
BELLOWS_ELASTIC_HET=partition=spot,features=fast,max=2;partition=main
BELLOWS_ELASTIC_MODE=turbo
BELLOWS_ELASTIC_POLICY_ARGS=gain=0.2,interval=10"
  for part in ALL NIL; do # NIL: what NONE does, but for the user's login environment
    expect_exit 0 batch --export=$part job.sh
    expect_equal "$OUT" "script
$values
step
$values
bare
$values"
  done
  # The command line has the last word.
  expect_exit 0 batch --elastic=2 --elastic-mode manual job.sh
  expect_contains "$OUT" $'script\nBELLOWS_ELASTIC=2-2\n'
  expect_contains "$OUT" $'bare\nBELLOWS_ELASTIC=2-2\n'
  expect_contains "$OUT" "BELLOWS_ELASTIC_MODE=manual"
}

test_a_job_that_is_not_elastic_notices_nothing() {
  expect_exit 0 batch -N1 --wrap "$SHOW_ELASTIC; env | grep -i spank; srun /usr/bin/env | grep -iE '^BELLOWS|spank'; true"
  expect_equal "$OUT" ""
}

jobs_so_far() { on ctl scontrol show jobs -o | grep -c '^JobId=' || true; }

# shellcheck disable=SC2016 # for the shell on ctl
test_wrong_options_are_refused_and_there_is_no_job() {
  local before line
  before=$(jobs_so_far)
  for line in required optional; do
    plugstack "$line" max_nodes=8 partition_max=spot:2
    expect_exit 0 on ctl bash -c 'for options in "--elastic=8-1" "--elastic=0" "--elastic=" "--elastic=1-x" \
      "--elastic=1-4 --elastic-mode=fast" "--elastic=1-4 --elastic-grace=-1" "--elastic=1-4 --elastic-policy-args=x" \
      "--elastic=1-4 --elastic-het=nodes=3" "--elastic-mode=turbo" "--elastic-grace=3" "--elastic=2-4 -N1" \
      "-N 1-5 --elastic=1-4" "--elastic=1-9" "-p spot --elastic=1-3" "--elastic-resize=3" "--elastic-wait" \
      "-N1 : -N1 --elastic=1-2"; do
        sbatch $options --wrap true && echo "sbatch accepted $options"
      done; printf "#!/bin/bash\n#SBATCH --elastic=4-1\n" >wrong.sh; sbatch wrong.sh && echo "a line was accepted"
      for options in "--elastic=8-1" "--elastic-mode=turbo" "--elastic-resize=3" "--elastic-wait=3"; do
        salloc $options true && echo "salloc accepted $options"
        srun $options true && echo "srun accepted $options"
      done; exit 0'
    expect_equal "$OUT" ""
    expect_contains "$ERR" "sbatch: error: bellows: --elastic=8-1: MIN is more than MAX; use --elastic=MIN-MAX[:STEP] (1 <= MIN <= MAX: 1-8, 2-16:2 or just 4)"
    expect_contains "$ERR" "salloc: error: bellows: --elastic=8-1: MIN is more than MAX"
    expect_contains "$ERR" "srun: error: bellows: --elastic=8-1: MIN is more than MAX"
    expect_contains "$ERR" "--elastic-mode needs --elastic=MIN-MAX[:STEP]"
    expect_contains "$ERR" "--elastic=2-4: --nodes=1 is not within MIN and MAX"
    expect_contains "$ERR" "--elastic=1-9: MAX is above the limit of this cluster, 8 nodes"
    expect_contains "$ERR" "--elastic=1-3: MAX is above the limit of partition spot, 2 nodes"
    expect_contains "$ERR" "srun: error: bellows: --elastic-resize=3: which job?"
  done
  expect_equal "$(jobs_so_far)" "$before"
}

# shellcheck disable=SC2016 # for the shell on ctl
test_salloc_and_srun_make_elastic_jobs() {
  expect_exit 0 on ctl salloc -Q -N1 --elastic=1-4 bash -c 'echo "$BELLOWS_ELASTIC $BELLOWS_ELASTIC_MODE"; srun --export=NONE /usr/bin/env | grep ^BELLOWS_ELASTIC='
  expect_equal "$OUT" "1-4 manual
BELLOWS_ELASTIC=1-4"
  expect_exit 0 on ctl srun -N1 --elastic=1-4 bash -c "$SHOW_ELASTIC"
  expect_equal "$OUT" "BELLOWS_ELASTIC=1-4
BELLOWS_ELASTIC_MODE=manual"
}

test_a_job_from_within_an_elastic_job_is_not_elastic() {
  expect_exit 0 on ctl salloc -Q -N1 --elastic=1-4 bash -c 'sbatch -Q -W -o nested.out --wrap "/usr/bin/env | grep -c BELLOWS"; cat nested.out'
  expect_equal "$OUT" 0
  expect_exit '!0' on ctl salloc -Q -N1 --elastic=1-4 srun --elastic=1-2 true
  expect_contains "$ERR" "--elastic describes a new job"
}

test_an_elastic_job_outlives_lost_nodes() {
  local command
  printf '#!/bin/bash\n#SBATCH --elastic=1-2\n' | home_file lines.sh
  for command in "sbatch -v --test-only --elastic=1-2 --wrap true" "sbatch -v --test-only -J name --elastic 1-2 lines.sh" \
    "sbatch -v --test-only lines.sh" "salloc -v --elastic=1-2 true" "srun -v --elastic=1-2 true"; do
    # shellcheck disable=SC2086 # words
    expect_exit 0 on ctl $command
    expect_matches "$ERR" 'no-kill +: set'
  done
  expect_exit 0 on ctl sbatch -v --test-only --wrap "true --elastic=1-2"
  expect_lacks "$ERR" no-kill
  expect_exit 0 on ctl sbatch --test-only --no-kill=off --elastic=1-2 --wrap true
  expect_contains "$ERR" "bellows: without --no-kill this job ends when it loses a node"
}

test_a_partitions_limit_is_kept_when_the_job_starts() {
  plugstack required partition_max=main:3 mode=economic grace=20
  # Neither partition nor nodes are on the command line.
  printf '#!/bin/bash\n#SBATCH --elastic=2-4 -N1 -p spot\n%s\n' "$SHOW_ELASTIC" | home_file lines.sh
  expect_exit 0 batch lines.sh
  expect_contains "$OUT" "bellows: --elastic=2-4: the job begins with 1 nodes, which is not within MIN and MAX"
  expect_contains "$OUT" $'BELLOWS_ELASTIC=2-4\nBELLOWS_ELASTIC_GRACE=20\nBELLOWS_ELASTIC_MODE=economic'
  sed -i 's/ -p spot//' "$ROOT/build/clusters/$CLUSTER/home/lines.sh"
  expect_exit 0 batch lines.sh
  expect_contains "$OUT" "bellows: --elastic=2-4: partition main allows elastic jobs 3 nodes; now 2-3"
  expect_contains "$OUT" $'\nBELLOWS_ELASTIC=2-3\n'
}

test_a_resize_request_is_passed_on_and_so_is_its_end() {
  local job line
  home_file bellows-stand-in <<'END'
#!/bin/bash
echo "asked: $*"
[[ $* != *=-9* ]] || { echo "no such nodes" >&2; exit 3; }
END
  job=$(submit -N1 --elastic=1-4 --wrap 'sleep 60')
  wait_job 20 "$job" RUNNING
  for line in required optional; do
    plugstack "$line" bellows=/home/ember/bellows-stand-in
    expect_exit 0 on ctl srun --jobid="$job" --elastic-resize=+1 --elastic-wait=5 echo step
    expect_equal "$OUT" "asked: resize --job=$job --nodes=+1 --wait=5
step"
    expect_exit 3 on ctl srun --jobid "$job" --elastic-resize -9 --elastic-wait echo step
    expect_equal "$OUT" "asked: resize --job=$job --nodes=-9 --wait=60"
    expect_contains "$ERR" "no such nodes"
    expect_contains "$ERR" "--elastic-resize=-9 was not granted (exit code 3); the step does not start"
  done
  expect_equal "$(on ctl squeue -h -s -j "$job" -o %i)" "$job.batch"
  expect_exit 0 on ctl env SLURM_JOB_ID="$job" srun --elastic-resize='n[1-2],n4' true
  expect_equal "$OUT" "asked: resize --job=$job --nodes=n[1-2],n4 --wait=0"
  plugstack optional bellows=/no/such/bellows
  expect_exit 1 on ctl srun --jobid="$job" --elastic-resize=2 echo step
  expect_equal "$OUT" ""
  expect_contains "$ERR" "cannot start /no/such/bellows: No such file or directory (plugstack.conf: bellows=PATH"
}

# shellcheck disable=SC2016 # for the shell on ctl
test_components_of_a_heterogeneous_job_are_named() {
  plugstack required bellows=/bin/echo
  expect_exit 0 on ctl salloc -Q -N1 --elastic=2-4 : -N1 bash -c 'echo "$SLURM_JOB_ID_HET_GROUP_1"
    srun --het-group=1 --elastic-resize=2 true; srun --het-group=0,1 --elastic-resize=2 true || echo refused'
  expect_equal "${OUT#*$'\n'}" "resize --job=${OUT%%$'\n'*} --nodes=2 --wait=0
refused"
  expect_contains "$ERR" "name one component of the heterogeneous job"
}
