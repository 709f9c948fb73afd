# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Elastic jobs on a real Slurm: ranks, agents and nodes die, are cut off, come back, are added and
# given back, and the job ends as if nothing had happened.
export TIME_LIMIT=180

. "$ROOT/tests/lib/elastic_job.sh"
RECORD=1

ranks_on() { control status | awk -v node="$1" '$3 == node' | wc -l; }
# expect_nothing_on NODE: neither processes nor folders of ours, in some seconds.
expect_nothing_on() {
  wait_until 20 on "$1" bash -c \
    '! pgrep "bellows-agent|elastic_steps" && ! compgen -G "/tmp/bellows-[0-9]*" && ! compgen -G "/dev/shm/bellows-*"'
}

# expect_no_late_word: once a step is committed in a world, nobody writes from an earlier one.
expect_no_late_word() {
  expect_equal "$(on ctl cat "job-$JOB.steps" | awk '{
    match($0, /"epoch": [0-9]+/)
    epoch = substr($0, RSTART + 9, RLENGTH - 9) + 0
    if (epoch < newest) print
    if (/"commit"/ && epoch > newest) newest = epoch
  } END { if (newest < 3) print "no record of the changes" }')" ""
}

test_ranks_and_agents_die_anywhere() {
  local node
  begin -- -N3 -- --elastic 1-8
  on root@n3 pkill -KILL -x elastic_steps
  await_size 2
  expect_exit 0 control resize +1 --on n3
  # The node of the script is like any other, but for bellows-run itself.
  on "root@$HOST" pkill -KILL -x elastic_steps
  await_size 2
  expect_exit 0 control resize +1 --on "$HOST"
  on root@n2 pkill -KILL -x bellows-agent
  await_size 2
  wait_until 10 on n2 bash -c '! pgrep -x elastic_steps'
  on "root@$HOST" pkill -KILL -x bellows-agent
  await_size 1
  expect_exit 0 control resize +3 --on "n2,$HOST"
  expect_equal "$(control status | grep -c running)" 4
  finish
  for node in n1 n2 n3; do expect_nothing_on "$node"; done
}

test_a_node_without_power_is_left_and_used_again() {
  begin -- -N4 -- --elastic 1-8 --silence-timeout 3
  damage kill n4
  await_size 3
  # Not there: it is down.
  expect_exit 0 control resize +1
  expect_exit 0 control leave --ranks 3
  damage restart n4
  expect_exit 0 control resize +1 --on n4
  expect_equal "$(ranks_on n4)" 1
  finish
  expect_nothing_on n4
}

test_a_node_that_slurm_has_given_up_comes_back_by_expansion() {
  begin -- -N2 -w n1,n2 -- --elastic 1-8 --silence-timeout 3
  damage kill n2
  await_size 1
  wait_until 80 _has_nodes n1
  damage restart n2
  expect_exit 1 control resize +1 --on n2
  expect_contains "$(output)" "a joining rank on n2: its agent did not start: srun ended with exit code"
  expand n2
  expect_exit 0 control resize +1 --on n2
  finish
}

test_a_node_cut_off_ends_its_own_ranks() {
  local node
  begin -- -N4 -- --elastic 1-8 --silence-timeout 3 --launcher-grace 12
  # Back before its agent has given up: refused, or ended by Slurm if that is faster.
  damage cut n3
  await_size 3
  damage heal n3
  wait_until 30 on n3 bash -c '! pgrep "bellows-agent|elastic_steps"'
  # Cut off for good: the agent gives up.
  damage cut n4
  await_size 2
  expect_nothing_on n4
  damage heal n4
  expect_exit 0 control resize +2 --on n3,n4
  expect_equal "$(ranks_on n3) $(ranks_on n4)" "1 1"
  finish
  expect_no_late_word
  for node in n3 n4; do expect_nothing_on "$node"; done
}

# expand NODE: the running job gets it, as docs/elastic.md says.
expand() {
  local extra
  expect_exit 0 on ctl salloc --no-shell --exclusive -N1 -w "$1" --dependency="expand:$JOB"
  extra=$(sed -n 's/.*Granted job allocation \([0-9]*\)$/\1/p' <<<"$ERR")
  expect_exit 0 on ctl scontrol update jobid="$extra" NumNodes=0
}

test_slurm_adds_a_node_and_gets_it_back() {
  begin -- -N2 -w n1,n2 -- --elastic 1-8
  expand n4
  expect_exit 0 control resize +2 --on n4
  expect_equal "$(ranks_on n4)" 2
  expect_exit 0 control leave --nodes n4
  expect_nothing_on n4
  expect_exit 0 on ctl scontrol update jobid="$JOB" NodeList=n1,n2
  wait_until 10 _is_idle n4
  # Again, and this time it is taken away with its ranks in the world.
  expand n4
  expect_exit 0 control resize +1 --on n4
  expect_exit 0 on ctl scontrol update jobid="$JOB" NodeList=n1,n2
  await_size 2
  wait_until 20 _is_idle n4
  expect_exit 1 on n4 pgrep 'bellows-agent|elastic_steps'
  finish
}

# Slurm does not requeue it by itself: with --no-kill it lets the job run on, without its script.
test_a_job_that_loses_the_node_of_its_script_can_be_requeued() {
  begin -- -N2 -w n1,n2 --requeue --open-mode=append -- --elastic 1-8 --silence-timeout 3 --launcher-grace 3
  expect_equal "$HOST" n1
  damage kill n1
  wait_until 20 on n2 bash -c '! pgrep "bellows-agent|elastic_steps"'
  wait_until 80 _has_nodes n2
  expect_equal "$(job_state "$JOB")" RUNNING
  expect_exit 0 on ctl scontrol requeue "$JOB"
  wait_job 20 "$JOB" PENDING
  # (Slurm would wait for two minutes. Within a second n2, which has just ended the job, would refuse its credential.)
  on ctl scontrol update jobid="$JOB" ReqNodeList= StartTime=now+5
  wait_job 60 "$JOB" RUNNING
  finish
}

test_the_example_outlives_its_launcher() {
  on ctl rm -f end
  JOB=$(on ctl bash -c "PATH=$PROGRAMS/bin:$PROGRAMS/tests:\$PATH sbatch --parsable --output=job-%j.out \
    /bellows/docs/examples/elastic.sbatch $STEPS")
  began
  on "root@$HOST" pkill -KILL -x bellows-run
  wait_until 40 _output_has "took over job $JOB."
  on root@n2 pkill -KILL -x elastic_steps
  await_size 1
  expect_exit 0 control resize +1
  finish
}
