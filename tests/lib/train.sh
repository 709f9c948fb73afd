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
