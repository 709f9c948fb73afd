# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What bellows-train says when it is called wrongly, or with data it cannot use: one message, what
# is allowed, exit code 2, no hang.
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

once() { expect_equal "$(grep -c "$1" <<<"$ERR")" 1; }

test_an_unknown_option_is_named_once() {
  expect_exit 2 train 3 --colour red
  once '^bellows-train: --colour: unknown option'
}

test_an_unknown_model_names_the_models_there_are() {
  expect_exit 2 train 3 --model vgg --data fashion-mnist
  once '^bellows-train: --model vgg: use one of mlp, cnn, resnet18, transformer'
}

test_unknown_data_name_the_kinds_there_are() {
  expect_exit 2 train 2 --model cnn --data imagenet:/x
  once '^bellows-train: --data imagenet:/x: unknown kind'
  expect_contains "$ERR" 'fashion-mnist[:DIR], cifar10[:DIR], hdf5:FILE or text:FILE'
}

test_groups_of_parameters_are_checked() {
  expect_exit 2 train 1 --model mlp --data fashion-mnist --weight-decay 0.1 --no-decay bias,head
  once '^bellows-train: --no-decay bias,head: use bias, norm or bias,norm'
  expect_exit 2 train 1 --model mlp --data fashion-mnist --no-decay bias
  once '^bellows-train: --no-decay: needs a --weight-decay'
  for factors in output 'output=' '=2' 'output=-1' 'output=2x' 'output=nan'; do
    expect_exit 2 train 1 --model mlp --data fashion-mnist --lr-factors "hidden*=2,$factors"
    once "^bellows-train: --lr-factors $factors: use PATTERN=FACTOR"
  done
  data
  expect_exit 2 train 1 --model mlp --data fashion-mnist:mnist --lr-factors 'outputs.*=2'
  once '^bellows-train: .*--lr-factors outputs.\*=2: no parameter has such a name; there are hidden1.weight'
}

test_batch_norm_and_averages_are_checked() {
  expect_exit 2 train 1 --model resnet18 --data cifar10 --batch-norm all
  once '^bellows-train: --batch-norm all: use one of local, sync'
  expect_exit 2 train 1 --model resnet18 --data cifar10 --batch-norm sync --logical-ranks 3
  once '^bellows-train: --batch-norm sync: not with --logical-ranks'
  expect_exit 2 train 1 --model mlp --data fashion-mnist --ema 1
  once '^bellows-train: --ema 1: must be at least 0 and below 1'
}

test_missing_data_name_the_file() {
  expect_exit 2 train 2 --model cnn --data fashion-mnist:/none
  once '^bellows-train: /none/train-images-idx3-ubyte'
}

test_a_truncated_file_is_named_with_the_offset() {
  data
  gunzip mnist/train-images-idx3-ubyte.gz
  truncate -s 100000 mnist/train-images-idx3-ubyte
  expect_exit 2 train 2 --model cnn --data fashion-mnist:mnist
  once 'train-images-idx3-ubyte: truncated at offset 100000'
}

test_data_that_one_rank_cannot_read_end_all_ranks() {
  data
  cp -r mnist other
  rm other/t10k-labels-idx1-ubyte.gz
  cat >rank.sh <<'END'
folder=mnist
[[ $PMIX_RANK != 1 ]] || folder=other
exec bellows-train --model mlp --data fashion-mnist:$folder
END
  expect_exit 2 bellows-run -n 3 bash rank.sh
  once '^bellows-train: rank 1: other/t10k-labels-idx1-ubyte\[.gz\]: no such file'
}

test_cuda_without_cuda_is_refused_clearly() {
  ! ldd "$(command -v bellows-train)" | grep -q cudart || skip "this build has CUDA"
  expect_exit 2 train 2 --model mlp --data fashion-mnist --device cuda
  once 'built without CUDA'
}

test_a_model_that_does_not_suit_the_data_is_refused() {
  data
  expect_exit 2 train 1 --model cnn --data hdf5:vectors.h5
  once '^bellows-train: --model cnn: needs images'
}

test_without_a_launcher_it_says_how_to_start_it() {
  expect_exit 2 bellows-train --model mlp --data fashion-mnist
  expect_equal "$ERR" \
    'bellows-train: not started by a launcher; use: bellows-run [-n RANKS] bellows-train ...'
}

test_help_is_grouped_and_printed_once() {
  expect_exit 0 train 2 --help
  for group in 'What to train' 'How to train' 'When to stop' 'Checkpoints' 'Machine and output'; do
    expect_equal "$(grep -c "^$group" <<<"$OUT")" 1
  done
  expect_contains "$(tr -s ' \n' ' ' <<<"$OUT")" '--steps arg progress in steps of --batch: updates, unless the batch is another one'
}

test_the_command_line_wins_over_a_config_file() {
  data
  printf 'model = mlp\ndata = fashion-mnist:mnist\nsteps = 3 # few\n' >run.conf
  expect_exit 0 train 2 --config run.conf --steps 2
  expect_matches "${OUT##*$'\n'}" '^result: .* steps=2 '
  echo 'stepps = 3' >>run.conf
  expect_exit 2 train 2 --config run.conf
  once 'run.conf: --stepps: unknown option'
  expect_exit 2 train 2 --config /tmp --model mlp --data fashion-mnist:mnist
  once '^bellows-train: --config /tmp: cannot be read'
}

test_text_that_is_no_file_is_refused() {
  for path in /dev/zero .; do
    expect_exit 2 train 2 --model transformer --data "text:$path"
    once "^bellows-train: $path: not a regular file"
  done
}

test_metrics_that_cannot_be_written_are_reported_once() {
  data
  # A limit on the size of files stands for the full disk.
  expect_exit 0 bellows-run -n 2 bash -c 'ulimit -f 2; exec bellows-train --threads 1 --model mlp \
    --data fashion-mnist:mnist --steps 30 --log-every 1 --metrics m.jsonl'
  once '^bellows-train: --metrics m.jsonl: .*; events are missing there'
}

test_metrics_that_are_no_file_are_refused_at_once() {
  data
  mkfifo pipe
  for file in pipe /dev/full; do
    expect_exit 2 timeout -k 1 60 bellows-run -n 2 bellows-train --threads 1 --model mlp \
      --data fashion-mnist:mnist --steps 3 --metrics "$file"
    once "^bellows-train: --metrics $file: is not a file"
  done
}

test_an_empty_value_is_named() {
  for option in metrics checkpoint-dir timeline policy checkpoint-every; do
    expect_exit 2 train 2 --model mlp --data fashion-mnist "--$option" ''
    once "^bellows-train: --$option: its value is empty"
  done
}

test_a_batch_that_is_larger_than_the_data_is_told_once() {
  data
  expect_exit 0 train 2 --model mlp --data fashion-mnist:mnist --batch 5000 --steps 3
  once '^bellows-train: the batch of 5000 is larger than the data: each step takes all 600 samples'
  expect_exit 0 train 2 --model mlp --data fashion-mnist:mnist --batch 600 --steps 3
  expect_equal "$ERR" ''
}
