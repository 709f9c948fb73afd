# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scenarios of bellows-train: small data and short runs.
: "${ROOT:?}"

# One core per rank on a shared machine, quick enough to run often.
export OMP_NUM_THREADS=1

# Makes small data in the current folder.
data() { "$ROOT/tests/lib/tiny_data" .; }

# train RANKS OPTIONS…: as a user does.
train() {
  local ranks=$1
  shift
  bellows-run -n "$ranks" bellows-train --threads 1 "$@"
}

# train_mlp RANKS OPTIONS…: on the small images, 12 steps of 50 samples per pass.
train_mlp() {
  local ranks=$1
  shift
  train "$ranks" --model mlp --data fashion-mnist:mnist --batch 50 --width 32 "$@"
}

# start_training RANKS OPTIONS…: in the background, in a world that can change (needs launcher.sh);
# goes on until the tests end it, unless the options have a limit. Returns when it makes steps.
start_training() {
  local ranks=$1
  shift
  data
  # shellcheck disable=SC2119,SC2120
  LIMIT=110 BELLOWS_CHECK_STATE=1 start --elastic 1-6 -n "$ranks" bellows-train --threads 1 \
    --data fashion-mnist:mnist --log-every 1 --metrics m.jsonl --record-samples used "$@"
  more_steps 3
}
_count() { grep -cs -- "$1" m.jsonl || [[ -e m.jsonl ]] || echo 0; }
_steps() { _count '"event":"step"'; }
_reached() { (($(_steps) >= $1)); }
# more_steps COUNT: waits for them.
more_steps() { wait_until 60 _reached $(($(_steps) + $1)); }
control() { bellows --job="local-$LAUNCHER" "$@"; }
# rank_pids: the process ids of the ranks, in the order of their numbers.
rank_pids() {
  control status --json | python3 -c 'import json, sys
for rank in sorted(json.load(sys.stdin)["ranks"], key=lambda r: r["rank"]): print(rank["pid"])'
}
# kill_ranks RANK…: at once.
kill_ranks() {
  local pids doomed=()
  mapfile -t pids < <(rank_pids)
  for rank; do doomed+=("${pids[rank]}"); done
  kill -KILL "${doomed[@]}"
}
# changed CAUSE [COUNT]: waits until rank 0 has told of so many changes for this cause, and steps
# have been made since.
changed() {
  wait_until 60 _told "$1" "${2:-1}"
  more_steps 3
}
_told() { (($(_count "\"event\":\"world\".*\"cause\":\"$1\"") >= $2)); }
# stop_training: by a signal; the state is in the folder c.
stop_training() {
  kill -TERM "$LAUNCHER"
  expect_end 85
  bellows-ckpt verify c >/dev/null
}
# last_checkpoint FOLDER
last_checkpoint() { find "$1" -name 'checkpoint-*.h5' | sort | tail -n 1; }
