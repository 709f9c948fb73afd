# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Networks that were written and exported in Python: they train as they would there, on any number of
# ranks, and what does not fit is named.
export TIME_LIMIT=180
# shellcheck source=../lib/train.sh
. "$ROOT/tests/lib/train.sh"

# export_nets: the small data, and networks for it.
export_nets() {
  data
  "$ROOT/tests/lib/networks" . || fail "no networks"
}
script() { train "$1" --model "$2" --data "${DATA:-fashion-mnist:mnist}" "${@:3}"; }

test_steps_are_those_of_python() {
  export_nets
  local optimizer words
  for optimizer in "sgd --momentum 0.9 --lr 0.1" "adam --lr 0.01" "adamw --lr 0.01 --weight-decay 0.1"; do
    rm -rf c
    # All samples in each step: in any order the gradient is the same.
    read -ra words <<<"$optimizer"
    expect_exit 0 script 3 plain.pt --batch 600 --steps 5 --precision double --checkpoint-dir c --optimizer "${words[@]}"
    python3 - "${words[0]}" <<'END' || fail "$optimizer differs from Python's"
import gzip
import sys

import h5py
import numpy
import torch

images = numpy.frombuffer(gzip.open("mnist/train-images-idx3-ubyte.gz").read()[16:], numpy.uint8)
labels = numpy.frombuffer(gzip.open("mnist/train-labels-idx1-ubyte.gz").read()[8:], numpy.uint8)
x = images.astype(numpy.float64).reshape(-1, 1, 28, 28)
x = ((x - x.mean()) / x.std()).astype(numpy.float32)
x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(labels, dtype=torch.int64)
net = torch.nn.Module()
net.first, net.second = torch.nn.Linear(784, 16), torch.nn.Linear(16, 10)
net.load_state_dict(torch.jit.load("plain.pt").state_dict())
net.double()
make = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)}
optimizer = make[sys.argv[1]](net.parameters())
for _ in range(5):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net.second(torch.tanh(net.first(x.flatten(1)))), y).backward()
    optimizer.step()
with h5py.File("c/checkpoint-000000000005.h5") as file:
    for name, parameter in net.named_parameters():
        ours = torch.tensor(file["parameters"][name][()])
        worst = (ours - parameter.detach()).abs().max().item()
        assert worst < 1e-10, (name, worst)
END
  done
}

test_the_number_of_ranks_does_not_show() {
  export_nets
  local ranks
  for ranks in 1 3; do
    expect_exit 0 script $ranks plain.pt --batch 50 --passes 1 --precision double --checkpoint-dir c$ranks
  done
  expect_exit 0 bellows-ckpt diff --tolerance 1e-11 --only parameters c1/checkpoint-000000000012.h5 c3/checkpoint-000000000012.h5
}

test_own_losses_dropout_and_batch_statistics_train() {
  export_nets
  expect_exit 0 script 2 own.pt --batch 30 --passes 4 --lr 0.02 --checkpoint-dir c
  expect_matches "$OUT" 'result: accuracy=(0\.9|1\.0)'
  # Smoothed labels leave a loss where there is nothing to be learned any more.
  expect_matches "$OUT" 'result: .* loss=0\.[3-9]'
  expect_exit 0 bellows-ckpt show c/checkpoint-000000000080.h5
  expect_contains "$OUT" "norm.running_mean"
  # The same draws in a run of the same ranks.
  expect_exit 0 script 2 own.pt --batch 30 --passes 2 --lr 0.02 --checkpoint-dir d --checkpoint-every 10 --keep 9
  expect_exit 0 script 2 own.pt --batch 30 --passes 2 --lr 0.02 --checkpoint-dir e --resume d/checkpoint-000000000020.h5
  expect_exit 0 bellows-ckpt diff d/checkpoint-000000000040.h5 e/checkpoint-000000000040.h5
}

