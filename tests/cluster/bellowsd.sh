# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bellowsd on a real Slurm: elastic jobs share the cluster, the queue goes first, and nothing depends
# on the daemon's life.
# shellcheck disable=SC2016 # scripts for the job, not for this shell
export TIME_LIMIT=150

. "$ROOT/tests/lib/bellowsd.sh"

test_two_jobs_share_and_the_queue_goes_first() {
  local one two rigid
  daemon "policy = fair"
  elastic n1
  one=$JOB
  await "$one" 4
  elastic n2
  two=$JOB # n2 is one of those that the first has to give back
  await "$two" 2
  await "$one" 2
  expect_exit 0 jobs_known
  expect_matches "$OUT" "$one .* 1-4 +2 +2 "
  expect_matches "$OUT" "$two .* 1-4 +2 +2 "
  expect_contains "$OUT" "job $two can start"
  # A job that needs two nodes gets them, one of each.
  rigid=$(submit --exclusive -N2 --wrap 'sleep 4')
  wait_job 20 "$rigid" RUNNING
  await "$one" 1
  await "$two" 1
  wait_job 30 "$rigid"
  await "$one" 2
  await "$two" 2
  finish_jobs "$one" "$two"
  end_daemon -TERM
}

test_nodes_where_companions_may_lie_are_shared_as_well() {
  local one two
  daemon "policy = fair"
  elastic n1 -C fast --elastic-het=partition=spot,features=slow
  one=$JOB
  wait_until 40 _ranks_are "$one" 4
  expect_equal "$(nodes_of "$(bricks)")" "n2 n4"
  elastic n4 -C slow
  two=$JOB # n4 is one of the companion's, and also of the other job's partition
  await "$two" 2
  await "$one" 2
  expect_exit 0 jobs_known
  expect_matches "$OUT" "$one .* 1-4 +2 +2 "
  finish_jobs "$one" "$two"
  end_daemon -TERM
}

test_the_daemon_may_die_at_any_time() {
  local one
  daemon "policy = turbo"
  elastic n1
  one=$JOB
  await "$one" 4
  end_daemon -KILL
  # On its own again: the job yields to the queue as well.
  local rigid
  rigid=$(submit --exclusive -N1 --wrap 'sleep 3')
  wait_job 20 "$rigid" RUNNING
  start_daemon
  wait_job 30 "$rigid"
  await "$one" 4
  wait_until 20 _knows "$one"
  # Somebody else's orders: nobody but the owner and operators.
  expect_exit 0 on root@ctl env BELLOWSD_CONFIG=$CONFIGURATION bellows jobs --json
  expect_contains "$OUT" "\"job\":$one"
  finish_jobs "$one"
  end_daemon -TERM
}

test_a_dry_run_changes_nothing() {
  local one
  daemon "policy = turbo" "dry-run = true"
  elastic n1
  one=$JOB
  await "$one" 1
  wait_until 20 _log_has "job $one: would grow by 3"
  expect_equal "$(nodes_of "$one")" n1
  # Operators may change any job, others their own.
  expect_exit 0 on root@ctl env BELLOWSD_CONFIG=$CONFIGURATION bellows --job "$one" resize --nodes=+1 \
    --operator
  await "$one" 2
  expect_exit 1 on root@ctl runuser -u nobody -- env BELLOWSD_CONFIG=$CONFIGURATION \
    "$PROGRAMS/bin/bellows" --job "$one" resize --nodes=+1 --operator
  expect_contains "$ERR" "another user's"
  # A wrong file is named, and the daemon goes on with what it had; a right one is taken over.
  on ctl bash -c 'echo "policy = best" >>site/bellowsd.conf'
  expect_exit 2 on ctl "$PROGRAMS/sbin/bellowsd" --check-config --config $CONFIGURATION
  expect_contains "$ERR" "policy"
  end_daemon -HUP
  wait_until 10 _log_has "the settings stay as they were"
  on ctl bash -c 'sed -i -e "/best/d" -e s/true/false/ site/bellowsd.conf'
  end_daemon -HUP
  await "$one" 4
  finish_jobs "$one"
  end_daemon -TERM
}
_says_best() { [[ $(on ctl env BELLOWSD_CONFIG=$CONFIGURATION bellows jobs --json) == *"\"best_nodes\":$1"* ]]; }
test_a_job_gets_no_node_beyond_the_size_that_it_says_is_best() {
  local one two
  daemon "policy = fair" "dry-run = true"
  STEPS="$STEPS --best 1" elastic n1
  one=$JOB
  wait_until 30 _says_best 1
  elastic n2
  two=$JOB
  wait_until 20 _knows "$two"
  on ctl sed -i s/true/false/ site/bellowsd.conf
  end_daemon -HUP
  await "$two" 3
  expect_equal "$(nodes_of "$one")" n1
  expect_exit 0 jobs_known
  expect_matches "$OUT" "$one .* 1-4 +1 +1 +[0-9]+ +[0-9.]+ +1 +fair"
  finish_jobs "$one" "$two"
  end_daemon -TERM
}

test_a_job_that_stands_alone_follows_the_cluster_by_itself() {
  # A daemon that changes nothing; of the jobs that it looks after, none would grow.
  daemon "policy = fair" "dry-run = true"
  begin BELLOWSD_CONFIG=$CONFIGURATION -- -N1 -w n1 --elastic=1-3 --elastic-mode=turbo -- \
    --elastic auto --standalone-elastic
  await "$JOB" 3
  expect_exit 0 on ctl env BELLOWSD_CONFIG=$CONFIGURATION bellows jobs --json
  expect_contains "$OUT" '"jobs":[]'
  finish
  end_daemon -TERM
}
