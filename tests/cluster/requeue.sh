# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The job scripts of the documentation that requeue themselves, as they are written there.
export TIME_LIMIT=300

_restarts() { on ctl scontrol show job "$1" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
_has_restarted() { (($(_restarts "$1") > 0)); }
_trains() { on ctl grep -q '^pass ' "$1"; }
_saved() { on ctl grep -q '^checkpoint of step ' "$1"; }

# script_with TEXT: the first block of docs/training.md that has it.
script_with() {
  awk -v word="$1" '/^```sh/ {text = ""; inside = 1; next}
    /^```/ {if (inside && index(text, word)) {printf "%s", text; exit} inside = 0}
    {text = text $0 "\n"}' "$ROOT/docs/training.md"
}

# submit_script FILE FOLDER: a job on two nodes that runs in FOLDER; prints its id.
submit_script() {
  local bin
  bin=/bellows/$(realpath --relative-to="$ROOT" "$BUILD")/bin
  on ctl mkdir -p "$2"
  "$ROOT/scripts/cluster" exec --name "$CLUSTER" bash -c "cat >$2/job.sh" <"$1"
  on ctl bash -c "cd $2 && OMP_NUM_THREADS=1 PATH=$bin:\$PATH sbatch --parsable -N2 --output=out job.sh"
}

test_the_script_that_requeues_itself_after_a_signal_does() {
  local job
  script_with '#SBATCH' >job.sh
  expect_contains "$(<job.sh)" 'scontrol requeue'
  job=$(submit_script job.sh requeue-signal)
  wait_until 90 _trains requeue-signal/out
  on ctl scancel --signal=TERM "$job"
  wait_until 60 _has_restarted "$job"
  on ctl scancel "$job"
  wait_job 60 "$job"
  expect_contains "$(on ctl cat requeue-signal/out)" "ended with exit code 85"
}

test_the_lines_that_requeue_after_a_lost_node_do() {
  local job
  {
    cat <<'END'
#!/bin/bash
#SBATCH --requeue --no-kill --open-mode=append
bellows-run bellows-train --model mlp --data fashion-mnist --passes 500 --checkpoint-every 20 \
  --checkpoint-dir ckpt
code=$?
END
    script_with SLURM_RESTART_COUNT
  } >job.sh
  job=$(submit_script job.sh requeue-node)
  wait_until 90 _saved requeue-node/out
  damage kill "$(on ctl scontrol show hostnames "$(on ctl squeue -h -j "$job" -o %N)" | tail -n 1)"
  wait_until 90 _has_restarted "$job"
  on ctl scancel "$job"
  expect_contains "$(on ctl cat requeue-node/out)" "was lost with its node"
}
