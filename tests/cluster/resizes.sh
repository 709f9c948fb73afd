# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Long rows of random resizes (tests/lib/row_of_resizes.sh): RESIZES=100 SEED=4711 tests/run …
export TIME_LIMIT=1500

. "$ROOT/tests/lib/elastic_job.sh"
. "$ROOT/tests/lib/row_of_resizes.sh"

test_a_long_row_of_random_resizes() {
  begin BELLOWS_ELASTIC=1-4 -- -N2 -w n1,n2 --
  row_of_resizes
  finish_all
}

test_a_long_row_of_random_resizes_by_companions() {
  spoil
  sed -i s/permit_job_expansion,// "$ROOT/build/clusters/$CLUSTER/etc/slurm.conf" # as all nodes see it
  on root@ctl scontrol reconfigure
  begin BELLOWS_ELASTIC=1-4 -- -N1 -w n1 --
  row_of_resizes
  finish_all
}

# A fast node more is the job's own, a slow one a companion's.
test_a_long_row_of_random_resizes_of_both_kinds() {
  PLACES=features
  begin BELLOWS_ELASTIC=1-4 BELLOWS_ELASTIC_HET=features=slow -- -N1 -w n1 -C fast --
  row_of_resizes
  finish_all
}
