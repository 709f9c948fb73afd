# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Each model learns on several ranks, and says how it went.
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

accuracy() { sed -n 's/^result: accuracy=\([0-9.]*\) .*/\1/p' <<<"$OUT"; }
expect_at_least() { awk "BEGIN { exit !($1 >= $2) }" || fail "$1 is below $2"; }

test_cnn_learns_images_with_any_optimizer() {
  data
  for optimizer in sgd adam adamw; do
    expect_exit 0 train 2 --model cnn --data fashion-mnist:mnist --width 8 --batch 30 --passes 3 \
      --optimizer "$optimizer" --lr-schedule cosine --clip 5
    expect_at_least "$(accuracy)" 0.9
  done
}

test_mlp_learns_vectors_of_an_hdf5_file() {
  data
  [[ -e vectors.h5 ]] || skip "no h5py"
  expect_exit 0 train 3 --model mlp --data hdf5:vectors.h5 --batch 16 --passes 10
  expect_at_least "$(accuracy)" 0.9
}

test_resnet18_trains_on_colour_images_with_either_norm() {
  data
  for norm in group batch; do
    expect_exit 0 train 2 --model resnet18 --data cifar10:cifar --width 8 --batch 20 --passes 1 \
      --norm "$norm"
    expect_matches "${OUT##*$'\n'}" '^result: accuracy=[0-9.]+ loss=[0-9.]+ ranks=2 passes=1 steps=3 '
  done
}

test_transformer_learns_a_text() {
  data
  expect_exit 0 train 2 --model transformer --data text:text.txt --length 32 --width 32 --batch 16 \
    --optimizer adamw --lr 0.003 --passes 3
  local perplexity
  perplexity=$(sed -n 's/^result: perplexity=\([0-9.]*\) .*/\1/p' <<<"$OUT")
  # A guess among 256 bytes has 256; among the letters that occur, about 15.
  expect_at_least 8 "$perplexity"
}

test_metrics_are_json_lines() {
  data
  printf '{"event":"step","st' >m.jsonl # a run before was killed
  expect_exit 0 train_mlp 2 --passes 2 --log-every 5 --metrics m.jsonl --checkpoint-dir ckpt
  python3 - <<'END'
import json
lines = [json.loads(line) for line in open("m.jsonl").read().splitlines()[1:]]
events = [line["event"] for line in lines]
assert events[0] == "start" and events[-1] == "end", events
assert events.count("evaluation") == 2 and events.count("checkpoint") == 2, events
steps = [line for line in lines if line["event"] == "step"]
assert [line["step"] for line in steps] == [5, 10, 12, 15, 20, 24], steps
assert all(line["ranks"] == 2 and line["samples_per_second"] > 0 for line in steps)
assert steps[-1]["sample"] == 1200 and lines[-1]["accuracy"] > 0.5
END
}

test_a_progress_line_is_for_terminals_only() {
  data
  expect_exit 0 train_mlp 2 --passes 1
  expect_lacks "$OUT" $'\r'
  expect_contains "$OUT" 'pass 1/1  step 12'
  expect_exit 0 bellows-run -n 2 env BELLOWS_TTY=1 bellows-train --threads 1 --model mlp \
    --data fashion-mnist:mnist --width 32 --passes 2
  expect_contains "$OUT" $'\r'
}

test_the_result_is_the_last_line() {
  data
  expect_exit 0 train_mlp 1 --steps 2
  expect_matches "${OUT##*$'\n'}" '^result: accuracy=[0-9.]+ loss=[0-9.]+ ranks=1 passes=[0-9.]+ steps=2 samples/s=[0-9]+ seconds=[0-9.]+$'
}

test_seconds_limit_a_run() {
  data
  expect_exit 0 train_mlp 2 --train-seconds 1
  expect_matches "${OUT##*$'\n'}" '^result: '
}

test_a_loss_that_is_no_number_ends_the_run_with_advice() {
  data
  expect_exit 1 train_mlp 2 --lr 1e30 --checkpoint-dir ckpt --checkpoint-every 1
  expect_equal "$(grep -c 'try a smaller --lr' <<<"$ERR")" 1
}
