# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellows-run inside a Slurm job.
# shellcheck disable=SC2016 # scripts for the job, not for this shell
export TIME_LIMIT=180

# batch [SBATCH_ARGUMENTS…] -- SCRIPT: submits it with bellows-run in PATH; prints the job's id. The
# job's output is job-ID.out in ember's home.
batch() {
  local arguments=()
  while [[ $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  submit --no-kill --output='job-%j.out' "${arguments[@]}" --wrap "export PATH=/bellows/$(realpath --relative-to="$ROOT" "$BUILD")/bin:\$PATH
$2"
}
# output ID
output() { on ctl cat "job-$1.out"; }
_output_has() { [[ $(output "$1") == *"$2"* ]]; }
# await_output ID TEXT
await_output() { wait_until 40 _output_has "$1" "$2"; }

test_ranks_run_on_the_nodes_of_the_allocation_in_order() {
  local job
  job=$(batch -N4 -- 'bellows-run --tag-output sh -c "hostname; echo \$SLURM_NODEID of \$SLURM_NNODES"')
  wait_job 60 "$job"
  expect_equal "$(job_state "$job")" COMPLETED
  expect_equal "$(output "$job" | sort | xargs)" \
    "[0] 0 of 4 [0] n1 [1] 1 of 4 [1] n2 [2] 2 of 4 [2] n3 [3] 3 of 4 [3] n4"
}

test_slurms_number_of_tasks_is_the_number_of_ranks() {
  local job
  job=$(batch -N2 --ntasks-per-node=2 -- 'bellows-run sh -c "echo \$OMPI_COMM_WORLD_RANK \$SLURMD_NODENAME"')
  wait_job 60 "$job"
  expect_equal "$(output "$job" | sort | xargs)" "0 n1 1 n1 2 n2 3 n2"
}

test_the_jobs_exit_code_is_the_programs() {
  local job
  job=$(batch -N2 -- 'bellows-run sh -c "exit \$((OMPI_COMM_WORLD_RANK * 7))"')
  wait_job 60 "$job"
  expect_contains "$(on ctl scontrol show job "$job")" "ExitCode=7:0"
  expect_matches "$(output "$job" | tail -n 1)" "^bellows-run: rank 1 on n2 .*ended with exit code 7"
}

test_defaults_of_the_site_do_not_disturb() {
  local job
  job=$(batch -N2 -- 'export SLURM_KILL_BAD_EXIT=1 SLURM_EXPORT_ENV=NONE SLURM_NTASKS_PER_NODE=3 \
    SLURM_CPU_BIND=rank SLURM_WAIT=1 SLURM_LABELIO=1 SLURM_DISTRIBUTION=cyclic SLURM_MPI_TYPE=pmix SLURM_EXACT=1
    bellows-run -n 4 sh -c "echo \$OMPI_COMM_WORLD_RANK \$SLURMD_NODENAME"')
  wait_job 60 "$job"
  expect_equal "$(job_state "$job")" COMPLETED
  expect_equal "$(output "$job" | sort | xargs)" "0 n1 1 n1 2 n2 3 n2"
}

test_a_time_limit_or_scancel_reaches_the_ranks_as_a_signal() {
  local job
  job=$(batch -N2 -- 'bellows-run sh -c "trap \"echo got TERM; exit 3\" TERM; echo up; sleep 60 & wait"')
  await_output "$job" up
  on ctl scancel --signal=TERM "$job"
  wait_job 60 "$job"
  expect_contains "$(on ctl scontrol show job "$job")" "ExitCode=3:0"
  expect_contains "$(output "$job")" "got TERM"
}

test_a_node_without_power_ends_the_job_with_its_name() {
  local job
  job=$(batch -N4 -- 'bellows-run sh -c "echo up; sleep 100"')
  await_output "$job" up
  sleep 1
  damage kill n3
  wait_until 30 _output_has "$job" "rank 2 on n3 was lost with its node"
  wait_job 60 "$job"
}

test_a_node_cut_off_ends_the_job_and_its_own_ranks() {
  local job
  job=$(batch -N4 -- 'bellows-run --silence-timeout 3 sh -c "echo up; exec sleep 100"')
  await_output "$job" up
  sleep 1
  damage cut n3
  wait_until 30 _output_has "$job" "rank 2 on n3 was lost with its node: no sign of life for 3 s"
  # The container's own namespace can still be entered from here.
  wait_until 20 on n3 bash -c '! pgrep -x sleep'
  damage heal n3
}

test_an_agent_that_is_killed_takes_its_ranks_along() {
  local job
  job=$(batch -N2 -- 'bellows-run sh -c "echo up; exec sleep 77"')
  await_output "$job" up
  sleep 1
  on root@n2 pkill -KILL -x bellows-agent
  wait_job 60 "$job"
  expect_matches "$(output "$job")" "rank 1 on n2 was lost with its node"
  expect_exit 1 on n2 pgrep -x sleep
}

test_an_agent_that_cannot_start_is_named() {
  local job
  job=$(batch -N2 -- 'bellows-run --agent /nowhere/bellows-agent true; echo "code $?"')
  wait_job 60 "$job"
  expect_matches "$(output "$job")" "the agent on node n[12] did not start: srun ended with exit code"
  expect_contains "$(output "$job")" "code 1"
}

test_nothing_is_left_on_the_nodes() {
  local job node
  job=$(batch -N4 -- 'bellows-run true')  # removes what killed agents have left
  wait_job 60 "$job"
  job=$(batch -N4 -- 'bellows-run sh -c "echo up; sleep 60"')
  await_output "$job" up
  on ctl scancel "$job"
  wait_job 60 "$job"
  for node in n1 n2 n3 n4; do
    wait_until 20 on "$node" bash -c '! pgrep bellows-agent && ! ls -d /tmp/bellows-*-[0-9]* /dev/shm/bellows-*'
  done
}
