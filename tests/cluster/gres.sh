# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Jobs that have GPUs, or other generic resources, per node: slurmctld cannot expand them.
export TIME_LIMIT=120

. "$ROOT/tests/lib/elastic_job.sh"

# with_gpus: each node has what Slurm takes for two GPUs; it wants a file for each.
with_gpus() {
  local node
  printf 'Name=gpu File=%s\n' /dev/null /dev/zero >"$ROOT/build/clusters/$CLUSTER/etc/gres.conf"
  configure -e 's/^SlurmctldHost=.*/&\nGresTypes=gpu/' -e 's/^NodeName=.*/& Gres=gpu:2/'
  # slurmctld has drained those that came back after it, and had none yet.
  on root@ctl scontrol update nodename=n1,n2,n3,n4 state=resume
  for node in n1 n2 n3 n4; do wait_until 20 _is_idle "$node"; done
}
# _gres JOB: "NODES=GPUS" for each group of the job's nodes that has as many.
_gres() { on ctl scontrol show -d job "$1" | sed -n 's/^ *Nodes=\([^ ]*\) .*GRES=\(gpu:[0-9]*\).*/\1=\2/p' | xargs; }
_gpus_are_free() { [[ $(on ctl scontrol show -d node "$1") == *GresUsed=gpu:0* ]]; }
# shellcheck disable=SC2016 # for the shell there
_gpus_of_rank() { on "root@$1" bash -c 'tr "\0" "\n" </proc/$(pgrep -x elastic_steps)/environ' | sed -n 's/^CUDA_VISIBLE_DEVICES=//p'; }

# grows_with SBATCH_ARGUMENTS…: by a node with as many GPUs as the others have, one.
grows_with() {
  begin BELLOWS_ELASTIC=1-3 -- -N2 -w n1,n3 --ntasks-per-node=1 "$@" --
  expect_equal "$(_gres "$JOB")" "n[1,3]=gpu:1"
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "n2 joined by companion job $(bricks) in main"
  expect_equal "$(_gres "$(bricks)")" "n2=gpu:1"
  expect_equal "$(_gpus_of_rank n2)" 0
  await_size 3
  expect_exit 0 control resize --nodes=-n2
  wait_until 10 _gpus_are_free n2
  expect_exit 0 control resize --nodes=-n3
  wait_until 10 _gpus_are_free n3
  expect_equal "$(_gres "$JOB")" "n1=gpu:1"
  finish_all
}

test_a_job_with_gpus_grows_by_companions() {
  with_gpus
  SHARED=1
  grows_with --gres=gpu:1
  grows_with --gpus-per-task=1
  grows_with --gpus=2
}

test_a_companion_has_the_gpus_that_its_place_says() {
  with_gpus
  SHARED=1
  begin BELLOWS_ELASTIC=1-3 "BELLOWS_ELASTIC_HET=partition=spot,features=slow,gres=gpu:2,account=physics" -- -N2 -C fast --gres=gpu:1 --
  expect_exit 0 control resize --nodes=+1
  expect_matches "$(_gres "$(bricks)")" '^n[24]=gpu:2$'
  expect_equal "$(_gpus_of_rank "$(nodes_of "$(bricks)")")" 0,1
  expect_equal "$(on ctl squeue -h -j "$(bricks)" -o %a)" physics
  await_size 3
  expect_exit 0 control resize --nodes=-1
  finish_all
  # More than a node has.
  begin BELLOWS_ELASTIC=1-3 "BELLOWS_ELASTIC_HET=partition=spot,gres=gpu:3,account=physics" -- -N1 --gres=gpu:1 --
  expect_exit 1 control resize --nodes=+1 --wait=20
  expect_contains "$ERR" "a companion job in spot: Slurm takes no companion job"
  expect_contains "$ERR" "(partition=spot, account=physics, gres=gpu:3)"
  finish_all
}

test_only_a_job_that_has_none_of_the_gpus_is_expanded() {
  with_gpus
  begin BELLOWS_ELASTIC=1-3 -- -N1 -w n1 -- # all of its node
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "n2 joined by companion job $(bricks) in main"
  expect_equal "$(_gres "$(bricks)")" "n2=gpu:2"
  finish_all
  begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_MODE=turbo -- -N1 -w n1 -- # by itself
  await_size 3
  finish_all
  SHARED=1 begin BELLOWS_ELASTIC=1-3 -- -N1 -w n1 --
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "n2 joined by expansion"
  finish_all
  expect_lacks "$(on ctl cat /var/log/slurm/slurmctld.log)" "allocated GRES"
}
