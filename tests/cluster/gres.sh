# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Jobs that have GPUs, or other generic resources, per node: slurmctld cannot expand them.
export TIME_LIMIT=120

. "$ROOT/tests/lib/elastic_job.sh"

SHARED=1

# _gres JOB: "NODES=GPUS" for each group of the job's nodes; one more line than that is a fault.
_gres() { on ctl scontrol show -d job "$1" | sed -n 's/^ *Nodes=\([^ ]*\) .*GRES=\(gpu:[0-9]*\).*/\1=\2/p' | xargs; }
_gpus_used() { on ctl scontrol show -d node "$1" | sed -n 's/^ *GresUsed=\(gpu:[0-9]*\).*/\1/p'; }
_gpus_are_free() { [[ $(_gpus_used "$1") == gpu:0 ]]; }

# grows_with SBATCH_ARGUMENTS…: by a node with as many GPUs as the others have, one.
grows_with() {
  begin BELLOWS_ELASTIC=1-3 -- -N2 -w n1,n3 --ntasks-per-node=1 "$@" --
  expect_equal "$(_gres "$JOB")" "n[1,3]=gpu:1"
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "n2 joined by companion job $(bricks) in main"
  expect_equal "$(_gres "$(bricks)")" "n2=gpu:1"
  await_size 3
  expect_exit 0 control resize --nodes=-n2
  wait_until 10 _gpus_are_free n2
  expect_exit 0 control resize --nodes=-n3
  wait_until 10 _gpus_are_free n3
  expect_equal "$(_gres "$JOB")" "n1=gpu:1"
  finish_all
}

test_a_job_with_gpus_grows_by_companions() {
  grows_with --gres=gpu:1
  grows_with --gpus-per-task=1
  grows_with --gpus=2
}

test_a_companion_has_the_gpus_that_its_place_says() {
  begin BELLOWS_ELASTIC=1-3 "BELLOWS_ELASTIC_HET=partition=spot,features=slow,gres=gpu:2" -- -N2 -C fast --gres=gpu:1 --
  expect_exit 0 control resize --nodes=+1
  expect_matches "$(_gres "$(bricks)")" '^n[24]=gpu:2$'
  await_size 3
  expect_exit 0 control resize --nodes=-1
  # More than a node has.
  finish_all
  begin BELLOWS_ELASTIC=1-3 "BELLOWS_ELASTIC_HET=partition=spot,gres=gpu:3" -- -N1 --gres=gpu:1 --
  expect_exit 1 control resize --nodes=+1 --wait=20
  expect_contains "$ERR" "a companion job in spot: Slurm takes no companion job"
  finish_all
}

test_a_job_without_gpus_is_expanded_on_nodes_that_have_some() {
  begin BELLOWS_ELASTIC=1-3 -- -N1 -w n1 --
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "by expansion"
  wait_until 10 _gpus_are_free n2
  finish_all
}
