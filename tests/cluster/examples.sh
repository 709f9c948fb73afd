# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The job scripts of docs/examples, each on the cluster as it is, doing what it is there to show.
export TIME_LIMIT=180

. "$ROOT/tests/lib/elastic_job.sh"

# example NAME [PROGRAM ARGUMENT…]: submits docs/examples/NAME.sbatch, to train on small data if no
# program is named. Its output is job-ID.out; JOB is its id.
OPTIONS=() # further ones of sbatch
example() {
  local script=/bellows/docs/examples/$1.sbatch
  shift
  on ctl rm -f end
  on ctl bash -c "[ -e tiny ] || { mkdir tiny && /bellows/tests/lib/tiny_data tiny; }"
  JOB=$(on ctl env BELLOWS_BROKER_POLL=0.5 BELLOWS_BRICK_POLL=2 OMP_NUM_THREADS=1 \
    MODEL=mlp DATA=fashion-mnist:/home/ember/tiny/mnist "PASSES=${PASSES:-1000000}" \
    "PATH=$PROGRAMS/bin:$PROGRAMS/tests:/usr/local/bin:/usr/bin:/bin" \
    sbatch --parsable --exclusive --output='job-%j.out' "${OPTIONS[@]}" "$script" "$@")
}
_restarted() { on ctl scontrol show job "$JOB" | grep -q 'Restarts=1 '; }
# step_saved: of the newest checkpoint.
step_saved() { on ctl bellows-ckpt ls "checkpoints/$JOB" | head -n 1 | cut -f 1; }
# expect_resumed: the training, back in the queue, goes on from where it was, and ends there.
expect_resumed() {
  local step
  wait_until 40 _restarted
  step=$(output | sed -n 's/^checkpoint of step \([0-9]*\):.*/\1/p' | tail -n 1)
  expect_equal "$(step_saved)" "$step"
  # (Slurm would let it wait for two minutes. Within a second nodes that have just ended it refuse its credential.)
  on ctl scontrol update jobid="$JOB" StartTime=now+5
  wait_until 60 _output_has "resumed from /home/ember/checkpoints/$JOB/"
  expect_contains "$(output)" ": step $step, "
  on ctl scancel "$JOB"
  wait_job 20 "$JOB"
  expect_exit 0 on ctl bellows-ckpt verify "checkpoints/$JOB"
}
# expect_undisturbed: the newest checkpoint is that of one rank which has made as many steps.
expect_undisturbed() {
  expect_exit 0 on ctl bash -c "cd checkpoints/$JOB && OMP_NUM_THREADS=1 $PROGRAMS/bin/bellows-run -n 1 bellows-train \
    --model mlp --data fashion-mnist:/home/ember/tiny/mnist --steps $(step_saved) --evaluate-every 0 \
    --checkpoint-every 1000000 --checkpoint-dir undisturbed"
  expect_exit 0 on ctl bash -c "cd checkpoints/$JOB && bellows-ckpt diff --only parameters/ --tolerance 1e-3 \
    . undisturbed"
}
_trains() { output | grep -q '^pass '; }
# trains: waits for the first pass of JOB; HOST is the node of its script.
trains() {
  wait_until 60 _trains
  HOST=$(on ctl squeue -h -j "$JOB" -o %B)
}

test_fixed() {
  PASSES=20 example fixed
  wait_job 60 "$JOB"
  expect_equal "$(job_state "$JOB")" COMPLETED
  expect_matches "$(output)" $'\nresult: accuracy=(0\\.9[0-9]*|1\\.0+) .*ranks=4 passes=20 '
}

test_elastic() {
  local follower
  example elastic
  trains
  on ctl bellows --job="$JOB" events --follow --json >followed &
  follower=$!
  expect_equal "$(on ctl squeue -h -j "$JOB" -o '%D %P')" "2 main"
  expect_exit 0 on ctl bellows --job="$JOB" resize --nodes=+1
  expect_contains "$OUT" "joined by expansion"
  await_size 3
  expect_exit 0 on ctl srun --jobid="$JOB" --elastic-resize=2 --elastic-wait true
  await_size 2
  expect_exit 0 on ctl bellows --job="$JOB" events
  expect_matches "$OUT" " asked .* join .* granted .* n3 .* asked .* leave .* returned .* n3 "
  # Its own node and process are nothing special.
  on "root@$HOST" pkill -KILL -x bellows-run
  wait_until 40 _output_has "took over job $JOB."
  on ctl scancel --signal=TERM "$JOB"
  wait "$follower" || fail "bellows events --follow ended with $?"
  expect_contains "$(tail -n 1 followed)" '"kind":"end"'
  expect_resumed
  expect_exit 0 on ctl bellows events --file="events-$JOB.jsonl"
  expect_matches "$OUT" " start .* granted .* returned .* reattach .* notice .* end .* exit code 85.* start "
  expect_matches "$(output)" "join: 3 ranks after step [0-9]+"
  expect_matches "$(output)" "leave: 2 ranks after step [0-9]+"
  expect_undisturbed
}

test_heterogeneous() {
  # shellcheck disable=SC2086 # words
  example heterogeneous $STEPS
  began
  expect_matches "$(nodes_of "$((JOB + 1))")" '^n[24]$' # a slow one
  await_size 2
  expect_exit 0 control resize --nodes=+1 --component=1
  expect_equal "$(nodes_of "$((JOB + 1))")" "n2 n4"
  expect_exit 0 control resize --nodes=+1
  await_size 4
  finish
}

test_companions() {
  local companion rigid
  # shellcheck disable=SC2086 # words
  example companions $STEPS
  began
  expect_exit 0 control resize --nodes=+1
  expect_contains "$OUT" "joined by companion job"
  companion=$(on ctl squeue -h -p spot -o '%i %j %k')
  expect_matches "$companion" "^[0-9]+ companions bellows brick of $JOB$"
  await_size 3
  # Those who pay for the nodes come first.
  rigid=$(submit --exclusive -N2 -C slow --output=/dev/null --wrap "sleep 1")
  await_size 2
  expect_lacks "$(output)" "killed by SIG"
  expect_exit 0 control events
  expect_matches "$OUT" " notice .* (n2|n4) +Slurm is about to take node "
  wait_job 40 "$rigid"
  expect_equal "$(job_state "$rigid")" COMPLETED
  finish
}

test_scaling() {
  example scaling
  wait_job 150 "$JOB"
  expect_equal "$(job_state "$JOB")" COMPLETED
  expect_matches "$(output)" 'all|run-1 +strong +1 '
  expect_contains "$(output)" "The report: /home/ember/scaling-$JOB/report.html"
  expect_exit 0 on ctl bellows report --json "scaling-$JOB/run-1"
  printf '%s' "$OUT" | python3 -c 'import json, sys
report = json.load(sys.stdin)
assert [size["ranks"] for size in report["scaling"][0]["sizes"]] == [1, 2, 4], report["scaling"]
assert len(report["figures"]) > 5' || fail "not the sizes of the job: $OUT"
}

test_preemptible() {
  local rigid
  OPTIONS=(--elastic=2-3 --nodes=3) # the command line has the last word
  example preemptible
  trains
  expect_contains "$(control status)" " 3 ranks (2 to 3)"
  rigid=$(submit --exclusive -N4 --output=/dev/null --wrap "sleep 1")
  wait_job 40 "$rigid"
  expect_equal "$(job_state "$rigid")" COMPLETED
  expect_resumed
}
