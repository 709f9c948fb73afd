# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-run dies inside a Slurm job, and another takes over.
# shellcheck disable=SC2016 # scripts for the job, not for this shell
export TIME_LIMIT=180

# batch [SBATCH_ARGUMENTS…] -- SCRIPT: submits it with the programs in PATH; prints the job's id.
batch() {
  local arguments=() programs
  while [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  programs=/bellows/$(realpath --relative-to="$ROOT" "$BUILD")
  submit --no-kill --output='job-%j.out' "${arguments[@]}" --wrap "export PATH=$programs/bin:$programs/tests:\$PATH
$2"
}
output() { on ctl cat "job-$1.out"; }
_output_has() { [[ $(output "$1") == *"$2"* ]]; }

# The loop that bellows-run(1) shows.
LOOP='code=$?
while [ $code -gt 128 ]; do
  bellows-run --reattach "$SLURM_JOB_ID"
  again=$?
  [ $again -ne 3 ] || break
  code=$again
done
echo "code $code"'

test_a_job_script_takes_its_job_over() {
  local job
  job=$(batch -N3 -- "bellows-run --elastic 1-6 elastic_steps --steps 1500 --bytes 4096 --work 5
$LOOP")
  wait_until 40 _output_has "$job" "epoch 1: 3 ranks"
  sleep 1
  on root@n1 pkill -KILL -x bellows-run
  wait_until 40 _output_has "$job" "took over job $job."
  wait_job 90 "$job"
  expect_contains "$(output "$job")" "world 1, 3 ranks on 3 nodes"
  expect_contains "$(output "$job")" "final step 1500"
  expect_contains "$(output "$job")" "code 0"
  expect_equal "$(on n1 bash -c 'ls /tmp/bellows-ctl-$(id -u)')" ""
}

test_a_node_that_dies_together_with_the_launcher_is_left_behind() {
  local job
  job=$(batch -N3 -- "bellows-run --elastic 1-6 elastic_steps --steps 2500 --bytes 4096 --work 5
$LOOP")
  wait_until 40 _output_has "$job" "epoch 1: 3 ranks"
  sleep 1
  on root@n1 pkill -KILL -x bellows-run
  on root@n3 pkill -KILL -x bellows-agent
  wait_job 120 "$job"
  expect_contains "$(output "$job")" "2 ranks on 2 nodes"
  expect_contains "$(output "$job")" "final step 2500"
  expect_contains "$(output "$job")" "code 0"
}
