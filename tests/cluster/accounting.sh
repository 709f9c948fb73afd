# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A cluster with slurmdbd: users have an account, and the qualities of service that they may ask for.
export TIME_LIMIT=240

. "$ROOT/tests/lib/elastic_job.sh"

# with_accounting: the database is on n4, which runs no jobs. The owner of jobs has the account `physics` and may
# have the QOS `normal`, and `scavenger`, which gives way to it; nobody has `express`.
with_accounting() {
  local conf=$ROOT/build/clusters/$CLUSTER/etc/slurm.conf node
  spoil
  on root@n4 /bellows/tests/lib/slurmdbd "$(sed -n 's/^ClusterName=//p' "$conf")"
  sed -e 's|^AccountingStorageType=.*|AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=n4|' \
    -e 's|^PreemptType=.*|PreemptType=preempt/qos\nAccountingStorageEnforce=associations,limits,qos|' "$conf" >slurm.conf
  cat slurm.conf >"$conf"
  on root@ctl rm /var/spool/slurmctld/clustername # its number is slurmdbd's to give now
  for node in ctl n1 n2 n3; do damage restart "$node"; done
  wait_until 30 _is_registered
  forget_jobs
  _manage add qos scavenger gracetime=10
  _manage add qos express
  _manage modify qos normal set preempt=scavenger
  _manage add account physics
  _manage add user ember account=physics qos=normal,scavenger
  on root@ctl scontrol update nodename=n4 state=drain reason=database
  for node in n1 n2 n3; do wait_until 20 _is_idle "$node"; done
}
_manage() { on root@ctl sacctmgr --immediate --quiet "$@" >sacctmgr.log; }
_is_registered() { [[ $(on root@ctl sacctmgr -nP show cluster format=controlhost) ]] && on ctl scontrol ping; }
_qos_of() { on ctl squeue -h -j "$1" -o %q; }
# _accounted FIELD JOB: what slurmdbd has of a job, the newest of its sizes last.
_accounted() { on ctl sacct -nPXDj "$2" -o "$1" | tail -n 1; }
_is_accounted() { [[ $(_accounted "$1" "$2") == "$3" ]]; }

test_accounting_shows_the_nodes_that_a_job_has() {
  local expansion
  with_accounting
  begin BELLOWS_ELASTIC=1-3 -- -N1 -w n1 --
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "n2 joined by expansion"
  wait_until 20 _is_accounted NodeList "$JOB" "n[1-2]"
  expansion=$((JOB + 1))
  expect_equal "$(_accounted NodeList "$expansion"),$(_accounted NNodes "$expansion")" "None assigned,0" # they are the job's now
  expect_equal "$(_accounted Account "$expansion"),$(_accounted QOS "$expansion")" physics,normal
  expect_exit 0 control resize --nodes=-n2
  wait_until 20 _is_accounted NodeList "$JOB" n1
  finish_all
  wait_until 20 _is_accounted State "$JOB" COMPLETED

  # A QOS that the job's owner may have, one that is another's, and one that is used up.
  begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_HET=qos=express -- -N1 -w n1 --
  expect_exit 0 control resize --nodes=+n2
  expect_contains "$OUT" "n2 joined by expansion" # of the job, whose QOS it may have
  _manage modify qos normal set GrpTRES=node=2
  expect_exit 1 control resize --nodes=+n3 --wait=15
  expect_contains "$ERR" "Slurm takes no companion job (partition=main, qos=express, account=physics)"
  expect_matches "$ERR" 'expansion: job [0-9]+ is pending \(QOSGrpNodeLimit\)'
  await_size 2
  _manage modify qos normal set GrpTRES=node=-1
  expect_exit 0 control resize --nodes=+n3
  await_size 3
  finish_all
}

test_a_companion_of_a_lower_qos_gives_way() {
  local companion rigid
  with_accounting
  SHARED=1 begin BELLOWS_ELASTIC=1-3 BELLOWS_ELASTIC_HET=qos=scavenger -- -N1 -w n1 -c 4 --
  _manage modify qos normal set GrpTRES=node=1
  expect_exit 0 control resize --nodes=+n2
  companion=$(bricks)
  expect_contains "$OUT" "n2 joined by companion job $companion in main"
  expect_equal "$(_qos_of "$companion"),$(_accounted Account "$companion")" scavenger,physics
  _manage modify qos normal set GrpTRES=node=-1
  rigid=$(submit --exclusive -N1 -w n2 --output=/dev/null --wrap "sleep 300")
  wait_job 40 "$rigid" RUNNING
  await_size 1
  expect_lacks "$(output)" "killed by SIG"
  wait_until 20 _is_accounted State "$companion" "CANCELLED by 5000" # by the broker, once its ranks had left
  on ctl scancel "$rigid"
  finish_all
}