test_shared_weights_are_one_parameter_and_masks_travel() {
  export_nets
  expect_exit 0 script 2 tied.pt --batch 600 --steps 3 --precision double --momentum 0 --lr 0.1 --checkpoint-dir c
  expect_contains "$OUT" "with $((784 * 8 + 8 + 8 * 8 + 8 + 8 + 8 * 10 + 10)) parameters"
  python3 - <<'END' || fail "differs from Python's"
import gzip

import h5py
import numpy
import torch

images = numpy.frombuffer(gzip.open("mnist/train-images-idx3-ubyte.gz").read()[16:], numpy.uint8)
labels = numpy.frombuffer(gzip.open("mnist/train-labels-idx1-ubyte.gz").read()[8:], numpy.uint8)
x = images.astype(numpy.float64).reshape(-1, 784)
x = torch.tensor(((x - x.mean()) / x.std()).astype(numpy.float32), dtype=torch.float64)
y = torch.tensor(labels, dtype=torch.int64)
state = {name: value.double() for name, value in torch.jit.load("tied.pt").state_dict().items()}
names = ["first.weight", "first.bias", "left.weight", "left.bias", "right.bias", "out.weight", "out.bias"]
p = {name: state[name].clone().requires_grad_() for name in names}
for _ in range(3):
    linear = torch.nn.functional.linear
    h = torch.tanh(linear(x, p["first.weight"], p["first.bias"]))
    h = torch.tanh(linear(h, p["left.weight"], p["left.bias"]))
    h = torch.tanh(linear(h, p["left.weight"], p["right.bias"]))
    loss = torch.nn.functional.cross_entropy(linear(h, p["out.weight"], p["out.bias"]), y)
    gradients = torch.autograd.grad(loss, list(p.values()))
    with torch.no_grad():
        for value, gradient in zip(p.values(), gradients):
            value -= 0.1 * gradient
with h5py.File("c/checkpoint-000000000003.h5") as file:
    for name, value in p.items():
        worst = (torch.tensor(file["parameters"][name][()]) - value.detach()).abs().max().item()
        assert worst < 1e-10, (name, worst)
END
}

test_texts_have_a_target_for_each_token() {
  export_nets
  DATA=text:text.txt expect_exit 0 script 2 words.pt --length 32 --batch 16 --optimizer adam --lr 0.01 --passes 1
  expect_matches "$OUT" 'result: perplexity='
}

test_buffers_that_are_assigned_are_part_of_the_state() {
  export_nets
  expect_exit 0 script 2 assigning.pt --batch 50 --steps 10 --micro-batch 10 --checkpoint-dir c --checkpoint-every 5
  expect_exit 0 script 1 assigning.pt --batch 50 --steps 10 --micro-batch 10 --resume c/checkpoint-000000000005.h5 --checkpoint-dir d
  python3 - <<'END' || fail "the buffers are not as they are in Python"
import h5py
for folder, rest in (("c", 0), ("d", 10)):
    with h5py.File(f"{folder}/checkpoint-000000000010.h5") as file:
        seen, added = (file["buffers"][name][0] for name in ("seen", "added"))
        # Three passes of a rank with 25 samples, five of one with 50.
        assert seen == added == (40 if rest else 30), (folder, seen, added)
END
  expect_exit 2 script 1 growing.pt --batch 50 --steps 2
  expect_contains "$ERR" "--model growing.pt: changes the shape or type of its buffer all in training"
}

test_where_memory_ends_passes_become_smaller() {
  export_nets
  expect_exit 0 script 2 hungry.pt --batch 200 --steps 3
  expect_matches "$ERR" 'rank [01] has no memory for more than 25 samples at once'
}

test_what_does_not_fit_is_named() {
  export_nets
  expect_exit 2 script 2 none.pt
  expect_contains "$ERR" "--model none.pt: "
  head -c 100 plain.pt >cut.pt
  expect_exit 2 script 2 cut.pt
  expect_contains "$ERR" "--model cut.pt: "
  expect_exit 2 script 2 state.pt
  expect_contains "$ERR" "--model state.pt: is no TorchScript file; export the network, not its state_dict"
  expect_exit 2 script 2 detached.pt
  expect_contains "$ERR" "--model detached.pt: has a loss from which no gradient leads to its parameters"
  expect_exit 2 script 2 half.pt
  expect_contains "$ERR" "--model half.pt: has first.weight of type Half: export it with float or double parameters"
  expect_exit 2 script 2 narrow.pt
  expect_contains "$ERR" "--model narrow.pt: gives 6 values for 2 targets of 10 classes each"
  expect_exit 2 script 2 shapeless.pt
  expect_contains "$ERR" "--model shapeless.pt: has a loss that is not a single number"
  expect_exit 2 script 2 frozen.pt
  expect_contains "$ERR" "--model frozen.pt: has no parameter that requires a gradient"
  DATA=cifar10:cifar expect_exit 2 script 2 plain.pt
  expect_contains "$ERR" "--model plain.pt: "
  expect_exit 0 script 1 plain.pt --steps 1 --checkpoint-dir c
  expect_exit 2 script 1 own.pt --steps 2 --checkpoint-dir c
  expect_contains "$ERR" "--model was plain.pt and is own.pt"
  # Another network under the name of the first.
  expect_exit 0 script 1 own.pt --steps 1 --checkpoint-dir d
  cp plain.pt own.pt
  expect_exit 2 script 1 own.pt --steps 2 --checkpoint-dir d
  expect_matches "$ERR" 'the checkpoint has (buffers|parameters)/[a-z_.]+, which this model has not'
}
